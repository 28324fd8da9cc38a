// Communication patterns with known truth, for any threading runtime.
//
// T participants share T regions of whole pages. A round has two halves: first every region is
// written, each by one participant and every word of it; then participants read regions, every
// word of them. A barrier follows each half. A pattern says who writes which region in which round
// and who reads it; that alone fixes the exact number of events, which `print_expected` replays
// region by region and prints as lines `expect KIND FROM TO COUNT`.
//
// Definitions, per memory block: raw w->r, the first read by r after a write by w; waw v->w, a
// write by w to a block last written by v; invalidation w->r, a write by w to a block that r has
// read since the previous write (neither w itself nor the previous writer counts). A participant
// never communicates with itself, and blocks that nobody has written communicate nothing.
//
// Barriers and the start of threads cause a little traffic of their own, which the runtime-specific
// programs (pthreads.c, c11.c, openmp.c, cxx.cpp) keep small against the regions.
#ifndef PATTERNS_H
#define PATTERNS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_PARTICIPANTS = 1200 };

typedef struct {
    const char *name;
    int participants, rounds;
    size_t region_bytes; // a multiple of 4096
    size_t block_bytes;  // in which communication is counted; divides region_bytes
    int first_id;        // logical thread id of participant 0
} Setup;

static int grid_side(const Setup *s) {
    int side = 1;
    while ((side + 1) * (side + 1) <= s->participants) side++;
    return side;
}

// Who writes `region` in `round`.
static int writer(const Setup *s, int round, int region) {
    if (!strcmp(s->name, "initialisation")) return 0;
    if (!strcmp(s->name, "migrate")) return (region + round) % s->participants;
    return region;
}

// Whether the writer reads the region before it writes it.
static int reads_first(const Setup *s) { return !strcmp(s->name, "migrate"); }

// Whether two places of a grid with rows of `side` are neighbours.
static int in_grid(int a, int b, int side) {
    return abs(a % side - b % side) + abs(a / side - b / side) == 1;
}

// Whether participant `p` reads `region` after it was written.
static int reads(const Setup *s, int p, int region) {
    const char *name = s->name;
    int n = s->participants, side = grid_side(s);
    if (!strcmp(name, "pairs")) return p % 2 == 1 && region == p - 1;
    if (!strcmp(name, "ring")) return region == (p + n - 1) % n;
    if (!strcmp(name, "pipeline")) return region == p - 1;
    if (!strcmp(name, "all-to-all")) return region != p;
    if (!strcmp(name, "reduction")) return p == 0 && region != 0;
    if (!strcmp(name, "initialisation")) return region == p;
    if (!strcmp(name, "neighbours")) return abs(p - region) == 1;
    if (!strcmp(name, "grid")) return in_grid(p, region, side);
    if (!strcmp(name, "groups")) return p / 4 == region / 4 && p != region;
    // The grid under other numbers, and pairs without any order.
    if (!strcmp(name, "scattered")) return in_grid((p * 5 + 3) % n, (region * 5 + 3) % n, side);
    if (!strcmp(name, "irregular"))
        return p != region && (p * 31 + region * 17) * (p + 3 * region + 7) % 101 % 10 < 3;
    if (!strcmp(name, "private")) return region == p;
    if (!strcmp(name, "migrate")) return 0;
    fprintf(stderr, "unknown pattern '%s'\n", name);
    exit(2);
}

static Setup read_setup(int argc, char **argv, int first_id) {
    if (argc < 6) {
        fprintf(stderr, "usage: %s PATTERN PARTICIPANTS ROUNDS REGION_KIB BLOCK_BYTES\n", argv[0]);
        exit(2);
    }
    Setup s = {argv[1], atoi(argv[2]), atoi(argv[3]), (size_t)atoi(argv[4]) * 1024,
               (size_t)atoi(argv[5]), first_id};
    if (s.participants < 1 || s.participants > MAX_PARTICIPANTS || s.region_bytes % 4096 ||
        !s.block_bytes || s.region_bytes % s.block_bytes) {
        fprintf(stderr, "participants 1 to %d, region a multiple of 4 KiB and of the block\n",
                MAX_PARTICIPANTS);
        exit(2);
    }
    reads(&s, 0, 0); // refuses an unknown name before anything starts
    return s;
}

// Memory for all regions, page-aligned, never written before.
static uint64_t *map_regions(const Setup *s) {
    size_t bytes = s->region_bytes * (size_t)s->participants;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    return (uint64_t *)memory;
}

static uint64_t *region_start(const Setup *s, uint64_t *regions, int region) {
    return regions + s->region_bytes / 8 * (size_t)region;
}

// Plain loops: compilers may make them wide, versions and streams are as welcome as single words.
static __attribute__((noinline)) void write_words(uint64_t *words, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) words[i] = seed + i * 3;
}

static __attribute__((noinline)) uint64_t read_words(const uint64_t *words, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += words[i] ^ i;
    return sum;
}

// First half of a round for participant `p`; returns its checksum so far.
static uint64_t write_half(const Setup *s, uint64_t *regions, int p, int round) {
    uint64_t sum = 0;
    for (int region = 0; region < s->participants; region++) {
        if (writer(s, round, region) != p) continue;
        uint64_t *words = region_start(s, regions, region);
        if (reads_first(s)) sum += read_words(words, s->region_bytes / 8);
        write_words(words, s->region_bytes / 8, (uint64_t)round * 1000003 + (uint64_t)region);
    }
    return sum;
}

// Second half of a round for participant `p`.
static uint64_t read_half(const Setup *s, uint64_t *regions, int p) {
    uint64_t sum = 0;
    for (int region = 0; region < s->participants; region++)
        if (reads(s, p, region))
            sum += read_words(region_start(s, regions, region), s->region_bytes / 8);
    return sum;
}

// Replay of one region: who wrote it last and who has read it since.
typedef struct {
    int last;
    char seen[MAX_PARTICIPANTS];
} Replay;

static uint64_t counts[3][MAX_PARTICIPANTS][MAX_PARTICIPANTS];

static void replay_read(Replay *r, int p, uint64_t blocks) {
    if (r->last < 0 || r->last == p || r->seen[p]) return;
    counts[0][r->last][p] += blocks;
    r->seen[p] = 1;
}

static void replay_write(Replay *r, int p, uint64_t blocks) {
    if (r->last >= 0 && r->last != p) counts[1][r->last][p] += blocks;
    for (int reader = 0; reader < MAX_PARTICIPANTS; reader++)
        if (r->seen[reader] && reader != p) counts[2][p][reader] += blocks;
    memset(r->seen, 0, sizeof r->seen);
    r->last = p;
}

// Prints what the data alone must cause. Call it when all threads have ended: it is not measured.
static void print_expected(const Setup *s) {
    static const char *kinds[3] = {"raw", "waw", "invalidation"};
    uint64_t blocks = s->region_bytes / s->block_bytes;
    for (int region = 0; region < s->participants; region++) {
        Replay replay = {.last = -1, .seen = {0}};
        for (int round = 0; round < s->rounds; round++) {
            int w = writer(s, round, region);
            if (reads_first(s)) replay_read(&replay, w, blocks);
            replay_write(&replay, w, blocks);
            for (int p = 0; p < s->participants; p++)
                if (reads(s, p, region)) replay_read(&replay, p, blocks);
        }
    }
    for (int kind = 0; kind < 3; kind++)
        for (int from = 0; from < s->participants; from++)
            for (int to = 0; to < s->participants; to++)
                if (counts[kind][from][to])
                    printf("expect %s %d %d %llu\n", kinds[kind], from + s->first_id,
                           to + s->first_id, (unsigned long long)counts[kind][from][to]);
}

#endif
