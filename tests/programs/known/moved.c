// Memory that mremap moves while threads communicate through it: bytes go along, and so do who has
// written and who has read them last. Thread 1 writes every block of a mapping, thread 2 reads the
// first half, the mapping is moved in some way, thread 2 reads all there is then, and thread 3
// writes over it. Prints the regions, and what happens in them.
//
// Usage: moved WAY. `moved list` prints the ways.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 64, BLOCKS = 4096, BYTES = BLOCKS * BLOCK, THREADS = 3 };
enum { ALIGNED = 1 << 20 }; // as large as blocks can be

// Where the memory is, and how much of it; `old`: what has been left behind, or NULL.
typedef struct {
    char *at;
    size_t bytes;
    char *old;
} Memory;

static int go[THREADS + 1], done;
static enum { WRITE, READ } what;
static volatile char *from;
static size_t bytes, within;

static void wait_for(int fd) {
    uint64_t value;
    if (read(fd, &value, 8) != 8) _exit(3);
}
static void post(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, 8) != 8) _exit(3);
}

static void *work(void *argument) {
    int me = (int)(intptr_t)argument;
    for (char sum = 0;; post(done)) {
        wait_for(go[me]);
        if (!from) return NULL;
        for (size_t k = within; k < bytes; k += BLOCK)
            if (what == WRITE)
                from[k] = (char)me;
            else
                sum += from[k];
    }
}

// Thread `who` does this to the byte `at` of each block.
static void let(int who, int does, void *memory, size_t size, size_t at) {
    from = memory, bytes = size, what = does, within = at;
    post(go[who]);
    wait_for(done);
}

static char *map(size_t size, int flags) {
    char *got = mmap(NULL, size + ALIGNED, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) exit(4);
    return (char *)(((uintptr_t)got + ALIGNED - 1) & -(uintptr_t)ALIGNED);
}

static char *move(char *old, size_t size, size_t wanted, int flags, char *to) {
    char *got = mremap(old, size, wanted, flags, to);
    if (got == MAP_FAILED) {
        perror("mremap");
        exit(4);
    }
    return got;
}
enum { TO = MREMAP_MAYMOVE | MREMAP_FIXED };

static Memory stay(char *memory) { return (Memory){memory, BYTES, NULL}; }
static Memory go_away(char *memory) {
    return (Memory){move(memory, BYTES, BYTES, TO, map(BYTES, MAP_PRIVATE)), BYTES, NULL};
}
// Over memory that has been used.
static Memory replace(char *memory) {
    char *to = map(BYTES, MAP_PRIVATE);
    let(3, WRITE, to, BYTES, 0);
    let(2, READ, to, BYTES, 0);
    return (Memory){move(memory, BYTES, BYTES, TO, to), BYTES, NULL};
}
static Memory grow(char *memory) {
    char *to = map(2 * BYTES, MAP_PRIVATE);
    let(3, WRITE, to, 2 * BYTES, 0);
    return (Memory){move(memory, BYTES, 2 * BYTES, TO, to), 2 * BYTES, NULL};
}
static Memory grow_in_place(char *memory) {
    munmap(memory + BYTES, BYTES);
    return (Memory){move(memory, BYTES, 2 * BYTES, 0, NULL), 2 * BYTES, NULL};
}
static Memory shrink(char *memory) {
    return (Memory){move(memory, BYTES, BYTES / 4, TO, map(BYTES, MAP_PRIVATE)), BYTES / 4, NULL};
}
static Memory shrink_in_place(char *memory) {
    char *at = move(memory, BYTES, BYTES / 4, 0, NULL);
    return (Memory){move(at, BYTES / 4, BYTES, 0, NULL), BYTES, NULL};
}
// The kernel moves whole pages, whatever is asked for.
static Memory move_odd_sizes(char *memory) {
    return (Memory){move(memory, BYTES - 100, BYTES - 4000, TO, map(BYTES, MAP_PRIVATE)), BYTES, NULL};
}
static Memory come_back(char *memory) {
    char *away = move(memory, BYTES, BYTES, TO, map(BYTES, MAP_PRIVATE));
    return (Memory){move(away, BYTES, BYTES, TO, memory), BYTES, NULL};
}
// Larger blocks than pages are cut.
static Memory move_by_a_page(char *memory) {
    return (Memory){move(memory, BYTES, BYTES, TO, map(2 * BYTES, MAP_PRIVATE) + 4096), BYTES, NULL};
}
static Memory leave_mapping(char *memory) {
    char *to = map(BYTES, MAP_PRIVATE);
    return (Memory){move(memory, BYTES, BYTES, TO | MREMAP_DONTUNMAP, to), BYTES, memory};
}
// Shared memory stays in its old place, too: it is the same memory, of which nothing is new there.
static Memory leave_shared(char *memory) { return leave_mapping(memory); }

static const struct {
    const char *name;
    Memory (*move)(char *);
    int reads, writes; // of blocks that thread 2 finds written by thread 1, and thread 3 writes over
    int others;        // that thread 2 finds written by thread 3, before the move
} ways[] = {{"stay", stay, BLOCKS, BLOCKS, 0},
            {"away", go_away, BLOCKS, BLOCKS, 0},
            {"replacing", replace, BLOCKS, BLOCKS, BLOCKS},
            {"growing", grow, BLOCKS, BLOCKS, 0},
            {"growing-in-place", grow_in_place, BLOCKS, BLOCKS, 0},
            {"shrinking", shrink, BLOCKS / 2, BLOCKS / 4, 0},
            {"shrinking-in-place", shrink_in_place, BLOCKS / 2, BLOCKS / 4, 0},
            {"odd-sizes", move_odd_sizes, BLOCKS, BLOCKS, 0},
            {"back", come_back, BLOCKS, BLOCKS, 0},
            {"by-a-page", move_by_a_page, BLOCKS, BLOCKS, 0},
            {"leaving-mapping", leave_mapping, BLOCKS, BLOCKS, 0},
            {"leaving-shared", leave_shared, BLOCKS, BLOCKS, 0}};
enum { WAYS = sizeof ways / sizeof *ways };

int main(int argc, char **argv) {
    int way = 0;
    for (; way < WAYS && argc > 1 && strcmp(ways[way].name, argv[1]); way++)
        if (!strcmp(argv[1], "list")) puts(ways[way].name);
    if (way == WAYS) return strcmp(argv[1], "list") ? 2 : 0;
    pthread_t threads[THREADS + 1];
    done = eventfd(0, 0);
    for (intptr_t t = 1; t <= THREADS; t++) {
        go[t] = eventfd(0, 0);
        if (pthread_create(&threads[t], NULL, work, (void *)t)) return 3;
    }
    char *memory = map(2 * BYTES, !strcmp(ways[way].name, "leaving-shared") ? MAP_SHARED : MAP_PRIVATE);
    let(1, WRITE, memory, BYTES, 0);
    let(2, READ, memory, BYTES / 2, 0);
    Memory is = ways[way].move(memory);
    let(2, READ, is.at, is.bytes, 0);
    if (is.old) let(2, READ, is.old, BYTES, 0);
    let(3, WRITE, is.at, is.bytes, 8);
    printf("region new %p %zu\nregion old %p %d\n", (void *)is.at, is.bytes, (void *)memory, BYTES);
    printf("expect raw 1 2 %d\nexpect waw 1 3 %d\n", ways[way].reads, ways[way].writes);
    printf("expect raw 3 2 %d\n", ways[way].others);
    // Thread 2 has read what others have not written, too.
    printf("expect invalidation 3 2 %d\n", (int)(is.bytes / BLOCK));
    from = NULL;
    for (int t = 1; t <= THREADS; t++) post(go[t]);
    for (int t = 1; t <= THREADS; t++) pthread_join(threads[t], NULL);
    return 0;
}
