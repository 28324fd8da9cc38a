// Monte Carlo with rand_r: the seeds of all threads lie side by side in a static array.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned seeds[64];
static long draws;

static void *throw_darts(void *arg) {
    unsigned *seed = arg;
    long inside = 0;
#ifdef FIXED
    unsigned own = *seed;
    seed = &own;
#endif
    for (long k = 0; k < draws; k++) {
        double x = rand_r(seed) / (double)RAND_MAX; // @throw
        double y = rand_r(seed) / (double)RAND_MAX; // @throw
        inside += x * x + y * y < 1;
    }
    return (void *)inside;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    draws = argc > 2 ? atol(argv[2]) : 8000000;
    pthread_t ids[64];
    for (int k = 0; k < threads; k++) {
        seeds[k] = (unsigned)k + 1;
        pthread_create(&ids[k], 0, throw_darts, &seeds[k]);
    }
    long inside = 0;
    for (int k = 0; k < threads; k++) {
        void *result;
        pthread_join(ids[k], &result);
        inside += (long)result;
    }
    printf("%.4f\n", 4.0 * (double)inside / (double)draws / threads);
    return 0;
}
