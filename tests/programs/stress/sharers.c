// Processes in one memory (clone with CLONE_VM, but not as threads) that map, unmap and call what
// has not run yet, until their parent kills them: wherever they are then, the parent and later ones
// go on.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 300, CODE = 4096, STACK = 1 << 16 };
static char stack[STACK] __attribute__((aligned(64)));
static volatile unsigned long done;

// mov eax, imm32; ret
static unsigned char *write_code(unsigned value) {
    unsigned char *code =
        mmap(NULL, CODE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) _exit(3);
    code[0] = 0xb8;
    memcpy(code + 1, &value, sizeof value);
    code[5] = 0xc3;
    return code;
}

static int work(void *argument) {
    for (unsigned k = 0;; k++) {
        unsigned char *code = write_code(k);
        if (((unsigned (*)(void))(uintptr_t)code)() != k) _exit(4);
        munmap(code, CODE);
        done++;
    }
    return argument != NULL;
}

int main(void) {
    int killed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = clone(work, stack + STACK, CLONE_VM | SIGCHLD, NULL);
        if (child < 0) return 1;
        struct timespec rest = {0, 100000 + round % 17 * 30000};
        nanosleep(&rest, NULL);
        kill(child, SIGKILL);
        int status;
        if (waitpid(child, &status, 0) != child) return 2;
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        unsigned char *code = write_code(7);
        munmap(code, CODE);
    }
    printf("%d of %d were killed, %s\n", killed, ROUNDS, done ? "at work" : "idle");
    return 0;
}
