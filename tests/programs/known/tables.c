// Tables that are read and written at random: the threads of each of PAIRS pairs share one of KIB
// kilobytes, and one more thread has such a table for itself. Each remembers what it has last seen
// of each line. Prints how many reads saw something new of the other one: handed N
//
// Usage: tables PAIRS KIB MILLISECONDS
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE = 64, WORDS = LINE / 8 };

static uint64_t lines, end_ns;

struct worker {
    pthread_t thread;
    uint64_t *table, *seen, id, handed;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void *work(void *argument) {
    struct worker *me = argument;
    uint64_t state = me->id * 0x9e3779b97f4a7c15ull, made = 0, handed = 0;
    do {
        for (int k = 0; k < 4096; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            uint64_t line = (state >> 16) % lines;
            volatile uint64_t *word = me->table + line * WORDS;
            if (state % 4 == 0) {
                *word = me->seen[line] = ++made << 8 | me->id;
            } else {
                // Not into the register that holds the address: samples come when it is gone.
                uint64_t value;
                __asm__ volatile("movq (%1), %0" : "=&r"(value) : "r"(word) : "memory");
                handed += value != me->seen[line];
                me->seen[line] = value;
            }
        }
    } while (now_ns() < end_ns);
    me->handed = handed;
    return argument;
}

// Lines that nothing else lies in.
static void *zeros(size_t bytes) {
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory) exit(1);
    return memset(memory, 0, bytes);
}

int main(int argc, char **argv) {
    int pairs = argc > 1 ? atoi(argv[1]) : 2, count = 2 * pairs + 1;
    lines = (argc > 2 ? atol(argv[2]) : 4096) * 1024ull / LINE;
    struct worker *workers = zeros(count * sizeof *workers);
    for (int k = 0; k < count; k++) {
        workers[k].id = k + 1;
        workers[k].table = k % 2 ? workers[k - 1].table : zeros(lines * LINE);
        workers[k].seen = zeros(lines * sizeof(uint64_t));
    }
    end_ns = now_ns() + (argc > 3 ? atol(argv[3]) : 1000) * 1000000ull;
    for (int k = 0; k < count; k++) pthread_create(&workers[k].thread, 0, work, &workers[k]);
    uint64_t handed = 0;
    for (int k = 0; k < count; k++) {
        pthread_join(workers[k].thread, 0);
        handed += workers[k].handed;
    }
    printf("handed %llu\n", (unsigned long long)handed);
    return 0;
}
