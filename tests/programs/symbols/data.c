// Code and data whose names, lines and fields are known. The tests of the crate `symbols` look them
// up; lines are found by their comments.
#include <pthread.h>
#include <stdatomic.h>

typedef struct {
    char flag;
    int values[4];
} inner_t;

struct state {
    volatile long count;
    inner_t inner;
    _Atomic int ticks;
    unsigned low : 3, high : 5;
    struct {
        short unnamed_member;
    };
    union {
        long whole;
        int half[2];
    } either;
    pthread_mutex_t lock;
};

_Alignas(64) struct state state;
_Alignas(64) long table[2][3][8];
_Alignas(64) long counters[16];
_Thread_local long own = 5;

static inline __attribute__((always_inline)) void add_one(long *to) {
    *(volatile long *)to += 1; // line: add_one
}

static inline __attribute__((always_inline)) void add_two(long *to) {
    add_one(to); // line: add_two
    add_one(to);
}

__attribute__((noinline)) void work(int i) {
    static long calls;
    *(volatile long *)&calls += 3; // line: calls
    add_two(&counters[i]); // line: work
    table[i & 1][0][0] = counters[i] + own;
}

int main(int argc, char **argv) {
    (void)argv;
    work(argc);
    return state.count != 0;
}
