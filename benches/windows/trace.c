/* The run-time library of programs compiled with `clang -fsanitize-coverage=trace-loads,trace-stores`: sees every
 * load and store, and writes to the file EVENTS_OUT what windows are tried on (`src/bin/windows.rs`).
 *
 * Each first read of a 64-byte line after another thread's write is an event, with the times of both in ticks of
 * 10 microseconds. Besides, the accesses of each thread in each millisecond: its work. Up to 16 threads. Each line
 * has a word, whose place comes from the line's address; lines that share one are taken for one. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 16, LINE_BITS = 26, TICK_NS = 10000, TICKS_PER_WORK = 100, MILLISECONDS = 1 << 17 };
#define EVENTS (40u << 20)

/* The last write of a line, and who has read it since. */
typedef struct {
    uint32_t at;
    uint8_t writer; /* 1 + its number */
    uint8_t free;
    uint16_t readers;
} Line;

typedef struct {
    uint32_t written, read, line;
    uint8_t from, to;
    uint16_t free;
} Event;

static Line *lines;
static Event *events[THREADS];
static uint64_t count[THREADS];
static uint32_t *work[THREADS];
static _Atomic uint32_t now;
static atomic_int threads, ready;
static __thread int self = -1;

static void *reserve(size_t bytes) {
    void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) { perror("trace"); _exit(1); }
    return at;
}

static void *tick(void *unused) {
    struct timespec start, at;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        usleep(20);
        clock_gettime(CLOCK_MONOTONIC, &at);
        now = ((at.tv_sec - start.tv_sec) * 1000000000ll + at.tv_nsec - start.tv_nsec) / TICK_NS;
    }
    return unused;
}

/* Header: number of threads, ticks, events; then the work of each thread by millisecond, then all events. */
static void finish(void) {
    ready = 0;
    const char *name = getenv("EVENTS_OUT");
    FILE *file = name ? fopen(name, "wb") : 0;
    if (!file) return;
    uint32_t ticks = now, used = threads < THREADS ? threads : THREADS;
    uint64_t all = 0;
    for (uint32_t i = 0; i < used; i++) all += count[i];
    fwrite(&used, 4, 1, file);
    fwrite(&ticks, 4, 1, file);
    fwrite(&all, 8, 1, file);
    for (uint32_t i = 0; i < used; i++) fwrite(work[i], 4, ticks / TICKS_PER_WORK + 1, file);
    for (uint32_t i = 0; i < used; i++) fwrite(events[i], sizeof(Event), count[i], file);
    if (fclose(file)) perror("trace");
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    lines = reserve(sizeof(Line) << LINE_BITS);
    pthread_create(&thread, 0, tick, 0);
    atexit(finish);
    ready = 1;
}

static inline int me(void) {
    if (__builtin_expect(self < 0, 0)) {
        self = atomic_fetch_add(&threads, 1);
        if (self < THREADS) {
            events[self] = reserve(sizeof(Event) * EVENTS);
            work[self] = reserve(sizeof(uint32_t) * MILLISECONDS);
        }
    }
    if (self >= THREADS) return -1;
    uint32_t at = now / TICKS_PER_WORK;
    if (at < MILLISECONDS) work[self][at]++;
    return self;
}

static inline Line *line_of(uintptr_t address) {
    return &lines[address >> 6 & ((1u << LINE_BITS) - 1)];
}

static inline void load(uintptr_t address) {
    int to = ready ? me() : -1;
    if (to < 0) return;
    Line *line = line_of(address), seen;
    memcpy(&seen, line, sizeof seen);
    if (!seen.writer || seen.writer == to + 1 || seen.readers >> to & 1) return;
    __atomic_fetch_or(&line->readers, (uint16_t)(1u << to), __ATOMIC_RELAXED);
    if (count[to] < EVENTS)
        events[to][count[to]++] =
            (Event){ seen.at, now, (uint32_t)(address >> 6), (uint8_t)(seen.writer - 1), (uint8_t)to, 0 };
}

static inline void store(uintptr_t address) {
    int from = ready ? me() : -1;
    if (from < 0) return;
    Line line = { now, (uint8_t)(from + 1), 0, 0 };
    memcpy(line_of(address), &line, sizeof line);
}

#define ACCESS(bytes)                                                                   \
    void __sanitizer_cov_load##bytes(void *at) { load((uintptr_t)at); }                 \
    void __sanitizer_cov_store##bytes(void *at) { store((uintptr_t)at); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
