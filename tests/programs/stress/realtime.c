// Real-time threads of different priorities on one processor. The one with the highest priority
// wakes up again and again, often in the middle of what the one with the lowest does, and does the
// same thing itself. A third one, with a priority between the two, keeps the processor until the
// highest is done. So whoever has the highest priority must never wait for the lowest without
// lending it its priority.
//
//   realtime WHAT    code: code that is new | lines: common cache lines | threads: new threads | forks: new processes
//   realtime probe   says whether the machine allows such threads
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOW = 10, MIDDLE = 20, HIGH = 30 };
enum { CODE_BYTES = 64 << 20, FUNCTION_BYTES = 64, LINES = 64, LINE = 64 };

static atomic_int ended, busy;
static atomic_uint next_function;
static unsigned char *code;
static unsigned char lines[LINES][LINE] __attribute__((aligned(64)));
static unsigned wakeups, overruns;

// Seconds for which the middle one keeps the processor.
#define PATIENCE 0.02

// A function that nobody has called before: lea eax, [rdi + 1]; ret
static void new_code(void) {
    const unsigned char bytes[] = {0x8d, 0x47, 0x01, 0xc3};
    unsigned number = atomic_fetch_add(&next_function, 1) % (CODE_BYTES / FUNCTION_BYTES);
    unsigned char *at = code + (size_t)number * FUNCTION_BYTES;
    memcpy(at, bytes, sizeof bytes);
    if (((int (*)(int))at)(41) != 42) abort();
}

// Every thread writes bytes of its own, so that no line is ever one thread's as a whole.
static void common_lines(int who) {
    for (int k = 0; k < LINES; k++) ((volatile unsigned char *)lines[k])[who * 8] += 1;
}

static void *nothing(void *unused) { return unused; }

// The C library's own locks do not lend priority, so threads and processes are made without it.
static void new_thread(int who) {
    enum { STACK = 16384 };
    static unsigned char stacks[2][STACK] __attribute__((aligned(64)));
    static _Atomic int ids[2];
    const unsigned long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                                CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    long result;
    ids[who] = 1;
    register void *id __asm__("r10") = &ids[who];
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%edi, %%edi\n\t"
                     "movl $60, %%eax\n\t" // exit
                     "syscall\n"
                     "1:"
                     : "=a"(result)
                     : "a"(SYS_clone), "D"(flags), "S"(stacks[who] + STACK), "d"(0), "r"(id)
                     : "rcx", "r11", "memory");
    int now;
    while (result > 0 && (now = ids[who])) syscall(SYS_futex, &ids[who], FUTEX_WAIT, now, NULL, NULL, 0);
}

static void new_process(void) {
    long child = syscall(SYS_fork);
    if (child == 0) syscall(SYS_exit_group, 0);
    while (child > 0 && waitpid((pid_t)child, NULL, 0) < 0 && errno == EINTR) {}
}

static char what;

static void act(int who) {
    switch (what) {
    case 'c': new_code(); break;
    case 'l': common_lines(who); break;
    case 't': new_thread(who); break;
    case 'f': new_process(); break;
    }
}

static void *low(void *unused) {
    while (!ended) act(0);
    return unused;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *middle(void *unused) {
    while (!ended) {
        const double from = seconds();
        while (busy && seconds() - from < PATIENCE) {}
        overruns += busy;
        const struct timespec moment = {0, 50000};
        nanosleep(&moment, NULL);
    }
    return unused;
}

static void *high(void *unused) {
    for (unsigned k = 0; k < wakeups; k++) {
        // Of different lengths, so that the others are found at all that they do.
        const struct timespec moment = {0, 60000 + k * 7919 % 50000};
        nanosleep(&moment, NULL);
        busy = 1;
        act(1);
        busy = 0;
    }
    ended = 1;
    return unused;
}

static int start(pthread_t *thread, void *(*routine)(void *), int policy, int priority) {
    pthread_attr_t attributes;
    const struct sched_param parameter = {.sched_priority = priority};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, policy);
    pthread_attr_setschedparam(&attributes, &parameter);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    return pthread_create(thread, &attributes, routine, NULL);
}

int main(int argc, char **argv) {
    pthread_t threads[3];
    if (argc < 2) return 2;
    if (!strcmp(argv[1], "probe")) {
        if ((errno = start(&threads[0], nothing, SCHED_FIFO, HIGH))) {
            perror("real-time threads");
            return 1;
        }
        return pthread_join(threads[0], NULL);
    }
    what = argv[1][0];
    wakeups = what == 'f' ? 200 : 2000;
    code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) return 2;
    // All of them start on the processor that the program is on.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    if (start(&threads[0], high, SCHED_FIFO, HIGH) || start(&threads[1], middle, SCHED_FIFO, MIDDLE) ||
        start(&threads[2], low, SCHED_RR, LOW))
        return 3;
    for (int k = 0; k < 3; k++) pthread_join(threads[k], NULL);
    // Some locks of Linux do not lend priority either: forking always takes one, the other things
    // seldom do.
    const int waited = what != 'f' && overruns > wakeups / 10;
    puts(waited ? "the highest has waited for the lowest" : "all have ended");
    if (getenv("OVERRUNS")) fprintf(stderr, "%u of %u\n", overruns, wakeups);
    return waited;
}
