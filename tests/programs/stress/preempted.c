/* Threads are preempted in user space, as Go's runtime does: a signal handler has the interrupted
 * code call a function that saves all registers and flags, and returns to where that code was. The
 * code depends on its flags at any instruction. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>
#include <unistd.h>

#define THREADS 4
#define RED_ZONE 128

/* Returns past the red zone of the interrupted function. */
__asm__(".text\n"
        "preempt: pushfq\n"
        " push %rax\n push %rcx\n push %rdx\n push %rsi\n push %rdi\n push %r8\n"
        " push %r9\n push %r10\n push %r11\n"
        " mov $24, %eax\n syscall\n cmp $1, %eax\n"
        " pop %r11\n pop %r10\n pop %r9\n pop %r8\n"
        " pop %rdi\n pop %rsi\n pop %rdx\n pop %rcx\n pop %rax\n"
        " popfq\n ret $128\n");

/* Random numbers by shifts, and how many of them, counted by turns, have a small remainder. */
__asm__(".text\n"
        "work_begin: .globl work\nwork: xor %r8d, %r8d\n xor %r9d, %r9d\n"
        "1: mov %rdi, %rax\n shl $13, %rax\n xor %rax, %rdi\n"
        " mov %rdi, %rax\n shr $7, %rax\n xor %rax, %rdi\n"
        " mov %rdi, %rax\n shl $17, %rax\n xor %rax, %rdi\n"
        " mov %rdi, %rax\n and $7, %eax\n cmp $3, %rax\n jae 2f\n"
        " bt $0, %r9\n jb 2f\n inc %r8\n"
        "2: incq (%rdx)\n inc %r9\n cmp %rsi, %r9\n jl 1b\n"
        " mov %rdi, %rax\n xor %r8, %rax\n ret\n"
        "work_end:\n");

extern char preempt[], work_begin[], work_end[];
uint64_t work(uint64_t seed, long rounds, uint64_t *counter);

#define ROUNDS 1000000
#define ENOUGH 400

static uint64_t expected[THREADS];
static int preempted, wrong;

static void on_signal(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t pc = (uintptr_t)registers[REG_RIP];
    uint64_t *stack = (uint64_t *)(registers[REG_RSP] - RED_ZONE) - 1;

    (void)signal, (void)info;
    if (pc < (uintptr_t)work_begin || pc >= (uintptr_t)work_end)
        return;
    *stack = pc;
    registers[REG_RSP] = (greg_t)stack;
    registers[REG_RIP] = (greg_t)preempt;
    __atomic_fetch_add(&preempted, 1, __ATOMIC_RELAXED);
}

static int enough(void) { return __atomic_load_n(&preempted, __ATOMIC_RELAXED) >= ENOUGH; }

static void *run(void *argument) {
    long own = (long)argument;

    while (!enough()) {
        uint64_t counter = 0;
        uint64_t sum = work((uint64_t)own + 1, ROUNDS, &counter);

        if (sum != expected[own] || counter != ROUNDS)
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    pthread_t threads[THREADS];
    uint64_t counter = 0;

    for (long i = 0; i < THREADS; i++)
        expected[i] = work((uint64_t)i + 1, ROUNDS, &counter);
    sigaction(SIGURG, &action, NULL);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    while (!enough()) {
        usleep(500);
        for (int i = 0; i < THREADS; i++)
            pthread_kill(threads[i], SIGURG);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        printf("%lx\n", (unsigned long)expected[i]);
    printf("%d wrong\n", wrong);
    return 0;
}
