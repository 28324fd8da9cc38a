// Arrays in memory that the program maps for itself, in every way; the initial thread fills them,
// and each thread then works on its own quarter.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 4, BYTES = 1 << 20, COUNT = BYTES / sizeof(double), ARRAYS = 6 };
static double *arrays[ARRAYS];

static void *map(size_t bytes, int protection, int flags) {
    void *got = mmap(NULL, bytes, protection, MAP_ANONYMOUS | flags, -1, 0);
    return got == MAP_FAILED ? (abort(), NULL) : got;
}

static double *simple(void) { return map(BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE); }
static double *shared(void) { return map(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED); }
static double *filled(void) { return map(BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE); }

// Begins at a multiple of its size: what is left over goes back.
static double *aligned(void) {
    char *all = map(2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    char *start = all + (BYTES - (uintptr_t)all % BYTES) % BYTES;
    if (start != all)
        munmap(all, (size_t)(start - all));
    munmap(start + BYTES, (size_t)(all + 2 * BYTES - (start + BYTES)));
    return (double *)(void *)start;
}

// Addresses are reserved first; one half is then made usable, the other mapped anew.
static double *reserved(void) {
    char *all = map(BYTES, PROT_NONE, MAP_PRIVATE);
    int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mprotect(all, BYTES / 2, PROT_READ | PROT_WRITE) ||
        mmap(all + BYTES / 2, BYTES / 2, PROT_READ | PROT_WRITE, fixed, -1, 0) == MAP_FAILED)
        abort();
    return (double *)(void *)all;
}

// Is filled before it grows, which it cannot do where it is.
static double *grown(void) {
    char *half = map(BYTES / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    memset(half, 0, BYTES / 2);
    char *to = map(2 * BYTES, PROT_NONE, MAP_PRIVATE);
    char *all = mremap(half, BYTES / 2, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to + BYTES / 2);
    return all == MAP_FAILED ? (abort(), NULL) : (double *)(void *)all;
}

static void *work(void *argument) {
    long thread = (long)argument;
    for (int round = 0; round < 4; round++)
        for (int a = 0; a < ARRAYS; a++)
            for (long i = COUNT / THREADS * thread; i < COUNT / THREADS * (thread + 1); i++)
                arrays[a][i] = arrays[a][i] * 0.5 + 1;
    return NULL;
}

int main(void) {
    double *(*const make[ARRAYS])(void) = {simple, shared, filled, aligned, reserved, grown};
    for (int a = 0; a < ARRAYS; a++) {
        arrays[a] = make[a]();
        for (int i = 0; i < COUNT; i++)
            arrays[a][i] = i % 17;
    }
    pthread_t threads[THREADS];
    for (long t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *)t);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    double sum = 0;
    for (int a = 0; a < ARRAYS; a++)
        for (int i = 0; i < COUNT; i++)
            sum += arrays[a][i];
    printf("sum %.3f\n", sum);
    munmap(arrays[0], BYTES);
    return 0;
}
