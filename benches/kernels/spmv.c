// Sparse matrix times vector (CSR, about 16 entries a row at random), repeated as a power
// iteration; rows shared out by OpenMP. Usage: spmv THREADS SCALE
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 60000, PER_ROW = 16 };

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = 1500 * (argc > 2 ? atoi(argv[2]) : 1);
    int *start = malloc((ROWS + 1) * sizeof *start);
    int *column = malloc(sizeof *column * ROWS * PER_ROW);
    double *value = malloc(sizeof *value * ROWS * PER_ROW);
    double *x = malloc(ROWS * sizeof *x), *y = malloc(ROWS * sizeof *y);
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < ROWS; i++) {
        start[i] = i * PER_ROW;
        x[i] = 1.0;
        for (int k = 0; k < PER_ROW; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            // Mostly near the diagonal, as matrices of real meshes are.
            int far = state % 8 == 0, spread = far ? ROWS : 512;
            column[i * PER_ROW + k] = (int)((uint64_t)i + (state >> 20) % (uint64_t)spread) % ROWS;
            value[i * PER_ROW + k] = (double)(state >> 40) / (1 << 24) / 8;
        }
    }
    start[ROWS] = ROWS * PER_ROW;
    omp_set_num_threads(threads);
    for (int round = 0; round < rounds; round++) {
#pragma omp parallel for schedule(static)
        for (int i = 0; i < ROWS; i++) {
            double sum = 0;
            for (int k = start[i]; k < start[i + 1]; k++) sum += value[k] * x[column[k]];
            y[i] = sum > 1e3 ? sum * 1e-3 : sum;
        }
        double *swap = x;
        x = y, y = swap;
    }
    double sum = 0;
    for (int i = 0; i < ROWS; i++) sum += x[i];
    printf("%.9g\n", sum);
    return 0;
}
