// NAS FT: Fourier transforms of a three-dimensional array along each of its sides, through a buffer
// of each thread; along the last side every thread reads what all have written. Usage: ft THREADS
// SCALE
#include "team.h"
#include <complex.h>
#include <omp.h>

enum { NX = 64, NY = 64, NZ = 64, BLOCK = 16, MAX = 64 };
typedef double complex Complex;

static Complex grid[NZ][NY][NX], waves[NZ][NY][NX], roots[MAX];
static double decay[NZ][NY][NX];

// A row of n numbers, in place: bits reversed, then butterflies.
static void transform(Complex *row, int n, int forward) {
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j |= bit;
        if (i < j) {
            Complex swap = row[i];
            row[i] = row[j], row[j] = swap;
        }
    }
    for (int half = 1; half < n; half *= 2)
        for (int i = 0; i < n; i += 2 * half)
            for (int k = 0; k < half; k++) {
                Complex root = roots[k * (MAX / 2 / half)];
                double re = creal(root), im = forward ? cimag(root) : -cimag(root);
                double a = creal(row[i + half + k]), b = cimag(row[i + half + k]);
                Complex other = CMPLX(a * re - b * im, a * im + b * re), one = row[i + k];
                row[i + k] = one + other, row[i + half + k] = one - other;
            }
}

// Rows of n numbers that lie `stride` apart; BLOCK of them side by side go through the buffer.
static void transform_block(Complex *first, int n, int stride, int forward) {
    Complex buffer[BLOCK][MAX];
    for (int i = 0; i < n; i++)
        for (int k = 0; k < BLOCK; k++) buffer[k][i] = first[i * stride + k];
    for (int k = 0; k < BLOCK; k++) transform(buffer[k], n, forward);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < BLOCK; k++) first[i * stride + k] = buffer[k][i];
}

static void transform_all(Complex (*a)[NY][NX], int forward) {
#pragma omp parallel
    {
#pragma omp for
        for (int z = 0; z < NZ; z++)
            for (int y = 0; y < NY; y++) transform(a[z][y], NX, forward);
#pragma omp for
        for (int z = 0; z < NZ; z++)
            for (int x = 0; x < NX; x += BLOCK) transform_block(&a[z][0][x], NY, NX, forward);
#pragma omp for
        for (int y = 0; y < NY; y++)
            for (int x = 0; x < NX; x += BLOCK) transform_block(&a[0][y][x], NZ, NX * NY, forward);
    }
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    omp_set_num_threads(threads);
    for (int k = 0; k < MAX; k++) roots[k] = cexp(-2 * M_PI * I * k / MAX);
    uint64_t state = 271828183;
    for (int z = 0; z < NZ; z++)
        for (int y = 0; y < NY; y++)
            for (int x = 0; x < NX; x++) {
                waves[z][y][x] = CMPLX(next_unit(&state), next_unit(&state));
                decay[z][y][x] = exp(-1e-4 * (x * x + y * y + z * z));
            }
    transform_all(waves, 1);
    for (int step = 1; step <= 50 * scale; step++) {
#pragma omp parallel for
        for (int z = 0; z < NZ; z++)
            for (int y = 0; y < NY; y++)
                for (int x = 0; x < NX; x++) {
                    waves[z][y][x] *= decay[z][y][x];
                    grid[z][y][x] = waves[z][y][x];
                }
        transform_all(grid, 0);
        Complex sum = 0;
        for (int k = 1; k <= 1024; k++) sum += grid[5 * k % NZ][3 * k % NY][k % NX];
        if (step % 25 == 0) printf("%.4f %.4f\n", creal(sum), cimag(sum));
    }
    return 0;
}
