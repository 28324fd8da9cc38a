// Blocks that are there for a known time, each handed over from one thread to another: many for
// MS milliseconds each, one that is never freed, one that is moved again and again, and two of each
// of many sizes.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hand_over.h"

enum { BLOCKS = 12, BYTES = 1280, LINES = 16 };

static void wait_ms(long ms) {
    struct timespec rest = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&rest, 0);
}

__attribute__((noinline)) static void *make_short(void) { return malloc(BYTES); }
__attribute__((noinline)) static void *make_kept(void) { return malloc(BYTES); }
__attribute__((noinline)) static void *make_moved(void) { return malloc(BYTES); }

__attribute__((noinline)) static void *make_sized(size_t bytes) { return malloc(bytes); }

// Larger ones may come to lie where smaller ones were.
static void make_sizes(void) {
    for (volatile int k = 0; k < 2; k++)
        for (int shift = 6; shift < 24; shift++) {
            void *block = make_sized((size_t)1 << shift);
            hand_over(block, 1);
            free(block);
        }
}

int main(int count, char **words) {
    long ms = count > 1 ? atol(words[1]) : 20;
    char *kept = make_kept(), *moved = make_moved();
    hand_over(kept, LINES);
    for (int k = 0; k < BLOCKS; k++) {
        void *block = make_short();
        hand_over(block, LINES);
        wait_ms(ms);
        free(block);
        // Of as many binary digits.
        moved = realloc(moved, BYTES + 32 * (size_t)(k + 1));
    }
    hand_over(moved, LINES);
    free(moved);
    make_sizes();
    // A child frees what its parent has allocated: of that nothing is known here.
    if (fork() == 0) {
        free(kept);
        _exit(0);
    }
    wait(0);
    return 0;
}
