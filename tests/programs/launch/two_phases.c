// Four threads in two phases with swapped partners: first 0 with 1 and 2 with 3, then 0 with 2 and
// 1 with 3. Arguments: exchanges of each phase, and "again" to come back to the first phase after
// the second. Each thread prints the CPUs to which it is bound at the end of each phase, from
// /proc.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct line { _Alignas(64) atomic_long turn; };

static struct line near_lines[2], far_lines[2];
static pthread_barrier_t barrier;
static long count;
static int again;

__attribute__((noinline)) static void exchange_near(int self) {
    atomic_long *turn = &near_lines[self / 2].turn;
    for (long i = 0; i < count; i++) {
        while (atomic_load_explicit(turn, memory_order_acquire) % 2 != self % 2) sched_yield();
        atomic_fetch_add(turn, 1);
    }
}

__attribute__((noinline)) static void exchange_far(int self) {
    atomic_long *turn = &far_lines[self % 2].turn;
    for (long i = 0; i < count; i++) {
        while (atomic_load_explicit(turn, memory_order_acquire) % 2 != self / 2) sched_yield();
        atomic_fetch_add(turn, 1);
    }
}

static void end_of(const char *phase, int self) {
    char line[256] = "";
    FILE *status = fopen("/proc/thread-self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "Cpus_allowed_list:", 18)) break;
    if (status) fclose(status);
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
    for (long i = 1; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    work((void *)0);
    for (int i = 1; i < 4; i++) pthread_join(threads[i], NULL);
    return 0;
}
