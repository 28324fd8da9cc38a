// A Jacobi sweep over a 2D grid with known truth: a five-point stencil on two arrays in turn, the
// grid cut into GX x GY tiles of ROWS x COLUMNS numbers, one thread each (threads 1 to GX*GY, row
// by row). Tile rows are whole pages, so that no memory block up to 4096 bytes has two writers.
//
// A thread reads, in each step, its neighbours' border as it was written in the step before: above
// and below one tile row, COLUMNS*8/BLOCK blocks; left and right one number in each of ROWS blocks.
// From the second step on it also overwrites what those neighbours have read.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int gx, gy, rows, columns, steps;
static size_t stride; // numbers in a row of the whole grid
static double *grids[2];
static pthread_barrier_t barrier;
static double sums[256];

static void sweep(const double *from, double *to, int row, int column) {
    int height = gy * rows, width = gx * columns;
    for (int y = row; y < row + rows; y++) {
        // At the edge of the world a number is its own neighbour.
        const double *here = from + (size_t)y * stride;
        const double *above = y > 0 ? here - stride : here;
        const double *below = y < height - 1 ? here + stride : here;
        double *out = to + (size_t)y * stride;
        for (int x = column; x < column + columns; x++) {
            double left = x > 0 ? here[x - 1] : here[x];
            double right = x < width - 1 ? here[x + 1] : here[x];
            out[x] = 0.2 * (here[x] + left + right + above[x] + below[x]);
        }
    }
}

static void *worker(void *argument) {
    int p = (int)(intptr_t)argument, row = p / gx * rows, column = p % gx * columns;
    for (int y = row; y < row + rows; y++)
        for (int x = column; x < column + columns; x++)
            grids[0][(size_t)y * stride + (size_t)x] = (double)((x * 31 + y * 17) % 101);
    for (int step = 0; step < steps; step++) {
        pthread_barrier_wait(&barrier);
        sweep(grids[step % 2], grids[(step + 1) % 2], row, column);
    }
    double sum = 0;
    for (int y = row; y < row + rows; y++)
        for (int x = column; x < column + columns; x++)
            sum += grids[steps % 2][(size_t)y * stride + (size_t)x];
    sums[p] = sum;
    return NULL;
}

static void expect(int from, int to, long blocks) {
    printf("expect raw %d %d %ld\n", from + 1, to + 1, blocks * steps);
    if (steps > 1) printf("expect invalidation %d %d %ld\n", from + 1, to + 1, blocks * (steps - 1));
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: %s GX GY ROWS COLUMNS STEPS BLOCK_BYTES\n", argv[0]);
        return 2;
    }
    gx = atoi(argv[1]), gy = atoi(argv[2]), rows = atoi(argv[3]), columns = atoi(argv[4]);
    steps = atoi(argv[5]);
    long block = atol(argv[6]);
    if (gx < 1 || gy < 1 || gx * gy > 256 || columns % 512 || rows < 1 || steps < 1) {
        fprintf(stderr, "at most 256 tiles, columns a multiple of 512\n");
        return 2;
    }
    stride = (size_t)gx * (size_t)columns;
    size_t bytes = stride * (size_t)(gy * rows) * 8;
    grids[0] = aligned_alloc(4096, bytes), grids[1] = aligned_alloc(4096, bytes);
    if (!grids[0] || !grids[1]) return 3;
    pthread_t threads[256];
    pthread_barrier_init(&barrier, NULL, (unsigned)(gx * gy));
    for (int p = 0; p < gx * gy; p++)
        if (pthread_create(&threads[p], NULL, worker, (void *)(intptr_t)p)) return 3;
    for (int p = 0; p < gx * gy; p++) pthread_join(threads[p], NULL);
    for (int p = 0; p < gx * gy; p++) {
        printf("checksum %d %.6f\n", p, sums[p]);
        if (p % gx > 0) expect(p - 1, p, rows);
        if (p % gx < gx - 1) expect(p + 1, p, rows);
        if (p / gx > 0) expect(p - gx, p, (long)columns * 8 / block);
        if (p / gx < gy - 1) expect(p + gx, p, (long)columns * 8 / block);
    }
    return 0;
}
