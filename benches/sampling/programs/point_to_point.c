// Point-to-point (ComDetective, 4.1.4): participants 1 and 2, 3 and 4 … share a word, which each
// stores to in FRACTION of its iterations, every second pair in half of that; else to memory of its
// own. The last one of an odd number has no partner. No participant communicates across pairs.
#include "micro.h"

static const int words_tell = 1;
static const int times_tell = 0;

static double share_of(int pair) { return pair % 2 ? fraction / 2 : fraction; }

static void participate(int p) {
    uint64_t state = seed(p), limit = threshold(share_of(p / 2));
    volatile uint64_t *shared = line(p / 2, 0), *mine = own(p);
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

static int lines_for(int count) { return (count + 1) / 2; }

static void truth(void) {
    for (int pair = 0; 2 * pair + 1 < threads && fraction > 0; pair++)
        printf("pair %d %d %g\n", 2 * pair + 1, 2 * pair + 2, share_of(pair));
    printf("false 0\n");
}

int main(int argc, char **argv) { return run(argc, argv, lines_for, truth); }
