// Works alone, then lets two threads add to one counter, then works alone again: ROUNDS of a
// million steps each, and as many additions by each thread.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 1000000 };

static volatile uint64_t state = 1;
static uint64_t counter;

static void work_alone(int rounds) {
    for (uint64_t k = 0; k < (uint64_t)rounds * STEPS; k++)
        state = state * 6364136223846793005u + 1;
}

static void *add(void *rounds) {
    for (uint64_t k = 0; k < (uint64_t) * (int *)rounds * STEPS; k++)
        __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
    return 0;
}

int main(int count, char **words) {
    int alone = count > 1 ? atoi(words[1]) : 1, both = count > 2 ? atoi(words[2]) : 0;
    pthread_t threads[2];
    work_alone(alone);
    for (int k = 0; k < 2; k++)
        if (both && pthread_create(&threads[k], 0, add, &both))
            return 1;
    for (int k = 0; k < 2 && both; k++)
        pthread_join(threads[k], 0);
    work_alone(alone);
    printf("%d\n", counter == 2 * (uint64_t)both * STEPS);
    return 0;
}
