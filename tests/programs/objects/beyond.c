// More lines than are kept, in all kinds of memory that no function allocates: a thread writes each
// line of them once, and another thread then reads each once.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

enum { LINE = 64, LINES = 50000, LOCAL_LINES = 8000 };

static char table[LINES * LINE] __attribute__((aligned(4096)));
static char small[LINE] __attribute__((aligned(4096)));
static _Thread_local char local[LOCAL_LINES * LINE] __attribute__((aligned(4096)));

struct span {
    volatile char *start;
    long lines;
};

static struct span spans[5];

static void *read_all(void *arg) {
    long sum = 0;
    for (int s = 0; s < 5; s++)
        for (long k = 0; k < spans[s].lines; k++)
            sum += spans[s].start[k * LINE];
    return arg ? (void *)sum : 0;
}

static void *write_all(void *arg) {
    volatile char room[LINES * LINE];
    spans[0] = (struct span){table, LINES};
    spans[1] = (struct span){arg, LINES};
    spans[2] = (struct span){room, LINES};
    spans[3] = (struct span){local, LOCAL_LINES};
    spans[4] = (struct span){small, 1};
    for (int s = 0; s < 5; s++)
        for (long k = 0; k < spans[s].lines; k++)
            spans[s].start[k * LINE] = 1;
    pthread_t reader;
    pthread_create(&reader, 0, read_all, 0);
    pthread_join(reader, 0);
    return 0;
}

int main(void) {
    void *mapped = mmap(0, LINES * LINE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16 << 20);
    pthread_t writer;
    pthread_create(&writer, &attributes, write_all, mapped);
    pthread_join(writer, 0);
    puts("done");
    return 0;
}
