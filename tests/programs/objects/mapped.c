// Memory that the program maps for itself, as blocks whose events are known: the initial thread
// writes each line once, and another thread then reads each line once.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hand_over.h"

#define MIB (1ul << 20)

static char *map_at(char *at, size_t bytes, int flags) {
    void *got = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    return got == MAP_FAILED ? (abort(), (char *)0) : got;
}

__attribute__((noinline)) static char *map_small(void) { return map_at(0, 64 << 10, MAP_PRIVATE); }
__attribute__((noinline)) static char *map_large(void) { return map_at(0, 8 * MIB, MAP_PRIVATE); }
__attribute__((noinline)) static char *map_trimmed(void) { return map_at(0, 6 * MIB, MAP_PRIVATE); }
__attribute__((noinline)) static char *map_moving(void) { return map_at(0, 32 << 10, MAP_PRIVATE); }
__attribute__((noinline)) static char *map_reserved(void) {
    return mmap(0, 4 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
__attribute__((noinline)) static char *map_again(char *at) {
    return map_at(at, 64 << 10, MAP_PRIVATE | MAP_FIXED_NOREPLACE);
}
__attribute__((noinline)) static char *map_for_all(void) { return map_at(0, 64 << 10, MAP_SHARED); }

int main(void) {
    char *small = map_small(), *large = map_large();
    hand_over(small + 4096, 50);
    hand_over(large + 3 * MIB, 60);
    // A part of it stays.
    char *trimmed = map_trimmed();
    munmap(trimmed, MIB);
    munmap(trimmed + 5 * MIB, MIB);
    hand_over(trimmed + MIB, 70);
    munmap(trimmed + 2 * MIB, MIB);
    hand_over(trimmed + 4 * MIB, 10);
    // Moved, it is the same.
    char *moving = map_moving();
    char *moved = mremap(moving, 32 << 10, 512 << 10, MREMAP_MAYMOVE);
    hand_over(moved + (256 << 10), 90);
    // Reserved first, used later, in both ways.
    char *reserved = map_reserved();
    mprotect(reserved, MIB, PROT_READ | PROT_WRITE);
    map_at(reserved + 2 * MIB, MIB, MAP_PRIVATE | MAP_FIXED);
    hand_over(reserved, 30);
    hand_over(reserved + 2 * MIB, 40);
    // Another place maps memory where this was.
    munmap(small, 64 << 10);
    char *again = map_again(small);
    hand_over(again + 4096, 20);
    // What malloc gets for itself is not the program's.
    char *block = malloc(4 * MIB);
    hand_over(block + 4096, 80);
    free(block);
    // A file in memory that was reserved is the file's.
    FILE *file = fopen("/proc/self/exe", "r");
    char *page = file ? mmap(large, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fileno(file), 0)
                      : MAP_FAILED;
    if (page != MAP_FAILED)
        hand_over(page, 15);
    // The child's memory is the parent's.
    volatile char *shared = map_for_all();
    for (int k = 0; k < 25; k++)
        shared[k * LINE] = 1;
    if (!fork()) {
        long sum = 0;
        for (int k = 0; k < 25; k++)
            sum += shared[k * LINE];
        _exit(sum != 25);
    }
    int status;
    wait(&status);
    return status != 0;
}
