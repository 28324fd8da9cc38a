// Each thread fills an array on its stack, which the next thread then works on.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, COUNT = (512 << 10) / sizeof(double), ROUNDS = 4 };

static double *arrays[THREADS];
static pthread_barrier_t barrier;

static void *work(void *argument) {
    long own = (long)argument;
    double array[COUNT];
    for (int k = 0; k < COUNT; k++)
        ((volatile double *)array)[k] = k;
    arrays[own] = array;
    pthread_barrier_wait(&barrier);
    volatile double *other = arrays[(own + THREADS - 1) % THREADS];
    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < COUNT; k++)
            other[k] += 1;
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(void) {
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t threads[THREADS];
    for (long t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *)t);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    puts("done");
    return 0;
}
