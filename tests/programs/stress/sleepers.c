// Threads of which few run: THREADS wait while the main thread works for MILLISECONDS of its own
// processor time. With "all" every thread works until the main thread is done.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER, wake = PTHREAD_COND_INITIALIZER;
static atomic_int over;
static int started, all;

static uint64_t work(void) {
    static _Thread_local uint64_t numbers[256];
    uint64_t sum = 0;
    for (int i = 0; i < 256; i++) sum += numbers[i] = numbers[i] * 3 + (uint64_t)i;
    return sum;
}

static void *thread(void *argument) {
    uint64_t sum = (uintptr_t)argument;
    pthread_mutex_lock(&lock);
    started++;
    pthread_cond_signal(&ready);
    while (!all && !over) pthread_cond_wait(&wake, &lock);
    pthread_mutex_unlock(&lock);
    while (!over) sum += work();
    return (void *)(uintptr_t)sum;
}

static long used_ms(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int threads = atoi(argv[1]);
    all = argc > 3 && !strcmp(argv[3], "all");
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, thread, (void *)(uintptr_t)i)) return 3;
    }
    pthread_mutex_lock(&lock);
    while (started < threads) pthread_cond_wait(&ready, &lock);
    pthread_mutex_unlock(&lock);
    uint64_t sum = 0;
    for (long until = used_ms() + atol(argv[2]); used_ms() < until;) sum += work();
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("threads %d %s\n", threads, sum ? "done" : "idle");
    return 0;
}
