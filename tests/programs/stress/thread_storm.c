// Short-lived threads in waves: WAVES times COUNT threads at once, each adding up a little of what
// it shares. Ids, stacks and thread-local storage are reused from wave to wave.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local uint64_t local;
static uint64_t total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t everyone;

static void *work(void *argument) {
    uint64_t n = (uint64_t)(uintptr_t)argument;
    if (local != 0) abort(); // a new thread has fresh thread-local storage
    pthread_barrier_wait(&everyone);
    for (uint64_t i = 0; i < 1000; i++) local += i * n;
    pthread_mutex_lock(&lock);
    total += local;
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)local;
}

int main(int argc, char **argv) {
    int waves = argc > 1 ? atoi(argv[1]) : 4, count = argc > 2 ? atoi(argv[2]) : 256;
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (int wave = 0; wave < waves; wave++) {
        pthread_barrier_init(&everyone, NULL, (unsigned)count);
        for (int i = 0; i < count; i++)
            if (pthread_create(&threads[i], &small, work, (void *)(uintptr_t)(i + 1))) return 3;
        for (int i = 0; i < count; i++) {
            void *result;
            pthread_join(threads[i], &result);
            if ((uintptr_t)result != 499500u * (uintptr_t)(i + 1)) return 4;
        }
        pthread_barrier_destroy(&everyone);
        printf("wave %d total %llu\n", wave, (unsigned long long)total);
    }
    free(threads);
    return 0;
}
