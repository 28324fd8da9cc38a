// Readings of threads that have ended: thread after thread reads LINES lines, more threads than a
// shadow word has slots for, some of them together with others. Then thread 0 writes the lines: for
// each thread that has read, that is one invalidation a line, however long it has been gone. What
// threads have written themselves before they ended must not count.
//
// With `moved`, the lines are moved to another address before they are written. With `swapped`, all
// memory of the process is swapped out now and then, whoever has mapped it, while threads come and
// go; what is then still in memory goes when a number of bytes is written to FILE.
//
// Usage: departed THREADS TOGETHER [moved | swapped FILE]
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINES = 256, LINE = 64, MAX = 1000, ROUNDS = 3 };

static volatile char *memory;
static _Alignas(4096) volatile char own[MAX * LINE];

static void *look(void *argument) {
    intptr_t me = (intptr_t)argument;
    char sum = 0;
    for (int k = 0; k < LINES; k++) sum += memory[k * LINE];
    own[me % MAX * LINE] = sum;
    return NULL;
}

static void swap_out(const char *file) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end;
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2) madvise((void *)start, end - start, MADV_PAGEOUT);
    if (maps) fclose(maps);
    FILE *reclaim = fopen(file, "w");
    // Less may have been there.
    if (reclaim) fputs("1G", reclaim), fclose(reclaim);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 150, together = argc > 2 ? atoi(argv[2]) : 1;
    pthread_t ids[64];
    int moves = argc > 3 && !strcmp(argv[3], "moved"), swaps = argc > 4 && !strcmp(argv[3], "swapped");
    if (threads > MAX || together > 64) return 2;
    enum { BYTES = LINES * LINE };
    char *places = mmap(NULL, (ROUNDS + 1) * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (places == MAP_FAILED) return 3;
    memory = places;
    for (int round = 0; round < ROUNDS; round++) {
        for (int first = 0; first < threads; first += together) {
            for (int k = 0; k < together; k++)
                if (pthread_create(&ids[k], NULL, look, (void *)(intptr_t)(first + k))) return 3;
            for (int k = 0; k < together; k++) pthread_join(ids[k], NULL);
            if (swaps) swap_out(argv[4]);
        }
        if (moves)
            memory = mremap((void *)memory, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, places + (round + 1) * BYTES);
        if (memory == MAP_FAILED) return 3;
        for (int k = 0; k < LINES; k++) memory[k * LINE] = (char)round;
        for (int k = 0; k < MAX; k++) own[k * LINE] = 1;
    }
    for (int t = 1; t <= threads * ROUNDS; t++) printf("expect invalidation 0 %d %d\n", t, LINES);
    printf("region memory %p %d\n", (void *)memory, BYTES);
    return 0;
}
