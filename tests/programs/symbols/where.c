// Two threads meet, in turns, on memory of every kind. Prints where: "line REGION ADDRESS".
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct pair {
    _Atomic long mine;
    _Atomic long yours;
};

#ifndef ROUNDS
#define ROUNDS 1000
#endif

static struct {
    long before[8];
    struct pair pair;
} __attribute__((aligned(64))) shared;
static _Thread_local struct pair own __attribute__((aligned(64)));
static struct pair *places[5];
static atomic_int turn;

static void await(int whose) {
    while (atomic_load(&turn) != whose)
        ;
}

static void *worker(void *argument) {
    (void)argument;
    struct pair on_stack __attribute__((aligned(64))) = {0, 0};
    places[0] = &shared.pair;
    places[1] = &own;
    places[2] = &on_stack;
    places[3] = aligned_alloc(64, 64);
    places[4] = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < 5; k++) places[k]->mine++; // worker
        atomic_store(&turn, 1);
        await(0);
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    atomic_store(&turn, 0);
    pthread_create(&thread, NULL, worker, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        await(1);
        for (int k = 0; k < 5; k++) places[k]->yours++; // main
        if (round == ROUNDS - 1) {
            const char *regions[] = {"static", "thread-local", "stack", "heap", "anonymous"};
            for (int k = 0; k < 5; k++) printf("line %s %p\n", regions[k], (void *)places[k]);
        }
        atomic_store(&turn, 0);
    }
    pthread_join(thread, NULL);
    return 0;
}
