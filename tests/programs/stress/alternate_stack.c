// Handlers on a stack of their own, interrupted by others that ask for the same stack, whatever the
// program or what runs it does at that moment: the stack is in use and must not be begun anew.
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { NESTED = 300, CALLS = 50, STACK = 1 << 16 };

static char stack[STACK], page[3 * 4096];
static volatile sig_atomic_t inside, nested, wrong, count;

static int is_on_stack(const void *local) {
    return (uintptr_t)local - (uintptr_t)stack < STACK;
}

static void on_alarm(int signal) {
    char local[64];
    memset(local, signal, sizeof local);
    wrong += !is_on_stack(local);
    nested += inside;
    count++;
}

// Asks for what needs more than the kernel: memory that may hold code, other handlers.
static void on_user(int signal, siginfo_t *info, void *context) {
    uint64_t local[64];
    for (int k = 0; k < 64; k++) local[k] = (uint64_t)k * 77;
    inside = 1;
    char *aligned = (char *)(((uintptr_t)page + 4095) & ~(uintptr_t)4095);
    for (int k = 0; k < CALLS; k++) {
        struct sigaction before;
        wrong += mprotect(aligned, 4096, PROT_READ | PROT_WRITE) != 0;
        wrong += sigaction(SIGALRM, NULL, &before) != 0 || before.sa_handler != on_alarm;
    }
    inside = 0;
    for (int k = 0; k < 64; k++) wrong += local[k] != (uint64_t)k * 77;
    wrong += signal != SIGUSR1 || info->si_pid != getpid() || !context || !is_on_stack(local);
}

int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction user = {.sa_sigaction = on_user, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK};
    struct itimerval often = {{0, 150}, {0, 150}};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &user, NULL);
    sigaction(SIGALRM, &alarm, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    double value = 1;
    for (uint64_t k = 0; nested < NESTED; k++) {
        double expected = value * 1.5 + (double)(k & 7);
        raise(SIGUSR1);
        value = value * 1.5 + (double)(k & 7);
        wrong += value != expected;
        if (value > 1e9) value = 1;
    }
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_REAL, &often, NULL);
    printf("wrong %d, alarms %d\n", (int)wrong, count >= NESTED);
    return wrong != 0;
}
