// Installs a filter of system calls that allows all, and makes children that end at once.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 20, CODE = 4 };

int main(void) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    int good = 0, status = 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        puts("no filters here");
    for (int k = 0; k < CHILDREN; k++) {
        if (fork() == 0)
            _exit(CODE);
        wait(&status);
        good += WIFEXITED(status) && WEXITSTATUS(status) == CODE;
    }
    printf("%d of %d children ended well\n", good, CHILDREN);
    return good != CHILDREN;
}
