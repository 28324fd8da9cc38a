// Faults as a means: a SIGSEGV handler on an alternate stack looks at the fault address, then
// siglongjmps out of a guarded read, on several threads at once; a second handler repairs the page
// with mprotect and lets the access be done again.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static _Thread_local sigjmp_buf back;
static _Thread_local volatile int repair;
static _Thread_local char *guarded;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if ((char *)info->si_addr < guarded || (char *)info->si_addr >= guarded + 4096) _Exit(9);
    if (!repair) siglongjmp(back, 1);
    if (mprotect(guarded, 4096, PROT_READ | PROT_WRITE)) _Exit(8);
}

static void *faults(void *argument) {
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536};
    if (sigaltstack(&alternate, NULL)) return NULL;
    guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile uintptr_t jumped = 0, repaired = 0;
    volatile double kept = 1.0; // lives across the jump
    for (volatile int i = 0; i < 1000; i++) {
        if (sigsetjmp(back, 1) == 0) {
            *(volatile int *)(guarded + (i * 4 & 4095)) = i;
            return NULL; // the access must not succeed
        }
        jumped++;
        kept += 0.5;
    }
    repair = 1;
    for (int i = 0; i < 1000; i++) {
        mprotect(guarded, 4096, PROT_NONE);
        volatile int *word = (volatile int *)(guarded + (i * 4 & 4095));
        *word = i;
        repaired += *word == i;
    }
    (void)argument;
    return (void *)(jumped * 1000000 + repaired * 1000 + (uintptr_t)kept);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, faults, NULL)) return 3;
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("thread %d %llu\n", i, (unsigned long long)(uintptr_t)result);
    }
    return 0;
}
