// Counts primes by trial division; the workers' progress is kept in a static array of structs.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_WORKERS = 16 };

struct worker {
    pthread_t id;
    long first, last;
    long tested;
    long found;
#ifdef FIXED
} __attribute__((aligned(128)));
#else
};
#endif

static struct worker workers[MAX_WORKERS];

static int is_prime(struct worker *self, long n) {
    if (n < 4)
        return n > 1;
    if (n % 2 == 0)
        return 0;
    for (long d = 3; d * d <= n && d < 60; d += 2) {
        self->tested++; // @test
        if (n % d == 0)
            return 0;
    }
    return 1;
}

static void *search(void *arg) {
    struct worker *self = arg;
    for (long n = self->first; n < self->last; n++)
        if (is_prime(self, n))
            self->found++; // @test
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    long most = argc > 2 ? atol(argv[2]) : 8000000;
    for (int k = 0; k < threads; k++) {
        workers[k].first = most / threads * k;
        workers[k].last = most / threads * (k + 1);
        pthread_create(&workers[k].id, 0, search, &workers[k]);
    }
    long found = 0, tested = 0;
    for (int k = 0; k < threads; k++) {
        pthread_join(workers[k].id, 0);
        found += workers[k].found;
        tested += workers[k].tested;
    }
    printf("%ld found, %ld tested\n", found, tested);
    return 0;
}
