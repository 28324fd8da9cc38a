// Programs whose signals must stay as they are while a library in them uses SIGTRAP. Each mode
// computes in two threads that share a line, so that there are samples and traps all the time, and
// prints what it saw of its signals; the output is the same in every run.
//
//   signals own|raise|int3|query|blocked|altstack|calls
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t shared[8] __attribute__((aligned(64)));
static _Thread_local volatile uint64_t mine[16] __attribute__((aligned(64)));
static volatile int stop;
static volatile long counted, wrong;

// Stores to the shared line and to its own; returns after about a hundred million steps, or when
// told.
static void compute(long steps) {
    uint64_t own = 1;
    for (long i = 0; i < steps && !stop; i++) {
        own = own * 6364136223846793005u + 1;
        if (own >> 60 & 1) shared[own >> 61] = own;
        else mine[own >> 61] = own;
    }
}

static void *worker(void *steps) {
    compute((long)(intptr_t)steps);
    return NULL;
}

static void with_two(void (*action)(void)) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)60000000);
    action();
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void counting(int signal) { (void)signal, counted++; }

// Handles SIGTRAP itself, in the midst of things.
static void own(void) {
    usleep(30000);
    struct sigaction action = {.sa_handler = counting}, old;
    if (sigaction(SIGTRAP, &action, &old)) exit(3);
    printf("before: %s\n", old.sa_handler == SIG_DFL ? "default" : "other");
    for (int i = 0; i < 100; i++) raise(SIGTRAP);
    for (int i = 0; i < 100; i++) __asm__ volatile("int3");
    compute(30000000);
    printf("handled %ld\n", counted);
}

// Handles SIGTRAP as a precaution, as runtimes of languages do; none comes until the end.
static void precaution(void) {
    struct sigaction action = {.sa_handler = counting}, old;
    if (sigaction(SIGTRAP, &action, NULL)) exit(3);
    compute(100000000);
    sigaction(SIGTRAP, NULL, &old);
    printf("handler %s, %ld\n", old.sa_handler == counting ? "own" : "other", counted);
}

// A handler for one signal only, that has another one blocked; the second signal ends the program.
static volatile sig_atomic_t blocked_in_handler = -1;

static void once(int signal, siginfo_t *info, void *context) {
    (void)context;
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    blocked_in_handler = sigismember(&now, SIGUSR1) + 2 * sigismember(&now, SIGUSR2);
    counted += signal == SIGTRAP && info->si_code == SI_TKILL;
}

static void reset(void) {
    struct sigaction action = {.sa_sigaction = once, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    sigaddset(&action.sa_mask, SIGUSR1);
    if (sigaction(SIGTRAP, &action, NULL)) exit(3);
    compute(30000000);
    raise(SIGTRAP);
    struct sigaction old;
    sigaction(SIGTRAP, NULL, &old);
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    printf("handled %ld with %d, then %s, blocked %d\n", counted, (int)blocked_in_handler,
           old.sa_handler == SIG_DFL ? "default" : "other", sigismember(&now, SIGUSR1));
    fflush(stdout);
    raise(SIGTRAP);
    puts("alive");
}

// What the program sees of its dispositions and masks.
static void query(void) {
    struct sigaction old;
    sigset_t set, seen;
    sigaction(SIGTRAP, NULL, &old);
    printf("handler %s\n", old.sa_handler == SIG_DFL ? "default" : "other");
    stack_t stack;
    sigaltstack(NULL, &stack);
    printf("stack %s\n", stack.ss_flags & SS_DISABLE ? "none" : "some");
    sigemptyset(&set), sigaddset(&set, SIGTRAP), sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &seen);
    printf("before %d %d\n", sigismember(&seen, SIGTRAP), sigismember(&seen, SIGUSR1));
    compute(20000000);
    sigdelset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, &seen);
    printf("between %d %d\n", sigismember(&seen, SIGTRAP), sigismember(&seen, SIGUSR1));
    pthread_sigmask(SIG_SETMASK, NULL, &seen);
    printf("after %d %d\n", sigismember(&seen, SIGTRAP), sigismember(&seen, SIGUSR1));
}

// All signals blocked everywhere, and one thread that waits for any of them.
static void *waits(void *unused) {
    (void)unused;
    sigset_t all;
    sigfillset(&all);
    for (int signal; sigwait(&all, &signal) == 0;) {
        if (signal == SIGUSR1) counted++;
        else if (signal == SIGUSR2) return NULL;
        else printf("unexpected signal %d\n", signal), wrong++;
        for (volatile int i = 0; i < 300000; i++) {} // is sampled, too
    }
    return NULL;
}

static void blocked(void) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_t waiting, threads[2];
    pthread_create(&waiting, NULL, waits, NULL);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)60000000);
    for (int i = 0; i < 50; i++) {
        pthread_kill(waiting, SIGUSR1);
        while (counted <= i && !wrong) usleep(1000);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    pthread_kill(waiting, SIGUSR2);
    pthread_join(waiting, NULL);
    printf("waited for %ld, %ld wrong\n", counted, wrong);
}

// Handlers on stacks that are just large enough for them, with a page behind that nobody may touch.
static void on_stack(int signal) {
    (void)signal;
    for (volatile int i = 0; i < 20000; i++) {}
    counted++, wrong += errno != 77;
}

// SIGALRM goes to any thread that does not block it, and each has an errno of its own: only this
// one takes it.
static void mask_alarm(int how) {
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGALRM);
    pthread_sigmask(how, &set, NULL);
}

static void altstack(void) {
    mask_alarm(SIG_UNBLOCK);
    size_t least = getauxval(AT_MINSIGSTKSZ), bytes = ((least ? least : 4096) + 2048 + 4095) & ~4095ul;
    char *memory = mmap(NULL, bytes + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory + 4096, bytes, PROT_READ | PROT_WRITE);
    stack_t stack = {.ss_sp = memory + 4096, .ss_size = bytes};
    if (sigaltstack(&stack, NULL)) exit(3);
    struct sigaction action = {.sa_handler = on_stack, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    errno = 77;
    setitimer(ITIMER_REAL, &timer, NULL);
    while (counted < 300) compute(100000);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    printf("errno %s\n", errno == 77 && !wrong ? "stays" : "changed");
}

// Calls that a signal would interrupt, and errno.
static void calls(void) {
    int interrupted = 0, pipes[2];
    if (pipe(pipes)) exit(3);
    for (int i = 0; i < 40; i++) {
        struct timespec moment = {0, 5000000};
        interrupted += nanosleep(&moment, NULL) != 0;
        struct pollfd poller = {.fd = pipes[0], .events = POLLIN};
        interrupted += poll(&poller, 1, 5) != 0;
        errno = 55;
        compute(1000000);
        wrong += errno != 55;
    }
    printf("interrupted %d, errno %s\n", interrupted, wrong ? "changed" : "stays");
}

static void trap(void) {
    compute(30000000);
    puts("trapping");
    __asm__ volatile("int3");
    puts("alive");
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(mode, "own")) with_two(own);
    else if (!strcmp(mode, "precaution")) with_two(precaution);
    else if (!strcmp(mode, "reset")) with_two(reset);
    else if (!strcmp(mode, "query")) with_two(query);
    else if (!strcmp(mode, "blocked")) blocked();
    else if (!strcmp(mode, "altstack")) mask_alarm(SIG_BLOCK), with_two(altstack);
    else if (!strcmp(mode, "calls")) with_two(calls);
    else if (!strcmp(mode, "raise")) compute(30000000), puts("raising"), raise(SIGTRAP), puts("alive");
    else if (!strcmp(mode, "int3")) trap();
    else return 2;
    return 0;
}
