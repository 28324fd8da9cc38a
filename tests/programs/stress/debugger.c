// A debugger of its own child: sets a breakpoint, expects the child to stop there, and lets it go
// on.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static int add_seven(int x) {
    __asm__ volatile("");
    return x + 7;
}

static int debugged(void) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    return add_seven(4);
}

int main(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(debugged());
    int status;
    waitpid(child, &status, 0);
    printf("stopped %d by signal %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    void *place = (void *)add_seven;
    long before = ptrace(PTRACE_PEEKTEXT, child, place, 0);
    ptrace(PTRACE_POKETEXT, child, place, (void *)((before & ~0xffl) | 0xcc));
    ptrace(PTRACE_CONT, child, 0, 0);
    waitpid(child, &status, 0);
    printf("stopped %d by signal %d\n", WIFSTOPPED(status), WSTOPSIG(status));
    struct user_regs_struct registers;
    ptrace(PTRACE_GETREGS, child, 0, &registers);
    printf("behind the breakpoint: %d\n", registers.rip == (unsigned long)place + 1);
    printf("its argument: %d\n", (int)registers.rdi);
    registers.rip--;
    ptrace(PTRACE_POKETEXT, child, place, (void *)before);
    ptrace(PTRACE_SETREGS, child, 0, &registers);
    ptrace(PTRACE_CONT, child, 0, 0);
    waitpid(child, &status, 0);
    printf("exited %d with %d\n", WIFEXITED(status), WEXITSTATUS(status));
    return 0;
}
