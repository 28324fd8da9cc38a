// What these kernels share: arguments, a team of pthreads with a barrier, shares of a range,
// numbers that look random.
#ifndef TEAM_H
#define TEAM_H
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 64 };

static int threads = 2, scale = 1;
static pthread_barrier_t barrier;

static inline void read_arguments(int argc, char **argv) {
    if (argc > 1) threads = atoi(argv[1]);
    if (argc > 2) scale = atoi(argv[2]);
    if (threads < 1 || threads > MAX_THREADS || scale < 1) exit(2);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
}

// Runs `work` with each number from 0 on, the first in this thread, as the suites do.
static inline void run_team(void *(*work)(void *)) {
    pthread_t ids[MAX_THREADS];
    for (intptr_t p = 1; p < threads; p++) pthread_create(&ids[p], NULL, work, (void *)p);
    work((void *)0);
    for (int p = 1; p < threads; p++) pthread_join(ids[p], NULL);
}

static inline void meet(void) { pthread_barrier_wait(&barrier); }

// Where the share of thread `p` begins; it ends where the next one's begins.
static inline int share(int n, int p) { return (int)((int64_t)n * p / threads); }

static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du;
}

static inline double next_unit(uint64_t *state) { return (double)(next_random(state) >> 11) * 0x1p-53; }

#endif
