// One thread fills a buffer, then another reads it, in turns: what caches hold meanwhile depends on
// how large it is.
//
// Arguments: bytes, turns, and a third one if it shall give up reading the processor's clock.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static char *buffer;
static size_t bytes;
static long turns;
static pthread_barrier_t turn;

static void *fill(void *nothing) {
    for (long k = 0; k < turns; k++) {
        memset(buffer, (int)k, bytes);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
    }
    return nothing;
}

static void *use(void *nothing) {
    long sum = 0;
    for (long k = 0; k < turns; k++) {
        pthread_barrier_wait(&turn);
        for (size_t at = 0; at < bytes; at += 64)
            sum += buffer[at];
        pthread_barrier_wait(&turn);
    }
    printf("%ld\n", sum);
    return nothing;
}

int main(int argc, char **argv) {
    bytes = argc > 1 ? strtoul(argv[1], 0, 10) : 1 << 20;
    turns = argc > 2 ? atol(argv[2]) : 100;
    if (argc > 3 && prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
        return 1;
    buffer = malloc(bytes);
    pthread_barrier_init(&turn, 0, 2);
    pthread_t threads[2];
    pthread_create(&threads[0], 0, fill, 0);
    pthread_create(&threads[1], 0, use, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    free(buffer);
    return 0;
}
