// Splash ocean: currents by red-black relaxation on grids of several sizes, rows shared out; after
// each sweep a barrier, and the largest change of all threads under a lock. Usage: ocean THREADS
// SCALE
#include "team.h"

enum { LEVELS = 5, FINEST = 258 };

static double *grid[LEVELS], *right[LEVELS], *wind;
static int side[LEVELS];
static pthread_mutex_t error_lock = PTHREAD_MUTEX_INITIALIZER;
static double error, last_error;

// One colour of the thread's rows; the largest change.
static double relax(int level, int p, int colour) {
    int n = side[level], first = 1 + share(n - 2, p), last = 1 + share(n - 2, p + 1);
    double most = 0;
    for (int i = first; i < last; i++) {
        double *row = grid[level] + i * n, *up = row - n, *down = row + n, *of = right[level] + i * n;
        for (int j = 1 + (i + colour) % 2; j < n - 1; j += 2) {
            double now = 0.25 * (row[j - 1] + row[j + 1] + up[j] + down[j] - of[j]);
            double change = fabs(now - row[j]);
            most = change > most ? change : most;
            row[j] += 1.15 * (now - row[j]);
        }
    }
    return most;
}

static void smooth(int level, int p, int sweeps) {
    for (int s = 0; s < sweeps; s++) {
        if (p == 0) error = 0;
        meet();
        double red = relax(level, p, 0);
        meet();
        double black = relax(level, p, 1), most = red > black ? red : black;
        pthread_mutex_lock(&error_lock);
        if (most > error) error = most;
        pthread_mutex_unlock(&error_lock);
        meet();
        if (p == 0) last_error = error;
    }
}

// What is left of the equation goes to the coarser grid, whose solution comes back.
static void restrict_to(int level, int p) {
    int n = side[level], m = side[level + 1], first = 1 + share(m - 2, p), last = 1 + share(m - 2, p + 1);
    for (int i = first; i < last; i++)
        for (int j = 1; j < m - 1; j++) {
            double *at = grid[level] + 2 * i * n + 2 * j;
            right[level + 1][i * m + j] =
                4 * (right[level][2 * i * n + 2 * j] - (at[-1] + at[1] + at[-n] + at[n] - 4 * at[0]));
            grid[level + 1][i * m + j] = 0;
        }
}

static void prolong_from(int level, int p) {
    int n = side[level - 1], m = side[level], first = 1 + share(n - 2, p), last = 1 + share(n - 2, p + 1);
    for (int i = first; i < last; i++)
        for (int j = 1; j < n - 1; j++) {
            double *of = grid[level] + i / 2 * m + j / 2;
            double one = j % 2 ? 0.5 * (of[0] + of[1]) : of[0];
            double other = i % 2 ? (j % 2 ? 0.5 * (of[m] + of[m + 1]) : of[m]) : one;
            grid[level - 1][i * n + j] += 0.25 * (one + other);
        }
}

static void *work(void *argument) {
    int p = (int)(intptr_t)argument, n = FINEST;
    for (int step = 0; step < 700 * scale; step++) {
        for (int i = 1 + share(n - 2, p); i < 1 + share(n - 2, p + 1); i++)
            for (int j = 1; j < n - 1; j++)
                right[0][i * n + j] = 0.9 * right[0][i * n + j] + 0.1 * wind[i * n + j] +
                                      0.01 * (grid[0][i * n + j + 1] - grid[0][(i - 1) * n + j]);
        meet();
        for (int level = 0; level < LEVELS - 1; level++) {
            smooth(level, p, 2);
            restrict_to(level, p);
            meet();
        }
        smooth(LEVELS - 1, p, 8);
        for (int level = LEVELS - 1; level > 0; level--) {
            prolong_from(level, p);
            meet();
            smooth(level - 1, p, 2);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    for (int level = 0; level < LEVELS; level++) {
        int n = side[level] = ((FINEST - 2) >> level) + 2;
        grid[level] = (double *)calloc((size_t)(n + 2) * (size_t)n, sizeof(double));
        right[level] = (double *)calloc((size_t)(n + 2) * (size_t)n, sizeof(double));
    }
    wind = (double *)calloc(FINEST * FINEST, sizeof *wind);
    for (int i = 0; i < FINEST * FINEST; i++) wind[i] = 1e-3 * (i % FINEST * 7 % 23 - 11);
    run_team(work);
    double sum = 0;
    for (int i = 0; i < FINEST * FINEST; i++) sum += grid[0][i] * grid[0][i];
    printf("%.8e %.8e\n", sum, last_error);
    return 0;
}
