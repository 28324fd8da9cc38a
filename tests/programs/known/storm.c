// Two threads that take neighbouring blocks of memory from each other at the same time, as fast as
// they can. Who may touch a block in a phase is drawn by lot, so what each access must cause is
// known; between phases the threads wait for each other by eventfds, which share no memory.
//
// storm BLOCK PHASES: prints `expect KIND FROM TO COUNT` for threads 1 and 2.
//
// An engine that lets threads access what they have been granted must see each first access to a
// block that the other thread had before, however close to each other granting and taking back are.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { BLOCKS = 128, MAX_BYTES = 256, READ_ALL, READ_AND_WRITE, WRITE };

static _Alignas(1 << 16) unsigned char data[BLOCKS * MAX_BYTES];
static int arrived[2];
static uint32_t block, phases;

static uint64_t lot(uint64_t number) {
    uint64_t x = (number + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int kind_of(uint32_t phase) {
    static const int kinds[4] = {READ_ALL, READ_AND_WRITE, WRITE, WRITE};
    return kinds[lot(phase) % 4];
}

static unsigned owner_of(uint32_t phase, unsigned b) {
    return lot(((uint64_t)phase << 32) + (b / 64) + 1) >> (b % 64) & 1;
}

static volatile uint64_t *word_at(uint64_t offset) {
    return (volatile uint64_t *)(void *)(data + offset);
}

// Eight bytes of a block, or if the next one may be touched, half of them in that.
static volatile uint64_t *words_of(unsigned b, int with_next) {
    return word_at((uint64_t)b * block + (with_next ? block - 4 : 0));
}

static void read_blocks(unsigned me, uint32_t phase, int all) {
    for (unsigned b = 0; b < BLOCKS; b++)
        if (all || owner_of(phase, b) == me)
            (void)*words_of(b, b + 1 < BLOCKS && (all || owner_of(phase, b + 1) == me));
}

static void write_blocks(unsigned me, uint32_t phase) {
    for (unsigned b = 0; b < BLOCKS; b++)
        if (owner_of(phase, b) == me)
            *words_of(b, b + 1 < BLOCKS && owner_of(phase, b + 1) == me) = phase;
}

static void fill_blocks(unsigned me, uint32_t phase) {
    for (unsigned b = 0; b < BLOCKS; b++)
        for (uint32_t k = 0; k < block && owner_of(phase, b) == me; k += 8)
            *word_at((uint64_t)b * block + k) = phase;
}

// Asks again and again instead of sleeping, so that both go on at the same time.
static void wait_for_other(unsigned me) {
    uint64_t value = 1;
    if (write(arrived[me], &value, sizeof value) != sizeof value) _exit(3);
    while (read(arrived[1 - me], &value, sizeof value) != sizeof value)
        if (errno != EAGAIN) _exit(3);
}

// On a processor of its own, if there are two.
static void settle_down(unsigned me) {
    cpu_set_t may, own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof may, &may) || CPU_COUNT(&may) < 2) return;
    unsigned skipped = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&own); cpu++)
        if (CPU_ISSET(cpu, &may) && skipped++ == me) CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
}

static void *run(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    settle_down(me);
    for (uint32_t phase = 0; phase < phases; phase++) {
        int kind = kind_of(phase);
        if (kind != WRITE) read_blocks(me, phase, kind == READ_ALL);
        if (kind != READ_ALL) {
            write_blocks(me, phase);
            for (unsigned times = lot(phase) >> 8 & 3; times; times--) fill_blocks(me, phase);
            write_blocks(me, phase);
            read_blocks(me, phase, 0);
        }
        wait_for_other(me);
    }
    return NULL;
}

// The definitions of communication for one block and two threads.
struct state {
    int writer; // -1 = none
    int has_read[2];
};

static uint64_t raw[2], waw[2], invalidations[2]; // by who caused it

static void read_one(struct state *s, int me) {
    raw[me] += s->writer == 1 - me && !s->has_read[me];
    s->has_read[me] = 1;
}

static void write_one(struct state *s, int me) {
    waw[me] += s->writer == 1 - me;
    invalidations[me] += s->has_read[1 - me] && s->writer != 1 - me;
    *s = (struct state){me, {0, 0}};
}

static void expect(void) {
    static struct state states[BLOCKS];
    for (unsigned b = 0; b < BLOCKS; b++) states[b].writer = -1;
    for (uint32_t phase = 0; phase < phases; phase++)
        for (unsigned b = 0; b < BLOCKS; b++) {
            int me = (int)owner_of(phase, b), kind = kind_of(phase);
            if (kind != WRITE) read_one(&states[b], me);
            if (kind == READ_ALL)
                read_one(&states[b], 1 - me);
            else
                write_one(&states[b], me);
        }
    for (int me = 0; me < 2; me++) {
        printf("expect raw %d %d %llu\n", 2 - me, 1 + me, (unsigned long long)raw[me]);
        printf("expect waw %d %d %llu\n", 2 - me, 1 + me, (unsigned long long)waw[me]);
        printf("expect invalidation %d %d %llu\n", 1 + me, 2 - me, (unsigned long long)invalidations[me]);
    }
}

int main(int argc, char **argv) {
    block = argc > 1 ? (uint32_t)atoi(argv[1]) : 64;
    phases = argc > 2 ? (uint32_t)atoi(argv[2]) : 4000;
    if (block < 16 || block > MAX_BYTES || !phases) return 2;
    pthread_t threads[2];
    for (int me = 0; me < 2; me++)
        if ((arrived[me] = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE)) < 0) return 3;
    for (uintptr_t me = 0; me < 2; me++)
        if (pthread_create(&threads[me], NULL, run, (void *)me)) return 3;
    for (int me = 0; me < 2; me++) pthread_join(threads[me], NULL);
    expect();
    return 0;
}
