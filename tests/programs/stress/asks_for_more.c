// A program that wants what cannot work in a code cache: a shadow stack, system calls told apart by
// their addresses. Prints the answers, and goes on in several threads.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SHADOW_STACK_ENABLE = 0x5001, SHADOW_STACK = 1 };
enum { USER_DISPATCH = 59, DISPATCH_ON = 1 };

static uint64_t shared[64];

static void answer(const char *what, long result) { printf("%s: %s\n", what, result ? strerror(errno) : "done"); }

static void *work(void *unused) {
    for (int k = 0; k < 100000; k++) __atomic_fetch_add(&shared[k % 64], 1, __ATOMIC_RELAXED);
    return unused;
}

int main(void) {
    long enabled = syscall(SYS_arch_prctl, SHADOW_STACK_ENABLE, SHADOW_STACK);
    if (!enabled) _exit(9); // there is no way back from here
    answer("a shadow stack", enabled);
    answer("dispatch", prctl(USER_DISPATCH, DISPATCH_ON, 0L, 0L, NULL));
    pthread_t threads[2];
    for (int k = 0; k < 2; k++) pthread_create(&threads[k], NULL, work, NULL);
    for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
    uint64_t sum = 0;
    for (int k = 0; k < 64; k++) sum += shared[k];
    printf("%lu\n", (unsigned long)sum);
    return 0;
}
