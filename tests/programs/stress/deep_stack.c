// Deep recursion and huge stack frames, on the initial thread and on one with a large stack.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static __attribute__((noinline)) long recurse(int depth) {
    volatile long here = depth;
    if (depth == 0) return 0;
    return recurse(depth - 1) + here;
}

static __attribute__((noinline)) long huge(int fill) {
    char frame[3 << 20];
    memset(frame, fill, sizeof frame);
    long sum = 0;
    for (size_t i = 0; i < sizeof frame; i += 4096) sum += frame[i];
    return sum;
}

static void *work(void *argument) {
    *(long *)argument = recurse(200000) + huge(3);
    return NULL;
}

int main(void) {
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, 64 << 20);
    pthread_t threads[3];
    long sums[3];
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], &large, work, &sums[i])) return 3;
    long own = recurse(50000) + huge(2);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("own %ld threads %ld %ld %ld\n", own, sums[0], sums[1], sums[2]);
    return 0;
}
