// A thread writes the lines of a ring in turn; another reads them half a ring later. Between two
// lines both work on data of their own, so a line is read long after it was written. Prints how
// many lines were read. With a third argument, the other thread overwrites them instead. Usage:
// late_reads STEPS [WORK] [writes]
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINES = 1 << 16, WORDS = 8, LAG = LINES / 2, TOGETHER = 256 };

static uint64_t ring[LINES][WORDS] __attribute__((aligned(64)));
static _Atomic long written, read_up_to;
static long steps, work_each;
static int writes;

static uint64_t work(uint64_t x) {
    for (long k = 0; k < work_each; k++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

static void *writer(void *unused) {
    uint64_t x = 1;
    for (long step = 0; step < steps; step++) {
        if (step % TOGETHER == 0) {
            atomic_store(&written, step);
            while (step - atomic_load(&read_up_to) > LAG + 2 * TOGETHER)
                sched_yield();
        }
        x = work(x);
        for (int k = 0; k < WORDS; k++)
            ring[step % LINES][k] = x;
    }
    atomic_store(&written, steps + LAG + TOGETHER);
    return unused;
}

static void *reader(void *unused) {
    uint64_t x = 1;
    for (long step = 0; step < steps; step++) {
        if (step % TOGETHER == 0) {
            atomic_store(&read_up_to, step);
            while (atomic_load(&written) - step < LAG)
                sched_yield();
        }
        x = work(x);
        if (writes)
            ring[step % LINES][0] = x;
        else
            x ^= ring[step % LINES][x % WORDS];
    }
    return (void *)(uintptr_t)(unused ? 0 : x | 1);
}

int main(int argc, char **argv) {
    steps = argc > 1 ? atol(argv[1]) : 1000000;
    work_each = argc > 2 ? atol(argv[2]) : 400;
    writes = argc > 3;
    pthread_t threads[2];
    pthread_create(&threads[0], 0, writer, 0);
    pthread_create(&threads[1], 0, reader, 0);
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], 0);
    printf("%ld\n", steps);
    return 0;
}
