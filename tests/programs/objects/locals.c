// Threads that update variables of functions that wait for them, on the initial thread's stack:
// two functions one after the other at the same place, each with threads of its own.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define ROUNDS 2000

struct pair {
    long left, right;
};

static struct side {
    atomic_int *turn;
    int mine;
    volatile long *at;
} sides[2];

static void *update(void *argument) {
    struct side *side = argument;
    for (int k = 0; k < ROUNDS; k++) {
        while (atomic_load_explicit(side->turn, memory_order_acquire) != side->mine)
            ;
        ++*side->at;
        atomic_store_explicit(side->turn, !side->mine, memory_order_release);
    }
    return 0;
}

static void both(volatile long *left, volatile long *right) {
    static _Alignas(64) atomic_int turn;
    pthread_t threads[2];
    sides[0] = (struct side){&turn, 0, left};
    sides[1] = (struct side){&turn, 1, right};
    for (int k = 0; k < 2; k++)
        pthread_create(&threads[k], 0, update, &sides[k]);
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], 0);
}

static __attribute__((noinline)) long first(void) {
    _Alignas(64) struct pair halves = {0, 0};
    both(&halves.left, &halves.right);
    return halves.left + halves.right;
}

static __attribute__((noinline)) long second(void) {
    _Alignas(64) long counts[8] = {0};
    both(&counts[2], &counts[5]);
    return counts[2] + counts[5];
}

int main(void) {
    long all = first();
    all += second();
    printf("%ld\n", all);
    return 0;
}
