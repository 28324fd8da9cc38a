// Producers and consumers as real programs have them: a bounded queue under a mutex and two
// condition variables for each pair. Item K of a pair travels through slot K mod SLOTS; the
// producer writes every word of it, the consumer reads every word once. The initial thread starts
// pair i's producer as thread 2i+1 and its consumer as thread 2i+2.
//
// The items' events are exact; the queue itself adds a few lines per item in both directions.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 4 };

typedef struct {
    _Alignas(4096) uint64_t *slots[SLOTS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int produced, consumed;
    _Alignas(4096) uint64_t sum;
} Queue;

static int items;
static size_t words;

static void *produce(void *argument) {
    Queue *queue = argument;
    for (int item = 0; item < items; item++) {
        pthread_mutex_lock(&queue->lock);
        while (queue->produced - queue->consumed == SLOTS)
            pthread_cond_wait(&queue->changed, &queue->lock);
        pthread_mutex_unlock(&queue->lock);
        uint64_t *slot = queue->slots[item % SLOTS];
        for (size_t i = 0; i < words; i++) slot[i] = (uint64_t)item + i;
        pthread_mutex_lock(&queue->lock);
        queue->produced++;
        pthread_cond_signal(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

static void *consume(void *argument) {
    Queue *queue = argument;
    uint64_t sum = 0;
    for (int item = 0; item < items; item++) {
        pthread_mutex_lock(&queue->lock);
        while (queue->produced == queue->consumed)
            pthread_cond_wait(&queue->changed, &queue->lock);
        pthread_mutex_unlock(&queue->lock);
        const uint64_t *slot = queue->slots[item % SLOTS];
        for (size_t i = 0; i < words; i++) sum += slot[i];
        pthread_mutex_lock(&queue->lock);
        queue->consumed++;
        pthread_cond_signal(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
    }
    queue->sum = sum;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s PAIRS ITEMS ITEM_KIB BLOCK_BYTES\n", argv[0]);
        return 2;
    }
    int pairs = atoi(argv[1]);
    items = atoi(argv[2]);
    size_t bytes = (size_t)atoi(argv[3]) * 1024;
    long blocks = (long)bytes / atol(argv[4]);
    if (pairs < 1 || pairs > 64 || items <= SLOTS || bytes % 4096) {
        fprintf(stderr, "1 to 64 pairs, more than %d items, items of whole pages\n", SLOTS);
        return 2;
    }
    words = bytes / 8;
    static Queue queues[64];
    pthread_t threads[128];
    for (int i = 0; i < pairs; i++) {
        for (int slot = 0; slot < SLOTS; slot++)
            if (!(queues[i].slots[slot] = aligned_alloc(4096, bytes))) return 3;
        pthread_mutex_init(&queues[i].lock, NULL);
        pthread_cond_init(&queues[i].changed, NULL);
        if (pthread_create(&threads[2 * i], NULL, produce, &queues[i])) return 3;
        if (pthread_create(&threads[2 * i + 1], NULL, consume, &queues[i])) return 3;
    }
    for (int i = 0; i < 2 * pairs; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < pairs; i++) {
        printf("checksum %d %llu\n", i, (unsigned long long)queues[i].sum);
        printf("expect raw %d %d %ld\n", 2 * i + 1, 2 * i + 2, items * blocks);
        printf("expect invalidation %d %d %ld\n", 2 * i + 1, 2 * i + 2, (items - SLOTS) * blocks);
    }
    return 0;
}
