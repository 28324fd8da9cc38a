// Many small allocations, from several places: per thread a queue of blocks of some hundred bytes,
// each written and freed again a few hundred allocations later.
//
// Arguments: threads, scale.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 256 };

__attribute__((noinline)) static char *node(size_t bytes) { return malloc(bytes); }
__attribute__((noinline)) static char *text(size_t bytes) { return calloc(1, bytes); }
__attribute__((noinline)) static char *grown(char *block, size_t bytes) { return realloc(block, bytes); }

static unsigned long work(unsigned long state, long allocations) {
    char *kept[KEPT] = {0};
    unsigned long sum = 0;
    for (long k = 0; k < allocations; k++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        size_t bytes = 16 + (state >> 33) % 200;
        char **at = &kept[(state >> 48) % KEPT];
        if (k % 16 == 0) {
            *at = grown(*at, bytes);
        } else {
            free(*at);
            *at = k % 3 ? node(bytes) : text(bytes);
        }
        memset(*at, (int)k, bytes);
        sum += (unsigned char)(*at)[bytes / 2];
    }
    for (int k = 0; k < KEPT; k++)
        free(kept[k]);
    return sum;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    long scale = argc > 2 ? atol(argv[2]) : 1;
    unsigned long sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    sum += work((unsigned long)omp_get_thread_num() + 1, 2000000 * scale);
    printf("%lu\n", sum);
    return 0;
}
