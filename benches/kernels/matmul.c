// Matrix product, rows of the result shared out by OpenMP. Usage: matmul THREADS SCALE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 640 };

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = 12 * (argc > 2 ? atoi(argv[2]) : 1);
    double(*a)[N] = malloc(N * sizeof *a), (*b)[N] = malloc(N * sizeof *b);
    double(*c)[N] = calloc(N, sizeof *c);
    omp_set_num_threads(threads);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i][j] = (i + j) % 13 - 6, b[i][j] = (i * j) % 11 - 5;
    for (int round = 0; round < rounds; round++) {
#pragma omp parallel for schedule(static)
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++) {
                double factor = a[i][k] + round;
                for (int j = 0; j < N; j++) c[i][j] += factor * b[k][j];
            }
    }
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) sum += c[i][j] * ((i ^ j) % 7);
    printf("%.3f\n", sum);
    return 0;
}
