// Nothing is wrong here: each thread's element fills lines of its own.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct worker {
    unsigned long seed;
    long counts[4];
} __attribute__((aligned(128)));

static struct worker workers[16];
static long steps;

static void *run(void *arg) {
    struct worker *self = arg;
    for (long k = 0; k < steps; k++) {
        self->seed = self->seed * 6364136223846793005UL + 1442695040888963407UL;
        self->counts[self->seed >> 62]++;
    }
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    steps = argc > 2 ? atol(argv[2]) : 80000000;
    pthread_t ids[16];
    for (int k = 0; k < threads; k++) {
        workers[k].seed = (unsigned long)k;
        pthread_create(&ids[k], 0, run, &workers[k]);
    }
    long counts[4] = {0};
    for (int k = 0; k < threads; k++) {
        pthread_join(ids[k], 0);
        for (int c = 0; c < 4; c++)
            counts[c] += workers[k].counts[c];
    }
    printf("%ld %ld %ld %ld\n", counts[0], counts[1], counts[2], counts[3]);
    return 0;
}
