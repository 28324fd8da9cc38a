// Four threads that talk in two pairs: the example that the demo records and places.
//
//   threads 1 and 3 pass a buffer of 256 KB back and forth, threads 2 and 4 another one
//
// A thread that has the buffer reads and rewrites every number in it, hands it over and waits until
// it comes back. So of two partners only one works at a time, and the four threads fill two cores;
// what matters is which two share a core's caches. Partners next to each other find the buffer
// where they left it; partners on different cores move it between caches on every turn.
//
// Build: gcc -O2 -pthread pairs.c -o pairs        Usage: pairs [TURNS [BUFFER_KB]]
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    uint64_t *numbers;
    sem_t turn[2]; // whose turn it is
} Buffer;

typedef struct {
    Buffer *buffer;
    int side;
    const char *name;
} Partner;

static int turns = 12000;
static size_t count = 256 * 1024 / sizeof(uint64_t);

static void *partner(void *argument) {
    Partner *self = argument;
    pthread_setname_np(pthread_self(), self->name);
    for (int turn = 0; turn < turns; turn++) {
        sem_wait(&self->buffer->turn[self->side]);
        uint64_t *numbers = self->buffer->numbers;
        for (size_t i = 0; i < count; i++) numbers[i] = numbers[i] * 5 + (uint64_t)turn;
        sem_post(&self->buffer->turn[1 - self->side]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) turns = atoi(argv[1]);
    if (argc > 2) count = (size_t)atoi(argv[2]) * 1024 / sizeof(uint64_t);
    if (turns < 1 || count < 1) {
        fprintf(stderr, "usage: %s [TURNS [BUFFER_KB]]\n", argv[0]);
        return 2;
    }
    Buffer buffers[2];
    for (int i = 0; i < 2; i++) {
        buffers[i].numbers = aligned_alloc(4096, (count * sizeof(uint64_t) + 4095) / 4096 * 4096);
        if (!buffers[i].numbers) return 3;
        for (size_t n = 0; n < count; n++) buffers[i].numbers[n] = n + (size_t)i;
        sem_init(&buffers[i].turn[0], 0, 1);
        sem_init(&buffers[i].turn[1], 0, 0);
    }
    Partner partners[4] = {{&buffers[0], 0, "red-a"},
                           {&buffers[1], 0, "blue-a"},
                           {&buffers[0], 1, "red-b"},
                           {&buffers[1], 1, "blue-b"}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, partner, &partners[i])) return 3;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        uint64_t sum = 0;
        for (size_t n = 0; n < count; n++) sum ^= buffers[i].numbers[n] + n;
        printf("buffer %d: %016llx\n", i, (unsigned long long)sum);
    }
    return 0;
}
