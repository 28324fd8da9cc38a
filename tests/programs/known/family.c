// A parent whose children run a pattern of pthreads.c, each with its own number of participants: in
// a forked process (started by the initial thread, by another thread, on a stack of its own, or by
// a child), or in a program executed after fork, after vfork, by posix_spawn, or after an execution
// that failed. The parent runs a pattern itself in the end. Usage: family HOW; with "pattern", the
// pattern of the following arguments alone.
#define _GNU_SOURCE
#define main pattern_main
#include "pthreads.c"
#undef main

#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
static char *self;

// The pattern of `participants`; never returns.
static void run_here(const char *participants) {
    char *arguments[] = {self, "ring", (char *)participants, "4", "256", "64", NULL};
    int code = pattern_main(6, arguments);
    fflush(stdout);
    _exit(code);
}

static void execute(const char *path, const char *participants) {
    execl(path, self, "pattern", "ring", participants, "4", "256", "64", (char *)NULL);
}

static void await(pid_t pid) {
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        printf("child failed\n");
        exit(4);
    }
}

static void *fork_here(void *participants) {
    pid_t pid = fork();
    if (pid == 0) run_here(participants);
    await(pid);
    return NULL;
}

static void nested(void) {
    pid_t pid = fork();
    if (pid == 0) {
        fork_here("2");
        run_here("3");
    }
    await(pid);
}

static int on_own_stack(void *participants) {
    run_here(participants);
    return 0;
}

static void spawned(const char *participants) {
    char *arguments[] = {self, "pattern", "ring", (char *)participants, "4", "256", "64", NULL};
    pid_t pid = -1;
    if (posix_spawn(&pid, self, NULL, NULL, arguments, environ)) exit(5);
    await(pid);
}

static void start(const char *how) {
    if (!strcmp(how, "fork")) fork_here("3");
    if (!strcmp(how, "nested")) nested();
    if (!strcmp(how, "spawn")) spawned("3");
    if (!strcmp(how, "thread")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fork_here, "3")) exit(3);
        pthread_join(thread, NULL);
    }
    if (!strcmp(how, "clone")) {
        char *stack = malloc(1 << 20);
        await(clone(on_own_stack, stack + (1 << 20), SIGCHLD, "3"));
    }
    if (!strcmp(how, "exec") || !strcmp(how, "failing")) {
        pid_t pid = fork();
        if (pid == 0 && !strcmp(how, "failing")) execute("/nonexistent", "9");
        if (pid == 0) !strcmp(how, "failing") ? run_here("3") : execute(self, "3");
        await(pid);
    }
    if (!strcmp(how, "vfork")) {
        pid_t pid = vfork();
        if (pid == 0) {
            execute("/nonexistent", "9");
            execute(self, "3");
            _exit(6);
        }
        await(pid);
    }
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 2) return pattern_main(argc - 1, argv + 1);
    // What the parent has written before is not the child's to count.
    static char before[1 << 16];
    memset(before, 1, sizeof before);
    start(argv[1]);
    // In the case "thread", number 1 has come and gone: the pattern's truth would be off by one.
    if (!strcmp(argv[1], "thread")) return 0;
    char *arguments[] = {self, "ring", "4", "4", "256", "64", NULL};
    return pattern_main(6, arguments);
}
