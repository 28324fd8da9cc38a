// How often signals that nobody sent to the program come while it makes system calls: each leaves
// its frame on the stack for handlers. Prints in how many of the rounds that was so, with calls by
// the C library and with the program's own.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Calls in a round: few enough to be a small part of its time.
#define CALLS 4
#define WORK 400000

static char stack[1 << 16];
static volatile double sum;

static long own_getppid(void) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"((long)SYS_getppid) : "rcx", "r11", "memory");
    return result;
}

static int is_touched(void) {
    for (size_t k = 0; k < sizeof stack; k++)
        if (stack[k])
            return 1;
    return 0;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    stack_t handlers = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&handlers, 0);
    long touched[2] = {0};
    for (int round = 0; round < rounds; round++) {
        for (int k = 1; k < WORK; k++)
            sum += 1.0 / k;
        for (int own = 0; own < 2; own++) {
            memset(stack, 0, sizeof stack);
            for (int k = 0; k < CALLS; k++)
                if ((own ? own_getppid() : getppid()) <= 0)
                    return 1;
            touched[own] += is_touched();
        }
    }
    printf("%ld %ld\n", touched[0], touched[1]);
    return 0;
}
