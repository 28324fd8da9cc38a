// System calls that a filter turns into SIGSYS, whose handler does them instead: what the signal
// says of the call's place is what its context says, or sandboxes (Chromium's, Firefox's) end the
// program.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { RESULT = 4711 };

void ask(void), behind_the_call(void);
__asm__(".text\nask: mov $110, %eax\nsyscall\nbehind_the_call: ret\n");

static void handler(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    int right = (void *)registers[REG_RIP] == (void *)behind_the_call;
    int said = info->si_call_addr == (void *)registers[REG_RIP];
    printf("signal %d, call %d, %lld: context %d, information %d\n", signal, info->si_syscall,
           (long long)registers[REG_RAX], right, said);
    registers[REG_RAX] = RESULT;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP | 7),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {4, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return 1;
    for (int round = 0; round < 3; round++) {
        long result;
        __asm__ volatile("sub $128, %%rsp\n"
                         "call ask\n"
                         "add $128, %%rsp\n"
                         : "=a"(result)
                         :
                         : "rcx", "r11", "memory", "cc");
        printf("result %ld\n", result);
    }
    return 0;
}
