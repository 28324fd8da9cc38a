// Signals at each instruction around a system call: a debugger stops the initial thread before it
// reads a block from a file, lets it take one step more than the last time and then sends it a
// signal. Wherever the signal comes, the call has written the block once; thread 1 reads all blocks
// afterwards. Prints `region` and `expect` as traps.c. Returns 77 where nobody may be traced.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { BLOCKS = 256, BYTES = BLOCKS * 64, UNTRACED = 77 };

static _Alignas(4096) volatile uint64_t blocks[BLOCKS][8];
static volatile int right_behind;
extern const char behind_call[];

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    const ucontext_t *at = context;
    right_behind += at->uc_mcontext.gregs[REG_RIP] == (greg_t)(uintptr_t)behind_call;
}

// Stops itself, for the debugger, and reads a block.
static __attribute__((noinline)) long stop_and_read(long fd, void *to) {
    long result;
    register long tid __asm__("rdi") = gettid();
    register long signal __asm__("rsi") = SIGSTOP;
    __asm__ volatile("mov %[tkill], %%eax\n"
                     "syscall\n"
                     "mov %[fd], %%rdi\n"
                     "mov %[to], %%rsi\n"
                     "mov $64, %%edx\n"
                     "mov %[read], %%eax\n"
                     "syscall\n"
                     ".globl behind_call\n"
                     "behind_call:\n"
                     : "=&a"(result), "+r"(tid), "+r"(signal)
                     : [tkill] "i"(SYS_tkill), [read] "i"(SYS_read), [fd] "r"(fd), [to] "r"(to)
                     : "rcx", "r11", "rdx", "memory");
    return result;
}

// Waits until it is stopped by itself or by a step, and says by which; other signals it gets.
static int next_stop(pid_t pid) {
    int status;
    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
        int signal = status >> 16 ? 0 : WSTOPSIG(status);
        if (signal == SIGSTOP || signal == SIGTRAP) return signal;
        ptrace(PTRACE_CONT, pid, 0, (void *)(long)signal);
    }
    exit(1);
}

// The kernel forgets that it was the debugger's, once popf has been stepped over.
static void clear_trap_flag(pid_t pid) {
    struct user_regs_struct registers;
    ptrace(PTRACE_GETREGS, pid, 0, &registers);
    registers.eflags &= ~0x100ull;
    ptrace(PTRACE_SETREGS, pid, 0, &registers);
}

static int debugger(pid_t pid, int ready) {
    int can = ptrace(PTRACE_SEIZE, pid, 0, 0) == 0;
    if (write(ready, &can, sizeof can) != sizeof can || !can) return UNTRACED;
    for (int k = 0; k < BLOCKS; k++) {
        if (next_stop(pid) != SIGSTOP) return 1;
        for (int step = 0; step < k; step++) {
            ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
            // It has come to the next block already.
            if (next_stop(pid) == SIGSTOP) k++, step = -1;
        }
        clear_trap_flag(pid);
        ptrace(PTRACE_CONT, pid, 0, (void *)SIGUSR1);
    }
    return 0;
}

static void *reader(void *sum) {
    for (int k = 0; k < BLOCKS; k++) *(uint64_t *)sum += blocks[k][k % 8];
    return sum;
}

int main(void) {
    int ready[2], can = 0, zeroes = open("/dev/zero", O_RDONLY);
    uint64_t sum = 0;
    if (pipe(ready) || zeroes < 0) return 3;
    pid_t parent = getpid(), child = fork();
    if (child < 0) return UNTRACED;
    if (child == 0) _exit(debugger(parent, ready[1]));
    prctl(PR_SET_PTRACER, child);
    if (read(ready[0], &can, sizeof can) != sizeof can || !can) return UNTRACED;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    for (int k = 0; k < BLOCKS; k++)
        if (stop_and_read(zeroes, (void *)blocks[k]) != 64) return 4;
    // No step was right behind the call: nothing was tried.
    if (!right_behind) return 5;
    pthread_t thread;
    if (pthread_create(&thread, NULL, reader, &sum)) return 3;
    pthread_join(thread, NULL);
    printf("region blocks %p %d\nexpect raw 0 1 %d\n", (void *)blocks, BYTES, BLOCKS);
    return sum != 0;
}
