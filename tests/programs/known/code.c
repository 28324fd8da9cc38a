// More lines than a thread can keep apart, all alike, then more pieces of code than there are at
// the beginning, and then more pairs of them than there is ever room for: each of 8,192
// instructions reads a few lines, which another of twelve has written each time. Thread 1 writes
// all lines, thread 2 reads them.
//
// Usage: code      Turns are passed on through eventfds.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MANY 8192 // instructions that read
enum { LINES = 32768, LINE = 64, WRITERS = 12, ALIKE = 6, ROUNDS = ALIKE + WRITERS };

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

#define TEXT(x) #x
#define STRING(x) TEXT(x)
#define WRITER(n)                                                                             \
    case n:                                                                                   \
        for (char *at = memory; at < memory + sizeof memory; at += LINE)                      \
            __asm__ volatile("movq %1, %0 # " #n : "=m"(*(long *)at) : "r"((long)n));         \
        break;

static void *write_rounds(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        wait_for(turn[0]);
        switch (round < ALIKE ? 0 : round - ALIKE) {
            WRITER(0) WRITER(1) WRITER(2) WRITER(3) WRITER(4) WRITER(5)
            WRITER(6) WRITER(7) WRITER(8) WRITER(9) WRITER(10) WRITER(11)
        }
        pass(turn[1]);
    }
    return argument;
}

static void *read_rounds(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        wait_for(turn[1]);
        for (char *at = memory; at < memory + LINES * LINE; at += round < ALIKE ? LINE : MANY * LINE)
            if (round < ALIKE)
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
    printf("expect raw 1 2 %d\nexpect invalidation 1 2 %d\n", ROUNDS * LINES, (ROUNDS - 1) * LINES);
    return 0;
}
