// Threads in pairs that pass a buffer back and forth, for a given time; the partners change every
// so often. Prints a line when it begins and the number of turns at the end.
//
//   partners SECONDS [CHANGE_SECONDS [BUFFER_KB [WORK_FILE [PAIRS [spin]]]]]
//
// Of two partners only one works at a time, so that N pairs fill N processors. Thread t passes the
// buffer to its partner in the pairing (t, t + PAIRS) or, in every other stretch of time, (t, t^1).
// WORK_FILE gets the number of turns so far, 20 times a second. CHANGE_SECONDS 0: never.
//
// With `spin`, waiting threads yield instead of sleeping, and partners begin on different
// processors. As all threads run all the time, a scheduler has no reason to bring partners
// together.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 128

static struct {
    sem_t turn;
    uint64_t *numbers; // of the pair whose lower thread this is
    uint64_t turns;
    char rest[40];
} threads[MAX_THREADS] __attribute__((aligned(64)));

static int count, pairs, spin;
static size_t length;
static double seconds, change;
static double begun;
static pthread_barrier_t barrier;

static void wait_for(sem_t *turn) {
    while (spin && sem_trywait(turn)) sched_yield();
    if (!spin) sem_wait(turn);
}

// Begins on the given one of the processors that may be used, and may use all of them from then on.
static void begin_on(int number) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    number %= CPU_COUNT(&all);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all) || number-- > 0) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    sched_setaffinity(0, sizeof all, &all);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int partner_of(int self, int stretch) {
    return stretch % 2 ? self ^ 1 : (self + pairs) % count;
}

static void *work(void *argument) {
    int self = (int)(intptr_t)argument;
    for (int stretch = 0;; stretch++) {
        double end = begun + seconds;
        if (change > 0 && begun + (stretch + 1) * change < end) end = begun + (stretch + 1) * change;
        int other = partner_of(self, stretch);
        int lower = self < other ? self : other;
        uint64_t *numbers = threads[lower].numbers;
        if (self == lower) sem_init(&threads[self].turn, 0, 1);
        else sem_init(&threads[self].turn, 0, 0);
        pthread_barrier_wait(&barrier);
        // After the barrier, whose end may wake a thread on any processor.
        if (spin && stretch == 0) begin_on(self < pairs ? self : self - pairs + 1);
        // The lower one ends the stretch, and the other one follows.
        for (;;) {
            wait_for(&threads[self].turn);
            int over = numbers[length] == (uint64_t)stretch + 1;
            if (!over) {
                for (size_t i = 0; i < length; i++) numbers[i] = numbers[i] * 5 + (uint64_t)self;
                threads[self].turns++;
                if (self == lower && now() >= end) numbers[length] = (uint64_t)stretch + 1, over = 1;
            }
            sem_post(&threads[other].turn);
            if (over) break;
        }
        pthread_barrier_wait(&barrier);
        if (end >= begun + seconds) return NULL;
    }
}

static uint64_t done(void) {
    uint64_t sum = 0;
    for (int t = 0; t < count; t++) sum += *(volatile uint64_t *)&threads[t].turns;
    return sum;
}

int main(int argc, char **argv) {
    seconds = argc > 1 ? atof(argv[1]) : 5;
    change = argc > 2 ? atof(argv[2]) : 0;
    length = (argc > 3 ? (size_t)atoi(argv[3]) : 256) * 1024 / sizeof(uint64_t);
    const char *file = argc > 4 && *argv[4] ? argv[4] : NULL;
    pairs = argc > 5 ? atoi(argv[5]) : 2;
    spin = argc > 6 && !strcmp(argv[6], "spin");
    count = 2 * pairs;
    if (count < 2 || count > MAX_THREADS || length < 1) return 2;
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int t = 0; t < count; t++) {
        threads[t].numbers = aligned_alloc(4096, ((length + 1) * 8 + 4095) / 4096 * 4096);
        if (!threads[t].numbers) return 3;
        memset(threads[t].numbers, 0, (length + 1) * 8);
    }
    printf("ready\n");
    fflush(stdout);
    begun = now();
    pthread_t handles[MAX_THREADS];
    for (int t = 0; t < count; t++)
        if (pthread_create(&handles[t], NULL, work, (void *)(intptr_t)t)) return 3;
    while (file && now() < begun + seconds) {
        char path[4096];
        snprintf(path, sizeof path, "%s.new", file);
        FILE *out = fopen(path, "w");
        if (out) {
            fprintf(out, "%llu\n", (unsigned long long)done());
            fclose(out);
            rename(path, file);
        }
        usleep(50000);
    }
    for (int t = 0; t < count; t++) pthread_join(handles[t], NULL);
    // Which processors the initial thread may use now, and the work done.
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    printf("turns %llu, %d processors\n", (unsigned long long)done(), CPU_COUNT(&set));
    return 0;
}
