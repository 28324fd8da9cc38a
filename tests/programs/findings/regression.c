// Linear regression over points; the sums of each thread are as large as a cache line, but malloc
// aligns the array to 16 bytes only, so that each element lies on two lines.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sums {
    const char *points; // x and y of each
    long count, rounds;
    long long sx, sy, sxx, syy, sxy;
};

static void *regress(void *arg) {
    struct sums *s = arg;
    for (long round = 0; round < s->rounds; round++)
        for (long k = 0; k < s->count; k++) { // @sum
            const char *point = s->points + 2 * k; // @sum
            s->sx += point[0];             // @sum
            s->sxx += point[0] * point[0]; // @sum
            s->sy += point[1];             // @sum
            s->syy += point[1] * point[1]; // @sum
            s->sxy += point[0] * point[1]; // @sum
        }
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    long rounds = argc > 2 ? atol(argv[2]) : 100;
    long count = 1 << 18;
    char *points = malloc(2 * (size_t)count);
    for (long k = 0; k < count; k++) {
        points[2 * k] = (char)(k % 100);
        points[2 * k + 1] = (char)(k % 90 + k % 7);
    }
#ifdef FIXED
    struct sums *sums = aligned_alloc(64, (size_t)threads * sizeof *sums);
#else
    struct sums *sums = malloc((size_t)threads * sizeof *sums); // @alloc
#endif
    memset(sums, 0, (size_t)threads * sizeof *sums);
    pthread_t ids[64];
    for (int k = 0; k < threads; k++) {
        sums[k].points = points + 2 * (count / threads * k);
        sums[k].count = count / threads;
        sums[k].rounds = rounds;
        pthread_create(&ids[k], 0, regress, &sums[k]);
    }
    long long sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
    for (int k = 0; k < threads; k++) {
        pthread_join(ids[k], 0);
        sx += sums[k].sx;
        sy += sums[k].sy;
        sxx += sums[k].sxx;
        syy += sums[k].syy;
        sxy += sums[k].sxy;
    }
    printf("%lld %lld %lld %lld %lld\n", sx, sy, sxx, syy, sxy);
    free(sums);
    free(points);
    return 0;
}
