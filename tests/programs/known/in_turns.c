// Two threads that hand a line over strictly in turns, and spin meanwhile. Each of so many turns
// (argument 1) is one write to what the other thread has written last.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

// Then the other thread may need the processor.
enum { MAX_SPINS = 2000 };

static struct {
    _Alignas(64) atomic_long turn;
    long sum;
} shared;

static long turns;

static void wait_for_turn(long me) {
    int spins = 0;
    while (atomic_load_explicit(&shared.turn, memory_order_acquire) % 2 != me) {
        __builtin_ia32_pause();
        if (++spins == MAX_SPINS) {
            sched_yield();
            spins = 0;
        }
    }
}

static void *run(void *argument) {
    long me = (long)argument;
    for (long i = 0; i < turns / 2; i++) {
        wait_for_turn(me);
        shared.sum++;
        atomic_store(&shared.turn, atomic_load(&shared.turn) + 1);
    }
    return NULL;
}

int main(int count, char **words) {
    turns = count > 1 ? atol(words[1]) : 1000;
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", shared.sum);
    return 0;
}
