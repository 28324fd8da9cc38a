// Counters of a line each, aligned to 64 bytes. Processors that fetch lines in pairs of 128 bytes
// may still move a neighbour's; the other form gives each counter a pair of its own.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef FIXED
enum { APART = 128 };
#else
enum { APART = 64 };
#endif

struct counter {
    volatile long value;
} __attribute__((aligned(APART)));

static struct counter counters[64];
static long steps;

static void *count(void *arg) {
    struct counter *mine = arg;
    for (long k = 0; k < steps; k++)
        mine->value += k & 3; // @count
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    steps = argc > 2 ? atol(argv[2]) : 100000000;
    pthread_t ids[64];
    for (int k = 0; k < threads; k++)
        pthread_create(&ids[k], 0, count, &counters[k]);
    long sum = 0;
    for (int k = 0; k < threads; k++) {
        pthread_join(ids[k], 0);
        sum += counters[k].value;
    }
    printf("%ld\n", sum);
    return 0;
}
