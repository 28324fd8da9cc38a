// Arrays handed from one thread to another: a producer writes COUNT arrays of KIB kilobytes in
// turn, a consumer reads each as soon as it is complete. Prints how many reads of lines that the
// other one wrote that is: lines N
//
// Usage: arrays COUNT KIB ROUNDS
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX = 16, LINE = 64 };

static int count, rounds, made, used;
static size_t words;
static uint64_t *arrays[MAX], sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

// Waits until between `least` and `most` arrays are complete and not yet read.
static void await(int least, int most) {
    pthread_mutex_lock(&lock);
    while (made - used < least || made - used > most) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void tell(int *number) {
    pthread_mutex_lock(&lock);
    ++*number;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void *produce(void *argument) {
    for (int round = 0; round < rounds; round++) {
        await(0, count - 1);
        uint64_t *array = arrays[round % count];
        for (size_t k = 0; k < words; k++) array[k] = k * (uint64_t)round;
        tell(&made);
    }
    return argument;
}

static void *consume(void *argument) {
    for (int round = 0; round < rounds; round++) {
        await(1, count);
        const uint64_t *array = arrays[round % count];
        for (size_t k = 0; k < words; k++) sum += array[k];
        tell(&used);
    }
    return argument;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    count = atoi(argv[1]), words = (size_t)atol(argv[2]) * 1024 / sizeof(uint64_t), rounds = atoi(argv[3]);
    if (count < 1 || count > MAX) return 2;
    for (int k = 0; k < count; k++)
        if (!(arrays[k] = aligned_alloc(LINE, words * sizeof(uint64_t)))) return 3;
    pthread_t producer, consumer;
    if (pthread_create(&producer, NULL, produce, NULL)) return 3;
    if (pthread_create(&consumer, NULL, consume, NULL)) return 3;
    pthread_join(producer, NULL);
    pthread_join(consumer, NULL);
    printf("lines %zu\n", words * sizeof(uint64_t) / LINE * (size_t)rounds);
    return sum == 1;
}
