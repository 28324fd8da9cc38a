// Signals at a high rate while threads exchange lines, so that many arrive where an instrumented
// copy is counting; then waits that end only when a signal's handler has run.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>

enum { CELLS = 1 << 16, ADDITIONS = 1500000, WAITS = 300 };
static volatile sig_atomic_t arrived;
static long cells[CELLS];

static void handler(int number) {
    (void)number;
    arrived = 1;
}

static void *add(void *seed) {
    uint32_t x = (uint32_t)(uintptr_t)seed;
    for (long i = 0; i < ADDITIONS; i++) {
        x = x * 1664525 + 1013904223;
        __atomic_fetch_add(&cells[x >> 16], 1, __ATOMIC_RELAXED);
    }
    return 0;
}

int main(void) {
    struct sigaction action = {.sa_handler = handler};
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
    pthread_t other;
    pthread_create(&other, 0, add, (void *)1);
    add((void *)2);
    pthread_join(other, 0);
    for (int i = 0; i < WAITS; i++) {
        arrived = 0;
        for (int k = 0; k < 200; k++)
            ((volatile long *)cells)[k * 977 % CELLS]++;
        while (!arrived)
            ;
    }
    setitimer(ITIMER_REAL, &never, 0);
    long sum = 0;
    for (int i = 0; i < CELLS; i++)
        sum += cells[i];
    printf("%ld\n", sum);
    return 0;
}
