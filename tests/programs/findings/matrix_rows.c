// Sums up images into rows of a result, row by row in turn to each thread. Rows of 10 doubles share
// their border lines.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 10 };
#ifdef FIXED
enum { STRIDE = 16 };
#else
enum { STRIDE = COLUMNS };
#endif

static double *result;
static int threads, rows;
static long rounds;

static void add_to_row(double *row, double weight) {
    for (int c = 0; c < COLUMNS; c++)
        row[c] += weight * c; // @add
}

static void *accumulate(void *arg) {
    int self = (int)(size_t)arg;
    for (long round = 0; round < rounds; round++)
        for (int r = self; r < rows; r += threads)
            add_to_row(result + (size_t)r * STRIDE, 0.5 + (double)(round % 3));
    return 0;
}

int main(int argc, char **argv) {
    threads = argc > 1 ? atoi(argv[1]) : 4;
    rounds = argc > 2 ? atol(argv[2]) : 2000000;
    rows = 4 * threads;
    size_t bytes = (size_t)rows * STRIDE * sizeof(double);
    result = aligned_alloc(64, (bytes + 63) / 64 * 64); // @alloc
    memset(result, 0, bytes);
    pthread_t ids[64];
    for (int k = 0; k < threads; k++)
        pthread_create(&ids[k], 0, accumulate, (void *)(size_t)k);
    for (int k = 0; k < threads; k++)
        pthread_join(ids[k], 0);
    double sum = 0;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < COLUMNS; c++)
            sum += result[r * STRIDE + c];
    printf("%.1f\n", sum);
    free(result);
    return 0;
}
