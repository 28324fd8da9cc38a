/* Allocations whose type is known from where their result goes, one in each function. */
#define _POSIX_C_SOURCE 200112L
#include <stdlib.h>
#include <string.h>

struct counter {
	long hits;
	struct {
		int owner;
		int depth;
	} lock;
	char name[24];
};

typedef struct {
	double values[4];
	struct counter *counters;
} table_t;

struct node {
	struct node *next;
	table_t *tables;
	struct counter **all;
};

struct counter *global_counters;
struct node global_node;

void to_local(int n)
{
	struct counter *counters = malloc((size_t)n * sizeof *counters);
	if (!counters)
		abort();
	memset(counters, 0, (size_t)n * sizeof *counters);
	counters[n - 1].hits++;
	global_node.next = (struct node *)counters;
}

void to_global(int n)
{
	global_counters = calloc((size_t)n, sizeof *global_counters);
}

void to_member(struct node *node, int n)
{
	node->tables = aligned_alloc(64, (size_t)n * sizeof *node->tables);
}

void to_element(struct node *node, int n, int i)
{
	node->all[i] = malloc((size_t)n * sizeof **node->all);
}

int by_pointer(struct node *node, int n)
{
	struct counter *mine;

	if (posix_memalign((void **)&mine, 64, (size_t)n * sizeof *mine))
		return 0;
	mine->hits = n;
	node->next = (struct node *)mine;
	return posix_memalign((void **)&node->tables, 64, sizeof *node->tables) + n;
}

struct node *to_caller(void)
{
	struct node *node = malloc(sizeof *node);
	if (node)
		node->next = NULL;
	return node;
}

__attribute__((noinline)) static void *checked(size_t bytes)
{
	void *block = malloc(bytes);
	if (!block)
		abort();
	return block;
}

void through_wrapper(struct node *node)
{
	node->next = checked(sizeof *node->next);
}

/* Its last call returns its first argument. */
__attribute__((noinline)) static void *cleared(size_t bytes)
{
	return memset(checked(bytes), 0, bytes);
}

static inline __attribute__((always_inline)) void *inlined(size_t bytes)
{
	return malloc(bytes);
}

void *opaque(void *hint, long n)
{
	struct node *node = malloc((size_t)n * sizeof *node);
	if (node)
		node->next = hint;
	return node;
}

void through_two(struct node *node)
{
	node->all = cleared(sizeof *node->all);
	node->next = inlined(sizeof *node->next);
}

struct header {
	size_t bytes;
	const char *tag;
};

/* What is allocated begins with a header that the caller does not see. */
__attribute__((noinline)) void *hidden(size_t bytes)
{
	struct header *header = malloc(sizeof *header + bytes);
	if (!header)
		abort();
	header->bytes = bytes;
	return header + 1;
}

struct row {
	int count;
	struct counter items[];
};

struct row *to_row(int n)
{
	struct row *row = malloc(sizeof *row + (size_t)n * sizeof row->items[0]);
	if (row)
		row->count = n;
	return row;
}

char *text(int n)
{
	char *bytes = malloc((size_t)n);
	if (bytes)
		bytes[0] = 0;
	return bytes;
}

int main(int argc, char **argv)
{
	struct node node = {0};
	struct counter *all[8];

	(void)argv;
	node.all = all;
	to_local(argc);
	to_global(argc);
	to_member(&node, argc);
	to_element(&node, argc, argc & 7);
	node.next = to_caller();
	by_pointer(&node, argc);
	through_wrapper(node.next);
	through_two(opaque(all, argc));
	node.next = hidden((size_t)argc);
	return to_row(argc)->count + (text(argc) == (char *)&global_node) + (long)checked((size_t)argc) + (long)cleared((size_t)argc);
}
