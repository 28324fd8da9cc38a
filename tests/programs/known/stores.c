// ComDetective's write-volume and point-to-point benchmarks (section 4.1) with known truth: threads
// that store to common words in FRACTION percent of their turns, else to words of their own. With
// "all" everybody stores to one word (write-volume); with "pairs" threads 1 and 1 + N/2, 2 and 2 +
// N/2, … have a word each (point-to-point), which every second pair uses half as often. "store"
// writes only; "update" reads a word and then writes it, "add" does both in one instruction.
//
//   stores THREADS TURNS FRACTION all|pairs store|update|add
//
// Threads take turns, each waiting for its own on an eventfd, so no memory but the words is shared.
// The initial thread only waits. Each word lies on a line of its own. Whose turn stores where
// follows from the arguments.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_THREADS = 64, LINE = 64, PAGE = 4096 };

static int threads, turns, fraction, pairs;
static char how;
static unsigned char *shared, *own;
static int go[MAX_THREADS], done;

static uint32_t random_below_100(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % 100;
}

static uint64_t seed(int p) { return 12345 + 777u * (uint64_t)p; }

// Which shared word a thread stores to, and in how many percent of its turns.
static int word_of(int p) { return pairs ? p % (threads / 2) : 0; }
static int share_of(int p) { return pairs && word_of(p) % 2 ? fraction / 2 : fraction; }

static void store(volatile uint64_t *at, uint64_t value) {
    switch (how) {
    case 's': __asm__ volatile("movq %1, %0" : "=m"(*at) : "r"(value) : "memory"); break;
    case 'u':
        __asm__ volatile("movq %0, %%rax; addq %1, %%rax; movq %%rax, %0" : "+m"(*at) : "r"(value) : "rax", "memory");
        break;
    default: __asm__ volatile("lock addq %1, %0" : "+m"(*at) : "r"(value) : "memory"); break;
    }
}

static void wait_on(int fd, uint64_t wanted) {
    for (uint64_t got = 0, value; got < wanted; got += value)
        if (read(fd, &value, 8) != 8) _exit(3);
}

static void post(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, 8) != 8) _exit(3);
}

static void *participant(void *argument) {
    int p = (int)(intptr_t)argument;
    uint64_t state = seed(p);
    for (int turn = 0; turn < turns; turn++) {
        wait_on(go[p], 1);
        int together = random_below_100(&state) < (uint32_t)share_of(p);
        store((volatile uint64_t *)(together ? shared + word_of(p) * LINE : own + p * PAGE), turn);
        post(go[(p + 1) % threads]);
    }
    post(done);
    return NULL;
}

// Goes through all turns again, and counts who stored where another one had.
static void print_truth(void) {
    static long taken[MAX_THREADS][MAX_THREADS];
    uint64_t state[MAX_THREADS];
    int last[MAX_THREADS];
    for (int p = 0; p < threads; p++) state[p] = seed(p), last[p] = -1;
    for (int turn = 0; turn < turns; turn++)
        for (int p = 0; p < threads; p++) {
            if (random_below_100(&state[p]) >= (uint32_t)share_of(p)) continue;
            int *writer = &last[word_of(p)];
            if (*writer >= 0 && *writer != p) taken[*writer][p]++;
            *writer = p;
        }
    for (int from = 0; from < threads; from++)
        for (int to = 0; to < threads; to++) {
            if (!taken[from][to]) continue;
            printf("expect waw %d %d %ld\n", from + 1, to + 1, taken[from][to]);
            if (how != 's') printf("expect raw %d %d %ld\n", from + 1, to + 1, taken[from][to]);
        }
}

static unsigned char *map(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) exit(3);
    return at;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: %s THREADS TURNS FRACTION all|pairs store|update|add\n", argv[0]);
        return 2;
    }
    threads = atoi(argv[1]), turns = atoi(argv[2]), fraction = atoi(argv[3]);
    pairs = !strcmp(argv[4], "pairs"), how = argv[5][0];
    if (threads < 2 || threads > MAX_THREADS || threads % 2 || turns < 1 || !strchr("sua", how)) return 2;
    shared = map(PAGE), own = map((size_t)threads * PAGE);
    done = eventfd(0, 0);
    pthread_t handles[MAX_THREADS];
    for (int p = 0; p < threads; p++) go[p] = eventfd(0, 0);
    for (int p = 0; p < threads; p++)
        if (pthread_create(&handles[p], NULL, participant, (void *)(intptr_t)p)) return 3;
    post(go[0]);
    wait_on(done, (uint64_t)threads);
    for (int p = 0; p < threads; p++) pthread_join(handles[p], NULL);
    printf("region words %p %d\n", (void *)shared, PAGE);
    print_truth();
    return 0;
}
