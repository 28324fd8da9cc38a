// Code that the program makes itself, with known results: functions built in anonymous memory and
// changed while several threads run others of them, mappings that go and come back with other code,
// code that is written through a second mapping, callbacks on the stack (gcc's nested functions), a
// jump to memory that cannot be executed and is caught, and registers as a handler sees them.
//
// rewrites ROUNDS THREADS: prints sums that are checked here; exits with 1 if one is wrong.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

typedef unsigned (*function)(unsigned);
static int rounds, failed;
// All threads have their memory: nobody's mapping falls into a hole of another's.
static pthread_barrier_t mapped;

static void check(const char *what, unsigned long got, unsigned long wanted) {
    printf("%s %lu\n", what, got);
    if (got != wanted)
        failed = 1, printf("%s: wrong, %lu wanted\n", what, wanted);
}

// lea eax, [rdi + constant]; ret
static void make_adder(unsigned char *at, unsigned constant) {
    const unsigned char head[] = {0x8d, 0x87};
    memcpy(at, head, 2);
    memcpy(at + 2, &constant, 4);
    at[6] = 0xc3;
}

static unsigned char *pages(int protection) {
    void *p = mmap(NULL, 8192, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        perror("mmap"), exit(2);
    return p;
}

// Each round other code at the same address, in memory that stays writable.
static void *rewrite(void *sum) {
    unsigned char *code = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    pthread_barrier_wait(&mapped);
    for (int k = 0; k < rounds; k++) {
        make_adder(code + k % 3 * 16, k);
        *(unsigned long *)sum += ((function)(code + k % 3 * 16))(1);
    }
    return NULL;
}

// The same with the right to write taken away in between, as careful compilers do.
static void flip(void) {
    unsigned char *code = pages(PROT_READ | PROT_WRITE);
    unsigned long sum = 0;
    for (int k = 0; k < rounds; k++) {
        make_adder(code, k);
        mprotect(code, 8192, PROT_READ | PROT_EXEC);
        sum += ((function)code)(2);
        mprotect(code, 8192, PROT_READ | PROT_WRITE);
    }
    check("flipped", sum, (unsigned long)rounds * (rounds - 1) / 2 + 2ul * rounds);
}

static void remap(void) {
    unsigned char *code = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    unsigned long sum = 0;
    for (int k = 0; k < rounds / 8; k++) {
        munmap(code, 8192);
        void *p = mmap(code, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (p != code)
            exit(2);
        make_adder(code, k);
        sum += ((function)code)(0);
    }
    unsigned long n = rounds / 8;
    check("remapped", sum, n * (n - 1) / 2);
}

// Written through one mapping, run through another.
static void twice_mapped(void) {
    int fd = memfd_create("code", 0);
    if (fd < 0 || ftruncate(fd, 4096))
        exit(2);
    unsigned char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    unsigned long sum = 0;
    for (int k = 0; k < rounds; k++) {
        make_adder(data, k & 1);
        sum += ((function)code)(0);
    }
    check("twice mapped", sum, rounds / 2);
}

static unsigned apply(unsigned (*f)(unsigned), unsigned x) { return f(x); }

static void nested(void) {
    unsigned long sum = 0;
    for (int k = 0; k < rounds; k++) {
        unsigned add(unsigned x) { return x + k; } // called through a trampoline on the stack
        sum += apply(add, 3);
    }
    check("nested", sum, (unsigned long)rounds * (rounds - 1) / 2 + 3ul * rounds);
}

static sigjmp_buf back;
static volatile unsigned long seen_pc, seen_rbx;

static void caught(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen_pc = r[REG_RIP], seen_rbx = r[REG_RBX];
    siglongjmp(back, 1);
}

static void skip(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen_pc = r[REG_RIP], seen_rbx = r[REG_RBX];
    r[REG_RIP] += 3; // past the faulting load, as virtual machines do
    r[REG_RAX] = 7;
}

static void on_fault(void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, NULL);
}

// A jump to memory without the right to execute faults there, again and again.
static void not_executable(void) {
    unsigned char *code = pages(PROT_READ | PROT_WRITE);
    make_adder(code, 1);
    on_fault(caught);
    volatile int faults = 0;
    for (volatile int k = 0; k < 20; k++) {
        if (sigsetjmp(back, 1) == 0)
            ((function)code)(0);
        else
            faults += seen_pc == (unsigned long)code;
    }
    check("not executable", faults, 20);
}

// push rbx; mov ebx, 0x1234; xor ecx, ecx; mov rax, [rcx]; add eax, ebx; pop rbx; ret
static void faulting(void) {
    static const unsigned char body[] = {0x53, 0xbb, 0x34, 0x12, 0,    0,    0x31, 0xc9,
                                         0x48, 0x8b, 0x01, 0x01, 0xd8, 0x5b, 0xc3};
    unsigned char *code = pages(PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(code, body, sizeof body);
    on_fault(skip);
    unsigned long sum = 0, right = 0;
    for (int k = 0; k < 20; k++) {
        sum += ((function)code)(0);
        right += seen_pc == (unsigned long)code + 8 && seen_rbx == 0x1234;
    }
    check("faults skipped", sum, 20ul * (7 + 0x1234));
    check("registers seen", right, 20);
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? atoi(argv[1]) : 1000;
    int threads = argc > 2 ? atoi(argv[2]) : 3;
    pthread_t ids[64];
    unsigned long sums[64] = {0};
    pthread_barrier_init(&mapped, NULL, threads + 1);
    for (int t = 0; t < threads; t++)
        pthread_create(&ids[t], NULL, rewrite, &sums[t]);
    pthread_barrier_wait(&mapped);
    flip();
    remap();
    twice_mapped();
    nested();
    for (int t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        check("rewritten", sums[t], (unsigned long)rounds * (rounds - 1) / 2 + rounds);
    }
    not_executable();
    faulting();
    return failed;
}
