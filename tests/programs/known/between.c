// Two processes that hand a counter to and fro through memory that they share, in whatever way it
// is shared. They take turns by pipes, so each turn has its events. Prints what happens.
//
// Usage: between WAY TURNS. `between list` prints the ways.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, PAGE = 4096, AT = 5 * PAGE + 192 };

static const char *ways[] = {
    "file",    "memfd",  "shm",   "sysv",   "anonymous", "address", "offset", "remap",
    "twice",   "exec",   "false", "killed", "grown",     "zero",    "large",  "threads",
};

static int to_child[2], to_parent[2];
static long turns;

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static void post(int *pipe) {
    if (write(pipe[1], "x", 1) != 1) fail("write");
}

static void wait_for(int *pipe) {
    char c;
    if (read(pipe[0], &c, 1) != 1) _exit(3);
}

static int is(const char *way, const char *name) { return !strcmp(way, name); }

static void *map(int fd, size_t bytes, off_t offset) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    return at == MAP_FAILED ? (fail("mmap"), NULL) : at;
}

static int file(const char *way) {
    char name[64];
    int fd = -1;
    if (is(way, "file")) {
        snprintf(name, sizeof name, "between-%d.data", getpid());
        fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        unlink(name);
    } else if (is(way, "shm")) {
        snprintf(name, sizeof name, "/between-%d", getpid());
        fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        shm_unlink(name);
    } else if (is(way, "zero")) {
        fd = open("/dev/zero", O_RDWR);
    } else {
        fd = memfd_create("between", 0);
    }
    if (fd < 0 || (!is(way, "zero") && ftruncate(fd, is(way, "large") ? 1l << 34 : BYTES))) fail(way);
    return fd;
}

// The child's side: `again` maps the memory once more, elsewhere.
static void answer(char *memory, int fd, const char *way) {
    volatile long *counter = (long *)(memory + AT);
    long other = is(way, "false") ? 1 : 0;
    if (is(way, "address")) counter = (long *)((char *)map(fd, BYTES, 0) + AT);
    if (is(way, "offset")) counter = (long *)((char *)map(fd, PAGE, AT / PAGE * PAGE) + AT % PAGE);
    for (long k = 0; k < turns; k++) {
        wait_for(to_child);
        if (is(way, "remap") && k % 16 == 0) {
            munmap((void *)((uintptr_t)counter & ~(uintptr_t)(PAGE - 1)), PAGE);
            counter = (long *)((char *)map(fd, PAGE, AT / PAGE * PAGE) + AT % PAGE);
        }
        counter[other] += 1;
        if (is(way, "killed") && k == turns - 1) {
            post(to_parent);
            for (;;) counter[other] = 1;
        }
        post(to_parent);
    }
}

static void *answer_in_thread(void *fd) {
    answer(NULL, (int)(intptr_t)fd, "address");
    return NULL;
}

static void *ask(void *memory) {
    volatile long *counter = (long *)((char *)memory + AT);
    for (long k = 0; k < turns; k++) {
        counter[0] += 1;
        post(to_child);
        wait_for(to_parent);
    }
    return (void *)counter[0];
}

static void expect(const char *kind, int from, int to, long count) {
    if (count) printf("expect %s %d %d %ld\n", kind, from, to, count);
}

static pid_t start(char *memory, int fd, const char *way) {
    pid_t child = fork();
    if (child) return child;
    if (is(way, "exec")) {
        char words[6][16];
        snprintf(words[0], 16, "%d", fd);
        snprintf(words[1], 16, "%d", to_child[0]);
        snprintf(words[2], 16, "%d", to_parent[1]);
        snprintf(words[3], 16, "%ld", turns);
        execl("/proc/self/exe", "between", "child", words[3], words[0], words[1], words[2], NULL);
        fail("exec");
    }
    answer(memory, fd, way);
    exit(0);
}

int main(int argc, char **argv) {
    if (argc == 2 && is(argv[1], "list")) {
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) puts(ways[k]);
        return 0;
    }
    if (argc < 3) return 64;
    const char *way = argv[1];
    turns = atol(argv[2]);
    if (is(way, "child")) {
        to_child[0] = atoi(argv[4]);
        to_parent[1] = atoi(argv[5]);
        answer(NULL, atoi(argv[3]), "address");
        return 0;
    }
    if (pipe(to_child) || pipe(to_parent)) fail("pipe");
    int fd = -1;
    char *memory;
    if (is(way, "sysv")) {
        int id = shmget(IPC_PRIVATE, BYTES, 0600);
        memory = shmat(id, NULL, 0);
        if (memory == (void *)-1) fail("shmat");
        shmctl(id, IPC_RMID, NULL);
    } else if (is(way, "anonymous") || is(way, "false") || is(way, "killed")) {
        memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    } else {
        fd = file(way);
        memory = map(fd, is(way, "grown") ? PAGE : BYTES, 0);
        if (is(way, "grown")) memory = mremap(memory, PAGE, BYTES, MREMAP_MAYMOVE);
        if (is(way, "large")) memory = map(fd, 1l << 34, 0) + (1l << 33);
        if (is(way, "twice")) memory = map(fd, BYTES, 0);
    }
    if (is(way, "twice") || is(way, "threads")) {
        pthread_t threads[2];
        pthread_create(&threads[0], NULL, ask, memory);
        pthread_create(&threads[1], NULL, answer_in_thread, (void *)(intptr_t)fd);
        for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
        expect("raw", 1, 2, turns);
        expect("raw", 2, 1, turns);
        expect("waw", 1, 2, turns);
        expect("waw", 2, 1, turns - 1);
        return 0;
    }
    pid_t child = start(memory, fd, way);
    long result = (long)ask(memory);
    if (is(way, "killed")) {
        usleep(100000);
        kill(child, SIGKILL);
    }
    waitpid(child, NULL, 0);
    if (result != (is(way, "false") ? turns : is(way, "killed") ? result : 2 * turns)) return 1;
    if (!is(way, "killed")) {
        expect("raw", 0, 1, turns);
        expect("raw", 1, 0, turns);
        expect("waw", 0, 1, turns);
        expect("waw", 1, 0, turns - 1);
    }
    return 0;
}
