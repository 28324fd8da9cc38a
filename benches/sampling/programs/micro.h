// What the four microbenchmarks of ComDetective (section 4.1) have in common: arguments, threads
// that start together, stores of several kinds, and the truth that each prints.
//
//   PROGRAM THREADS ITERATIONS FRACTION [pin|free] [xchg|mov|add]
//
// Participants are threads 1 to THREADS, as the initial thread only waits for them. Output:
//   region NAME ADDRESS BYTES    memory that several participants access, and no other thread
//   pair A B SHARE               these two meet there; SHARE: of the accesses of a participant, 0 to 1
//   false F                      the share of accesses to shared memory that can only be false sharing
//   accesses T N                 participant T has accessed the regions N times
//   counted N                    events of the counter that COUNTER=TYPE:CONFIG names, while they ran
//   events N                     only with xchg, where all communication is on words that are exchanged: RAW and
//                                WAW that happened in this very run, told by what came out of the words
//   false_events N               those of `events` that were false sharing, told by how long exchanges took
// Everything but `region`, `counted`, `events` and `false_events` follows from the arguments. No
// participant's memory shares a line with another's.
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, LINE = 64, PAGE = 4096 };
// Lines lie two apart: some processors fetch lines in pairs.
enum { STRIDE = 2 * LINE };

typedef enum { XCHG, MOV, ADD } Store;

static int threads, pinned;
static long iterations;
static double fraction;
static Store kind;
static int go, done;
static unsigned char *memory, *private_memory;
static long accesses[MAX_THREADS][PAGE / sizeof(long)];
// Each participant's name in the words that it exchanges, and how often another one's came out.
static __thread uint64_t name;
static __thread long taken;
static long events[MAX_THREADS][PAGE / sizeof(long)];

static void participate(int p); // of each program; p from 0
static const int words_tell;    // of each program: all communication is on words that every writer exchanges
static const int times_tell;    // of each program: only that on the first line is, and all lines are exchanged on

// How long exchanges took on the first line and on all others, in steps of some ticks of the
// processor. An exchange takes several times as long when another thread has had the line. On the
// first line, words tell how many of them were such: that says from which time on one is.
enum { STEPS = 512, TICKS = 8 };
typedef long Times[2][STEPS];
static __thread _Alignas(2 * LINE) Times took;
static Times all_took;

static inline uint32_t random_below_2_31(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline uint64_t seed(int p) { return 12345 + 777u * (uint64_t)p; }

static inline uint32_t threshold(double share) {
    return share >= 1 ? 0x80000000u : (uint32_t)(share * 2147483648.0);
}

static inline void note_time(volatile uint64_t *at, uint64_t start) {
    unsigned cpu;
    uint64_t step = (__builtin_ia32_rdtscp(&cpu) - start) / TICKS;
    took[(unsigned char *)at >= memory + STRIDE][step < STEPS ? step : STEPS - 1]++;
}

static inline void store(volatile uint64_t *at, uint64_t value) {
    uint64_t start = 0;
    switch (kind) {
    case XCHG:
        value |= name;
        if (times_tell) start = __builtin_ia32_rdtsc();
        __asm__ volatile("xchg %0, %1" : "+r"(value), "+m"(*at) : : "memory");
        if (times_tell) note_time(at, start);
        taken += value && (value ^ name) >> 32;
        break;
    case MOV: __asm__ volatile("mov %1, %0" : "=m"(*at) : "r"(value) : "memory"); break;
    case ADD: __asm__ volatile("lock add %1, %0" : "+m"(*at) : "r"(value) : "memory"); break;
    }
}

static inline uint64_t load(volatile uint64_t *at) {
    uint64_t value;
    __asm__ volatile("mov %1, %0" : "=r"(value) : "m"(*at) : "memory");
    return value;
}

static inline volatile uint64_t *line(int index, int word) {
    return (volatile uint64_t *)(memory + (size_t)index * STRIDE) + word;
}

static inline volatile uint64_t *own(int p) {
    return (volatile uint64_t *)(private_memory + (size_t)p * PAGE);
}

static void wait_for(int fd, uint64_t wanted) {
    for (uint64_t got = 0, value; got < wanted; got += value)
        if (read(fd, &value, 8) != 8) _exit(3);
}

static void post(int fd, uint64_t times) {
    if (write(fd, &times, 8) != 8) _exit(3);
}

static void pin(int p) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all)) return;
    int turn = p % CPU_COUNT(&all);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && turn-- == 0) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void *participant(void *argument) {
    int p = (int)(intptr_t)argument;
    if (pinned) pin(p);
    name = (uint64_t)(p + 1) << 32;
    uint64_t one;
    if (read(go, &one, 8) != 8) _exit(3); // a semaphore: all threads leave at about the same time
    participate(p);
    events[p][0] = 2 * taken; // what came out was read, and written over
    for (int i = 0; times_tell && i < 2 * STEPS; i++)
        __atomic_fetch_add(&all_took[0][0] + i, (&took[0][0])[i], __ATOMIC_RELAXED);
    post(done, 1);
    return NULL;
}

// The counter that COUNTER names, over all threads that start from now on; -1: none.
static int counter(void) {
    const char *event = getenv("COUNTER");
    unsigned type;
    unsigned long long config;
    if (!event || sscanf(event, "%u:%lli", &type, (long long *)&config) != 2) return -1;
    struct perf_event_attr attr = {.type = type, .size = sizeof attr, .config = config};
    attr.disabled = attr.inherit = attr.exclude_kernel = attr.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int usage(const char *program) {
    fprintf(stderr, "usage: %s THREADS(1..%d) ITERATIONS FRACTION(0..1) [pin|free] [xchg|mov|add]\n",
            program, MAX_THREADS);
    return 2;
}

static unsigned char *map(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) exit(3);
    return at;
}

static long slower_than(const long times[STEPS], int step) {
    long sum = 0;
    for (int i = step; i < STEPS; i++) sum += times[i];
    return sum;
}

// Exchanges on other lines than the first that were transfers, by how long they took; -1: that
// cannot be told. Of those on the first line, `told` were. Transfers of one line may take longer
// than those of another, so the border lies halfway between what they take and what exchanges at
// home do, and must hold for the first line.
static long transfers_by_time(long told) {
    // At least one in `HOME` is at home, or all others are transfers, too.
    enum { ENOUGH = 1000, HOME = 16, WRONG = 10 };
    long all = slower_than(all_took[0], 0);
    int home = 0, slow = STEPS;
    while (home < STEPS && HOME * (all - slower_than(all_took[0], home)) < all) home++;
    while (slow > 0 && slower_than(all_took[0], slow) < told) slow--;
    int border = (home + slow) / 2;
    long wrong = labs(slower_than(all_took[0], border) - told);
    return told >= ENOUGH && WRONG * wrong <= told ? slower_than(all_took[1], border) : -1;
}

// Prints how much communication there was, if the program can know.
static void print_events(void) {
    long sum = 0;
    for (int p = 0; p < threads; p++) sum += events[p][0];
    if (kind != XCHG) return;
    if (words_tell) printf("events %ld\n", sum);
    long others = times_tell ? transfers_by_time(sum / 2) : -1;
    if (others >= 0) printf("events %ld\nfalse_events %ld\n", sum + 2 * others, 2 * others);
}

// Reads the arguments, runs the participants over `lines` shared lines, and prints what they did.
static int run(int argc, char **argv, int lines_for(int threads), void truth(void)) {
    if (argc < 4 || argc > 6) return usage(argv[0]);
    threads = atoi(argv[1]), iterations = atol(argv[2]), fraction = atof(argv[3]);
    pinned = argc > 4 && !strcmp(argv[4], "pin");
    const char *how = argc > 5 ? argv[5] : "xchg";
    kind = !strcmp(how, "mov") ? MOV : !strcmp(how, "add") ? ADD : XCHG;
    if (threads < 1 || threads > MAX_THREADS || iterations < 1 || fraction < 0 || fraction > 1)
        return usage(argv[0]);
    int lines = lines_for(threads);
    memory = map((size_t)lines * STRIDE);
    private_memory = map((size_t)threads * PAGE);
    go = eventfd(0, EFD_SEMAPHORE), done = eventfd(0, 0);
    int counting = counter();
    static pthread_t handles[MAX_THREADS];
    for (int p = 0; p < threads; p++)
        if (pthread_create(&handles[p], NULL, participant, (void *)(intptr_t)p)) return 3;
    if (counting >= 0) ioctl(counting, PERF_EVENT_IOC_ENABLE, 0);
    post(go, (uint64_t)threads);
    wait_for(done, (uint64_t)threads);
    uint64_t counted = 0;
    int known = counting >= 0 && read(counting, &counted, 8) == 8;
    for (int p = 0; p < threads; p++) pthread_join(handles[p], NULL);
    for (int l = 0; l < lines; l++) printf("region line%d %p %d\n", l, (void *)line(l, 0), LINE);
    truth();
    for (int p = 0; p < threads; p++) printf("accesses %d %ld\n", p + 1, accesses[p][0]);
    if (known) printf("counted %llu\n", (unsigned long long)counted);
    print_events();
    return 0;
}

// All participants meet each other.
static inline void everybody_meets(double share) {
    for (int a = 1; a <= threads && share > 0; a++)
        for (int b = a + 1; b <= threads; b++) printf("pair %d %d %g\n", a, b, share);
}
