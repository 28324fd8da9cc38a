// Takes code away again and again while threads run in it, in one of three ways: each time they
// must fault there, and their handlers go on. Usage: unmap_storm ROUNDS
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 4096, THREADS = 4 };

/// loop: incq (%rdi); jmp loop
static const unsigned char LOOP[] = {0x48, 0xff, 0x07, 0xeb, 0xfb};

static __thread sigjmp_buf before;
static uintptr_t start;
static volatile long turns, rounds_left;
static pthread_barrier_t barrier;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    if ((uintptr_t)info->si_addr - start >= BYTES) {
        if (write(1, "elsewhere\n", 10) < 0) _exit(9);
        _exit(7);
    }
    siglongjmp(before, 1);
}

static void *run(void *unused) {
    (void)unused;
    while (pthread_barrier_wait(&barrier), rounds_left > 0) {
        if (!sigsetjmp(before, 1)) ((void (*)(volatile long *))start)(&turns);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/// Returns what is still mapped.
static void *take_away(void *code, long way) {
    if (way == 0) return munmap(code, BYTES), NULL;
    if (way == 1) return mprotect(code, BYTES, PROT_NONE), code;
    void *to = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mremap(code, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 100;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int k = 0; k < THREADS; k++)
        if (pthread_create(&threads[k], NULL, run, NULL)) return 4;
    for (rounds_left = rounds; rounds_left > 0; rounds_left--) {
        void *code = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (code == MAP_FAILED) return 5;
        memcpy(code, LOOP, sizeof LOOP);
        if (mprotect(code, BYTES, PROT_READ | PROT_EXEC)) return 5;
        start = (uintptr_t)code;
        turns = 0;
        pthread_barrier_wait(&barrier);
        while (turns < 1000) {}
        void *moved = take_away(code, rounds_left % 3);
        pthread_barrier_wait(&barrier);
        if (moved) munmap(moved, BYTES);
    }
    pthread_barrier_wait(&barrier);
    for (int k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
    printf("%ld rounds\n", rounds);
    return 0;
}
