// Smooths a short signal many times: each step is over at once, then all threads wait at a barrier.
// The other form takes many signals and gives each thread whole ones, without barriers.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 4096, SIGNALS = 8 };

static double signals[SIGNALS][LENGTH], next[SIGNALS][LENGTH];

static void smooth(long steps) {
#ifdef FIXED
#pragma omp parallel for schedule(static)
    for (int s = 0; s < SIGNALS; s++)
        for (long step = 0; step < steps; step++) {
            double *from = step % 2 ? next[s] : signals[s], *to = step % 2 ? signals[s] : next[s];
            for (int k = 1; k < LENGTH - 1; k++)
                to[k] = (from[k - 1] + from[k] + from[k + 1]) / 3;
        }
#else
#pragma omp parallel
    for (int s = 0; s < SIGNALS; s++)
        for (long step = 0; step < steps; step++) {
            double *from = step % 2 ? next[s] : signals[s], *to = step % 2 ? signals[s] : next[s];
#pragma omp for schedule(static)
            for (int k = 1; k < LENGTH - 1; k++)
                to[k] = (from[k - 1] + from[k] + from[k + 1]) / 3; // @smooth
        } // @smooth
#endif
}

int main(int argc, char **argv) {
    omp_set_num_threads(argc > 1 ? atoi(argv[1]) : 4);
    long steps = argc > 2 ? atol(argv[2]) : 20000;
    for (int s = 0; s < SIGNALS; s++)
        for (int k = 0; k < LENGTH; k++)
            signals[s][k] = next[s][k] = (double)((k * 7 + s) % 100);
    smooth(steps);
    double sum = 0;
    for (int s = 0; s < SIGNALS; s++)
        for (int k = 0; k < LENGTH; k++)
            sum += signals[s][k];
    printf("%.3f\n", sum);
    return 0;
}
