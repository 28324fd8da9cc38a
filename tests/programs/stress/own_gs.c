// A program that uses %gs itself, as Wine and runtimes of WebAssembly do: its base is set by the
// system call and, where the processor has them, by instructions; each thread has its own, children
// have their parent's. Memory is read, written, changed and jumped through by it.
//
// Usage: own_gs
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { THREADS = 4, WORDS = 64 };
static _Alignas(64) uint64_t areas[THREADS + 1][WORDS];

static void set_by_call(void *base) {
    if (syscall(SYS_arch_prctl, ARCH_SET_GS, base)) printf("cannot set it\n");
}
static uint64_t told(void) {
    uint64_t base = 1;
    if (syscall(SYS_arch_prctl, ARCH_GET_GS, &base)) printf("cannot ask\n");
    return base;
}

__attribute__((noinline)) static uint64_t target(uint64_t x) { return x * 3 + 1; }

// All ways to address memory, with the flags alive around each.
static uint64_t use(uint64_t seed) {
    uint64_t a, b, sum = 0;
    __asm__ volatile("movq %1, %%gs:8\n\tmovq %%gs:8, %0" : "=r"(a) : "r"(seed) : "memory");
    sum += a;
    for (uint64_t k = 2; k < 20; k++) {
        __asm__ volatile("cmpq $9, %2\n\tmovq %3, %%gs:16(,%2,8)\n\tmovq %%gs:16(%4,%2,8), %0\n\tadcq $0, %0\n\tsetb %b1"
                         : "=&r"(a), "=&q"(b)
                         : "r"(k), "r"(seed + k), "r"(0l)
                         : "memory", "cc");
        sum = sum * 31 + a + (b & 1);
    }
    a = 5;
    __asm__ volatile("lock xaddq %0, %%gs:(%1)" : "+r"(a) : "r"(64l) : "memory", "cc");
    sum += a;
    __asm__ volatile("movups %%gs:(%1), %%xmm1\n\tmovups %%xmm1, %%gs:32(%1)\n\tmovq %%gs:32(%1), %0" : "=r"(a) : "r"(128l) : "xmm1", "memory");
    sum += a;
    __asm__ volatile("subq $128, %%rsp\n\tpushq %%gs:8\n\tpopq %0\n\taddq $128, %%rsp" : "=r"(a) : : "memory", "cc");
    sum += a;
    __asm__ volatile(".byte 0x65\n\tleaq 24(%1), %0" : "=r"(a) : "r"(1000l)); // no memory, no base
    sum += a;
    uint64_t code = (uint64_t)target;
    __asm__ volatile("movq %0, %%gs:400" : : "r"(code) : "memory");
    for (int way = 0; way < 3; way++) {
        a = seed;
        if (way == 0)
            __asm__ volatile("subq $128, %%rsp\n\tcall *%%gs:400\n\taddq $128, %%rsp" : "=a"(b), "+D"(a) : : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
        else if (way == 1)
            __asm__ volatile("subq $128, %%rsp\n\tmovl $50, %%ecx\n\tcall *%%gs:(,%%rcx,8)\n\taddq $128, %%rsp" : "=a"(b), "+D"(a) : : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
        else
            __asm__ volatile("subq $128, %%rsp\n\tmovl $400, %%r11d\n\tcmpq %%rdi, %%rdi\n\tcall *%%gs:(%%r11)\n\taddq $128, %%rsp" : "=a"(b), "+D"(a) : : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
        sum = sum * 7 + b;
    }
    return sum;
}

static void *worker(void *argument) {
    uint64_t *area = argument, sum = 0;
    set_by_call(area);
    for (uint64_t k = 0; k < 2000; k++) sum = sum * 5 + use(k);
    area[WORDS - 1] = sum;
    return (void *)(uintptr_t)(told() == (uint64_t)area);
}

// Signals: a handler sees the base that the program has; what faults has its registers.
static volatile int ticks;
static volatile uint64_t seen;
static void on_signal(int signal) {
    (void)signal;
    uint64_t word;
    __asm__ volatile("movq %%gs:8, %0" : "=r"(word));
    seen |= word ^ 77;
    ticks++;
}
// Comes at any instruction, and shall change nothing.
static volatile int interruptions;
static void on_tick(int signal) {
    (void)signal;
    interruptions++;
}
static volatile long fault_rcx, fault_at;
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    // Not RAX: the instruction that faults would overwrite it, so nobody in ordinary code can want
    // it.
    fault_rcx = r[REG_RCX] + r[REG_RBX] + r[REG_RSI] + r[REG_RDI] + r[REG_R8];
    fault_at = (long)info->si_addr;
    r[REG_RIP] = r[REG_RDX];
}

int main(void) {
    struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &tick, NULL);
    struct itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_PROF, &often, NULL);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, worker, areas[t]);
    for (int t = 0; t < THREADS; t++) {
        void *same;
        pthread_join(threads[t], &same);
        printf("%lx %d\n", (long)areas[t][WORDS - 1], same != NULL);
    }
    uint64_t *own = areas[THREADS];
    set_by_call(own);
    own[1] = 77;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    for (int k = 0; k < 50; k++) raise(SIGUSR1);
    printf("%d signals, %lx\n", ticks, (long)seen);
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &fault, NULL);
    set_by_call((void *)4096);
    __asm__ volatile("movl $1, %%ecx\n\tmovl $2, %%eax\n\tmovl $4, %%ebx\n\tmovl $8, %%esi\n\tmovl $16, %%edi\n\tmovl $32, %%r8d\n\tleaq 1f(%%rip), %%rdx\n\tmovq %%gs:64(%%rcx,%%rsi,8), %%rax\n1:"
                     : : : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "memory");
    printf("a fault at %ld with %ld\n", fault_at, fault_rcx);
    set_by_call(own);
    int status;
    fflush(stdout);
    if (fork() == 0) _exit(told() == (uint64_t)own && use(9) != 0 ? 7 : 1);
    while (wait(&status) < 0) {}
    printf("a child has it: %d, %d\n", WEXITSTATUS(status), syscall(SYS_arch_prctl, ARCH_GET_GS, 8) != 0);
    int none = 0;
    __asm__ volatile("movl %0, %%gs" : : "r"(none));
    set_by_call(own);
    printf("%lx %d\n", (long)use(4), told() == (uint64_t)own);
    if (getauxval(AT_HWCAP2) & 2) { // the instructions
        uint64_t base, low;
        __asm__ volatile("wrgsbase %1\n\trdgsbase %0" : "=r"(base) : "r"(areas[1]));
        printf("%d %lx\n", base == (uint64_t)areas[1] && told() == base, (long)use(5));
        __asm__ volatile("movq $-1, %1\n\twrgsbase %k2\n\trdgsbase %0\n\trdgsbase %k1" : "=&r"(base), "=&r"(low) : "r"(0x123456789abcl));
        printf("%lx %lx\n", (long)base, (long)low);
    }
    return 0;
}
