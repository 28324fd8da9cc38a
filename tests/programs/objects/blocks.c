// Blocks whose events are known: the initial thread writes each line of a block once, and another
// thread then reads each line once. Prints nothing but what it is asked for.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hand_over.h"

// The same address again and again, from two places.
__attribute__((noinline)) static void *first_place(long bytes) { return malloc((size_t)bytes); }
__attribute__((noinline)) static void *second_place(long bytes) { return malloc((size_t)bytes); }

static void reuse(void) {
    void *last = 0;
    int same = 0;
    for (int k = 0; k < 10; k++) {
        void *block = k % 2 ? second_place(6400) : first_place(6400);
        same += block == last;
        hand_over(block, k % 2 ? 50 : 20);
        free(block);
        last = block;
    }
    printf("same address %d times\n", same);
}

__attribute__((noinline)) static void *begin_small(void) { return malloc(640); }
__attribute__((noinline)) static void *make_larger(void *block, size_t bytes) { return realloc(block, bytes); }

static void grow(void) {
    char *block = begin_small();
    for (size_t bytes = 1280; bytes <= 1 << 20; bytes *= 2)
        block = make_larger(block, bytes);
    hand_over(block, 300);
    free(block);
}

__attribute__((noinline)) static void *take_aligned(void) { return aligned_alloc(4096, 8192); }
__attribute__((noinline)) static void *take_by_pointer(void) {
    void *block = 0;
    return posix_memalign(&block, 256, 6400) ? 0 : block;
}

static void aligned(void) {
    void *one = take_aligned(), *two = take_by_pointer();
    hand_over(one, 70);
    hand_over(two, 90);
    free(one);
    free(two);
}

static void *early;
__attribute__((constructor, noinline)) static void before_main(void) { early = calloc(64, 100); }

static void *from_handler;
__attribute__((noinline)) static void on_signal(int number) {
    (void)number;
    from_handler = malloc(6400);
}

static sigjmp_buf away;
static volatile int leaves;
static void leave(int number) {
    (void)number;
    if (leaves)
        siglongjmp(away, 1);
}

// Signals leave malloc by longjmp now and then, and the heap to itself.
static void jump(void) {
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    hand_over(from_handler, 60);
    hand_over(early, 40);
    signal(SIGUSR2, leave);
    for (int k = 0; k < 100; k++)
        if (!sigsetjmp(away, 1)) {
            leaves = 1;
            raise(SIGUSR2);
        }
    leaves = 0;
    void *block = first_place(6400);
    hand_over(block, 30);
    free(block);
}

static void in_child(void) {
    char *block = first_place(6400);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        hand_over(block, 80);
        _exit(0);
    }
    waitpid(child, 0, 0);
    hand_over(block, 25);
    free(block);
}

// Two processes, each with blocks of its own, that talk to each other.
static void together(void) {
    int flags = MAP_SHARED | MAP_ANONYMOUS;
    volatile char *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    void *block = first_place(6400);
    hand_over(block, 25);
    shared[0] = 1;
    pid_t child = fork();
    if (!child) {
        hand_over(second_place(6400), 80);
        _exit(shared[0] != 1);
    }
    waitpid(child, 0, 0);
    free(block);
}

// More lines than are kept apart.
static void many_lines(void) {
    const long lines = 60000;
    char *block = first_place(lines * LINE), *other = second_place(lines * LINE);
    hand_over(block, lines);
    hand_over(other, lines);
    free(block);
    free(other);
}

// A million ways to come to one call of malloc.
__attribute__((noinline)) static long spread(int depth, long path) {
    if (depth == 0) {
        volatile char *block = malloc(24);
        block[0] = (char)path;
        free((void *)block);
        return path & 1;
    }
    long sum = 0;
#define GO(k) sum += spread(depth - 1, path * 16 + k);
    GO(0) GO(1) GO(2) GO(3) GO(4) GO(5) GO(6) GO(7) GO(8) GO(9) GO(10) GO(11) GO(12) GO(13) GO(14) GO(15)
    return sum;
}

static void sites(void) {
    printf("%ld\n", spread(5, 1));
    void *block = first_place(6400);
    hand_over(block, 45);
    free(block);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"reuse", reuse}, {"grow", grow},   {"aligned", aligned}, {"jump", jump}, {"fork", in_child},
               {"lines", many_lines}, {"sites", sites}, {"together", together}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (!strcmp(all[k].name, what))
            all[k].run();
    return 0;
}
