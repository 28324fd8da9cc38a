// Workers look at a flag that tells them to stop; it lies beside a counter that one of them changes
// all the time.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    atomic_int stop;
#ifdef FIXED
    char unused[60];
#endif
    atomic_long logged;
} state __attribute__((aligned(64)));

static long steps;

static void *log_all(void *arg) {
    (void)arg;
    for (long k = 0; k < steps; k++)
        atomic_fetch_add_explicit(&state.logged, k & 1, memory_order_relaxed); // @log
    return 0;
}

static void *compute(void *arg) {
    unsigned long x = (unsigned long)(size_t)arg;
    for (long k = 0; k < steps; k++) {
        if (atomic_load_explicit(&state.stop, memory_order_relaxed)) // @compute
            break;
        x = x * 6364136223846793005UL + 1442695040888963407UL;
    }
    return (void *)(x & 1);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    steps = argc > 2 ? atol(argv[2]) : 60000000;
    pthread_t ids[64];
    for (int k = 0; k < threads; k++)
        pthread_create(&ids[k], 0, k ? compute : log_all, (void *)(size_t)k);
    long odd = 0;
    for (int k = 0; k < threads; k++) {
        void *result;
        pthread_join(ids[k], &result);
        odd += (long)result;
    }
    atomic_store(&state.stop, 1);
    printf("%ld %ld\n", atomic_load(&state.logged), odd);
    return 0;
}
