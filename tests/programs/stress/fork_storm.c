// Many threads at once, each starting children: some go on in the copy and start threads there,
// some execute a program, by fork, vfork and posix_spawn. Usage: fork_storm THREADS ROUNDS.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static pthread_barrier_t together;
static int rounds;
static atomic_int wrong, right;
static _Alignas(64) atomic_int shared;

static void *add(void *argument) {
    for (int k = 0; k < 100; k++) atomic_fetch_add(&shared, 1);
    return argument;
}

static void in_child(int number) {
    pthread_t thread;
    atomic_store(&shared, 0);
    if (pthread_create(&thread, NULL, add, NULL)) _exit(90);
    add(NULL);
    pthread_join(thread, NULL);
    char *text = malloc(32);
    snprintf(text, 32, "%d", atomic_load(&shared) == 200 ? number : 91);
    _exit(atoi(text));
}

static pid_t start(int number) {
    char code[16], *arguments[] = {"sh", "-c", code, NULL};
    snprintf(code, sizeof code, "exit %d", number);
    pid_t pid = -1;
    switch (number % 4) {
    case 0:
        if ((pid = fork()) == 0) in_child(number);
        return pid;
    case 1:
        if ((pid = fork()) == 0) {
            execv("/bin/sh", arguments);
            _exit(92);
        }
        return pid;
    case 2:
        if ((pid = vfork()) == 0) {
            execv("/bin/sh", arguments);
            _exit(93);
        }
        return pid;
    default: return posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ) ? -1 : pid;
    }
}

static void *run(void *argument) {
    int id = (int)(long)argument;
    pthread_barrier_wait(&together);
    for (int round = 0; round < rounds; round++) {
        int status, number = (id + round) % 60;
        pid_t pid = start(number);
        int ok = pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == number;
        atomic_fetch_add(ok ? &right : &wrong, 1);
    }
    pthread_barrier_wait(&together);
    return NULL;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 8;
    rounds = argc > 2 ? atoi(argv[2]) : 4;
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_barrier_init(&together, NULL, (unsigned)count);
    for (int t = 0; t < count; t++)
        if (pthread_create(&threads[t], NULL, run, (void *)(long)t)) return 3;
    for (int t = 0; t < count; t++) pthread_join(threads[t], NULL);
    printf("right %d wrong %d\n", atomic_load(&right), atomic_load(&wrong));
    return 0;
}
