// A program that forbids itself every system call it does not make, on pain of death, and goes on:
// with threads, code that has not run before, memory of its own, and signals. Usage: seccomp HOW,
// where HOW is "filter" (threads and memory allowed), "narrow" (hardly more than write), "refuse"
// (forbidden calls fail), "fork" (children, which inherit the filter) or "strict" (the mode without
// a filter).
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 2000, MAX = 64 };

static const int narrow[] = {SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_read};
static const int wide[] = {SYS_write,        SYS_exit,      SYS_exit_group,  SYS_rt_sigreturn,
                           SYS_read,         SYS_mmap,      SYS_munmap,      SYS_mprotect,
                           SYS_madvise,      SYS_brk,       SYS_clone3,      SYS_clone,
                           SYS_futex,        SYS_set_robust_list,            SYS_rt_sigprocmask,
                           SYS_rseq,         SYS_getrandom, SYS_rt_sigaction,
                           SYS_sched_getaffinity, SYS_sysinfo};
static const int forking[] = {SYS_wait4, SYS_set_robust_list, SYS_clone};

static void allow(const int *calls, int count, const int *more, int extra, uint32_t otherwise) {
    struct sock_filter code[2 * MAX + 8];
    int n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count + extra; i++) {
        uint32_t call = (uint32_t)(i < count ? calls[i] : more[i - count]);
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        abort();
}

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0) _exit(9);
}

static volatile sig_atomic_t alarms;
static void on_alarm(int signal) { alarms += signal == SIGALRM; }

// Much code for the first time, and indirect calls.
static double work(int n) {
    char text[64];
    double sum = 0;
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%d %a %s", i, i / 7.0, strerror(i % 40));
        sum += strtod(strchr(text, ' ') + 1, NULL);
    }
    return sum;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void *in_thread(void *argument) {
    int *numbers = malloc(ROUNDS * sizeof *numbers);
    for (int i = 0; i < ROUNDS; i++) numbers[i] = (i * 7919) % ROUNDS;
    qsort(numbers, ROUNDS, sizeof *numbers, compare);
    *(int *)argument += numbers[ROUNDS / 2];
    free(numbers);
    return argument;
}

static void threads(void) {
    pthread_t ids[THREADS];
    int sums[THREADS] = {0};
    for (int round = 0; round < 3; round++) {
        for (int t = 0; t < THREADS; t++)
            if (pthread_create(&ids[t], NULL, in_thread, &sums[t])) say("no thread\n");
        for (int t = 0; t < THREADS; t++) pthread_join(ids[t], NULL);
    }
    say(sums[0] == 3 * ROUNDS / 2 && sums[THREADS - 1] == sums[0] ? "threads right\n" : "wrong\n");
}

static void children(void) {
    for (int i = 0; i < 3; i++) {
        // Not fork(): its handlers ask for more than the filter has.
        int status, pid = (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            say(work(50) > 0 ? "child right\n" : "wrong\n");
            _exit(i);
        }
        if (wait4(pid, &status, 0, NULL) != pid || WEXITSTATUS(status) != i) say("child lost\n");
    }
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "filter";
    enum { N = sizeof narrow / sizeof *narrow, W = sizeof wide / sizeof *wide };
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 500}, {0, 500}};
    if (strcmp(how, "fork")) setitimer(ITIMER_REAL, &timer, NULL);
    if (!strcmp(how, "narrow")) allow(narrow, N, NULL, 0, SECCOMP_RET_KILL_PROCESS);
    if (!strcmp(how, "refuse")) allow(narrow, N, NULL, 0, SECCOMP_RET_ERRNO | EPERM);
    if (!strcmp(how, "filter")) allow(wide, W, NULL, 0, SECCOMP_RET_KILL_PROCESS);
    if (!strcmp(how, "fork")) allow(narrow, N, forking, 3, SECCOMP_RET_KILL_PROCESS);
    if (!strcmp(how, "strict") && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) abort();
    say(work(ROUNDS) > 0 ? "worked\n" : "wrong\n");
    if (!strcmp(how, "filter")) threads();
    if (!strcmp(how, "fork")) children();
    else while (alarms < 20);
    say("done\n");
    syscall(SYS_exit, 7);
}
