// Two threads on one cache line, on the CPUs that are asked for.
//
//   clocked share CPU CPU MILLISECONDS        each adds to a word of its own until the time is over
//   clocked turns CPU CPU COUNT WORK          they hand over COUNT times, after WORK steps on memory of their own each
//
// A last word "first" lets them run before other programs, where that is allowed.
// Prints how long that took, in seconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    _Alignas(64) volatile long words[2];
    _Alignas(64) atomic_long turn;
    _Alignas(64) pthread_barrier_t start;
} shared;

static int cpus[2], shares, first;
static long count, work;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void share(long self) {
    double end = now() + (double)count / 1e3;
    while (now() < end)
        for (int i = 0; i < 1000; i++) shared.words[self]++;
}

static void take_turns(long self) {
    unsigned long private[1024] = {0}, next = 1;
    for (long turn = self; turn < count; turn += 2) {
        for (int spins = 0; atomic_load_explicit(&shared.turn, memory_order_acquire) != turn; spins++)
            if (cpus[0] == cpus[1] && spins > 100) sched_yield();
        for (long step = 0; step < work; step++) {
            next = next * 6364136223846793005 + 1442695040888963407;
            private[next >> 54] += next;
        }
        __asm__ volatile("" : : "r"(private) : "memory");
        atomic_store_explicit(&shared.turn, turn + 1, memory_order_release);
    }
}

static void *run(void *argument) {
    long self = (long)argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[self], &set);
    if (sched_setaffinity(0, sizeof set, &set)) perror("sched_setaffinity"), exit(2);
    struct sched_param most = {.sched_priority = 1};
    if (first) sched_setscheduler(0, SCHED_FIFO, &most);
    pthread_barrier_wait(&shared.start);
    if (shares)
        share(self);
    else
        take_turns(self);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    shares = !strcmp(argv[1], "share");
    for (int i = 0; i < 2; i++) cpus[i] = atoi(argv[2 + i]);
    count = atol(argv[4]);
    work = argc > 5 ? atol(argv[5]) : 0;
    first = !strcmp(argv[argc - 1], "first");
    pthread_barrier_init(&shared.start, NULL, 2);
    double start = now();
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("%.6f\n", now() - start);
    return 0;
}
