// Threads and processes that come and go while a library in them keeps events open for each thread.
// Every mode prints the same in every run: among other things how many descriptors it finds open.
//
//   lives row|crowd|fork|vfork|exec [DEPTH]|spawn|calls|shell|registers|confined
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile uint64_t shared[8] __attribute__((aligned(64)));
static _Thread_local volatile uint64_t mine[16] __attribute__((aligned(64)));
static pthread_barrier_t barrier;

static void compute(long steps) {
    uint64_t own = 1;
    for (long i = 0; i < steps; i++) {
        own = own * 6364136223846793005u + 1;
        if (own >> 60 & 1) shared[own >> 61] = own;
        else mine[own >> 61] = own;
    }
}

static void *worker(void *steps) {
    compute((long)(intptr_t)steps);
    return NULL;
}

static void pair(long steps) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)steps)) exit(3);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

// Descriptors below 256: where a program's own ones are.
static int descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.' && atoi(entry->d_name) < 256;
    closedir(folder);
    return count;
}

// All descriptors; none of a thread that has ended may be among them.
static int all_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void row(void) {
    pair(1000000);
    int before = all_descriptors();
    for (int i = 0; i < 5000; i++) pair(20000);
    printf("more descriptors %d\n", all_descriptors() > before + 4); // the initial thread watches, too
}

static void *waits(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    compute(200000);
    return NULL;
}

static void crowd(void) {
    static pthread_t threads[1024];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 17);
    pthread_barrier_init(&barrier, NULL, 1025);
    int made = 0;
    for (int i = 0; i < 1024; i++) made += pthread_create(&threads[i], &small, waits, NULL) == 0;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < made; i++) pthread_join(threads[i], NULL);
    printf("threads %d, low descriptors %d\n", made, descriptors());
}

static int status_of(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void forks(void) {
    pair(20000000);
    for (int i = 0; i < 5; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            pair(10000000);
            exit(descriptors());
        }
        printf("child ended with %d\n", status_of(child));
    }
    pair(10000000);
}

static void vforks(char **arguments) {
    char *ends[] = {arguments[0], "end", NULL};
    for (volatile int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execv("/proc/self/exe", ends);
            _exit(99);
        }
        compute(1000000);
        printf("child ended with %d\n", status_of(child));
    }
    pair(10000000);
}

// Executes itself with all signals blocked, from a process with threads.
static void executes(char **arguments, int depth) {
    pthread_t other;
    pthread_create(&other, NULL, worker, (void *)(intptr_t)4000000000);
    pair(10000000);
    printf("depth %d, descriptors %d\n", depth, descriptors());
    fflush(stdout);
    sigset_t all, before;
    sigfillset(&all);
    if (depth == 4) exit(0);
    if (pthread_sigmask(SIG_SETMASK, &all, &before)) exit(3);
    if (depth > 0 && !sigismember(&before, SIGTRAP)) printf("the mask got lost\n");
    compute(20000000);
    char number[16];
    snprintf(number, sizeof number, "%d", depth + 1);
    char *again[] = {arguments[0], "exec", number, NULL};
    execv("/proc/self/exe", again);
    exit(3);
}

static void spawns(char **arguments) {
    char *ends[] = {arguments[0], "end", NULL};
    pair(10000000);
    for (int i = 0; i < 5; i++) {
        pid_t child;
        if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, ends, environ)) exit(3);
        printf("child ended with %d\n", status_of(child));
    }
}

// One child for each way to execute a program; none of them sees anything of a library.
static int executes_by(int way, char *self, int fd) {
    char *ends[] = {self, "end", NULL}, *few[] = {"A=1", NULL};
    char *slash = strrchr(self, '/');
    switch (way) {
    case 0: return execv(self, ends);
    case 1: return execve(self, ends, few);
    case 2: return execvp(slash + 1, ends);
    case 3: return execvpe(slash + 1, ends, environ);
    case 4: return fexecve(fd, ends, environ);
    case 5: return execl(self, self, "end", (char *)NULL);
    case 6: return execl(self, self, "end", "3", "4", "5", "6", "7", "8", (char *)NULL);
    case 7: return execle(self, self, "end", (char *)NULL, few);
    case 8: return execle(self, self, "end", "3", "4", "5", "6", "7", (char *)NULL, few);
    case 9: return execlp(slash + 1, self, "end", "3", "4", (char *)NULL);
    }
    return -1;
}

static void calls(void) {
    char self[4096] = "", folder[4096];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) exit(3);
    strcpy(folder, self);
    *strrchr(folder, '/') = 0;
    setenv("PATH", folder, 1);
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    pair(10000000);
    for (volatile int way = 0; way < 10; way++) {
        fflush(stdout);
        pid_t child = way % 2 ? fork() : vfork();
        if (child == 0) {
            executes_by(way, self, fd);
            _exit(99);
        }
        printf("way %d ended with %d\n", way, status_of(child));
    }
    // A call that fails leaves everything as it was.
    printf("%d\n", execl("/nowhere/at/all", "x", "1", "2", "3", "4", "5", "6", (char *)NULL));
    char *ends[] = {self, "end", NULL};
    pid_t child;
    if (posix_spawnp(&child, strrchr(self, '/') + 1, NULL, NULL, ends, environ)) exit(3);
    printf("spawned one ended with %d\n", status_of(child));
}

// What a shell is told, and what it says.
static void shell(char **arguments) {
    char command[5000];
    pair(10000000);
    snprintf(command, sizeof command, "%s end 'two  words' \"it's\"", arguments[0]);
    fflush(stdout);
    printf("system: %d, %d\n", system(command), system(NULL));
    fflush(stdout);
    printf("system: %d\n", system("export -p | grep -c THREADTALK; echo $0 $# \"$LD_PRELOAD\"; exit 7"));
    fflush(stdout);
    printf("system: %d\n", system("kill -TERM $$"));
    fflush(stdout);
    printf("system: %d\n", system("nothing_of_this_name"));
    fflush(stdout);
    printf("system: %d\n", system("if fi"));
    strcat(command, "; echo \"ended with $?\"");
    FILE *pipe = popen(command, "r");
    for (int c; (c = getc(pipe)) != EOF;) putchar(c);
    printf("popen: %d\n", pclose(pipe));
    printf("variables of ours: %d, %d\n", getenv("LD_PRELOAD") != NULL, getenv("THREADTALK_WATCH") != NULL);
}

// Uses all debug registers itself.
static void registers(void) {
    static uint64_t words[4];
    int got = 0;
    for (int i = 0; i < 4; i++) {
        struct perf_event_attr attr = {.type = PERF_TYPE_BREAKPOINT, .size = sizeof attr};
        attr.bp_type = HW_BREAKPOINT_W, attr.bp_len = 8, attr.bp_addr = (uintptr_t)&words[i];
        attr.exclude_kernel = attr.exclude_hv = attr.inherit = 1;
        got += syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0) >= 0;
    }
    pair(60000000);
    printf("registers %d\n", got);
}

// Forbids itself what the library does, at the price of its life.
static void confined(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    pair(10000000);
    fflush(stdout);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) exit(3);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) exit(3);
    pair(30000000);
    if (write(1, "survived\n", 9) != 9) _exit(3);
    _exit(0);
}

// A thread that may only read, write and end from now on.
static void *strict(void *unused) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0)) exit(3);
    for (volatile long i = 0; i < 100000000; i++) {}
    if (write(1, "survived\n", 9) != 9) _exit(3);
    syscall(SYS_exit, 0);
    return unused;
}

static void strictly(void) {
    pair(10000000);
    fflush(stdout);
    pthread_t thread;
    if (pthread_create(&thread, NULL, strict, NULL)) exit(3);
    pthread_join(thread, NULL);
    _exit(0);
}

// Time cannot be read without the kernel.
static void timeless(void) {
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)) exit(3);
    pair(20000000);
    puts("survived");
}

// Two threads that wake each other up again and again, and do little between.
static int ends[2][2];

static void *answers(void *unused) {
    char byte;
    while (read(ends[0][0], &byte, 1) == 1 && write(ends[1][1], &byte, 1) == 1) {}
    return unused;
}

static void turns(void) {
    pthread_t thread;
    if (pipe(ends[0]) || pipe(ends[1]) || pthread_create(&thread, NULL, answers, NULL)) exit(3);
    char byte = 0;
    for (int i = 0; i < 40000; i++) {
        for (volatile int k = 0; k < 2000; k++) {}
        if (write(ends[0][1], &byte, 1) != 1 || read(ends[1][0], &byte, 1) != 1) exit(3);
    }
    close(ends[0][1]);
    pthread_join(thread, NULL);
    puts("over");
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "row")) row();
    else if (!strcmp(mode, "crowd")) crowd();
    else if (!strcmp(mode, "fork")) forks();
    else if (!strcmp(mode, "vfork")) vforks(argv);
    else if (!strcmp(mode, "exec")) executes(argv, argc > 2 ? atoi(argv[2]) : 0);
    else if (!strcmp(mode, "spawn")) spawns(argv);
    else if (!strcmp(mode, "calls")) calls();
    else if (!strcmp(mode, "shell")) shell(argv);
    else if (!strcmp(mode, "registers")) registers();
    else if (!strcmp(mode, "confined")) confined();
    else if (!strcmp(mode, "turns")) turns();
    else if (!strcmp(mode, "strict")) strictly();
    else if (!strcmp(mode, "timeless")) timeless();
    else if (!strcmp(mode, "end")) return pair(2000000), descriptors() + 10 * argc;
    else return 2;
    return 0;
}
