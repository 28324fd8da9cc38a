// A histogram of pixels; all threads count in the same bins.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { BINS = 16 };

static atomic_long bins[BINS];
static unsigned char *pixels;
static long part, rounds;

static void *count(void *arg) {
    const unsigned char *mine = pixels + part * (long)(size_t)arg;
#ifdef FIXED
    long own[BINS] = {0};
    for (long round = 0; round < rounds; round++)
        for (long k = 0; k < part; k++)
            own[mine[k] % BINS]++;
    for (int bin = 0; bin < BINS; bin++)
        atomic_fetch_add(&bins[bin], own[bin]);
#else
    for (long round = 0; round < rounds; round++)
        for (long k = 0; k < part; k++)
            atomic_fetch_add(&bins[mine[k] % BINS], 1); // @count
#endif
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    rounds = argc > 2 ? atol(argv[2]) : 60;
    part = (1 << 20) / threads;
    pixels = malloc(1 << 20);
    unsigned seed = 7;
    for (long k = 0; k < 1 << 20; k++) {
        seed = seed * 1103515245 + 12345;
        pixels[k] = (unsigned char)(seed >> 16);
    }
    pthread_t ids[64];
    for (int k = 0; k < threads; k++)
        pthread_create(&ids[k], 0, count, (void *)(size_t)k);
    for (int k = 0; k < threads; k++)
        pthread_join(ids[k], 0);
    for (int bin = 0; bin < BINS; bin++)
        printf("%ld ", atomic_load(&bins[bin]));
    puts("");
    free(pixels);
    return 0;
}
