// Threads that stay, all working a little, while others come, work for a moment and go.
//
// Usage: coming_and_going THREADS MILLISECONDS
// Prints how many threads there were in all.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static atomic_int stop;

static uint64_t now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void work(uint64_t nanoseconds) {
    volatile uint64_t word = 0;
    uint64_t end = now(CLOCK_THREAD_CPUTIME_ID) + nanoseconds;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 10000; i++) word += (uint64_t)i;
}

// All together they keep one processor busy.
static void *stay(void *argument) {
    long pause = 100000 * (long)(intptr_t)argument;
    while (!atomic_load(&stop)) {
        work(100000);
        nanosleep(&(struct timespec){pause / 1000000000, pause % 1000000000}, NULL);
    }
    return NULL;
}

static void *pass(void *unused) {
    (void)unused;
    work(2000000);
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 16, all = count + 1;
    uint64_t end = now(CLOCK_MONOTONIC) + 1000000u * (uint64_t)(argc > 2 ? atoi(argv[2]) : 1000);
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], &small, stay, (void *)(intptr_t)count)) return 3;
    for (; now(CLOCK_MONOTONIC) < end; all++) {
        pthread_t passing;
        if (pthread_create(&passing, &small, pass, NULL)) return 3;
        pthread_join(passing, NULL);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    free(threads);
    printf("%d\n", all);
    return 0;
}
