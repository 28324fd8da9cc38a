// Endless recursion that ends in a handler on an alternate stack, which leaves by siglongjmp; the
// thread then works on as if nothing had been.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static sigjmp_buf back;

static void on_fault(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static __attribute__((noinline)) int endless(volatile int *above) {
    volatile int here[256];
    here[0] = *above + 1;
    return endless(here) + here[0];
}

int main(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_STACK, &limit);
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    volatile int overflows = 0, zero = 0;
    for (volatile int i = 0; i < 20; i++) {
        if (sigsetjmp(back, 1) == 0) return endless(&zero);
        overflows++;
    }
    printf("overflows %d\n", overflows);
    return 0;
}
