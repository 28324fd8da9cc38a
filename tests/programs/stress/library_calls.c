// System calls by functions of the C library, in threads that get signals all the time: what they
// move arrives, registers are as the processor leaves them, and only signals interrupt calls that
// wait.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 3
#define TURNS 6000

static atomic_int running = THREADS;
static atomic_long handled[THREADS], wrong;
static _Thread_local long *mine;

static void handle(int signal) {
    (void)signal;
    ++*mine;
}

// What getppid() leaves in %rax and %rcx, and in a register that calls keep.
struct left {
    uint64_t result, rcx, kept;
};

void call(uint64_t kept, struct left *left);
__asm__(".text\n"
        "call:\n"
        "  push %rbx\n push %r12\n push %rsi\n"
        "  mov %rdi, %r12\n"
        "  call getppid@plt\n"
        "  pop %rbx\n"
        "  mov %rax, (%rbx)\n"
        "  mov %rcx, 8(%rbx)\n"
        "  mov %r12, 16(%rbx)\n"
        "  pop %r12\n pop %rbx\n"
        "  ret\n");

static void check_registers(uint64_t kept) {
    static uint64_t parent, behind;
    struct left left;
    call(kept, &left); // the first one goes through the linkage table's resolver
    call(kept, &left);
    __atomic_compare_exchange_n(&parent, &(uint64_t){0}, left.result, 0, 0, 0);
    __atomic_compare_exchange_n(&behind, &(uint64_t){0}, left.rcx, 0, 0, 0);
    if (left.result != parent || left.rcx != behind || left.kept != kept)
        wrong++;
}

// Waits until there is something to read, whatever interrupts it.
static void await(int fd) {
    struct pollfd one = {fd, POLLIN, 0};
    for (;;) {
        long before = *mine;
        int ready = poll(&one, 1, 1000);
        if (ready == 1)
            return;
        if (ready != -1 || errno != EINTR || *mine == before)
            wrong++;
    }
}

static void *work(void *argument) {
    long number = (long)argument, counted = 0;
    mine = &counted;
    int ends[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        uint64_t sent = turn << 8 | number, got[4] = {0};
        if (write(ends[0], &sent, 8) != 8 || send(ends[0], &sent, 8, 0) != 8)
            wrong++;
        await(ends[1]);
        if (read(ends[1], got, 8) != 8 || recv(ends[1], got + 1, 8, 0) != 8)
            wrong++;
        if (syscall(SYS_sendto, ends[0], &sent, 8L, 0L, 0L, 0L) != 8 ||
            recv(ends[1], got + 2, 8, 0) != 8)
            wrong++;
        if (got[0] != sent || got[1] != sent || got[2] != sent || got[3])
            wrong++;
        if (read(-1, got, 8) != -1 || errno != EBADF)
            wrong++;
        check_registers(turn * THREADS + number);
    }
    close(ends[0]);
    close(ends[1]);
    handled[number] = counted;
    running--;
    return 0;
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_t threads[THREADS];
    for (long k = 0; k < THREADS; k++)
        pthread_create(threads + k, 0, work, (void *)k);
    while (running) {
        for (int k = 0; k < THREADS; k++)
            pthread_kill(threads[k], SIGUSR1);
        usleep(50);
    }
    int all = 1;
    for (int k = 0; k < THREADS; k++) {
        pthread_join(threads[k], 0);
        all &= handled[k] > 0;
    }
    printf("%ld wrong, signals %s\n", (long)wrong, all ? "came" : "were missing");
    return 0;
}
