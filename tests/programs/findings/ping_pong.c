// Two threads exchange messages one at a time through a mutex and a condition variable; the other
// form sends a thousand in one go.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef FIXED
enum { BATCH = 1000 };
#else
enum { BATCH = 1 };
#endif

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int full;
    long messages[BATCH];
} box = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static long count;

static void put(const long *messages) {
    pthread_mutex_lock(&box.lock); // @put
    while (box.full)               // @put
        pthread_cond_wait(&box.changed, &box.lock); // @put
    for (int k = 0; k < BATCH; k++)
        box.messages[k] = messages[k]; // @put
    box.full = 1;                      // @put
    pthread_cond_signal(&box.changed); // @put
    pthread_mutex_unlock(&box.lock);   // @put
}

static void get(long *messages) {
    pthread_mutex_lock(&box.lock); // @get
    while (!box.full)              // @get
        pthread_cond_wait(&box.changed, &box.lock); // @get
    for (int k = 0; k < BATCH; k++)
        messages[k] = box.messages[k]; // @get
    box.full = 0;                      // @get
    pthread_cond_signal(&box.changed); // @get
    pthread_mutex_unlock(&box.lock);   // @get
}

static void *produce(void *arg) {
    long messages[BATCH];
    for (long k = 0; k < count; k += BATCH) {
        for (int m = 0; m < BATCH; m++)
            messages[m] = (k + m) * 3;
        put(messages); // @put
    }
    return arg;
}

int main(int argc, char **argv) {
    count = argc > 2 ? atol(argv[2]) : 100000;
    pthread_t producer;
    pthread_create(&producer, 0, produce, 0);
    long sum = 0, messages[BATCH];
    for (long k = 0; k < count; k += BATCH) {
        get(messages); // @get
        for (int m = 0; m < BATCH; m++)
            sum += messages[m];
    }
    pthread_join(producer, 0);
    printf("%ld\n", sum);
    return 0;
}
