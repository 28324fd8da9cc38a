// Four threads that each count into an element of their own of one array, whose elements share
// cache lines: false sharing, the first thing to look for in a report.
//
// The lines move between cores with every update, although no thread needs what another writes.
// With -DFIXED each element has a line of its own.
//
// Build: gcc -O1 -g -pthread counters.c -o counters        Usage: counters [STEPS]
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4

struct counter {
#ifdef FIXED
    _Alignas(64)
#endif
    long count;
    long sum;
};

struct counter *counters;
static long steps = 20000000;

static void *work(void *argument) {
    long own = (long)argument;
    for (long step = 0; step < steps; step++) {
        counters[own].count++;
        counters[own].sum += step;
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1)
        steps = atol(argv[1]);
    counters = aligned_alloc(64, THREADS * sizeof *counters);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) {
        counters[i].count = counters[i].sum = 0;
        pthread_create(&threads[i], NULL, work, (void *)i);
    }
    long count = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        count += counters[i].count;
    }
    printf("%ld steps\n", count);
    free(counters);
    return 0;
}
