// Signals at any instruction, of the program or of whatever runs it: a debugger steps through its
// child and sends it a signal every few instructions. What the child computes must not change. The
// child's threads, system calls, new code and handlers go on meanwhile. Usage: injected BURSTS SEED
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 400, TRAP_FLAG = 0x100 };

static volatile uint64_t handled, wrong;
static volatile int stopping;

// Its own registers and memory are none of the interrupted code's business.
static void on_signal(int signal, siginfo_t *info, void *context) {
    uint64_t sum = 0;
    char text[32];
    for (int i = 0; i < 5; i++) sum = sum * 31 + (uint64_t)i;
    snprintf(text, sizeof text, "%d %d", signal, (int)(sum & 0xff));
    wrong += !strchr(text, ' ') || !info || !context;
    wrong += getppid() != (pid_t)syscall(SYS_getppid);
    handled++;
}

static void on_stop(int signal) { stopping = signal; }

static uint64_t mix(uint64_t x) { return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u; }
static uint64_t add(uint64_t x) { return x + 0x9e3779b97f4a7c15u; }
static uint64_t turn(uint64_t x) { return x << 7 | x >> 57; }
static uint64_t (*volatile steps[])(uint64_t) = {mix, add, turn, mix};

static int compare(const void *a, const void *b) {
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void *in_thread(void *from) {
    uint64_t x = (uintptr_t)from;
    for (int i = 0; i < 50; i++) x = steps[i % 4](x);
    return (void *)(uintptr_t)x;
}

// Everything that leaves straight-line code: calls through pointers, strings, memory that comes and
// goes, system calls, threads.
static uint64_t work(uint64_t round) {
    uint64_t x = round;
    char from[200], to[200];
    int numbers[64];
    double d = 1 + (double)round;
    for (int i = 0; i < 40; i++) x = steps[x % 4](x);
    memset(from, (int)(x & 0x7f) | 1, sizeof from);
    memcpy(to, from, sizeof to);
    for (int i = 0; i < 200; i++) x = x * 31 + (unsigned char)to[i];
    for (int i = 0; i < 64; i++) numbers[i] = (int)(x >> (i % 40)) & 1023;
    qsort(numbers, 64, sizeof *numbers, compare);
    for (int i = 0; i < 64; i++) d = d * 1.0009765625 + numbers[i];
    snprintf(from, sizeof from, "%.6f %llx", d, (unsigned long long)x);
    x += strlen(from) + (uint64_t)from[5];
    volatile uint64_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 1024; i++) page[i] += x + (uint64_t)i;
    for (int i = 0; i < 1024; i += 7) x ^= page[i];
    munmap((void *)page, 8192);
    int ends[2];
    if (pipe(ends) || write(ends[1], &x, 8) != 8) return 1;
    uint64_t back = 0;
    while (read(ends[0], &back, 8) != 8 && errno == EINTR) continue;
    close(ends[0]);
    close(ends[1]);
    if (round % 16 == 0) {
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, in_thread, (void *)(uintptr_t)back)) return 2;
        pthread_join(thread, &result);
        back ^= (uintptr_t)result;
    }
    return back ^ x << 1;
}

// Works until it is told to stop, and checks each result against the first one.
static int child(void) {
    enum { ROUNDS = 32 };
    uint64_t results[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) results[i] = work((uint64_t)i);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    signal(SIGTERM, on_stop);
    raise(SIGSTOP);
    for (uint64_t i = 0; !stopping; i = (i + 1) % ROUNDS) wrong += work(i) != results[i];
    printf("handled some: %d, wrong: %d\n", handled > 0, (int)wrong);
    return wrong != 0;
}

static uint64_t seed;
static unsigned below(unsigned n) {
    seed = seed * 6364136223846793005u + 1;
    return (unsigned)(seed >> 33) % n;
}

// A stop of the child: the signal that it would get, if it is not one of the debugger's.
static int next_stop(pid_t pid) {
    int status;
    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status)) {
        printf("the child ended: %s %d\n", WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        exit(1);
    }
    int signal = WSTOPSIG(status);
    return signal == SIGTRAP || signal == SIGSTOP ? 0 : signal;
}

// The trap flag may have been saved while the child was stepped through.
static void clear_trap_flag(pid_t pid) {
    struct user_regs_struct registers;
    ptrace(PTRACE_GETREGS, pid, 0, &registers);
    if (registers.eflags & TRAP_FLAG) {
        registers.eflags &= ~(unsigned long long)TRAP_FLAG;
        ptrace(PTRACE_SETREGS, pid, 0, &registers);
    }
}

static void go_on(pid_t pid, int signal) {
    clear_trap_flag(pid);
    ptrace(PTRACE_CONT, pid, 0, (void *)(long)signal);
}

// Steps through some of the child, with a signal every few instructions.
static void burst(pid_t pid) {
    unsigned rarely = 1 + below(60);
    int signal = 0;
    for (int step = 0; step < STEPS; step++) {
        if (!signal && below(rarely) == 0) signal = below(2) ? SIGUSR1 : SIGUSR2;
        ptrace(PTRACE_SINGLESTEP, pid, 0, (void *)(long)signal);
        signal = next_stop(pid);
    }
    go_on(pid, signal);
}

int main(int argc, char **argv) {
    int bursts = argc > 1 ? atoi(argv[1]) : 100;
    seed = argc > 2 ? (uint64_t)atoi(argv[2]) : 1;
    pid_t pid = fork();
    if (pid < 0) return 77;
    if (pid == 0) return child();
    int status;
    waitpid(pid, &status, WUNTRACED);
    if (ptrace(PTRACE_SEIZE, pid, 0, 0)) return 77;
    kill(pid, SIGCONT);
    for (int k = 0; k < bursts; k++) {
        usleep(below(700));
        ptrace(PTRACE_INTERRUPT, pid, 0, 0);
        // Traps that were saved before, stops of signals on their way: until the one that was asked
        // for.
        for (;;) {
            if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status)) {
                printf("the child ended: %x\n", (unsigned)status);
                return 1;
            }
            if (status >> 16 == PTRACE_EVENT_STOP) break;
            int signal = WSTOPSIG(status);
            go_on(pid, signal == SIGTRAP ? 0 : signal);
        }
        burst(pid);
    }
    kill(pid, SIGTERM);
    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
        int signal = status >> 16 ? 0 : WSTOPSIG(status);
        go_on(pid, signal == SIGTRAP ? 0 : signal);
    }
    printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    return 0;
}
