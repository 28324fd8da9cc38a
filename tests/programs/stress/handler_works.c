// A thread waits in a system call, and the handler of the signal that comes works without another
// system call, so long that it is seen in many time slices: it returns, or ("jump") leaves by
// siglongjmp first.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static sigjmp_buf back;
static int jump;

static void work(void) {
    for (volatile long i = 0; i < 150000000; i++)
        ;
}

static void handler(int signal) {
    (void)signal;
    if (jump) siglongjmp(back, 1);
    work();
}

int main(int argc, char **argv) {
    jump = argc > 1 && !strcmp(argv[1], "jump");
    // The signal mask is not saved: that would take a system call.
    if (sigsetjmp(back, 0)) {
        work();
    } else {
        struct itimerval soon = {{0, 0}, {0, 20000}};
        signal(SIGALRM, handler);
        setitimer(ITIMER_REAL, &soon, NULL);
        pause();
    }
    puts("done");
    return 0;
}
