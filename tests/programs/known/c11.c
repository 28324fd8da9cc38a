// The patterns of patterns.h on C11 threads, with a barrier made of a mutex and a condition
// variable. The initial thread only waits; participants are threads 1 to N.
#include "patterns.h"

#include <threads.h>

static Setup setup;
static uint64_t *regions;
static uint64_t sums[MAX_PARTICIPANTS];
static mtx_t lock;
static cnd_t all_here;
static int here, generation;

static void barrier(void) {
    mtx_lock(&lock);
    int mine = generation;
    if (++here == setup.participants) {
        here = 0;
        generation++;
        cnd_broadcast(&all_here);
    }
    while (mine == generation) cnd_wait(&all_here, &lock);
    mtx_unlock(&lock);
}

static int participant(void *argument) {
    int p = (int)(intptr_t)argument;
    uint64_t sum = 0;
    barrier();
    for (int round = 0; round < setup.rounds; round++) {
        sum += write_half(&setup, regions, p, round);
        barrier();
        sum += read_half(&setup, regions, p);
        barrier();
    }
    sums[p] = sum;
    return p;
}

int main(int argc, char **argv) {
    setup = read_setup(argc, argv, 1);
    regions = map_regions(&setup);
    thrd_t threads[MAX_PARTICIPANTS];
    if (mtx_init(&lock, mtx_plain) != thrd_success || cnd_init(&all_here) != thrd_success) return 3;
    for (int p = 0; p < setup.participants; p++)
        if (thrd_create(&threads[p], participant, (void *)(intptr_t)p) != thrd_success) return 3;
    for (int p = 0; p < setup.participants; p++) {
        int result;
        if (thrd_join(threads[p], &result) != thrd_success || result != p) return 3;
        printf("checksum %d %llu\n", p, (unsigned long long)sums[p]);
    }
    print_expected(&setup);
    return 0;
}
