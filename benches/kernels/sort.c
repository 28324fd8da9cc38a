// Radix sort by shared histograms: each pthread counts its part, all threads read all counts, then
// each scatters its part. Usage: sort THREADS SCALE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20, DIGITS = 256, MAX_THREADS = 64 };

static int threads, rounds;
static uint32_t *keys, *other;
static uint32_t counts[MAX_THREADS][DIGITS];
static pthread_barrier_t barrier;

static void pass(uint32_t *from, uint32_t *to, int shift, int p) {
    int first = (int)((int64_t)N * p / threads), last = (int)((int64_t)N * (p + 1) / threads);
    uint32_t place[DIGITS];
    for (int d = 0; d < DIGITS; d++) counts[p][d] = 0;
    for (int i = first; i < last; i++) counts[p][from[i] >> shift & 255]++;
    pthread_barrier_wait(&barrier);
    uint32_t at = 0;
    for (int d = 0; d < DIGITS; d++)
        for (int t = 0; t < threads; t++) {
            if (t == p) place[d] = at;
            at += counts[t][d];
        }
    for (int i = first; i < last; i++) to[place[from[i] >> shift & 255]++] = from[i];
    pthread_barrier_wait(&barrier);
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        int first = (int)((int64_t)N * p / threads), last = (int)((int64_t)N * (p + 1) / threads);
        for (int i = first; i < last; i++) keys[i] = (uint32_t)(i + round) * 2654435761u;
        pthread_barrier_wait(&barrier);
        for (int shift = 0; shift < 32; shift += 16) {
            pass(keys, other, shift, p);
            pass(other, keys, shift + 8, p);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    threads = argc > 1 ? atoi(argv[1]) : 2, rounds = 20 * (argc > 2 ? atoi(argv[2]) : 1);
    if (threads < 1 || threads > MAX_THREADS) return 2;
    keys = malloc(N * sizeof *keys), other = malloc(N * sizeof *other);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    pthread_t ids[MAX_THREADS];
    for (int p = 0; p < threads; p++) pthread_create(&ids[p], NULL, work, (void *)(intptr_t)p);
    for (int p = 0; p < threads; p++) pthread_join(ids[p], NULL);
    uint64_t sum = 0;
    int sorted = 1;
    for (int i = 0; i < N; i++) {
        sum = sum * 31 + keys[i];
        sorted &= i == 0 || keys[i - 1] <= keys[i];
    }
    printf("%d %016llx\n", sorted, (unsigned long long)sum);
    return 0;
}
