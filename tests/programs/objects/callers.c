// Functions that several callers come to, in known shares: three of four times by `often`, else by
// `seldom`. With "frames", their stack frames are found by %rbp.
#include <alloca.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { TURNS = 10000 };

static volatile long counter, turn;
static int with_frames;

__attribute__((noinline)) static void add(volatile long *to) { *to += 1; }

__attribute__((noinline)) static void often(int bytes) {
    volatile char *room = with_frames ? alloca((size_t)bytes) : 0;
    if (room)
        room[bytes - 1] = 1;
    add(&counter);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void seldom(int bytes) {
    volatile char *room = with_frames ? alloca((size_t)bytes) : 0;
    if (room)
        room[bytes - 1] = 1;
    add(&counter);
    __asm__ volatile("nop" ::: "memory"); // not the same code as above
}

static void *take_turns(void *arg) {
    long mine = (long)arg;
    for (long k = 0; k < TURNS; k++) {
        while (turn != mine)
            sched_yield();
        if (k % 4 == 0)
            seldom((int)(k % 100 + 1));
        else
            often((int)(k % 100 + 1));
        turn = !mine;
    }
    return 0;
}

int main(int argc, char **argv) {
    with_frames = argc > 1 && !strcmp(argv[1], "frames");
    pthread_t other;
    pthread_create(&other, 0, take_turns, (void *)1);
    take_turns(0);
    pthread_join(other, 0);
    printf("%ld\n", counter);
    return 0;
}
