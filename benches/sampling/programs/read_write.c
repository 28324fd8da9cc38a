// Read-write (ComDetective, 4.1.3): all accesses go to one shared word. Participant 1 always
// stores; the others load in FRACTION of their iterations and store else, so more loads mean less
// communication.
#include "micro.h"

static const int words_tell = 0;
static const int times_tell = 0;

static void participate(int p) {
    uint64_t state = seed(p), limit = p == 0 ? 0 : threshold(fraction);
    volatile uint64_t *shared = line(0, 0);
    for (long i = 0; i < iterations; i++) {
        uint32_t r = random_below_2_31(&state);
        if (r < limit)
            load(shared);
        else
            store(shared, r);
    }
    accesses[p][0] = iterations;
}

static int lines_for(int count) { return (void)count, 1; }

static void truth(void) {
    // Where only participant 1 stores, the others have nothing to tell each other.
    if (fraction < 1)
        everybody_meets(1);
    else
        for (int b = 2; b <= threads; b++) printf("pair 1 %d 1\n", b);
    printf("false 0\n");
}

int main(int argc, char **argv) { return run(argc, argv, lines_for, truth); }
