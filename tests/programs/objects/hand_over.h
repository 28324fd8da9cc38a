// The initial thread writes each line of a block, and another one then reads it.
#ifndef HAND_OVER_H
#define HAND_OVER_H
#include <pthread.h>

enum { LINE = 64 };

struct span {
    volatile char *start;
    long lines;
};

static void *read_all(void *arg) {
    const struct span *s = arg;
    long sum = 0;
    for (long k = 0; k < s->lines; k++)
        sum += s->start[k * LINE];
    return (void *)sum;
}

// So many RAW events on the lines of the block.
__attribute__((noinline)) static void hand_over(void *block, long lines) {
    struct span s = {block, lines};
    pthread_t reader;
    for (long k = 0; k < lines; k++)
        s.start[k * LINE] = 1;
    pthread_create(&reader, 0, read_all, &s);
    pthread_join(reader, 0);
}

#endif
