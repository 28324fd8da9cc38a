// What comes from other processes: signals, and the one for the parent's end.
//
//   signalled waits FILE       makes the file, waits for all signals that are SENT, prints them and their values
//   signalled dies FILE        makes the file and waits
//   signalled parent           prints which signal it is to get when its parent ends, and after setting one
//   signalled send PID         sends the process all of SENT
//   signalled alarm S COMMAND  executes the command, which gets SIGALRM after so many seconds
//   signalled heir COMMAND     executes the command, which gets SIGUSR2 when its parent ends
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const int SENT[] = {SIGUSR1, SIGUSR2,  SIGALRM, SIGVTALRM, SIGPROF,    SIGXCPU, SIGXFSZ, SIGIO,
                           SIGPWR,  SIGSTKFLT, SIGABRT, SIGSEGV,   SIGILL,    SIGTRAP, SIGSYS,  40};
enum { COUNT = sizeof SENT / sizeof *SENT, QUEUED = 40 };

static void ready(const char *file) {
    int made = open(file, O_CREAT | O_WRONLY, 0600);
    if (made < 0) exit(3);
    close(made);
}

static void waits(const char *file) {
    sigset_t all;
    int values[65] = {0}, came[65] = {0};
    sigemptyset(&all);
    for (int i = 0; i < COUNT; i++) sigaddset(&all, SENT[i]);
    sigprocmask(SIG_BLOCK, &all, NULL);
    ready(file);
    for (int left = COUNT; left;) {
        siginfo_t info;
        int signal = sigwaitinfo(&all, &info);
        if (signal < 0) continue;
        left -= !came[signal]++;
        values[signal] = info.si_code == SI_QUEUE ? info.si_value.sival_int : 0;
    }
    for (int i = 0; i < COUNT; i++) printf("%d: %d times, value %d\n", SENT[i], came[SENT[i]], values[SENT[i]]);
}

static int sends(pid_t to) {
    for (int i = 0; i < COUNT; i++) {
        union sigval value = {.sival_int = 1234};
        if (SENT[i] == QUEUED ? sigqueue(to, SENT[i], value) : kill(to, SENT[i])) return 4;
    }
    return 0;
}

static int told(void) {
    int signal = -1;
    return prctl(PR_GET_PDEATHSIG, &signal) ? -2 : signal;
}

static void parent(char **argv, int again) {
    printf("%s for the parent's end %d\n", again ? "executed:" : "started:", told());
    fflush(stdout);
    if (again) exit(0);
    if (prctl(PR_SET_PDEATHSIG, SIGUSR1)) exit(3);
    printf("set %d\n", told());
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(told());
    int status;
    waitpid(child, &status, 0);
    printf("a child has %d\n", WEXITSTATUS(status));
    fflush(stdout);
    execl("/proc/self/exe", argv[0], "parent", "again", (char *)NULL);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "waits")) {
        waits(argv[2]);
        return 3;
    }
    if (!strcmp(mode, "dies")) {
        ready(argv[2]);
        for (;;) pause();
    }
    if (!strcmp(mode, "send")) return sends(atoi(argv[2]));
    if (!strcmp(mode, "parent")) parent(argv, argc > 2);
    if (!strcmp(mode, "alarm")) {
        alarm(atoi(argv[2]));
        execv(argv[3], argv + 3);
    }
    if (!strcmp(mode, "heir")) {
        prctl(PR_SET_PDEATHSIG, SIGUSR2);
        execv(argv[2], argv + 2);
    }
    return 2;
}
