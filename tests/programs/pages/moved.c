// Memory that the initial thread fills and that moves afterwards: a mapping, a block that grows, a
// block that comes filled. Then two mappings that one line makes. A thread reads all of it.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 64, BYTES = PAGES * PAGE, ROUNDS = 20 };

static char *mapping, *block, *zeroed, *first, *second;
static volatile long sum;

static char *map(size_t bytes) {
    char *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return got == MAP_FAILED ? (abort(), NULL) : got;
}

// What lies behind a mapping keeps it from growing where it is.
static char *moved(char *old) {
    char *to = map(4 * BYTES);
    char *new = mremap(old, BYTES, 2 * BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to + BYTES);
    return new == MAP_FAILED ? (abort(), NULL) : new;
}

static void read_all(const char *from, size_t bytes) {
    for (int round = 0; round < ROUNDS; round++)
        for (size_t k = 0; k < bytes; k += 64)
            sum += ((const volatile char *)from)[k];
}

static void *reads(void *unused) {
    read_all(mapping, 2 * BYTES);
    read_all(block, 2 * BYTES);
    read_all(zeroed, BYTES / 4);
    read_all(first, BYTES);
    read_all(second, BYTES);
    return unused;
}

int main(void) {
    mapping = map(BYTES);
    memset(mapping, 1, BYTES);
    mapping = moved(mapping);
    memset(mapping + BYTES, 1, BYTES);
    block = malloc(BYTES);
    if (!block)
        abort();
    memset(block, 1, BYTES);
    block = realloc(block, 2 * BYTES);
    if (!block)
        abort();
    memset(block + BYTES, 1, BYTES);
    free(malloc(BYTES / 4));
    zeroed = calloc(BYTES / 4, 1);
    first = map(BYTES), second = map(BYTES);
    memset(first, 1, BYTES);
    memset(second, 1, BYTES);
    pthread_t thread;
    pthread_create(&thread, NULL, reads, NULL);
    pthread_join(thread, NULL);
    printf("%ld\n", sum);
    return zeroed == NULL;
}
