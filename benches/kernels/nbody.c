// Gravity between all pairs of bodies, structure of arrays, bodies shared out by OpenMP.
// Usage: nbody THREADS SCALE
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 2048 };

static double x[N], y[N], z[N], mass[N], vx[N], vy[N], vz[N];

static void accelerate(int i) {
    double ax = 0, ay = 0, az = 0;
    for (int j = 0; j < N; j++) {
        double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
        double square = dx * dx + dy * dy + dz * dz + 1e-3;
        double pull = mass[j] / (square * sqrt(square));
        ax += dx * pull, ay += dy * pull, az += dz * pull;
    }
    vx[i] += ax * 1e-3, vy[i] += ay * 1e-3, vz[i] += az * 1e-3;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2, steps = 70 * (argc > 2 ? atoi(argv[2]) : 1);
    omp_set_num_threads(threads);
    for (int i = 0; i < N; i++) {
        x[i] = i * 37 % 101, y[i] = i * 53 % 103, z[i] = i * 71 % 107;
        mass[i] = 1 + i % 3;
    }
    for (int step = 0; step < steps; step++) {
#pragma omp parallel
        {
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++) accelerate(i);
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++) x[i] += vx[i], y[i] += vy[i], z[i] += vz[i];
        }
    }
    double sum = 0;
    for (int i = 0; i < N; i++) sum += x[i] + y[i] + z[i];
    printf("%.9f\n", sum);
    return 0;
}
