// 2D five-point Jacobi sweeps, rows shared out by OpenMP. Usage: stencil THREADS SCALE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1024 };

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2, steps = 1400 * (argc > 2 ? atoi(argv[2]) : 1);
    double(*from)[N] = calloc(N, sizeof *from), (*to)[N] = calloc(N, sizeof *to);
    omp_set_num_threads(threads);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) from[i][j] = to[i][j] = (i * 7 + j * 13) % 97;
    for (int step = 0; step < steps; step++) {
#pragma omp parallel for schedule(static)
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                to[i][j] = 0.2 * (from[i][j] + from[i - 1][j] + from[i + 1][j] + from[i][j - 1] +
                                  from[i][j + 1]);
        double(*swap)[N] = from;
        from = to, to = swap;
    }
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) sum += from[i][j];
    printf("%.6f\n", sum);
    return 0;
}
