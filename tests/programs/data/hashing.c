// A hash table that the initial thread fills: each thread owns a part of the buckets, and the
// entries in them, which are small blocks.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, PARTS = 4 };

struct entry {
    struct entry *next;
    unsigned key, count;
    char text[1000];
};

static struct entry **buckets;
static unsigned all;
static int rounds;

static struct entry *make_entry(unsigned key) {
    struct entry *entry = malloc(sizeof *entry);
    entry->key = key;
    entry->count = 0;
    memset(entry->text, 'x', sizeof entry->text);
    return entry;
}

static void *count(void *argument) {
    unsigned part = (unsigned)(long)argument;
    unsigned first = all / PARTS * part, end = all / PARTS * (part + 1);
    for (int round = 0; round < rounds; round++)
        for (unsigned b = first; b < end; b++)
            for (struct entry *e = buckets[b]; e; e = e->next)
                for (unsigned i = 0; i < sizeof e->text; i += 8)
                    e->count += (unsigned)e->text[i];
    return NULL;
}

int main(int count_of_arguments, char **arguments) {
    all = count_of_arguments > 1 ? (unsigned)atoi(arguments[1]) : 16384;
    rounds = count_of_arguments > 2 ? atoi(arguments[2]) : 4;
    buckets = calloc(all, sizeof *buckets);
    for (unsigned key = 0; key < all; key += 8) {
        struct entry *entry = make_entry(key);
        entry->next = buckets[key];
        buckets[key] = entry;
    }
    pthread_t threads[THREADS];
    for (long t = 1; t < THREADS; t++)
        pthread_create(&threads[t], NULL, count, (void *)t);
    count(NULL);
    for (int t = 1; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    unsigned long sum = 0;
    for (unsigned b = 0; b < all; b++)
        for (struct entry *e = buckets[b]; e; e = e->next)
            sum += e->count;
    printf("sum %lu\n", sum);
    return 0;
}
