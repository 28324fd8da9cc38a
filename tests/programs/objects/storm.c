// Blocks come, grow and go at random, and threads take turns at them, so that the program knows all
// events of each allocation site: lines `expect OBJECT EVENTS` of its output. Addresses are used
// again and again.
//
// Usage: storm heap SEED | fork SEED | maps SEED | libraries LIBRARY LIBRARY | makers LIBRARY
// LIBRARY
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 64, THREADS = 3, SITES = 7, LIVE = 40, OPERATIONS = 1200, MAX_LINES = 1 << 18 };

// --- Threads that touch memory when they are told to.

static int go[THREADS + 1], done;
static pthread_t workers[THREADS + 1];
static volatile char *at;
static size_t lines;
static int writes;

static void wait_for(int fd) {
    uint64_t value;
    if (read(fd, &value, 8) != 8) _exit(3);
}
static void post(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, 8) != 8) _exit(3);
}

static void touch_lines(int who) {
    for (size_t k = 0; k < lines; k++)
        if (writes) at[k * LINE] = (char)who;
        else (void)at[k * LINE];
}

static void *work(void *arg) {
    for (int me = (int)(intptr_t)arg;; post(done)) {
        wait_for(go[me]);
        if (!at) return 0;
        touch_lines(me);
    }
}

static void start(void) {
    done = eventfd(0, 0);
    for (int k = 1; k <= THREADS; k++) {
        go[k] = eventfd(0, 0);
        pthread_create(&workers[k], 0, work, (void *)(intptr_t)k);
    }
}

static void stop(void) {
    at = 0;
    for (int k = 1; k <= THREADS; k++) {
        post(go[k]);
        pthread_join(workers[k], 0);
    }
}

// --- What is known of each line: who wrote it last, and who has read it since.

static struct { uintptr_t line; int writer; unsigned readers; } known[MAX_LINES];

// Events of a touch by thread `who`.
static long simulate(uintptr_t line, int who, int is_write) {
    size_t k = line / LINE * 0x9e3779b97f4a7c15u >> 46;
    while (known[k % MAX_LINES].line && known[k % MAX_LINES].line != line) k++;
    k %= MAX_LINES;
    if (!known[k].line) known[k].line = line, known[k].writer = -1;
    int other = known[k].writer >= 0 && known[k].writer != who;
    if (is_write) {
        known[k].writer = who;
        known[k].readers = 0;
        return other;
    }
    long event = other && !(known[k].readers & 1u << who);
    known[k].readers |= 1u << who;
    return event;
}

// The thread touches these lines; returns how many events that makes.
static long touch(int who, char *start, size_t count, int is_write) {
    long events = 0;
    for (size_t k = 0; k < count; k++)
        events += simulate((uintptr_t)start + k * LINE, who, is_write);
    at = start, lines = count, writes = is_write;
    if (who == 0) touch_lines(0);
    else {
        post(go[who]);
        wait_for(done);
    }
    return events;
}

static unsigned long state;
static unsigned draw(unsigned below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

// --- Blocks of the heap.

#define SITE __attribute__((noinline)) static void *
SITE site_malloc(size_t n) { return malloc(n); }
SITE site_calloc(size_t n) { return calloc(n, 1); }
SITE site_aligned(size_t n) { return aligned_alloc(64, n & ~63ul); }
SITE site_posix(size_t n) {
    void *block = 0;
    return posix_memalign(&block, 1024, n) ? 0 : block;
}
SITE site_memalign(size_t n) { return memalign(256, n); }
SITE site_realloc(size_t n) { return realloc(0, n); }
SITE site_array(size_t n) { return reallocarray(0, n / 8, 8); }
SITE grow(void *block, size_t n) { return realloc(block, n); }

static void *(*const make[SITES])(size_t) = {site_malloc, site_calloc,  site_aligned, site_posix,
                                             site_memalign, site_realloc, site_array};
static const char *const names[SITES] = {"site_malloc",   "site_calloc",  "site_aligned", "site_posix",
                                         "site_memalign", "site_realloc", "site_array"};
static long expected[SITES];
static struct block { char *start; size_t bytes; int site; } live[LIVE];

// Lines in which the allocator writes nothing.
static char *inner(const struct block *b) { return (char *)(((uintptr_t)b->start + 127) & ~63ul); }
static size_t inner_lines(const struct block *b) {
    return (size_t)(b->start + b->bytes - 192 - inner(b)) / LINE;
}

// The initial thread writes all lines, so that nothing follows from what the allocator does with
// them.
static void settle(struct block *b) { expected[b->site] += touch(0, inner(b), inner_lines(b), 1); }

static void step(void) {
    struct block *b = &live[draw(LIVE)];
    unsigned what = draw(10);
    if (!b->start) {
        b->site = (int)draw(SITES);
        b->bytes = 512 + 64 * (size_t)draw(draw(4) ? 60 : 600);
        b->start = make[b->site](b->bytes);
        settle(b);
    } else if (what < 2) {
        settle(b);
        free(b->start);
        b->start = 0;
    } else if (what < 3 && b->bytes < 100000) {
        settle(b);
        b->bytes *= 2;
        b->start = grow(b->start, b->bytes);
        settle(b);
    } else
        expected[b->site] += touch((int)draw(THREADS + 1), inner(b), inner_lines(b), (int)draw(2));
}

static void tell(const char *prefix) {
    for (int k = 0; k < SITES; k++) printf("%sexpect %s %ld\n", prefix, names[k], expected[k]);
}

static void heap(int with_child) {
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    start();
    for (int k = 0; k < OPERATIONS; k++) step();
    if (with_child) {
        for (int k = 0; k < LIVE; k++)
            if (live[k].start) settle(&live[k]);
        pid_t child = fork();
        if (!child) {
            // What the parent has written before is no thread's of the child.
            memset(expected, 0, sizeof expected);
            memset(known, 0, sizeof known);
            start();
            for (int k = 0; k < OPERATIONS; k++) step();
            stop();
            tell("child ");
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
    for (int k = 0; k < OPERATIONS; k++) step();
    stop();
    tell("");
}

// --- Files that are mapped, moved and unmapped, at one address after the other.

enum { FILES = 4, PAGES = 16, PAGE = 4096, STEPS = 600 };

static void maps(void) {
    static const char *const file_names[FILES] = {"first-store", "second-store", "third-store", "fourth-store"};
    int files[FILES], mapped = -1;
    long events[FILES] = {0};
    for (int k = 0; k < FILES; k++) {
        files[k] = memfd_create(file_names[k], 0);
        if (ftruncate(files[k], PAGES * PAGE)) _exit(4);
    }
    // Two places, which are used in turn.
    char *places = mmap(0, 2 * PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *here = places;
    start();
    for (int k = 0; k < STEPS; k++) {
        unsigned what = mapped < 0 ? 0 : draw(8);
        size_t count = PAGES * PAGE / LINE;
        if (what == 0 && mapped >= 0) {
            events[mapped] += touch(0, here, count, 1);
            munmap(here, PAGES * PAGE);
            mapped = -1;
        } else if (what == 0) {
            mapped = (int)draw(FILES);
            mmap(here, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, files[mapped], 0);
            touch(0, here, count, 1);
        } else if (what == 1) {
            events[mapped] += touch(0, here, count, 1);
            char *there = here == places ? places + PAGES * PAGE : places;
            mremap(here, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there);
            here = there;
            touch(0, here, count, 1);
        } else
            events[mapped] += touch((int)draw(THREADS + 1), here, count, (int)draw(2));
    }
    stop();
    for (int k = 0; k < FILES; k++) printf("expect %s %ld\n", file_names[k], events[k]);
}

// --- Libraries that are loaded one after the other, often at the same address: their tables, or
// blocks that they allocate.

static void makers(char **paths) {
    static const char *const functions[2] = {"make_first_table", "make_second_table"};
    long events[2] = {0};
    start();
    for (int k = 0; k < 20; k++) {
        void *library = dlopen(paths[k % 2], RTLD_NOW);
        void *(*allocate)(size_t) = library ? (void *(*)(size_t))dlsym(library, "make") : 0;
        if (!allocate) puts(dlerror()), _exit(5);
        struct block b = {allocate(6400), 6400, 0};
        events[k % 2] += touch(0, inner(&b), inner_lines(&b), 1);
        events[k % 2] += touch(1 + k % THREADS, inner(&b), inner_lines(&b), k % 2);
        events[k % 2] += touch(0, inner(&b), inner_lines(&b), 1);
        free(b.start);
        dlclose(library);
    }
    stop();
    for (int k = 0; k < 2; k++) printf("expect %s %ld\n", functions[k], events[k]);
}

static void libraries(char **paths) {
    static const char *const variables[2] = {"first_table", "second_table"};
    long events[2] = {0};
    uintptr_t last = 0;
    int same = 0;
    start();
    for (int k = 0; k < 20; k++) {
        void *library = dlopen(paths[k % 2], RTLD_NOW);
        char *table = library ? dlsym(library, variables[k % 2]) : 0;
        if (!table) puts(dlerror()), _exit(5);
        same += (uintptr_t)table == last;
        last = (uintptr_t)table;
        touch(0, table, 100, 1);
        events[k % 2] += touch(1 + k % THREADS, table, 100, k % 2);
        touch(0, table, 0, 0);
        for (size_t line = 0; line < 100; line++) simulate((uintptr_t)table + line * LINE, 0, 1);
        dlclose(library);
    }
    stop();
    printf("same address %d times\n", same);
    for (int k = 0; k < 2; k++) printf("expect %s %ld\n", variables[k], events[k]);
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    state = argc > 2 ? (unsigned long)atol(argv[2]) : 1;
    if (!strcmp(what, "heap")) heap(0);
    else if (!strcmp(what, "fork")) heap(1);
    else if (!strcmp(what, "maps")) maps();
    else if (!strcmp(what, "libraries")) libraries(argv + 2);
    else if (!strcmp(what, "makers")) makers(argv + 2);
    else return 2;
    return 0;
}
