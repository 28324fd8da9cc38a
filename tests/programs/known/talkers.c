// Pairs of threads that talk as fast as they can, for some time: 2p + 1 and 2p + 2 update a line
// that is theirs alone, the same word of it (same), each its own word (apart), or each its own line
// (alone; rests: with pauses). The initial thread says "ready" once all run, sleeps, and says
// "done" at the end. It may then rest for some more milliseconds.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 512, WORDS = 8 };

static _Alignas(64) uint64_t lines[2 * PAIRS][WORDS];
static int stop, rests;

static void *talk(void *word) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 1000; i++) __atomic_fetch_add((uint64_t *)word, 1, __ATOMIC_SEQ_CST);
        if (rests) usleep(10000);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: %s PAIRS MILLISECONDS same|apart|alone|rests [REST]\n", argv[0]);
        return 2;
    }
    int threads = 2 * atoi(argv[1]);
    long milliseconds = atol(argv[2]);
    if (threads < 2 || threads > 2 * PAIRS || milliseconds < 1) return 2;
    rests = !strcmp(argv[3], "rests");
    static pthread_t thread[2 * PAIRS];
    for (int t = 0; t < threads; t++) {
        uint64_t *word = &lines[t & ~1][0];
        if (!strcmp(argv[3], "apart")) word = &lines[t & ~1][t & 1];
        if (rests || !strcmp(argv[3], "alone")) word = &lines[t][0];
        if (pthread_create(&thread[t], NULL, talk, word)) return 3;
    }
    puts("ready");
    fflush(stdout);
    struct timespec rest = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&rest, &rest)) {}
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int t = 0; t < threads; t++) pthread_join(thread[t], NULL);
    puts("done");
    if (argc == 5) usleep((useconds_t)atol(argv[4]) * 1000);
    return 0;
}
