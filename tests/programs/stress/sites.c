// Indirect calls and returns that have led to the same places for long, and then do not: libraries
// that are loaded anew, code that is rewritten, or unmapped and mapped again, calls to one, two and
// many functions from several threads at once, and signals in between.
//
// sites LIBRARY-A LIBRARY-B (built from plugin.c): prints sums; exits with 1 if one is wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

typedef unsigned (*function)(unsigned);
enum { LONG = 30000, BYTES = 4096, THREADS = 4, MANY = 16 };
static int failed;

// A call of its own in the program's code, with a return of its own.
#define SITE(name)                                                                                 \
    __attribute__((noinline)) static unsigned name(function f, unsigned x) { return f(x) + 1; }
SITE(call_library) SITE(call_rewritten) SITE(call_flipped) SITE(call_unmapped)
SITE(call_one) SITE(call_two) SITE(call_many) SITE(call_in_handler)

static void check(const char *what, unsigned long got, unsigned long wanted) {
    printf("%s %lu\n", what, got);
    if (got != wanted) failed = 1, printf("%s: wrong, %lu wanted\n", what, wanted);
}

static void libraries(char **paths) {
    unsigned long sum = 0, again = 0;
    for (int round = 0; round < 6; round++) {
        void *library = dlopen(paths[round % 2], RTLD_NOW | RTLD_LOCAL);
        if (!library) fprintf(stderr, "%s\n", dlerror()), exit(2);
        function plugin = (function)dlsym(library, "plugin");
        // What it returns without the number of calls, which the library counts.
        for (int k = 0; k < LONG; k++) sum += call_library(plugin, 1), again += 3 + 1;
        dlclose(library);
    }
    check("libraries", sum, again);
}

// lea eax, [rdi + constant]; ret
static void make_adder(unsigned char *at, unsigned constant) {
    const unsigned char head[] = {0x8d, 0x87};
    memcpy(at, head, 2);
    memcpy(at + 2, &constant, 4);
    at[6] = 0xc3;
}

static unsigned char *page(void *where, int protection) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0);
    void *p = mmap(where, BYTES, protection, flags, -1, 0);
    if (p == MAP_FAILED) perror("mmap"), exit(2);
    return p;
}

static unsigned long called(unsigned (*site)(function, unsigned), void *code, int times) {
    unsigned long sum = 0;
    for (int k = 0; k < times; k++) sum += site((function)code, 2);
    return sum;
}

static void rewritten(void) {
    unsigned char *code = page(NULL, PROT_READ | PROT_WRITE | PROT_EXEC);
    unsigned long sum = 0, wanted = 0;
    for (int constant = 0; constant < 20; constant++) {
        make_adder(code, constant);
        sum += called(call_rewritten, code, LONG / 8), wanted += (constant + 3ul) * (LONG / 8);
    }
    check("rewritten", sum, wanted);
}

static void flipped(void) {
    unsigned char *code = page(NULL, PROT_READ | PROT_WRITE);
    unsigned long sum = 0, wanted = 0;
    for (int constant = 0; constant < 20; constant++) {
        make_adder(code, constant);
        mprotect(code, BYTES, PROT_READ | PROT_EXEC);
        sum += called(call_flipped, code, LONG / 8), wanted += (constant + 3ul) * (LONG / 8);
        mprotect(code, BYTES, PROT_READ | PROT_WRITE);
    }
    check("flipped", sum, wanted);
}

static sigjmp_buf before;
static void *volatile missing;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    siglongjmp(before, info->si_addr == missing ? 1 : 2);
}

static void unmapped(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    volatile unsigned long sum = 0, faults = 0;
    unsigned char *volatile code = page(NULL, PROT_READ | PROT_WRITE | PROT_EXEC);
    for (volatile unsigned round = 0; round < 4; round++) {
        make_adder(code, round);
        sum += called(call_unmapped, code, LONG);
        munmap(code, BYTES);
        missing = code;
        int fault = sigsetjmp(before, 1);
        if (fault == 0) call_unmapped((function)code, 2);
        faults += fault == 1;
        page(code, PROT_READ | PROT_WRITE | PROT_EXEC);
    }
    check("unmapped", sum, (3ul + 4 + 5 + 6) * LONG);
    check("faults", faults, 4);
}

#define ADDER(n) static unsigned add##n(unsigned x) { return x + n; }
ADDER(0) ADDER(1) ADDER(2) ADDER(3) ADDER(4) ADDER(5) ADDER(6) ADDER(7)
ADDER(8) ADDER(9) ADDER(10) ADDER(11) ADDER(12) ADDER(13) ADDER(14) ADDER(15)
static const function adders[MANY] = {add0, add1, add2,  add3,  add4,  add5,  add6,  add7,
                                      add8, add9, add10, add11, add12, add13, add14, add15};

static unsigned long handled, handled_sum;

static void on_timer(int signal) {
    (void)signal;
    unsigned long sum = 0;
    for (unsigned k = 0; k < 64; k++) sum += call_in_handler(adders[k % 2], k);
    __atomic_fetch_add(&handled_sum, sum, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static void *call_all(void *result) {
    unsigned long sum = 0;
    for (unsigned k = 0; k < 4 * LONG; k++) {
        sum += call_one(adders[5], k) - k;
        sum += call_two(adders[k % 3 == 0], k) - k;
        sum += call_many(adders[k % MANY], k) - k;
    }
    *(unsigned long *)result = sum;
    return NULL;
}

static void threads(void) {
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t thread[THREADS];
    unsigned long sums[THREADS], n = 4 * LONG;
    for (int k = 0; k < THREADS; k++)
        if (pthread_create(&thread[k], NULL, call_all, &sums[k])) exit(2);
    for (int k = 0; k < THREADS; k++) pthread_join(thread[k], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    for (int k = 0; k < THREADS; k++) check("thread", sums[k], 6 * n + (n + n / 3) + (n + n * 15 / 2));
    // Each time 0 + … + 63, half of them one more, and one for each call.
    check("handlers are wrong", handled_sum != handled * (63 * 32 + 32 + 64), 0);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    libraries(argv + 1);
    rewritten();
    flipped();
    unmapped();
    threads();
    return failed;
}
