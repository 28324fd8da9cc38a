// False sharing with known truth: N threads (1 to N) take turns, always in the same order; in its
// turn a thread increments its own 8-byte word in each of LINES cache lines. No word is ever read
// by anybody but its writer, yet every block moves from thread to thread: a RAW and a WAW event per
// block and turn, and no invalidation but of the previous writer, who does not count.
//
// Turns are passed on through eventfds, which share no memory.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORDS = 8 }; // in a cache line

static int count, rounds, lines, turn[WORDS];
static volatile uint64_t *memory;

static void *worker(void *argument) {
    int p = (int)(intptr_t)argument;
    uint64_t value = 1;
    for (int round = 0; round < rounds; round++) {
        if (read(turn[p], &value, 8) != 8) _exit(3);
        for (int line = 0; line < lines; line++) memory[line * WORDS + p]++;
        if (write(turn[(p + 1) % count], &value, 8) != 8) _exit(3);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s THREADS(2..8) ROUNDS LINES BLOCK_BYTES\n", argv[0]);
        return 2;
    }
    count = atoi(argv[1]), rounds = atoi(argv[2]), lines = atoi(argv[3]);
    long block = atol(argv[4]);
    if (count < 2 || count > WORDS || rounds < 1 || (long)lines * 64 % block) {
        fprintf(stderr, "2 to 8 threads, at least 1 round, lines in whole blocks\n");
        return 2;
    }
    void *mapped = mmap(NULL, (size_t)lines * 64, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return 3;
    memory = mapped;
    pthread_t threads[WORDS];
    for (int p = 0; p < count; p++) turn[p] = eventfd(p == 0, 0);
    for (int p = 0; p < count; p++)
        if (pthread_create(&threads[p], NULL, worker, (void *)(intptr_t)p)) return 3;
    for (int p = 0; p < count; p++) pthread_join(threads[p], NULL);
    long blocks = (long)lines * 64 / block;
    for (int p = 0; p < count; p++) {
        int to = (p + 1) % count;
        // The very first turn takes the memory from nobody.
        long turns = to == 0 ? rounds - 1 : rounds;
        printf("word %d %llu\n", p, (unsigned long long)memory[p]);
        printf("expect raw %d %d %ld\n", p + 1, to + 1, turns * blocks);
        printf("expect waw %d %d %ld\n", p + 1, to + 1, turns * blocks);
    }
    return 0;
}
