// Threads, each pinned to a processor of its own NUMA node, that use memory which the initial
// thread has touched first: a part each of their own, and a part that all use. Tells at the end
// where the pages are.
//
//   node_users SECONDS PAGES THREADS
//
// Prints "own LOCAL of ALL" (pages of threads' own parts on their thread's node) and "shared" with
// the number of shared pages on each node. Thread t runs on processor t * CPUS / THREADS.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define MAX_THREADS 64
#define MAX_NODES 64

static char *memory;
static size_t pages;
static int threads;
static double seconds;
static int node_of[MAX_THREADS];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *use(void *argument) {
    int self = (int)(intptr_t)argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((int)(self * sysconf(_SC_NPROCESSORS_ONLN) / threads), &set);
    sched_setaffinity(0, sizeof set, &set);
    unsigned cpu, node;
    getcpu(&cpu, &node);
    node_of[self] = (int)node;
    uint64_t *own = (uint64_t *)(memory + (size_t)self * pages * PAGE);
    uint64_t *shared = (uint64_t *)(memory + (size_t)threads * pages * PAGE);
    size_t length = pages * PAGE / sizeof(uint64_t);
    volatile uint64_t sum = 0;
    for (double end = now() + seconds; now() < end;) {
        for (size_t i = 0; i < length; i += 8) own[i] += i;
        for (size_t i = 0; i < length; i += 8) sum += shared[i];
    }
    return NULL;
}

int main(int argc, char **argv) {
    seconds = argc > 1 ? atof(argv[1]) : 5;
    pages = argc > 2 ? (size_t)atoi(argv[2]) : 64;
    threads = argc > 3 ? atoi(argv[3]) : 4;
    if (threads < 1 || threads > MAX_THREADS || pages < 1) return 2;
    size_t all = ((size_t)threads + 1) * pages;
    memory = mmap(NULL, all * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 3;
    madvise(memory, all * PAGE, MADV_NOHUGEPAGE);
    memset(memory, 1, all * PAGE);
    printf("ready\n");
    fflush(stdout);
    pthread_t handles[MAX_THREADS];
    for (int t = 0; t < threads; t++)
        if (pthread_create(&handles[t], NULL, use, (void *)(intptr_t)t)) return 3;
    for (int t = 0; t < threads; t++) pthread_join(handles[t], NULL);
    size_t local = 0, on[MAX_NODES] = {0};
    for (size_t page = 0; page < all; page++) {
        void *address = memory + page * PAGE;
        int status = -1;
        if (syscall(SYS_move_pages, 0, 1UL, &address, NULL, &status, 0)) return 4;
        size_t owner = page / pages;
        if (owner < (size_t)threads) local += status == node_of[owner];
        else if (status >= 0 && status < MAX_NODES) on[status]++;
    }
    printf("own %zu of %zu\nshared", local, (size_t)threads * pages);
    for (int node = 0; node < MAX_NODES; node++)
        if (on[node]) printf(" %d:%zu", node, on[node]);
    printf("\n");
    return 0;
}
