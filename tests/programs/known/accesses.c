// Loads and stores with known truth: thread N (1 to 4) executes N million loads and half as many
// stores on memory of its own, as single instructions and as two kinds of operand. What starting
// and ending a thread costs comes on top: a few thousand.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { THREADS = 4, MILLION = 1000000 };

static void *work(void *argument) {
    long mine = (long)(intptr_t)argument * MILLION / 4, value = 0;
    _Alignas(64) long memory[16] = {0};
    // Four loads and two stores a turn: two plain loads, an add to memory (a load and a store), a
    // load as an operand, and a plain store.
    for (long i = mine; i > 0; i--)
        __asm__ volatile("movq %1, %0\n\tmovq 8%1, %0\n\taddq $1, 16%1\n\taddq 24%1, %0\n\tmovq %0, 64%1"
                         : "+r"(value), "+o"(memory[0]) : : "cc", "memory");
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1))) return 3;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 1; i <= THREADS; i++)
        printf("expect-accesses %d %d %d\n", i, i * MILLION, i * MILLION / 2);
    return 0;
}
