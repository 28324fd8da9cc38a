// Four threads allocate and free small blocks at twenty places, 5000 at each, and the initial
// thread reads what they have written to the last one.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, PLACES = 20, BLOCKS = 5000 };

#define PLACE(n)                                                                                             \
    __attribute__((noinline)) static uint64_t *place##n(void) {                                              \
        uint64_t *block = malloc(24);                                                                        \
        block[0] = n;                                                                                        \
        return block;                                                                                        \
    }
PLACE(0)
PLACE(1) PLACE(2) PLACE(3) PLACE(4) PLACE(5) PLACE(6) PLACE(7) PLACE(8) PLACE(9) PLACE(10) PLACE(11) PLACE(12)
    PLACE(13) PLACE(14) PLACE(15) PLACE(16) PLACE(17) PLACE(18) PLACE(19)

        static uint64_t *(*const places[PLACES])(void) = {
            place0,  place1,  place2,  place3,  place4,  place5,  place6,  place7,  place8,  place9,
            place10, place11, place12, place13, place14, place15, place16, place17, place18, place19,
};

static uint64_t *kept[THREADS][PLACES];

static void *allocate(void *mine) {
    for (int i = 0; i < BLOCKS; i++)
        for (int n = 0; n < PLACES; n++) {
            uint64_t *block = places[n]();
            if (i == BLOCKS - 1)
                ((uint64_t **)mine)[n] = block;
            else
                free(block);
        }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    uint64_t sum = 0;
    for (int k = 0; k < THREADS; k++)
        pthread_create(&threads[k], NULL, allocate, kept[k]);
    for (int k = 0; k < THREADS; k++)
        pthread_join(threads[k], NULL);
    for (int k = 0; k < THREADS; k++)
        for (int n = 0; n < PLACES; n++)
            sum += *kept[k][n];
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
