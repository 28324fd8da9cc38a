// System calls that move data, with known truth: what the kernel writes into memory for a thread is
// that thread's write, what it reads for it is that thread's read, for as many bytes as it moved.
//
//   fill   thread 1 read()s LINES lines into a buffer, thread 2 reads the buffer
//   drain  thread 1 writes the buffer, thread 2 write()s it to a file
//   short  as fill, but the file ends half way: only half of the buffer is written
//   vector as fill and drain at once, with readv and writev in four parts
//   signal as drain, through a socket that sends a signal on each write: into a handler
//   waitv  as drain, but thread 2 has futex_waitv look at a word of each line
//   semop  as drain, but the lines hold operations on a semaphore, for semop
//   limit  as drain, but each line begins with a limit, for setrlimit
//
// Turns are passed on through eventfds.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LINES = 4096, BYTES = LINES * 64, ROUNDS = 4 };

static _Alignas(4096) char memory[BYTES];
static const char *mode;
static int turn[2], source, sink, sockets[2];
// On a line of its own: the second thread writes it, and all read what lies beside it.
static _Alignas(64) volatile sig_atomic_t signals[64 / sizeof(sig_atomic_t)];

static void check(int good) {
    if (!good)
        _exit(3);
}

static void pass(int fd) {
    uint64_t one = 1;
    check(write(fd, &one, 8) == 8);
}

static void wait_for(int fd) {
    uint64_t value;
    check(read(fd, &value, 8) == 8);
}

static void count_signal(int number) {
    (void)number;
    signals[0]++;
}

// Writes the buffer page by page; each write sends this thread a signal.
static void write_signalled(void) {
    static _Alignas(64) char thrown_away[4096];
    struct f_owner_ex self = {F_OWNER_TID, (pid_t)syscall(SYS_gettid)};
    check(fcntl(sockets[1], F_SETOWN_EX, &self) == 0);
    check(fcntl(sockets[1], F_SETFL, O_ASYNC) == 0);
    int before = signals[0];
    for (int at = 0; at < BYTES; at += 4096) {
        check(write(sockets[0], memory + at, 4096) == 4096);
        check(read(sockets[1], thrown_away, 4096) == 4096);
    }
    check(signals[0] - before >= BYTES / 4096);
}

// Each call looks at WAITERS words. Only the last is not as expected, so that it does not wait.
static void look_by_waitv(void) {
    enum { WAITERS = FUTEX_WAITV_MAX };
    static _Alignas(64) struct futex_waitv waiters[WAITERS];
    for (int first = 0; first < LINES; first += WAITERS) {
        for (int k = 0; k < WAITERS; k++)
            waiters[k] = (struct futex_waitv){.val = (uint64_t)(first + k + (k == WAITERS - 1)),
                                              .uaddr = (uintptr_t)(memory + (first + k) * 64),
                                              .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG};
        check(syscall(SYS_futex_waitv, waiters, WAITERS, 0, NULL, 0) == -1 && errno == EAGAIN);
    }
}

// A line holds ten operations of six bytes that wait for zero.
static void operate(void) {
    enum { OPERATIONS = 10 };
    int semaphore = semget(IPC_PRIVATE, 1, 0600);
    check(semaphore >= 0);
    for (int line = 0; line < LINES; line++)
        check(semop(semaphore, (struct sembuf *)(memory + line * 64), OPERATIONS) == 0);
    check(semctl(semaphore, 0, IPC_RMID) == 0);
}

static void set_limits(void) {
    for (int line = 0; line < LINES; line++)
        check(syscall(SYS_setrlimit, RLIMIT_CORE, memory + line * 64) == 0);
}

static void parts(struct iovec *vector) {
    for (int i = 0; i < 4; i++)
        vector[i] = (struct iovec){memory + i * (BYTES / 4), BYTES / 4};
}

static void produce(void) {
    struct iovec vector[4];
    check(lseek(source, 0, SEEK_SET) == 0);
    if (!strcmp(mode, "drain") || !strcmp(mode, "signal") || !strcmp(mode, "waitv") ||
        !strcmp(mode, "semop") || !strcmp(mode, "limit")) {
        // Zero, where the kernel is to understand it.
        int number = !strcmp(mode, "semop") || !strcmp(mode, "limit") ? 0 : 1;
        for (int line = 0; line < LINES; line++)
            *(volatile long *)(memory + line * 64) = number * line;
    } else if (!strcmp(mode, "vector")) {
        parts(vector);
        check(readv(source, vector, 4) == BYTES);
    } else {
        check(read(source, memory, BYTES) == (strcmp(mode, "short") ? BYTES : BYTES / 2));
    }
}

static void consume(void) {
    struct iovec vector[4];
    check(lseek(sink, 0, SEEK_SET) == 0);
    if (!strcmp(mode, "drain")) {
        check(write(sink, memory, BYTES) == BYTES);
    } else if (!strcmp(mode, "signal")) {
        write_signalled();
    } else if (!strcmp(mode, "waitv")) {
        look_by_waitv();
    } else if (!strcmp(mode, "semop")) {
        operate();
    } else if (!strcmp(mode, "limit")) {
        set_limits();
    } else if (!strcmp(mode, "vector")) {
        parts(vector);
        check(writev(sink, vector, 4) == BYTES);
    } else {
        for (int line = 0; line < LINES; line++)
            (void)*(volatile long *)(memory + line * 64);
    }
}

static void *producer(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        wait_for(turn[0]);
        produce();
        pass(turn[1]);
    }
    return argument;
}

static void *consumer(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        wait_for(turn[1]);
        consume();
        pass(turn[0]);
    }
    return argument;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    mode = argv[1];
    int lines = strcmp(mode, "short") ? LINES : LINES / 2;
    source = memfd_create("source", 0), sink = memfd_create("sink", 0);
    check(ftruncate(source, lines * 64) == 0);
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    signal(SIGIO, count_signal);
    turn[0] = eventfd(1, 0), turn[1] = eventfd(0, 0);
    pthread_t threads[2];
    if (pthread_create(&threads[0], NULL, producer, NULL))
        return 3;
    if (pthread_create(&threads[1], NULL, consumer, NULL))
        return 3;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("expect raw 1 2 %d\nexpect invalidation 1 2 %d\n", ROUNDS * lines, (ROUNDS - 1) * lines);
    return 0;
}
