// NAS LU: Gauss-Seidel sweeps over a three-dimensional grid of five unknowns, as a wavefront: a
// thread begins a plane of its share as soon as its neighbour's flag says that it is done with its
// own. Threads spin. Usage: wavefront THREADS SCALE
#include "team.h"
#include <stdatomic.h>

enum { N = 48, U = 5 };

static double grid[N][N][N][U], right[N][N][N][U];
static struct {
    _Atomic int planes;
    char pad[60];
} done[2][MAX_THREADS + 1];
static double change[MAX_THREADS];

static void relax(int k, int j, int i, int back) {
    int d = back ? 1 : -1;
    double *u = grid[k][j][i], *a = grid[k + d][j][i], *b = grid[k][j + d][i], *c = grid[k][j][i + d];
    double of[U], trace = 0;
    for (int m = 0; m < U; m++) {
        of[m] = right[k][j][i][m] + 0.3 * (a[m] + b[m] + c[m]);
        trace += of[m];
    }
    for (int m = 0; m < U; m++) u[m] += 0.8 * (of[m] / (1.2 + 0.02 * m) + 0.001 * trace - u[m]);
}

// Planes in order, upwards or back; rows of a plane are shared out, and the one before comes first.
static void sweep(int p, int round, int back) {
    int first = 1 + share(N - 2, p), last = 1 + share(N - 2, p + 1), before = back ? p + 1 : p - 1;
    int alone = before < 0 || before >= threads;
    for (int n = 1; n < N - 1; n++) {
        int k = back ? N - 1 - n : n;
        while (!alone && atomic_load_explicit(&done[back][before].planes, memory_order_acquire) <
                             round * N + n) {}
        for (int row = first; row < last; row++)
            for (int column = 1; column < N - 1; column++)
                relax(k, back ? first + last - 1 - row : row, back ? N - 1 - column : column, back);
        atomic_store_explicit(&done[back][p].planes, round * N + n, memory_order_release);
    }
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument, first = share(N, p), last = share(N, p + 1);
    for (int round = 0; round < 150 * scale; round++) {
        for (int k = 1; k < N - 1; k++)
            for (int j = first > 1 ? first : 1; j < last && j < N - 1; j++)
                for (int i = 1; i < N - 1; i++)
                    for (int m = 0; m < U; m++)
                        right[k][j][i][m] = 0.05 * (grid[k][j + 1][i][m] - 2 * grid[k][j][i][m] +
                                                    grid[k][j - 1][i][m]) + 0.001 * ((i + j + k) % 7);
        meet();
        sweep(p, round, 0);
        meet();
        sweep(p, round, 1);
        meet();
    }
    double sum = 0;
    for (int k = 1; k < N - 1; k++)
        for (int j = first; j < last; j++) sum += grid[k][j][N / 2][0];
    change[p] = sum;
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    for (int k = 0; k < N; k++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++)
                for (int m = 0; m < U; m++) grid[k][j][i][m] = 1 + 0.01 * ((i * j + k + m) % 11);
    run_team(work);
    double sum = 0;
    for (int p = 0; p < threads; p++) sum += change[p];
    printf("%.6f\n", sum);
    return 0;
}
