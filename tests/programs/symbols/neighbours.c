// Threads with elements of their own of an array, STRIDE bytes apart: they add to WRITTEN bytes of
// them (or, with ONLY_READ, only look at them) TIMES times in each of ROUNDS rounds, after which
// the initial thread reads all of them. With LUCK, that the array begins on a line is nobody's
// purpose.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef STRIDE
#define STRIDE 64
#endif
#ifndef WRITTEN
#define WRITTEN 8
#endif
#ifndef ROUNDS
#define ROUNDS 600
#endif
#ifndef TIMES
#define TIMES 1
#endif

enum { THREADS = 4, WORDS = WRITTEN / 8, SIZE = 4096 };

static pthread_barrier_t barrier;
static char *elements;

__attribute__((noinline)) static long use(volatile long *own) {
    long sum = 0;
    for (int k = 0; k < TIMES; k++)
        for (int word = 0; word < WORDS; word++) {
#ifdef ONLY_READ
            sum += own[word];
#else
            own[word]++;
#endif
        }
    return sum;
}

static void *worker(void *arg) {
    long sum = 0;
    volatile long *own = (volatile long *)(elements + (long)arg * STRIDE);
    for (int round = 0; round < ROUNDS; round++) {
        sum += use(own);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    return (void *)sum;
}

static char *array(void) {
#ifdef LUCK
    for (;;) {
        char *memory = malloc(SIZE);
        if ((size_t)memory % 256 == 64)
            return memory;
        if (!malloc(16))
            abort();
    }
#else
    return aligned_alloc(4096, SIZE);
#endif
}

int main(void) {
    pthread_t ids[THREADS];
    pthread_barrier_init(&barrier, 0, THREADS + 1);
    elements = array();
    for (int k = 0; k < THREADS; k++)
        for (int word = 0; word < WORDS; word++)
            ((volatile long *)(elements + (long)k * STRIDE))[word] = 0;
    for (long k = 0; k < THREADS; k++)
        pthread_create(&ids[k], 0, worker, (void *)k);
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        for (int k = 0; k < THREADS; k++)
            for (int word = 0; word < WORDS; word++)
                sum += ((volatile long *)(elements + (long)k * STRIDE))[word];
        pthread_barrier_wait(&barrier);
    }
    for (int k = 0; k < THREADS; k++)
        pthread_join(ids[k], 0);
    printf("%ld\n", sum);
    return 0;
}
