// The main thread allocates a small state for each worker; malloc puts them side by side.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct state {
    unsigned long seed;
    long hits;
};

static long draws;

static struct state *new_state(unsigned long seed) {
#ifdef FIXED
    struct state *state = aligned_alloc(64, 64);
#else
    struct state *state = malloc(sizeof *state); // @alloc
#endif
    state->seed = seed;
    state->hits = 0;
    return state;
}

static void *draw(void *arg) {
    struct state *state = arg;
    for (long k = 0; k < draws; k++) { // @draw
        state->seed = state->seed * 6364136223846793005UL + 1442695040888963407UL; // @draw
        if (state->seed >> 63)                                                      // @draw
            state->hits++; // @draw
    }
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    draws = argc > 2 ? atol(argv[2]) : 60000000;
    struct state *states[64];
    pthread_t ids[64];
    for (int k = 0; k < threads; k++)
        states[k] = new_state((unsigned long)k + 1);
    for (int k = 0; k < threads; k++)
        pthread_create(&ids[k], 0, draw, states[k]);
    long hits = 0;
    for (int k = 0; k < threads; k++) {
        pthread_join(ids[k], 0);
        hits += states[k]->hits;
        free(states[k]);
    }
    printf("%ld\n", hits);
    return 0;
}
