// Counters of each processor, incremented in restartable sequences: the kernel must take a thread
// that it interrupts in one back to the start, or increments are lost. Registers itself when the C
// library has not; without the kernel's help (an old one answers ENOSYS) it uses atomic
// instructions.
#define _GNU_SOURCE
#include <linux/rseq.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 2000000, SIGNATURE = 0x53053053 };

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));
static __thread struct rseq own __attribute__((aligned(32)));
static struct {
    _Alignas(64) volatile intptr_t value;
} counters[1024];
static _Atomic intptr_t fallback;

static volatile struct rseq *registered(void) {
    if (&__rseq_size && __rseq_size)
        return (volatile struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    return syscall(SYS_rseq, &own, 32, 0, SIGNATURE) == 0 ? &own : NULL;
}

// Reads, dawdles and writes back in one sequence; false when it was interrupted.
static int add(volatile struct rseq *r, int cpu, volatile intptr_t *counter) {
    __asm__ goto(".pushsection __rseq_cs, \"aw\"\n"
                 ".balign 32\n"
                 "3: .long 0, 0\n"
                 ".quad 1f, 2f - 1f, 4f\n"
                 ".popsection\n"
                 "leaq 3b(%%rip), %%rax\n"
                 "movq %%rax, %[cs]\n"
                 "1: cmpl %[cpu], %[id]\n"
                 "jnz 4f\n"
                 "movq %[counter], %%rcx\n"
                 "movl $40, %%eax\n"
                 "5: decl %%eax\n"
                 "jnz 5b\n"
                 "incq %%rcx\n"
                 "movq %%rcx, %[counter]\n"
                 "2:\n"
                 ".pushsection .text.interrupted, \"ax\"\n"
                 ".byte 0x0f, 0xb9, 0x3d\n"
                 ".long 0x53053053\n"
                 "4: jmp %l[interrupted]\n"
                 ".popsection\n"
                 :
                 : [cs] "m"(r->rseq_cs), [cpu] "r"(cpu), [id] "m"(r->cpu_id),
                   [counter] "m"(*counter)
                 : "rax", "rcx", "memory", "cc"
                 : interrupted);
    return 1;
interrupted:
    return 0;
}

static void *run(void *argument) {
    volatile struct rseq *r = registered();
    for (int k = 0; k < ROUNDS; k++) {
        if (!r) {
            fallback++;
            continue;
        }
        int cpu;
        do cpu = (int)r->cpu_id_start;
        while (!add(r, cpu, &counters[cpu].value));
    }
    return argument;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, run, NULL)) return 3;
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    intptr_t sum = fallback;
    for (int cpu = 0; cpu < 1024; cpu++) sum += counters[cpu].value;
    printf("%ld of %d\n", (long)sum, THREADS * ROUNDS);
    return sum == (intptr_t)THREADS * ROUNDS ? 0 : 1;
}
