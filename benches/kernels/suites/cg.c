// NAS CG: conjugate gradients on a sparse matrix with random columns. Rows, vectors and sums are
// shared out by OpenMP. Usage: cg THREADS SCALE
#include "team.h"
#include <omp.h>

enum { N = 14000, PER_ROW = 24 };

static int starts[N + 1], columns[N * PER_ROW];
static double values[N * PER_ROW], x[N], z[N], p[N], q[N], r[N];

static void make_matrix(void) {
    uint64_t state = 314159265;
    for (int i = 0; i < N; i++) {
        starts[i + 1] = starts[i] + PER_ROW;
        for (int k = 0; k < PER_ROW; k++) {
            columns[starts[i] + k] = k ? (int)(next_random(&state) % N) : i;
            values[starts[i] + k] = k ? next_unit(&state) / PER_ROW : 1.5 + 0.01 * i;
        }
    }
}

// Twenty-five steps from zero; the residual's norm.
static double solve(void) {
    double rho = 0, residual = 0, along = 0;
#pragma omp parallel
    {
#pragma omp for reduction(+ : rho)
        for (int i = 0; i < N; i++) {
            q[i] = z[i] = 0;
            r[i] = p[i] = x[i];
            rho += r[i] * r[i];
        }
        for (int step = 0; step < 25; step++) {
#pragma omp single
            along = 0;
#pragma omp for reduction(+ : along)
            for (int i = 0; i < N; i++) {
                double sum = 0;
                for (int k = starts[i]; k < starts[i + 1]; k++) sum += values[k] * p[columns[k]];
                q[i] = sum;
                along += p[i] * sum;
            }
            double alpha = rho / along, before = rho;
#pragma omp barrier
#pragma omp single
            rho = 0;
#pragma omp for reduction(+ : rho)
            for (int i = 0; i < N; i++) {
                z[i] += alpha * p[i];
                r[i] -= alpha * q[i];
                rho += r[i] * r[i];
            }
            double beta = rho / before;
#pragma omp for
            for (int i = 0; i < N; i++) p[i] = r[i] + beta * p[i];
        }
#pragma omp for reduction(+ : residual)
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int k = starts[i]; k < starts[i + 1]; k++) sum += values[k] * z[columns[k]];
            residual += (x[i] - sum) * (x[i] - sum);
        }
    }
    return sqrt(residual);
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    omp_set_num_threads(threads);
    make_matrix();
    for (int i = 0; i < N; i++) x[i] = 1;
    double residual = 0, norm = 0, dot = 1;
    for (int round = 0; round < 50 * scale; round++) {
        residual = solve();
        norm = dot = 0;
#pragma omp parallel for reduction(+ : norm, dot)
        for (int i = 0; i < N; i++) {
            norm += z[i] * z[i];
            dot += x[i] * z[i];
        }
        norm = 1 / sqrt(norm);
#pragma omp parallel for
        for (int i = 0; i < N; i++) x[i] = norm * z[i];
    }
    printf("%.6f %d\n", 1 / dot, isfinite(residual));
    return 0;
}
