// Pairs of threads that take turns, each pair at words of a line of its own, so that each access is
// a transfer that can be counted: both update the same word (same), each its own (apart), or one
// writes what the other reads (read). Who is next is told by semaphores, which lie elsewhere. In
// each round the pairs are new threads; further processes (forked) do the same. With "waits" they
// begin on SIGUSR1, when the threads of the first round are there.
//
// `turns where` says where the first pair's words are: 8 bytes, in an executable at a fixed
// address. At the end each process says for each pair how often the line went over.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAIRS = 8, WORDS = 16 };

static _Alignas(64) uint32_t lines[PAIRS][WORDS];
static struct { _Alignas(64) sem_t turn[2]; } order[PAIRS];
static int turns, apart, reads;
static uint32_t seen[PAIRS];

struct who { int pair, side; };

static void *take_turns(void *argument) {
    struct who *me = argument;
    uint32_t *word = &lines[me->pair][apart ? me->side : 0];
    for (int i = 0; i < turns; i++) {
        while (sem_wait(&order[me->pair].turn[me->side])) {}
        if (reads && me->side) seen[me->pair] += *(volatile uint32_t *)word != 0;
        else if (reads) *(volatile uint32_t *)word = i + 1;
        else __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
        sem_post(&order[me->pair].turn[!me->side]);
    }
    return NULL;
}

// In virtual machines an access that a debug register notices comes, once in ten millions or so, as
// a signal that the kernel knows no register for. It says nothing about what was counted.
static void stray(int signal) { (void)signal; }

static void one_round(int pairs, sigset_t *begin) {
    pthread_t thread[2 * PAIRS];
    struct who who[2 * PAIRS];
    for (int p = 0; p < pairs; p++) {
        sem_init(&order[p].turn[0], 0, 0);
        sem_init(&order[p].turn[1], 0, 0);
        for (int side = 0; side < 2; side++) {
            int t = 2 * p + side;
            who[t] = (struct who){p, side};
            if (pthread_create(&thread[t], NULL, take_turns, &who[t])) exit(3);
        }
    }
    int signal;
    if (begin) puts("ready"), fflush(stdout), sigwait(begin, &signal);
    for (int p = 0; p < pairs; p++) sem_post(&order[p].turn[0]);
    for (int t = 0; t < 2 * pairs; t++) pthread_join(thread[t], NULL);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "where")) return printf("%p\n", (void *)lines) < 0;
    if (argc != 7) {
        fprintf(stderr, "usage: %s PAIRS TURNS ROUNDS PROCESSES same|apart|read waits|begins\n", argv[0]);
        return 2;
    }
    struct sigaction action = {.sa_handler = stray, .sa_flags = SA_RESTART};
    sigaction(SIGTRAP, &action, NULL);
    int pairs = atoi(argv[1]), rounds = atoi(argv[3]), processes = atoi(argv[4]);
    turns = atoi(argv[2]) / rounds / 2;
    apart = !strcmp(argv[5], "apart");
    reads = !strcmp(argv[5], "read");
    if (pairs < 1 || pairs > PAIRS || turns < 1 || processes < 1) return 2;
    sigset_t begin;
    sigemptyset(&begin);
    sigaddset(&begin, SIGUSR1);
    int waits = !strcmp(argv[6], "waits");
    if (waits) pthread_sigmask(SIG_BLOCK, &begin, NULL);
    int number = 0;
    while (number + 1 < processes && !fork()) number++;
    for (int round = 0; round < rounds; round++) one_round(pairs, waits && !round && !number ? &begin : NULL);
    for (int p = 0; p < pairs; p++) {
        // Where reading is counted, this thread must not.
        uint32_t times = reads ? seen[p] : apart ? lines[p][0] + lines[p][1] : lines[p][0];
        printf("handed %d %d %u\n", number, p, times);
    }
    fflush(stdout);
    while (wait(NULL) > 0) {}
    return 0;
}
