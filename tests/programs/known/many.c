// Many short-lived threads: each reads a block that the initial thread wrote for it and writes one
// that the initial thread reads when it is over.
//
// Usage: many THREADS AT_ONCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX = 60000 };

typedef struct {
    _Alignas(64) volatile uint64_t word[8];
} Block;

static _Alignas(4096) Block to[MAX], from[MAX];

static void *work(void *argument) {
    intptr_t k = (intptr_t)argument;
    from[k].word[1] = to[k].word[0] + 1;
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1000, at_once = argc > 2 ? atoi(argv[2]) : 32;
    if (threads > MAX || at_once < 1 || at_once > 2000) return 2;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    uint64_t sum = 0;
    for (int first = 0; first < threads; first += at_once) {
        static pthread_t ids[2000];
        int count = threads - first < at_once ? threads - first : at_once;
        for (int k = 0; k < count; k++) {
            to[first + k].word[0] = (uint64_t)k;
            if (pthread_create(&ids[k], &small, work, (void *)(intptr_t)(first + k))) return 3;
        }
        for (int k = 0; k < count; k++) {
            pthread_join(ids[k], NULL);
            sum += from[first + k].word[1];
        }
    }
    printf("checksum %llu\n", (unsigned long long)sum);
    printf("region to %p %zu\nregion from %p %zu\n", (void *)to, sizeof to, (void *)from, sizeof from);
    for (int k = 0; k < threads; k++)
        printf("expect raw 0 %d 1\nexpect raw %d 0 1\n", k + 1, k + 1);
    return 0;
}
