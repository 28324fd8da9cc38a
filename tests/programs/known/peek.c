// Process 0 reads or writes memory of a child by process_vm_readv and process_vm_writev, each time
// after the child has written it. Prints what happens.
//
// Usage: peek WAY TURNS, where WAY is read, write, shared-read or shared-write (memory that both
// have mapped).
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 64, LINES = 100, FIRST = 30, TAKEN = 50 };

static _Alignas(4096) char own[LINES * LINE];
static _Alignas(4096) char buffer[LINES * LINE];
static int to_child[2], to_parent[2];

static void post(int *pipe) {
    if (write(pipe[1], "x", 1) != 1) _exit(3);
}

static void wait_for(int *pipe) {
    char c;
    if (read(pipe[0], &c, 1) != 1) _exit(3);
}

int main(int argc, char **argv) {
    if (argc != 3 || pipe(to_child) || pipe(to_parent)) return 64;
    int writes = strstr(argv[1], "write") != NULL, shared = strstr(argv[1], "shared") != NULL;
    long turns = atol(argv[2]);
    char *memory = own;
    if (shared) memory = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        for (long turn = 0; turn < turns; turn++) {
            for (int k = 0; k < LINES; k++) *(volatile long *)(memory + k * LINE) = turn + 1;
            post(to_parent);
            wait_for(to_child);
        }
        _exit(0);
    }
    for (long turn = 0; turn < turns; turn++) {
        wait_for(to_parent);
        struct iovec local = {buffer, TAKEN * LINE};
        struct iovec remote[] = {{memory + FIRST * LINE, 20 * LINE},
                                 {memory + (FIRST + 20) * LINE, (TAKEN - 20) * LINE}};
        ssize_t moved = writes ? process_vm_writev(child, &local, 1, remote, 2, 0)
                               : process_vm_readv(child, &local, 1, remote, 2, 0);
        if (moved != TAKEN * LINE) return 1;
        if (!writes && *(long *)buffer != turn + 1) return 1;
        post(to_child);
    }
    waitpid(child, NULL, 0);
    printf("expect %s 1 0 %ld\n", writes ? "waw" : "raw", turns * TAKEN);
    if (shared && writes) printf("expect waw 0 1 %ld\n", (turns - 1) * TAKEN);
    if (shared && !writes) printf("expect invalidation 1 0 %ld\n", (turns - 1) * TAKEN);
    return 0;
}
