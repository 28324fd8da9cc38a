// Far returns (lretq, iretq) to 64-bit code, as Wine goes back with from its system calls: they set
// the stack, the flags and the counter at once. A timer interrupts them, and handlers return to
// them.
//
// Usage: far_returns
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
#include <ucontext.h>

enum { ROUNDS = 20000, ARITHMETIC = 0x8d5 };

static volatile int ticks;
static void on_tick(int signal) {
    (void)signal;
    ticks++;
}

// Returns the flags behind an iretq that is told to set them.
static uint64_t with_flags(uint64_t flags) {
    uint64_t found;
    __asm__ volatile("subq $128, %%rsp\n\t"
                     "movq %%rsp, %%rdx\n\t"
                     "movl %%ss, %%eax\n\t"
                     "movabsq $0xabcd000b00000000, %%rcx\n\t" // only the low half of the word counts
                     "orq %%rcx, %%rax\n\t"
                     "pushq %%rax\n\t"
                     "pushq %%rdx\n\t"
                     "pushq %1\n\t"
                     "movl %%cs, %%eax\n\t"
                     "pushq %%rax\n\t"
                     "leaq 1f(%%rip), %%rax\n\t"
                     "pushq %%rax\n\t"
                     "iretq\n"
                     "1:\n\t"
                     "pushfq\n\t"
                     "popq %0\n\t"
                     "subq %%rsp, %%rdx\n\t"
                     "addq $128, %%rsp\n\t"
                     "orq %%rdx, %0\n\t"
                     "cld"
                     : "=&r"(found)
                     : "r"(flags | 0x202)
                     : "rax", "rcx", "rdx", "memory", "cc");
    return found;
}

static uint64_t go_on(uint64_t x) {
    __asm__ volatile("subq $128, %%rsp\n\t"
                     "movl %%cs, %%eax\n\t"
                     "pushq %%rax\n\t"
                     "leaq 1f(%%rip), %%rax\n\t"
                     "pushq %%rax\n\t"
                     "cmpq %0, %%rsp\n\t"
                     "lretq\n\t"
                     "ud2\n"
                     "1:\n\t"
                     "adcq $3, %0\n\t"
                     "addq $128, %%rsp"
                     : "+r"(x)
                     :
                     : "rax", "memory", "cc");
    return x;
}

// Skips a ud2.
static void on_illegal(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

// Returns 5 if a handler goes back right before a lretq and an iretq, and both lead on.
static uint64_t behind_handlers(void) {
    uint64_t x = 1;
    __asm__ volatile("subq $128, %%rsp\n\t"
                     "movl %%cs, %%eax\n\t"
                     "pushq %%rax\n\t"
                     "leaq 1f(%%rip), %%rax\n\t"
                     "pushq %%rax\n\t"
                     "ud2\n\t"
                     "lretq\n\t"
                     "movl $9, %k0\n"
                     "1:\n\t"
                     "movq %%rsp, %%rdx\n\t"
                     "movl %%ss, %%eax\n\t"
                     "pushq %%rax\n\t"
                     "pushq %%rdx\n\t"
                     "pushq $0x203\n\t" // with carry
                     "movl %%cs, %%eax\n\t"
                     "pushq %%rax\n\t"
                     "leaq 2f(%%rip), %%rax\n\t"
                     "pushq %%rax\n\t"
                     "ud2\n\t"
                     "iretq\n\t"
                     "movl $9, %k0\n"
                     "2:\n\t"
                     "adcq $3, %0\n\t"
                     "subq %%rsp, %%rdx\n\t"
                     "addq %%rdx, %0\n\t"
                     "addq $128, %%rsp"
                     : "+r"(x)
                     :
                     : "rax", "rdx", "memory", "cc");
    return x;
}

int main(void) {
    struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &tick, NULL);
    struct itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_PROF, &often, NULL);
    uint64_t sum = 0, wrong = 0;
    for (uint64_t k = 0; k < ROUNDS; k++) {
        uint64_t flags = (k * 0x9e3779b97f4a7c15u >> 40) & ARITHMETIC;
        wrong += (with_flags(flags | (k & 64 ? 0x400 : 0)) & (ARITHMETIC | 0x400)) != (flags | (k & 64 ? 0x400 : 0));
        sum = go_on(sum);
    }
    struct sigaction illegal = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &illegal, NULL);
    wrong += behind_handlers() != 5;
    printf("%ld wrong, %ld\n", (long)wrong, (long)sum);
    return wrong != 0;
}
