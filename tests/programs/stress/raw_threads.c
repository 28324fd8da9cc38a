// Threads that are made without the C library, and end while signals come: it blocks signals before
// a thread ends, others need not. More threads than have room at once in what an engine keeps for
// them, so what ended threads have left is used again and again.
//
// Prints what the threads have computed.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { AT_ONCE = 6, ROUNDS = 150, WORDS = 64 };

static uint8_t stacks[AT_ONCE][1 << 16] __attribute__((aligned(4096)));
static volatile uint32_t lives[AT_ONCE]; // cleared by the kernel when the thread is gone
static _Alignas(64) volatile uint64_t sums[AT_ONCE][WORDS];
static uint64_t handled;

static long call(long number, long a, long b, long c, long d) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = 0;
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return number;
}

static void on_signal(int signal) { __atomic_fetch_add(&handled, (uint64_t)signal, __ATOMIC_RELAXED); }

static _Noreturn void live(volatile uint64_t *words) {
    for (int k = 0; k < WORDS; k++) words[k] += (uint64_t)k;
    for (;;) call(SYS_exit, 0, 0, 0, 0);
}

static long start(int k) {
    const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    long *top = (long *)(stacks[k] + sizeof stacks[k] - 64);
    top[0] = (long)live;
    top[1] = (long)sums[k];
    lives[k] = 1;
    register long tid __asm__("r10") = (long)&lives[k];
    register long tls __asm__("r8") = 0;
    long result = SYS_clone;
    // The child takes its argument from its stack and returns into `live`, which finds the stack as
    // after a call.
    __asm__ volatile("syscall\n\ttestq %%rax, %%rax\n\tjnz 1f\n\tmovq 8(%%rsp), %%rdi\n\tretq\n1:"
                     : "+a"(result)
                     : "D"(flags), "S"(top), "d"(0l), "r"(tid), "r"(tls)
                     : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    signal(SIGUSR1, on_signal);
    pid_t process = getpid();
    for (int round = 0; round < ROUNDS; round++) {
        long ids[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++)
            if ((ids[k] = start(k)) < 0) return 3;
        for (int left = AT_ONCE; left;) {
            left = 0;
            for (int k = 0; k < AT_ONCE; k++) {
                left += lives[k] != 0;
                if (lives[k]) call(SYS_tgkill, process, ids[k], SIGUSR1, 0);
            }
        }
    }
    uint64_t sum = 0;
    for (int k = 0; k < AT_ONCE; k++)
        for (int i = 0; i < WORDS; i++) sum += sums[k][i];
    printf("%lu, %d\n", (unsigned long)sum, handled > 0);
    return 0;
}
