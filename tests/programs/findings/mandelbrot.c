// Nothing is wrong here: rows of a picture are computed independently, in blocks.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int iterations(double cx, double cy) {
    double x = 0, y = 0;
    int n = 0;
    for (; n < 200 && x * x + y * y < 4; n++) {
        double next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
    }
    return n;
}

int main(int argc, char **argv) {
    omp_set_num_threads(argc > 1 ? atoi(argv[1]) : 4);
    int size = argc > 2 ? atoi(argv[2]) : 1200;
    int *picture = malloc((size_t)size * (size_t)size * sizeof *picture);
#pragma omp parallel for schedule(dynamic, 8)
    for (int row = 0; row < size; row++)
        for (int column = 0; column < size; column++)
            picture[row * size + column] = iterations(3.0 * column / size - 2, 2.0 * row / size - 1);
    long sum = 0;
    for (long k = 0; k < (long)size * size; k++)
        sum += picture[k];
    printf("%ld\n", sum);
    free(picture);
    return 0;
}
