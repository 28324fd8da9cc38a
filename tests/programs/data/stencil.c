// A five-point stencil on two grids that the initial thread fills: each thread works on its own
// rows, so that half of the pages lie on the wrong node where they are touched first.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS = 512, THREADS = 4 };
static int rows, steps;
static double *from, *to;
static double weights[COLUMNS * 16];
static pthread_barrier_t barrier;

static double *make_grid(int count) {
    double *grid = malloc((size_t)count * COLUMNS * sizeof *grid);
    for (int i = 0; i < count * COLUMNS; i++)
        grid[i] = i % 17;
    return grid;
}

static void *work(void *argument) {
    int thread = (int)(long)argument;
    int first = rows / THREADS * thread + (thread == 0);
    int end = rows / THREADS * (thread + 1) - (thread == THREADS - 1);
    double *a = from, *b = to;
    for (int step = 0; step < steps; step++) {
        for (int r = first; r < end; r++)
            for (int c = 1; c < COLUMNS - 1; c++) {
                int i = r * COLUMNS + c;
                b[i] = weights[i % (COLUMNS * 16)] *
                       (a[i] + a[i - 1] + a[i + 1] + a[i - COLUMNS] + a[i + COLUMNS]);
            }
        pthread_barrier_wait(&barrier);
        double *swap = a;
        a = b;
        b = swap;
    }
    return NULL;
}

int main(int count, char **arguments) {
    rows = count > 1 ? atoi(arguments[1]) : 256;
    steps = count > 2 ? atoi(arguments[2]) : 4;
    for (int i = 0; i < COLUMNS * 16; i++)
        weights[i] = 0.2;
    from = make_grid(rows);
    to = make_grid(rows);
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t threads[THREADS];
    for (long t = 1; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *)t);
    work(NULL);
    for (int t = 1; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    double sum = 0;
    for (int i = 0; i < rows * COLUMNS; i++)
        sum += from[i];
    printf("sum %.3f\n", sum);
    free(from);
    free(to);
    return 0;
}
