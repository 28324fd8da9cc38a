// Two threads hand a block of memory to and fro. Each adds to a word of every cache line, in a loop
// whose heads ask about several lines at once, before the other one's turn.
//
//   handed LINES TURNS    each turn but the first reads and overwrites LINES lines of the other's
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LINE = 64, WORDS = LINE / sizeof(unsigned long) };

static long lines, turns;
static unsigned long *block;
static int ready[2];

static void signal_to(long thread) {
    uint64_t one = 1;
    if (write(ready[thread], &one, sizeof one) != sizeof one)
        abort();
}

static void *take_turns(void *argument) {
    long self = (long)argument;
    unsigned long sum = 0;
    uint64_t value;
    for (long turn = self; turn < turns; turn += 2) {
        if (read(ready[self], &value, sizeof value) != sizeof value)
            abort();
        for (long line = 0; line < lines; line++) {
            sum += block[line * WORDS];
            block[line * WORDS] = sum + (unsigned long)turn;
        }
        signal_to(!self);
    }
    return (void *)sum;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    lines = atol(argv[1]);
    turns = atol(argv[2]);
    block = aligned_alloc(4096, (size_t)lines * LINE);
    if (!block)
        return 1;
    for (int i = 0; i < 2; i++)
        ready[i] = eventfd(0, 0);
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, take_turns, (void *)i);
    signal_to(0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
