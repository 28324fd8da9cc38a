// A table that all threads look up without a lock, and a lock for the few that change its accounts:
// the lock lies beside the fields that every look-up reads.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct table {
    pthread_spinlock_t lock;
    int changes;
#ifdef FIXED
    size_t mask __attribute__((aligned(64)));
#else
    size_t mask;
#endif
    unsigned *keys;
};

static struct table table;
static long steps;

// Reads the table only.
static void *look_up(void *arg) {
    unsigned key = (unsigned)(size_t)arg;
    unsigned long sum = 0;
    for (long k = 0; k < steps; k++) {
        key = key * 1664525u + 1013904223u;
        size_t mask = *(volatile size_t *)&table.mask; // @look_up
        sum += table.keys[(key >> 8) & mask]; // @look_up
    }
    return (void *)sum;
}

// Keeps the accounts.
static void *account(void *arg) {
    (void)arg;
    for (long k = 0; k < steps; k++) {
        pthread_spin_lock(&table.lock); // @account
        table.changes++;                // @account
        pthread_spin_unlock(&table.lock); // @account
    }
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    steps = argc > 2 ? atol(argv[2]) : 15000000;
    size_t entries = 4096;
    table.mask = entries - 1;
    table.keys = malloc(entries * sizeof *table.keys);
    for (size_t k = 0; k < entries; k++)
        table.keys[k] = (unsigned)(k * 7);
    pthread_spin_init(&table.lock, 0);
    pthread_t ids[64];
    for (int k = 0; k < threads; k++)
        pthread_create(&ids[k], 0, k ? look_up : account, (void *)(size_t)k);
    unsigned long sum = 0;
    for (int k = 0; k < threads; k++) {
        void *result;
        pthread_join(ids[k], &result);
        sum += (unsigned long)result;
    }
    printf("%lu %d\n", sum, table.changes);
    free(table.keys);
    return 0;
}
