// Write-volume (ComDetective, 4.1.1): each participant stores to one shared word in FRACTION of its
// iterations, else to memory of its own. All communication is true sharing.
#include "micro.h"

static const int words_tell = 1;
static const int times_tell = 0;

static void participate(int p) {
    uint64_t state = seed(p), limit = threshold(fraction);
    volatile uint64_t *shared = line(0, 0), *mine = own(p);
    long count = 0;
    for (long i = 0; i < iterations; i++) {
        uint32_t r = random_below_2_31(&state);
        if (r < limit) {
            store(shared, r);
            count++;
        } else {
            store(mine, r);
        }
    }
    accesses[p][0] = count;
}

static int lines_for(int count) { return (void)count, 1; }

static void truth(void) {
    everybody_meets(fraction);
    printf("false 0\n");
}

int main(int argc, char **argv) { return run(argc, argv, lines_for, truth); }
