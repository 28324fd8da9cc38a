// All ways to start a child while other threads run: fork, fork and exec, vfork and exec,
// posix_spawn, system and popen; each child's status and output must come back right.
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static atomic_int stop;
static atomic_long work;

static void *spin(void *argument) {
    while (!atomic_load(&stop)) atomic_fetch_add(&work, 1);
    return argument;
}

static int status_of(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int by_fork(int code) {
    pid_t pid = fork();
    if (pid == 0) {
        char *text = malloc(100); // the child's heap works, too
        snprintf(text, 100, "%d", code);
        _exit(atoi(text));
    }
    return status_of(pid);
}

static int by_fork_exec(void) {
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "exit 23", (char *)NULL);
        _exit(99);
    }
    return status_of(pid);
}

static int by_vfork_exec(void) {
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "exit 24", (char *)NULL);
        _exit(99);
    }
    return status_of(pid);
}

static int by_failing_vfork_exec(void) {
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/nonexistent", "nonexistent", (char *)NULL);
        _exit(77);
    }
    return status_of(pid);
}

static int by_spawn(void) {
    char *arguments[] = {"sh", "-c", "exit 25", NULL};
    pid_t pid;
    if (posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ)) return -1;
    return status_of(pid);
}

static int by_forked_threads(void) {
    pid_t pid = fork();
    if (pid == 0) {
        // A forked child may start threads of its own.
        pthread_t thread;
        atomic_store(&stop, 1);
        if (pthread_create(&thread, NULL, spin, NULL) || pthread_join(thread, NULL)) _exit(98);
        _exit(26);
    }
    return status_of(pid);
}

static int by_popen(void) {
    char line[64] = "";
    FILE *pipe = popen("echo from a child", "r");
    if (!pipe || !fgets(line, sizeof line, pipe)) return -1;
    return pclose(pipe) == 0 && !strcmp(line, "from a child\n") ? 0 : -1;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, spin, NULL)) return 3;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int round = 0; round < 5; round++)
        printf("fork %d exec %d vfork %d failed %d spawn %d threads %d system %d popen %d\n",
               by_fork(round + 10), by_fork_exec(), by_vfork_exec(), by_failing_vfork_exec(),
               by_spawn(), by_forked_threads(), WEXITSTATUS(system("exit 27")), by_popen());
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("worked %s\n", atomic_load(&work) > 0 ? "yes" : "no");
    return 0;
}
