// Threads that use memory of two kinds: pages that the initial thread has filled for all, and pages
// that each thread fills for itself. Every thread uses its part of both equally often.
//
// Usage: shares THREADS ROUNDS [bind]. With bind, the initial thread runs on the first processor,
// and the others on processors spread evenly, the first of them on the first one, too. Each rests
// there before it begins, so that whoever looks where threads are sees it there. At its end it
// prints, asked of the kernel and not of anything in between: thread I node N
//   own I NODE PAGES       as often as its pages lie on several nodes
//   given I NODE PAGES
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 32, BYTES = PAGES * PAGE, MAX_THREADS = 16, MAX_NODES = 64 };

static _Alignas(PAGE) volatile unsigned char given[MAX_THREADS][BYTES];
static volatile unsigned char *own[MAX_THREADS];
static unsigned node[MAX_THREADS];
static long rounds;
static int bound;
static pthread_barrier_t together;

static void use(volatile unsigned char *memory) {
    for (int at = 0; at < BYTES; at += 64)
        memory[at]++;
}

static cpu_set_t only(long cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return set;
}

static void rest(void) {
    enum { REST_US = 200000 };
    usleep(REST_US);
}

static void *work(void *argument) {
    long me = (long)argument;
    if (bound)
        rest();
    memset((void *)own[me], 1, BYTES);
    pthread_barrier_wait(&together);
    for (long round = 0; round < rounds; round++) {
        use(own[me]);
        use(given[me]);
    }
    getcpu(0, &node[me]);
    pthread_barrier_wait(&together);
    return 0;
}

static void tell(const char *kind, long who, volatile unsigned char *memory) {
    void *pages[PAGES];
    int status[PAGES], counts[MAX_NODES] = {0};
    for (int page = 0; page < PAGES; page++)
        pages[page] = (void *)(memory + page * PAGE);
    if (syscall(SYS_move_pages, 0, (long)PAGES, pages, 0, status, 0))
        perror("move_pages");
    for (int page = 0; page < PAGES; page++)
        if (status[page] >= 0 && status[page] < MAX_NODES)
            counts[status[page]]++;
    for (int at = 0; at < MAX_NODES; at++)
        if (counts[at])
            printf("%s %ld %d %d\n", kind, who, at, counts[at]);
}

int main(int argc, char **argv) {
    long threads = argc > 2 ? atol(argv[1]) : 0;
    if (threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: shares THREADS ROUNDS [bind]\n");
        return 2;
    }
    rounds = atol(argv[2]);
    bound = argc > 3 && !strcmp(argv[3], "bind");
    if (bound) {
        cpu_set_t first = only(0);
        if (sched_setaffinity(0, sizeof first, &first))
            perror("sched_setaffinity");
        rest();
    }
    pthread_barrier_init(&together, 0, threads);
    memset((void *)given, 1, threads * BYTES);
    pthread_t started[MAX_THREADS];
    for (long i = 0; i < threads; i++) {
        own[i] = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        // Pages are single ones, and where each lies is its own matter.
        madvise((void *)own[i], BYTES, MADV_NOHUGEPAGE);
        pthread_attr_t where;
        pthread_attr_init(&where);
        cpu_set_t set = only(i * sysconf(_SC_NPROCESSORS_ONLN) / threads);
        if (bound)
            pthread_attr_setaffinity_np(&where, sizeof set, &set);
        if (own[i] == MAP_FAILED || pthread_create(&started[i], &where, work, (void *)i))
            return 1;
    }
    for (long i = 0; i < threads; i++)
        pthread_join(started[i], 0);
    for (long i = 0; i < threads; i++) {
        printf("thread %ld node %u\n", i, node[i]);
        tell("own", i, own[i]);
        tell("given", i, given[i]);
    }
    return 0;
}
