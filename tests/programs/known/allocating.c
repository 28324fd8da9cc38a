// One thread allocates and frees small blocks all the time, while two others take turns at a large
// one, which another function allocates every second: where the last one was, if it can be had.
//
//   allocating SECONDS
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BYTES (64 << 10)
#define SMALL 64

static atomic_int ends;
static atomic_uint turn;
static uint64_t *_Atomic shared;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *storm(void *unused) {
    void *blocks[SMALL] = {0};
    for (unsigned i = 0; !ends; i++) {
        free(blocks[i % SMALL]);
        blocks[i % SMALL] = malloc(24 + i % 5 * 8);
    }
    for (int i = 0; i < SMALL; i++)
        free(blocks[i]);
    return unused;
}

// Threads write to all of the block by turns, and yield while they wait.
static void *take_turns(void *number) {
    while (!ends) {
        if ((turn & 1) != (uintptr_t)number) {
            struct timespec short_time = {0, 20000};
            nanosleep(&short_time, NULL);
            continue;
        }
        uint64_t *block = shared;
        for (int i = 0; i < BYTES / 8; i++)
            block[i] += i;
        turn++;
    }
    return NULL;
}

__attribute__((noinline)) static uint64_t *first_block(void) { return malloc(BYTES); }
__attribute__((noinline)) static uint64_t *second_block(void) { return calloc(BYTES / 8, 8); }
__attribute__((noinline)) static uint64_t *moved_block(uint64_t *old) { return realloc(old, BYTES + 4096); }

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 3, end = now() + seconds;
    pthread_t threads[3];
    pthread_create(&threads[2], NULL, storm, NULL);
    uint64_t *old = NULL;
    for (int k = 0; now() < end; k++) {
        // The threads have to be at rest where the block goes away.
        if (k) {
            ends = 1;
            for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
            pthread_join(threads[2], NULL);
            ends = 0;
            pthread_create(&threads[2], NULL, storm, NULL);
        }
        if (k % 3 != 2)
            free(old);
        old = k % 3 == 0 ? first_block() : k % 3 == 1 ? second_block() : moved_block(old);
        if (!old)
            return 1;
        shared = old;
        for (uintptr_t i = 0; i < 2; i++)
            pthread_create(&threads[i], NULL, take_turns, (void *)i);
        double until = now() + 1;
        while (now() < until) {
            struct timespec short_time = {0, 10000000};
            nanosleep(&short_time, NULL);
        }
    }
    ends = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    free(old);
    printf("done\n");
    return 0;
}
