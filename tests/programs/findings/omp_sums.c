// A dot product whose partial sums are kept in an array, one element for each OpenMP thread.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static double dot(const double *a, const double *b, long length, long rounds, double *sum) {
    double all = 0;
#ifdef FIXED
    (void)sum;
#pragma omp parallel reduction(+ : all)
    for (long round = 0; round < rounds; round++)
#pragma omp for
        for (long k = 0; k < length; k++)
            all += a[k] * b[k];
#else
#pragma omp parallel
    {
        int self = omp_get_thread_num();
        for (long round = 0; round < rounds; round++)
#pragma omp for
            for (long k = 0; k < length; k++)
                sum[self] += a[k] * b[k]; // @add
    }
    for (int k = 0; k < omp_get_max_threads(); k++)
        all += sum[k];
#endif
    return all;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    long rounds = argc > 2 ? atol(argv[2]) : 100, length = 1000000;
    omp_set_num_threads(threads);
    double *a = malloc((size_t)length * sizeof *a), *b = malloc((size_t)length * sizeof *b);
    for (long k = 0; k < length; k++) {
        a[k] = (double)(k % 17);
        b[k] = (double)(k % 5);
    }
    double *sum = calloc((size_t)threads, sizeof *sum); // @alloc
    printf("%.0f\n", dot(a, b, length, rounds, sum));
    free(sum);
    free(a);
    free(b);
    return 0;
}
