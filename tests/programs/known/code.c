// More lines than a thread can keep apart, all alike, and then more pieces of code than there are at the
// beginning: each of 8,192 instructions reads a few lines. Thread 1 writes all lines, thread 2 reads them.
//
// Usage: code      Turns are passed on through eventfds.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MANY 8192 // instructions
enum { LINES = 65536, LINE = 64, ROUNDS = 3 };

static _Alignas(4096) char memory[LINES * LINE];
static int turn[2];

static void pass(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, 8) != 8) _exit(3);
}

static void wait_for(int fd) {
    uint64_t value;
    if (read(fd, &value, 8) != 8) _exit(3);
}

static void *write_rounds(void *argument) {
    for (int round = 0; round < 2 * ROUNDS; round++) {
        wait_for(turn[0]);
        for (long k = 0; k < LINES; k++) *(volatile long *)&memory[k * LINE] = round;
        pass(turn[1]);
    }
    return argument;
}

#define TEXT(x) #x
#define STRING(x) TEXT(x)

static void *read_rounds(void *argument) {
    for (int round = 0; round < 2 * ROUNDS; round++) {
        wait_for(turn[1]);
        for (char *at = memory; at < memory + LINES * LINE; at += round < ROUNDS ? LINE : MANY * LINE)
            if (round < ROUNDS)
                __asm__ volatile("movq %0, %%rax" : : "m"(*(long *)at) : "rax");
            else
                __asm__ volatile(".set k, 0; .rept " STRING(MANY) "; movq k(%0), %%rax; .set k, k + 64; .endr"
                                 : : "r"(at) : "rax", "memory");
        pass(turn[0]);
    }
    return argument;
}

int main(void) {
    pthread_t threads[2];
    turn[0] = eventfd(1, 0), turn[1] = eventfd(0, 0);
    if (pthread_create(&threads[0], NULL, write_rounds, NULL)) return 3;
    if (pthread_create(&threads[1], NULL, read_rounds, NULL)) return 3;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("expect raw 1 2 %d\nexpect invalidation 1 2 %d\n", 2 * ROUNDS * LINES, (2 * ROUNDS - 1) * LINES);
    return 0;
}
