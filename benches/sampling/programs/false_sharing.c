// False-sharing (ComDetective, 4.1.2): each participant updates a word of its own in a line that
// others update other words of, in FRACTION of its iterations; else the one word that all update,
// in another line. At most eight participants share a line of the first kind, further ones use
// further lines.
#include "micro.h"

static const int words_tell = 0;
static const int times_tell = 1;

enum { WORDS = LINE / 8 };

static void participate(int p) {
    uint64_t state = seed(p), limit = threshold(fraction);
    volatile uint64_t *everybodys = line(0, 0), *mine = line(1 + p / WORDS, p % WORDS);
    for (long i = 0; i < iterations; i++) {
        uint32_t r = random_below_2_31(&state);
        store(r < limit ? mine : everybodys, r);
    }
    accesses[p][0] = iterations;
}

static int lines_for(int count) { return 1 + (count + WORDS - 1) / WORDS; }

static void truth(void) {
    for (int a = 1; a <= threads; a++)
        for (int b = a + 1; b <= threads; b++) {
            double together = (a - 1) / WORDS == (b - 1) / WORDS ? 1 : 1 - fraction;
            if (together > 0) printf("pair %d %d %g\n", a, b, together);
        }
    printf("false %g\n", fraction);
}

int main(int argc, char **argv) { return run(argc, argv, lines_for, truth); }
