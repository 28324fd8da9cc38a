// NAS IS: integers ranked by buckets. Each thread counts its keys by bucket, moves them to its part
// of each bucket, and ranks whole buckets, whichever comes next, in a shared array of counts.
// Usage: is THREADS SCALE
#include "team.h"
#include <omp.h>

enum { KEYS = 1 << 21, MAX_KEY = 1 << 17, BUCKETS = 1 << 10, SHIFT = 7 };

static int keys[KEYS], sorted[KEYS], rank_of[MAX_KEY];
static int counts[MAX_THREADS][BUCKETS], starts[MAX_THREADS][BUCKETS], ends[BUCKETS];

static void make_keys(void) {
#pragma omp parallel
    {
        uint64_t state = 88172645463325252u + (uint64_t)omp_get_thread_num() * 7919;
#pragma omp for schedule(static)
        for (int i = 0; i < KEYS; i++) { // the sum of four, so that the middle is frequent
            double sum = 0;
            for (int k = 0; k < 4; k++) sum += next_unit(&state);
            keys[i] = (int)(sum * MAX_KEY / 4);
        }
    }
}

static void rank(int round) {
    keys[round] = round;
    keys[round + 100] = MAX_KEY - 1 - round;
#pragma omp parallel
    {
        int me = omp_get_thread_num(), team = omp_get_num_threads(), *count = counts[me];
        int *at = starts[me];
        for (int b = 0; b < BUCKETS; b++) count[b] = 0;
#pragma omp for schedule(static)
        for (int i = 0; i < KEYS; i++) count[keys[i] >> SHIFT]++;
        int before = 0;
        for (int b = 0; b < BUCKETS; b++) {
            at[b] = before;
            for (int t = 0; t < me; t++) at[b] += counts[t][b];
            for (int t = 0; t < team; t++) before += counts[t][b];
            if (me == 0) ends[b] = before;
        }
#pragma omp for schedule(static)
        for (int i = 0; i < KEYS; i++) sorted[at[keys[i] >> SHIFT]++] = keys[i];
#pragma omp for schedule(dynamic)
        for (int b = 0; b < BUCKETS; b++) {
            int first = b << SHIFT, last = (b + 1) << SHIFT, start = b ? ends[b - 1] : 0;
            for (int k = first; k < last; k++) rank_of[k] = 0;
            for (int i = start; i < ends[b]; i++) rank_of[sorted[i]]++;
            rank_of[first] += start;
            for (int k = first + 1; k < last; k++) rank_of[k] += rank_of[k - 1];
        }
    }
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    omp_set_num_threads(threads);
    make_keys();
    uint64_t sum = 0;
    for (int round = 1; round <= 40 * scale; round++) {
        rank(round % 50);
        for (int k = 0; k < 5; k++) sum = sum * 31 + (uint64_t)rank_of[MAX_KEY / 7 * (k + 1)];
    }
    printf("%d %016llx\n", rank_of[MAX_KEY - 1], (unsigned long long)sum);
    return rank_of[MAX_KEY - 1] != KEYS;
}
