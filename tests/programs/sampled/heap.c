// Two threads update counters of their own in one line of an array that main has allocated, while
// others of the same size come and go.
//
//   heap MILLISECONDS [HOW]
//
// HOW: malloc (default), calloc, realloc, aligned, mmap, fork: a forked child does it.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct counter {
    volatile long count;
};

static struct counter *counters;
static double until;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *count(void *own) {
    volatile long *mine = own;
    while (now() < until)
        for (int i = 0; i < 20000; i++)
            ++*mine;
    return NULL;
}

static void *checked(void *block) {
    if (!block)
        abort();
    return block;
}

static struct counter *make_counters(const char *how) {
    enum { BYTES = 8 * sizeof(struct counter) };
    void *block;
    if (!strcmp(how, "calloc"))
        block = checked(calloc(8, sizeof(struct counter)));
    else if (!strcmp(how, "aligned"))
        block = posix_memalign(&block, 64, BYTES) ? NULL : checked(block);
    else if (!strcmp(how, "mmap")) {
        block = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        block = block == MAP_FAILED ? checked(NULL) : block;
    } else if (!strcmp(how, "realloc"))
        block = checked(realloc(checked(malloc(8)), BYTES));
    else
        block = checked(malloc(BYTES));
    return memset(block, 0, BYTES);
}

static void come_and_go(void) {
    static void *volatile kept;
    for (int i = 0; i < 100000; i++) {
        kept = malloc(64);
        free(kept);
    }
}

static void fight(void) {
    pthread_t threads[2];
    for (long k = 0; k < 2; k++)
        pthread_create(&threads[k], NULL, count, (void *)&counters[k].count);
    come_and_go();
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], NULL);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    const char *how = argc > 2 ? argv[2] : "malloc";
    come_and_go();
    counters = make_counters(how);
    until = now() + atof(argv[1]);
    if (strcmp(how, "fork") != 0) {
        fight();
    } else if (fork() == 0) {
        fight();
        _exit(0);
    } else {
        wait(NULL);
    }
    puts("done");
    if (strcmp(how, "mmap"))
        free(counters);
    return 0;
}
