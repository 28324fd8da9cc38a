// In each round a block for each thread from one place: the first thread fills its own at once, the
// initial thread then allocates and fills those of the others. Where huge pages are used, that of
// the first block must not reach into the next ones.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 6, BYTES = 256 << 10, PASSES = 8 };

static char *blocks[THREADS];
static pthread_barrier_t barrier;

static void *work(void *argument) {
    long own = (long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        if (own == 0)
            memset(blocks[own], 1, BYTES);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        for (int pass = 0; pass < PASSES; pass++)
            for (long at = 0; at < BYTES; at += 8)
                ++*(volatile long *)(blocks[own] + at);
        pthread_barrier_wait(&barrier);
    }
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, 0, THREADS + 1);
    for (long k = 0; k < THREADS; k++)
        pthread_create(&threads[k], 0, work, (void *)k);
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < THREADS; k++) {
            blocks[k] = malloc(BYTES);
            if (k > 0) {
                memset(blocks[k], 1, BYTES);
                continue;
            }
            pthread_barrier_wait(&barrier);
            pthread_barrier_wait(&barrier);
        }
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        for (int k = 0; k < THREADS; k++)
            sum += blocks[k][0];
    }
    for (int k = 0; k < THREADS; k++)
        pthread_join(threads[k], 0);
    printf("%ld\n", sum);
    return 0;
}
