// LU factorisation without pivoting (the matrix is diagonally dominant), right-looking, the
// trailing rows shared out by OpenMP in each step. Usage: lu THREADS SCALE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 900 };

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = 10 * (argc > 2 ? atoi(argv[2]) : 1);
    double(*a)[N] = malloc(N * sizeof *a);
    double sum = 0;
    omp_set_num_threads(threads);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) a[i][j] = i == j ? 4.0 * N : (i * 31 + j * 17 + round) % 19;
        for (int k = 0; k < N - 1; k++) {
#pragma omp parallel for schedule(static)
            for (int i = k + 1; i < N; i++) {
                double factor = a[i][k] / a[k][k];
                a[i][k] = factor;
                for (int j = k + 1; j < N; j++) a[i][j] -= factor * a[k][j];
            }
        }
        for (int i = 0; i < N; i++) sum += a[i][i] + a[i][N - 1 - i];
    }
    printf("%.6f\n", sum);
    return 0;
}
