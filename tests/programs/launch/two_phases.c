// Four threads in two phases with swapped partners: first 0 with 1 and 2 with 3, then 0 with 2 and
// 1 with 3. Arguments: exchanges of each phase, and "again" to come back to the first phase after
// the second. Each thread prints the CPUs to which it is bound at the end of each phase, from
// /proc. In an exchange a thread works on all lines that it shares with its partner. No phase lasts
// longer than five seconds: where other programs keep the processors busy, an exchange may take
// milliseconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LONGEST = 5, LINES = 256, PASSES = 50 }; // seconds; of a pair; over them in an exchange

struct line {
    _Alignas(64) volatile long value;
};
struct pair {
    _Alignas(64) atomic_long turn;
    struct line lines[LINES];
};

static struct pair near_pairs[2], far_pairs[2];
static pthread_barrier_t barrier;
static long count;
static int again;

static double now(void) {
    struct timespec is;
    clock_gettime(CLOCK_MONOTONIC, &is);
    return (double)is.tv_sec + (double)is.tv_nsec / 1e9;
}

// Whether it became the turn of this side before the time was over.
static inline int wait_for(struct pair *pair, int side, double end) {
    while (atomic_load_explicit(&pair->turn, memory_order_acquire) % 2 != side) {
        if (now() > end)
            return 0;
        sched_yield();
    }
    return 1;
}

// In the code of each phase.
__attribute__((always_inline)) static inline void exchange(struct pair *pair, int side) {
    double end = now() + LONGEST;
    for (long i = 0; i < count && wait_for(pair, side, end); i++) {
        for (int pass = 0; pass < PASSES; pass++)
            for (int k = 0; k < LINES; k++)
                pair->lines[k].value++;
        atomic_fetch_add(&pair->turn, 1);
    }
}

__attribute__((noinline)) static void exchange_near(int self) { exchange(&near_pairs[self / 2], self % 2); }

__attribute__((noinline)) static void exchange_far(int self) { exchange(&far_pairs[self % 2], self / 2); }

static void end_of(const char *phase, int self) {
    char line[256] = "";
    FILE *status = fopen("/proc/thread-self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "Cpus_allowed_list:", 18))
            break;
    if (status)
        fclose(status);
    line[strcspn(line, "\n")] = 0;
    printf("%s %d: %s\n", phase, self, line + 19);
    fflush(stdout);
    pthread_barrier_wait(&barrier);
}

static void *work(void *argument) {
    int self = (int)(long)argument;
    pthread_barrier_wait(&barrier);
    exchange_near(self);
    end_of("near", self);
    exchange_far(self);
    end_of("far", self);
    if (again) {
        exchange_near(self);
        end_of("again", self);
    }
    return NULL;
}

int main(int argc, char **argv) {
    count = argc > 1 ? atol(argv[1]) : 100000;
    again = argc > 2 && !strcmp(argv[2], "again");
    pthread_t threads[4];
    pthread_barrier_init(&barrier, NULL, 4);
    for (long i = 1; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    work((void *)0);
    for (int i = 1; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
