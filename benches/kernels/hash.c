// A hash table that all pthreads fill and look up at once: open addressing, compare-and-swap to
// claim a slot, atomic addition to count. Usage: hash THREADS SCALE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 1 << 18, KEYS = 100000, MAX_THREADS = 64 };

typedef struct {
    _Atomic uint64_t key, count;
} Slot;

static Slot *table;
static int threads, operations;
static uint64_t found[MAX_THREADS];

static Slot *slot_of(uint64_t key) {
    uint64_t at = key * 0x9e3779b97f4a7c15u >> 46;
    for (;; at = (at + 1) % SLOTS) {
        uint64_t there = atomic_load_explicit(&table[at].key, memory_order_acquire);
        if (there == key) return &table[at];
        if (there == 0 && atomic_compare_exchange_strong(&table[at].key, &there, key))
            return &table[at];
        if (there == key) return &table[at];
    }
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument;
    uint64_t state = 0x2545f4914f6cdd1du * (uint64_t)(p + 1), hits = 0;
    for (int i = p; i < operations; i += threads) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        Slot *slot = slot_of(state % KEYS + 1);
        if (state >> 62) hits += atomic_load_explicit(&slot->key, memory_order_relaxed) != 0;
        else atomic_fetch_add_explicit(&slot->count, 1, memory_order_relaxed);
    }
    found[p] = hits;
    return NULL;
}

int main(int argc, char **argv) {
    threads = argc > 1 ? atoi(argv[1]) : 2;
    operations = 140000000 * (argc > 2 ? atoi(argv[2]) : 1);
    if (threads < 1 || threads > MAX_THREADS) return 2;
    table = calloc(SLOTS, sizeof *table);
    pthread_t ids[MAX_THREADS];
    for (int p = 0; p < threads; p++) pthread_create(&ids[p], NULL, work, (void *)(intptr_t)p);
    uint64_t hits = 0, total = 0;
    for (int p = 0; p < threads; p++) {
        pthread_join(ids[p], NULL);
        hits += found[p];
    }
    for (int i = 0; i < SLOTS; i++) total += atomic_load(&table[i].count) * atomic_load(&table[i].key);
    printf("%llu %llu\n", (unsigned long long)hits, (unsigned long long)total);
    return 0;
}
