// Processes in odd circumstances: each way prints what it finds, the same whether recorded or not.
// Usage: odd_processes HOW [FOLDER or PROGRAM].
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };
static const unsigned long long TIB = 1ull << 40;

static void say(const char *what, long value) {
    printf("%s %ld\n", what, value);
    fflush(stdout);
}

static int status_of(pid_t pid) {
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int run(const char *program) {
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, (char *)NULL);
        _exit(errno == ENOENT ? 90 : 91);
    }
    return status_of(pid);
}

// Most MiB that can be mapped in pieces of 16 MiB.
static long mappable(void) {
    long got = 0;
    while (got < 8192 && mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED)
        got += 16;
    return got;
}

static long set_limit(int resource, unsigned long mib) {
    struct rlimit limit = {mib * MIB, mib * MIB}, now = {0, 0};
    if (setrlimit(resource, &limit)) return -errno;
    getrlimit(resource, &now);
    return (long)(now.rlim_cur / MIB);
}

// Address space and data are limited by the process itself, and what is left is its own.
static void limits(const char *self) {
    pid_t pid = fork();
    if (pid == 0) {
        say("address space", set_limit(RLIMIT_AS, 512));
        execl(self, self, "limited", (char *)NULL);
        _exit(91);
    }
    say("executed", status_of(pid));
    pid = fork();
    if (pid == 0) {
        say("data", set_limit(RLIMIT_DATA, 256));
        long got = mappable();
        say("within data", got > 200 && got <= 256);
        _exit(0);
    }
    say("data child", status_of(pid));
    say("address space", set_limit(RLIMIT_AS, 1024));
    pid = fork();
    if (pid == 0) _exit(mappable() > 900);
    say("limited child", status_of(pid));
    long got = mappable();
    say("within", got > 900 && got <= 1024);
}

static void limited(void) {
    struct rlimit now;
    getrlimit(RLIMIT_AS, &now);
    say("inherited", (long)(now.rlim_cur / MIB));
    long got = mappable();
    say("within", got > 400 && got <= 512);
}

static pthread_barrier_t together;

static void *touch(void *memory) {
    pthread_barrier_wait(&together);
    for (int k = 0; k < 256; k++) ((volatile char *)memory)[k * 64]++;
    return memory;
}

// More address space than any machine has memory, touched at both ends by many threads at once.
static void sparse(void) {
    enum { THREADS = 64 };
    char *memory = mmap(NULL, 20 * TIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    say("mapped", memory != MAP_FAILED);
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (int t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, touch, t % 2 ? memory : memory + 16 * TIB)) exit(3);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    say("touched", memory[0] > 0 && memory[16 * TIB] > 0);
    say("unmapped", munmap(memory, 20 * TIB));
}

// No descriptor is free when children are started.
static void no_files(const char *program) {
    struct rlimit files = {16, 16};
    setrlimit(RLIMIT_NOFILE, &files);
    while (dup(1) >= 0) {}
    say("status", run(program));
    pid_t pid = fork();
    if (pid == 0) _exit(5);
    say("forked", status_of(pid));
}

static void in_root(const char *folder) {
    pid_t pid = fork();
    if (pid == 0) {
        if (chroot(folder) || chdir("/")) _exit(92);
        say("in another root", run("/program"));
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(6);
        say("forked there", status_of(grandchild));
        execl("/program", "/program", (char *)NULL);
        _exit(93);
    }
    say("status", status_of(pid));
}

static void other_user(const char *program) {
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(65534) || setuid(65534)) _exit(92);
        say("as another user", run(program));
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(7);
        say("forked then", status_of(grandchild));
        execl(program, program, (char *)NULL);
        _exit(93);
    }
    say("status", status_of(pid));
}

static void locked(void) {
    say("locked", mlockall(MCL_CURRENT | MCL_FUTURE));
    char *memory = malloc(4 * MIB);
    memset(memory, 1, 4 * MIB);
    pthread_t thread;
    pthread_barrier_init(&together, NULL, 1);
    if (pthread_create(&thread, NULL, touch, memory)) exit(3);
    pthread_join(thread, NULL);
    say("touched", memory[64]);
}

int main(int argc, char **argv) {
    if (argc < 2) return 3;
    const char *how = argv[1], *what = argc > 2 ? argv[2] : "/bin/true";
    if (!strcmp(how, "limits")) limits(argv[0]);
    if (!strcmp(how, "limited")) limited();
    if (!strcmp(how, "sparse")) sparse();
    if (!strcmp(how, "no_files")) no_files(what);
    if (!strcmp(how, "root")) in_root(what);
    if (!strcmp(how, "user")) other_user(what);
    if (!strcmp(how, "locked")) locked();
    if (!strcmp(how, "program")) say("status", run(what));
    return 0;
}
