// Timer signals at full speed into threads that compute: the handler uses floating point, vector
// moves, the stack and a system call, and none of it may show in the interrupted computation, nor
// may a signal be lost: each of a counted series sent to one thread is waited for. Handlers may run
// on a stack of their own, but there is none, so they must run on the thread's.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks, received, elsewhere;
static __thread char *volatile on_stack; // of a thread that computes
static volatile double scratch;
static pthread_t counted;

static void on_timer(int signal) {
    (void)signal;
    char noise[512];
    memset(noise, ticks & 0xff, sizeof noise);
    if (on_stack && (uintptr_t)(on_stack - noise) > 1 << 16) elsewhere = 1;
    syscall(SYS_getppid);
    scratch = scratch * 1.5 + noise[17];
    ticks++;
}

static void on_user(int signal) {
    (void)signal;
    received++;
}

static void *compute(void *argument) {
    uint64_t x = (uint64_t)(uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;
    double sum = 0;
    on_stack = (char *)__builtin_frame_address(0);
    for (int i = 0; i < 20000000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        sum += (double)(x >> 40) * 1e-3;
    }
    uint64_t bits;
    memcpy(&bits, &sum, 8);
    return (void *)(uintptr_t)(x ^ bits);
}

static void *send_counted(void *argument) {
    // Ordinary signals do not queue: the next is sent when the last has been handled.
    for (int i = 0; i < 200; i++) {
        pthread_kill(counted, SIGUSR1);
        while (received <= i) sched_yield();
    }
    return argument;
}

int main(void) {
    struct sigaction timer = {.sa_handler = on_timer, .sa_flags = SA_RESTART | SA_ONSTACK};
    struct sigaction user = {.sa_handler = on_user, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &timer, NULL);
    sigaction(SIGPROF, &timer, NULL);
    sigaction(SIGUSR1, &user, NULL);
    struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    pthread_t threads[4], sender;
    for (uintptr_t i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, compute, (void *)(i + 1))) return 3;
    counted = pthread_self();
    if (pthread_create(&sender, NULL, send_counted, NULL)) return 3;
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("thread %d %016llx\n", i, (unsigned long long)(uintptr_t)result);
    }
    pthread_join(sender, NULL);
    printf("ticked %s received %d on %s stack\n", ticks > 10 ? "yes" : "no", (int)received,
           elsewhere ? "another" : "its own");
    return 0;
}
