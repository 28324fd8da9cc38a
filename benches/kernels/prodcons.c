// Producers hand messages to consumers through a bounded queue under a mutex; both work a little on
// each. Half of the pthreads produce, half consume. Usage: prodcons THREADS SCALE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 16, WORDS = 2048, MAX_PAIRS = 32 };

typedef struct {
    uint64_t slot[SLOTS][WORDS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int produced, consumed;
    uint64_t sum;
} Queue;

static int messages;

static void *produce(void *argument) {
    Queue *queue = argument;
    for (int m = 0; m < messages; m++) {
        pthread_mutex_lock(&queue->lock);
        while (queue->produced - queue->consumed == SLOTS)
            pthread_cond_wait(&queue->changed, &queue->lock);
        pthread_mutex_unlock(&queue->lock);
        uint64_t *slot = queue->slot[m % SLOTS], value = (uint64_t)m + 1;
        for (int i = 0; i < WORDS; i++) {
            value = value * 6364136223846793005u + 1442695040888963407u;
            slot[i] = value >> 20;
        }
        pthread_mutex_lock(&queue->lock);
        queue->produced++;
        pthread_cond_signal(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

static void *consume(void *argument) {
    Queue *queue = argument;
    for (int m = 0; m < messages; m++) {
        pthread_mutex_lock(&queue->lock);
        while (queue->produced == queue->consumed)
            pthread_cond_wait(&queue->changed, &queue->lock);
        pthread_mutex_unlock(&queue->lock);
        uint64_t *slot = queue->slot[m % SLOTS], sum = queue->sum;
        for (int i = 0; i < WORDS; i++) sum = (sum ^ slot[i]) * 1099511628211u;
        queue->sum = sum;
        pthread_mutex_lock(&queue->lock);
        queue->consumed++;
        pthread_cond_signal(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2, pairs = threads > 1 ? threads / 2 : 1;
    messages = 200000 * (argc > 2 ? atoi(argv[2]) : 1) / pairs;
    if (pairs > MAX_PAIRS) return 2;
    Queue *queues = aligned_alloc(64, sizeof *queues * (size_t)pairs);
    pthread_t ids[2 * MAX_PAIRS];
    for (int p = 0; p < pairs; p++) {
        pthread_mutex_init(&queues[p].lock, NULL);
        pthread_cond_init(&queues[p].changed, NULL);
        queues[p].produced = queues[p].consumed = 0, queues[p].sum = 0;
        pthread_create(&ids[2 * p], NULL, produce, &queues[p]);
        pthread_create(&ids[2 * p + 1], NULL, consume, &queues[p]);
    }
    for (int p = 0; p < 2 * pairs; p++) pthread_join(ids[p], NULL);
    uint64_t sum = 0;
    for (int p = 0; p < pairs; p++) sum += queues[p].sum;
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
