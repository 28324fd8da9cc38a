// Threads that use pages one after the other, each in its own way, so that every access to the
// named memory is the same in each run.
//
// Usage: uses HOW. Prints `region NAME ADDRESS BYTES` for memory whose accesses are the same, and
// a sum.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 24, BYTES = PAGES * PAGE, THREADS = 4 };

static _Alignas(PAGE) unsigned char data[BYTES];
static unsigned char *at = data;
static uint64_t sums[THREADS];

typedef void work(int who);

struct turn {
    work *work;
    int who;
};

static void *run(void *argument) {
    struct turn *turn = argument;
    turn->work(turn->who);
    return 0;
}

// Lets one thread do it, and waits for it.
static void let(work *what, int who) {
    struct turn turn = {what, who};
    pthread_t thread;
    if (pthread_create(&thread, 0, run, &turn) || pthread_join(thread, 0))
        exit(1);
}

static void let_all(work *what) {
    for (int who = 0; who < THREADS; who++)
        let(what, who);
}

#define WORK __attribute__((noinline)) static void

WORK fill(int who) { memset(at, who + 1, BYTES); }

WORK add_words(int who) {
    uint64_t *words = (uint64_t *)at;
    for (int k = 0; k < BYTES / 8; k++)
        sums[who] += words[k];
}

WORK add_doubles(int who) {
    double *all = (double *)at, sum = 0;
    for (int k = 0; k < BYTES / 8; k++)
        sum += all[k] * 0.5;
    sums[who] += sum > 1;
}

// In steps of 36 bytes, so that some accesses are in two pages; leaves early at times.
WORK add_unaligned(int who) {
    for (int k = 2; k + 8 <= BYTES; k += 36) {
        uint64_t word;
        memcpy(&word, at + k, 8);
        sums[who] += word;
        if (word == 77)
            break;
    }
}

WORK part(int who) {
    uint32_t *words = (uint32_t *)(at + who * (BYTES / THREADS));
    for (int round = 0; round < 3; round++)
        for (int k = 0; k < BYTES / THREADS / 4; k++)
            words[k] += k ^ round;
}

WORK smooth(int who) {
    float *all = (float *)at;
    for (int k = 1; k + 1 < BYTES / 8; k++)
        all[BYTES / 8 + k] = (all[k - 1] + all[k] + all[k + 1]) / (who + 3);
}

WORK columns(int who) {
    for (int column = who; column < PAGE / 4; column += 97)
        for (int row = 0; row < PAGES; row++)
            ((uint32_t *)at)[row * (PAGE / 4) + column] += row;
}

WORK chase(int who) {
    uint32_t next = 0, *links = (uint32_t *)at;
    for (int k = 0; k < 3000; k++) {
        next = (links[next] + k * 2654435761u) % (BYTES / 4);
        sums[who] += next;
    }
}

WORK find(int who) { sums[who] += (uintptr_t)memchr(at, 200 + who, BYTES) != 0; }

WORK move(int who) { memmove(at + 100 + who, at, BYTES / 2); }

WORK strings(int who) {
    char *from = (char *)at, *to = (char *)at + BYTES / 2 + who;
    size_t count = BYTES / 4;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
}

struct object {
    uint32_t owner, uses;
    char name[40];
};

// Objects of several threads on each page.
WORK packed(int who) {
    struct object *all = (struct object *)at;
    for (int round = 0; round < 5; round++)
        for (size_t k = (size_t)who; k < BYTES / sizeof *all; k += THREADS) {
            all[k].owner = (uint32_t)who;
            all[k].uses++;
            all[k].name[round] = (char)round;
        }
}

WORK calls(int who) {
    int ends[2];
    if (pipe(ends) || write(ends[1], at + who * 1000, 5000) != 5000 ||
        read(ends[0], at + 3 * PAGE + who, 5000) != 5000)
        exit(1);
    close(ends[0]);
    close(ends[1]);
}

static void everything(void) {
    work *all[] = {fill,  part,   add_words, add_doubles, add_unaligned, smooth, columns,
                   chase, packed, find,      move,        strings,       calls,  add_words};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        let_all(all[k]);
}

static void private(void) {
    let_all(part);
    let_all(part);
}

static void by_master(void) {
    fill(0);
    let_all(part);
}

static void read_only(void) {
    fill(0);
    let_all(add_words);
    let_all(add_doubles);
}

static void alternating(void) {
    for (int round = 0; round < 6; round++) {
        let(fill, round % 2);
        let(add_words, (round + 1) % 2);
    }
}

static void hub(void) {
    for (int who = 1; who < THREADS; who++) {
        let(part, who);
        add_unaligned(0);
        fill(0);
    }
}

static void many_objects(void) { let_all(packed); }

static void forked(void) {
    let_all(part);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        let(add_words, 1);
        fill(0);
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, 0, 0) != child)
        exit(1);
    let(add_unaligned, 2);
}

static void map_over(void) {
    if (mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
        exit(1);
}

// Memory that is mapped over, unmapped, given back and moved.
static void storm(void) {
    unsigned char *room = mmap(0, 4 * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        exit(1);
    at = room;
    printf("region room %p %d\n", (void *)room, 4 * BYTES);
    for (int round = 0; round < 12; round++) {
        map_over();
        let(part, round % THREADS);
        add_words(0);
        switch (round % 4) {
        case 0: munmap(at, BYTES); break;
        case 1: munmap(at + PAGE, 3 * PAGE); break;
        case 2: madvise(at + 2 * PAGE, 5 * PAGE, MADV_DONTNEED); break;
        default:
            if (mremap(at, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, room + 2 * BYTES) != room + 2 * BYTES)
                exit(1);
            at = room + 2 * BYTES;
            let(add_words, 1);
            let(part, 2);
            at = room;
        }
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*how)(void);
    } ways[] = {{"everything", everything}, {"private", private},          {"master", by_master},
                {"read-only", read_only},   {"alternating", alternating},  {"hub", hub},
                {"packed", many_objects},   {"fork", forked},              {"storm", storm}};
    printf("region data %p %d\n", (void *)data, BYTES);
    for (size_t k = 0; argc > 1 && k < sizeof ways / sizeof *ways; k++)
        if (!strcmp(argv[1], ways[k].name)) {
            ways[k].how();
            uint64_t sum = 0;
            for (int who = 0; who < THREADS; who++)
                sum += sums[who];
            printf("sum %llu\n", (unsigned long long)sum);
            return 0;
        }
    return 2;
}
