// Many processes on one line of memory.
//
// `crowd read N TURNS`: process 0 writes a counter, and N children read it, one after the other, so
//   often. Prints what happens.
// `crowd kill N`: N times, two children write to the same lines as fast as they can, and one of
// them is killed; then process 0 must still get through.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 8, MAX = 400 }; // words

static volatile long *shared;
static int to_child[MAX][2], to_parent[2];

static void post(int *pipe) {
    if (write(pipe[1], "x", 1) != 1) _exit(3);
}

static void wait_for(int *pipe) {
    char c;
    if (read(pipe[0], &c, 1) != 1) _exit(3);
}

static int reading(int children, long turns) {
    if (pipe(to_parent)) return 2;
    for (int k = 0; k < children; k++) {
        if (pipe(to_child[k])) return 2;
        if (fork()) continue;
        for (long turn = 0; turn < turns; turn++) {
            wait_for(to_child[k]);
            if (shared[0] != turn + 1) _exit(1);
            post(to_parent);
        }
        _exit(0);
    }
    for (long turn = 0; turn < turns; turn++) {
        shared[0] = turn + 1;
        for (int k = 0; k < children; k++) {
            post(to_child[k]);
            wait_for(to_parent);
        }
    }
    int bad = 0, status;
    while (wait(&status) > 0) bad |= status;
    for (int k = 1; k <= children; k++) {
        printf("expect raw 0 %d %ld\n", k, turns);
        if (turns > 1) printf("expect invalidation 0 %d %ld\n", k, turns - 1);
    }
    return bad != 0;
}

static pid_t hammer(void) {
    pid_t child = fork();
    if (!child)
        for (long k = 0;; k++)
            for (int line = 0; line < 4; line++) shared[line * LINE] += k;
    return child;
}

static int killing(int times) {
    for (int k = 0; k < times; k++) {
        pid_t children[] = {hammer(), hammer()};
        usleep(1000 + 997 * k % 5000);
        for (int c = 0; c < 2; c++) {
            kill(children[c], SIGKILL);
            waitpid(children[c], NULL, 0);
            for (int line = 0; line < 4; line++) shared[line * LINE] = k;
        }
    }
    puts("through");
    return 0;
}

int main(int argc, char **argv) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || argc < 3) return 64;
    if (argc == 4 && !strcmp(argv[1], "read")) return reading(atoi(argv[2]), atol(argv[3]));
    if (!strcmp(argv[1], "kill")) return killing(atoi(argv[2]));
    return 64;
}
