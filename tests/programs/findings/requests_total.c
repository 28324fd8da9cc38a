// One counter of all requests, which every thread increments.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_ulong requests_total;
static long requests;

static unsigned long handle(unsigned long request) {
    request ^= request << 13;
    request ^= request >> 7;
    return request ^ (request << 17);
}

static void *serve(void *arg) {
    unsigned long x = (unsigned long)(size_t)arg + 1;
#ifdef FIXED
    unsigned long own = 0;
#endif
    for (long k = 0; k < requests; k++) {
        x = handle(x);
#ifdef FIXED
        own++;
#else
        atomic_fetch_add(&requests_total, 1); // @serve
#endif
    }
#ifdef FIXED
    atomic_fetch_add(&requests_total, own);
#endif
    return (void *)(x & 1);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    requests = argc > 2 ? atol(argv[2]) : 20000000;
    pthread_t ids[64];
    for (int k = 0; k < threads; k++)
        pthread_create(&ids[k], 0, serve, (void *)(size_t)k);
    long odd = 0;
    for (int k = 0; k < threads; k++) {
        void *result;
        pthread_join(ids[k], &result);
        odd += (long)result;
    }
    printf("%lu %ld\n", atomic_load(&requests_total), odd);
    return 0;
}
