// Many lines that one thread writes and the other reads: all of them after the whole array was
// written, then each soon after its own write. Prints the address of the first line.
#include <pthread.h>
#include <stdio.h>

enum { LINE = 64, LINES = 12000, SOON = 100 };

static struct line {
    volatile int value;
} __attribute__((aligned(LINE))) lines[LINES];

static pthread_barrier_t barrier;

__attribute__((noinline)) static void write_lines(int first, int count) {
    for (int k = first; k < first + count; k++)
        lines[k].value = k;
}

__attribute__((noinline)) static int read_lines(int first, int count) {
    int sum = 0;
    for (int k = first; k < first + count; k++)
        sum += lines[k].value;
    return sum;
}

static void *reader(void *arg) {
    (void)arg;
    long sum = 0;
    pthread_barrier_wait(&barrier);
    sum += read_lines(0, LINES);
    pthread_barrier_wait(&barrier);
    for (int first = 0; first < LINES; first += SOON) {
        pthread_barrier_wait(&barrier);
        sum += read_lines(first, SOON);
        pthread_barrier_wait(&barrier);
    }
    return (void *)sum;
}

int main(void) {
    pthread_t id;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&id, 0, reader, 0);
    write_lines(0, LINES);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (int first = 0; first < LINES; first += SOON) {
        write_lines(first, SOON);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    pthread_join(id, 0);
    printf("%p\n", (void *)lines);
    return 0;
}
