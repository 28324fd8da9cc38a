// System calls with arguments that the kernel refuses: pointers to memory that is not there, sizes
// that cannot be, strings that run into the end of memory. Prints what each call answers; the
// kernel decides, nobody else.
//
//   bad_pointers [masked]   masked: with SIGSEGV blocked, so that any fault is the end
#pragma GCC diagnostic ignored "-Wnonnull" // null is one of the bad pointers
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BAD ((void *)8)
#define FAR ((void *)0x7fff00000000)
enum { PAGE = 4096 };

static char *last_page; // what follows is not mapped

// At the end of what is mapped.
static void *at_end(const void *what, size_t bytes) { return memcpy(last_page + PAGE - bytes, what, bytes); }

static void say(const char *what, long result) {
    if (result == -1)
        printf("%s: %s\n", what, strerrorname_np(errno));
    else
        printf("%s: %ld\n", what, result);
}
#define TRY(call) say(#call, call)

static void on_signal(int signal) { (void)signal; }

static void signals(void) {
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        unsigned long mask;
    } action = {SIG_IGN, 0, 0, 0};
    const int set = SYS_rt_sigaction;
    TRY(syscall(set, SIGUSR1, BAD, NULL, 8L));
    TRY(syscall(set, SIGUSR1, &action, BAD, 8L)); // done, and then refused
    TRY(syscall(set, SIGUSR1, NULL, &action, 8L));
    printf("ignored: %d\n", action.handler == (void *)SIG_IGN);
    TRY(syscall(set, SIGUSR1, NULL, FAR, 8L));
    TRY(syscall(set, SIGUSR1, at_end(&action, 16), NULL, 8L));
    TRY(syscall(set, SIGUSR1, BAD, NULL, 4L));
    TRY(syscall(set, 65, BAD, NULL, 8L));
    TRY(syscall(set, 0, &action, NULL, 8L));
    TRY(syscall(set, SIGKILL, &action, NULL, 8L));
    TRY(syscall(set, SIGKILL, NULL, BAD, 8L));
}

static void filters(void) {
    struct sock_filter pass = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &pass}, empty = {0, &pass}, nowhere = {1, BAD},
                      cut = {2, at_end(&pass, sizeof pass)};
    struct sock_fprog many = {BPF_MAXINSNS + 1, &pass};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, BAD));
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &empty));
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &nowhere));
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &cut));
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &many));
    TRY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, BAD, 0, 0));
    TRY(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &nowhere, 0, 0));
    TRY(prctl(PR_SET_NAME, BAD, 0, 0, 0));
    // One that lets everything pass, and a process under it.
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    int status = 0;
    waitpid(child, &status, 0);
    printf("a child under a filter ends with %x\n", (unsigned)status);
}

// A new process that ends at once; how, or the error.
static long cloned(struct clone_args *arguments, size_t bytes) {
    long child = syscall(SYS_clone3, arguments, bytes);
    if (child == 0)
        _exit(5);
    if (child < 0)
        return child;
    int status = 0;
    waitpid((pid_t)child, &status, 0);
    return status >> 8;
}

static void processes(void) {
    static struct {
        struct clone_args arguments;
        char more[2 * PAGE];
    } a;
    static char stack[PAGE];
    enum { FIRST = 64 };
    TRY(cloned(BAD, sizeof a.arguments));
    TRY(cloned(FAR, sizeof a.arguments));
    TRY(cloned(&a.arguments, 0));
    TRY(cloned(&a.arguments, FIRST - 8));
    a.arguments.exit_signal = SIGCHLD;
    TRY(cloned(&a.arguments, sizeof a.arguments));
    TRY(cloned(&a.arguments, FIRST));
    TRY(cloned(&a.arguments, sizeof a.arguments + 8));
    TRY(cloned(&a.arguments, PAGE));
    TRY(cloned(&a.arguments, PAGE + 8));
    TRY(cloned(at_end(&a.arguments, FIRST), FIRST));
    TRY(cloned(at_end(&a.arguments, FIRST), sizeof a.arguments));
    a.more[0] = 1;
    TRY(cloned(&a.arguments, sizeof a.arguments + 8));
    a.more[0] = 0;
    a.arguments.stack = (uintptr_t)stack;
    TRY(cloned(&a.arguments, sizeof a.arguments));
    a.arguments.stack = 0, a.arguments.stack_size = sizeof stack;
    TRY(cloned(&a.arguments, sizeof a.arguments));
    const unsigned long thread =
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    a.arguments.flags = thread, a.arguments.exit_signal = 0;
    TRY(cloned(&a.arguments, sizeof a.arguments));
    a.arguments.stack = (uintptr_t)stack, a.arguments.stack_size = 0;
    TRY(cloned(&a.arguments, sizeof a.arguments));
    a.arguments.flags = CLONE_PIDFD, a.arguments.stack = 0, a.arguments.pidfd = 8,
    a.arguments.exit_signal = SIGCHLD;
    TRY(cloned(&a.arguments, sizeof a.arguments));
}

// A thread without the C library, which ends at once. Its ids go nowhere.
static long raw_thread(unsigned long flags, void *parent_id, void *child_id) {
    static char stack[4 * PAGE] __attribute__((aligned(64)));
    long result;
    register void *r10 __asm__("r10") = child_id;
    flags |= CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%edi, %%edi\n\t"
                     "movl $60, %%eax\n\t" // exit
                     "syscall\n"
                     "1:"
                     : "=a"(result)
                     : "a"(SYS_clone), "D"(flags), "S"(stack + sizeof stack), "d"(parent_id), "r"(r10)
                     : "rcx", "r11", "memory");
    while (result > 0 && !syscall(SYS_tgkill, getpid(), (int)result, 0))
        sched_yield();
    if (result < 0)
        errno = (int)-result;
    return result < 0 ? -1 : 1;
}

static void threads(void) {
    TRY(raw_thread(CLONE_PARENT_SETTID, BAD, NULL));
    TRY(raw_thread(CLONE_CHILD_SETTID, NULL, BAD));
    TRY(raw_thread(CLONE_CHILD_CLEARTID, NULL, FAR));
    TRY(raw_thread(CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, FAR, FAR));
}

static void programs(void) {
    char *arguments[] = {"true", NULL}, *none[] = {NULL}, *wrong[] = {"A=1", BAD, NULL};
    char *const cut[] = {"A=1"};
    const char path[] = "/bin/true";
    char *endless = last_page; // without a NUL
    memset(last_page, 'x', PAGE);
    TRY(execve(BAD, arguments, none));
    TRY(execve(NULL, arguments, none));
    TRY(execve(endless, arguments, none));
    TRY(execve(path, BAD, none));
    TRY(execve(path, wrong, none));
    TRY(execve(path, arguments, BAD));
    TRY(execve(path, arguments, FAR));
    TRY(execve(path, arguments, wrong));
    TRY(execve(path, arguments, at_end(cut, sizeof cut)));
    TRY(syscall(SYS_execveat, AT_FDCWD, BAD, arguments, none, 0));
    TRY(syscall(SYS_execveat, AT_FDCWD, path, arguments, BAD, 0));
    TRY(execve("/nowhere", arguments, BAD));
    // More than the kernel takes.
    size_t count = 3 << 18;
    char **crowd = malloc((count + 1) * sizeof *crowd);
    for (size_t k = 0; k < count; k++)
        crowd[k] = "A=1";
    crowd[count] = NULL;
    TRY(execve(path, arguments, crowd));
    TRY(execve(path, crowd, none));
    free(crowd);
    pid_t child = vfork();
    if (child == 0) {
        execve(path, arguments, BAD);
        _exit(errno);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("a child of vfork: %s\n", strerrorname_np(status >> 8));
}

static void limits(void) {
    struct rlimit limit = {1ull << 46, 1ull << 46};
    for (int k = 0; k < 3; k++) {
        const int resource = (const int[]){RLIMIT_AS, RLIMIT_DATA, RLIMIT_NOFILE}[k];
        TRY(syscall(SYS_getrlimit, resource, BAD));
        TRY(syscall(SYS_setrlimit, resource, BAD));
        TRY(syscall(SYS_prlimit64, 0, resource, BAD, NULL));
        TRY(syscall(SYS_prlimit64, 0, resource, NULL, FAR));
    }
    TRY(syscall(SYS_prlimit64, 0, RLIMIT_AS, &limit, BAD)); // done, and then refused
    struct rlimit now;
    getrlimit(RLIMIT_AS, &now);
    printf("limited: %d\n", now.rlim_cur == limit.rlim_cur);
    TRY(syscall(SYS_arch_prctl, 0x1004, BAD)); // ARCH_GET_GS
}

// Calls that are made, and then counted.
static void counted(void) {
    struct iovec vector = {BAD, 8};
    struct msghdr message = {.msg_iov = BAD, .msg_iovlen = 1};
    int ends[2], pair[2];
    char byte;
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return;
    TRY(rename("/nowhere/a", BAD));
    TRY(link("/nowhere/a", BAD));
    TRY(syscall(SYS_renameat2, AT_FDCWD, "/nowhere/a", AT_FDCWD, FAR, 0));
    TRY(open(BAD, O_RDONLY));
    TRY(open(last_page, O_RDONLY));
    TRY(open(at_end("/nowhere", 9), O_RDONLY));
    TRY(access(at_end("/", 2), F_OK));
    TRY(writev(ends[1], &vector, 1));
    TRY(writev(ends[1], BAD, 0));
    TRY(writev(ends[1], BAD, 1));
    TRY(readv(ends[0], at_end(&vector, 8), 1));
    TRY(sendmsg(pair[0], BAD, 0));
    TRY(sendmsg(pair[0], &message, 0));
    TRY(recvmsg(pair[1], BAD, MSG_DONTWAIT));
    TRY(send(pair[0], "x", 1, 0));
    TRY(syscall(SYS_recvfrom, pair[1], &byte, 1, 0, NULL, BAD));
    TRY(syscall(SYS_select, 1 << 30, NULL, NULL, NULL, &(struct timeval){0, 0}));
    TRY(syscall(SYS_sched_getaffinity, 0, 1 << 30, BAD));
    TRY(poll(BAD, 1, 0));
    TRY(syscall(SYS_futex_waitv, BAD, 1, 0, NULL, 0));
    TRY(syscall(SYS_semop, 0, BAD, 500));
    TRY(syscall(SYS_move_pages, 0, 1ul << 40, BAD, BAD, BAD, 0));
    TRY(syscall(SYS_io_getevents, 0, 0, 1ul << 40, BAD, BAD));
    // These say how much there is, and write nothing.
    TRY(syscall(SYS_getgroups, 0, BAD) >= 0);
    TRY(syscall(SYS_listxattr, "/", BAD, 0) >= 0);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    TRY(syscall(SYS_wait4, child, BAD, 0, NULL) == child);
    if (waitpid(child, NULL, 0) != child && errno != ECHILD)
        printf("not waited for\n");
}

// A return from a signal without the frame of one is the end.
static void returns(void) {
    pid_t child = fork();
    if (child == 0) {
        __asm__ volatile("movl $8, %esp\n\tmovl $15, %eax\n\tsyscall"); // rt_sigreturn
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("a return from no signal ends with %x\n", (unsigned)status & 0x7f);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    if (argc > 1 && !strcmp(argv[1], "masked")) {
        sigset_t faults;
        sigemptyset(&faults);
        sigaddset(&faults, SIGSEGV);
        sigprocmask(SIG_BLOCK, &faults, NULL);
    } else {
        signal(SIGUSR2, on_signal);
    }
    last_page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(last_page + PAGE, PAGE);
    signals();
    fflush(stdout);
    processes();
    threads();
    programs();
    limits();
    counted();
    fflush(stdout);
    returns();
    fflush(stdout);
    filters();
    return 0;
}
