// The record that is found for an address, while blocks of all sizes come and go, small ones also
// within larger ones. The slow paths are compiled into this program.
#include <slow.c>
#include <stdio.h>
#include <sys/mman.h>

enum { BLOCKS = 600, STEPS = 60000, LOOKS = 20, KINDS_OF_SIZE = 3 };

static const u64 BASE = 0x7f0000000000, SPACE = 64 << 20, PAGE = 1 << LARGE_SHIFT;

static struct known live[BLOCKS];
static u32 threads = 1;
static u64 unknown, next_ordinal;

enum { ALLOCATED = 1, MAPPED };
static struct group groups[] = {[ALLOCATED] = {.by = 0}, [MAPPED] = {.by = BY_MAPPED}};

static void *table(u64 bytes) {
    void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? 0 : at;
}

static int map_tables(void) {
    tt_blocks.lines = (u64)table(4ull << (FOLDED_BITS - LINE_SHIFT));
    tt_blocks.pages = (u64)table(8ull << (ADDRESS_BITS - LARGE_SHIFT));
    tt_blocks.stretches = (u64)table(8ull << (ADDRESS_BITS - STRETCH_SHIFT));
    tt_blocks.starts = table(1ull << STARTS_BITS >> 3);
    tt_blocks.most = 1 << 20;
    tt_blocks.records = table(tt_blocks.most * sizeof(struct block));
    return tt_blocks.lines && tt_blocks.pages && tt_blocks.stretches && tt_blocks.records;
}

static u64 chance(u64 below) {
    static u64 x = 88172645463325252ull;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x % below;
}

static int kind_of(const struct known *k) {
    return k->bytes < PAGE ? 0 : k->bytes < 1ull << STRETCH_SHIFT ? 1 : 2;
}

static int holds_address(const struct known *k, u64 address) { return address - k->start < k->bytes; }

// The ordinal of the smallest live block that holds the address; 0 = none.
static u64 expected_at(u64 address) {
    u64 ordinal = 0, bytes = ~0ull;
    for (int n = 0; n < BLOCKS; n++)
        if (holds_address(&live[n], address) && live[n].bytes < bytes)
            ordinal = live[n].ordinal, bytes = live[n].bytes;
    return ordinal;
}

static u64 found_at(u64 address) {
    struct known k;
    struct block *b = block_at(address);
    return b && read_block(b, address, &k) ? k.ordinal : 0;
}

// Whether a program may allocate this one now: in free memory, or in what has been mapped.
static int may_be(const struct known *k) {
    for (int n = 0; n < BLOCKS; n++) {
        const struct known *other = &live[n];
        if (!other->bytes || k->start >= other->start + other->bytes || other->start >= k->start + k->bytes)
            continue;
        int within = holds_address(other, k->start) && holds_address(other, k->start + k->bytes - 1);
        if (!within || kind_of(other) <= kind_of(k) || other->group != MAPPED)
            return 0;
    }
    return 1;
}

// Whether others lie in it: they would have to be freed before.
static int holds_others(const struct known *k) {
    int others = 0;
    for (int n = 0; n < BLOCKS; n++)
        others += live[n].bytes && &live[n] != k && holds_address(k, live[n].start);
    return others != 0;
}

// Allocates the block, or frees it; whether it was known.
static int step(struct thread *t, struct known *k) {
    struct known found;
    if (k->bytes) {
        if (holds_others(k))
            return 1;
        int known = block_from(k->start, &found) && found.ordinal == k->ordinal;
        if (known)
            end_block(&found);
        k->bytes = 0;
        return known;
    }
    static const u64 least[KINDS_OF_SIZE] = {1, 1 << 12, 1 << 21}, most[] = {1 << 12, 1 << 18, 1 << 23};
    u64 kind = chance(20), size = kind < 15 ? 0 : kind < 19 ? 1 : 2;
    struct known new = {.bytes = least[size] + chance(most[size] - least[size])};
    new.start = BASE + (chance(SPACE - new.bytes) & ~15ull);
    new.group = size &&chance(2) ? MAPPED : ALLOCATED;
    new.ordinal = ++next_ordinal;
    if (!may_be(&new))
        return 1;
    add_block(t, &new);
    *k = new;
    return 1;
}

// How many blocks are not found where one of each kind has been, one after the other.
static u64 lost_at_same_start(struct thread *t) {
    static const u64 bytes[KINDS_OF_SIZE] = {64, 1 << 16, 1 << 22};
    u64 lost = 0;
    for (int first = 0; first < KINDS_OF_SIZE; first++)
        for (int second = 0; second < KINDS_OF_SIZE; second++) {
            u64 start = BASE + SPACE + ((u64)(first * KINDS_OF_SIZE + second) << 23) + 16;
            struct known found, both[] = {{.bytes = bytes[first]}, {.bytes = bytes[second]}};
            for (int n = 0; n < 2; n++) {
                both[n].start = start, both[n].group = ALLOCATED, both[n].ordinal = ++next_ordinal;
                add_block(t, &both[n]);
                int known = block_from(start, &found) && found.ordinal == both[n].ordinal;
                lost += !known || !end_block(&found);
            }
        }
    return lost;
}

// How many addresses of a region do not lead to the block that was allocated there last, where an
// allocator frees all blocks of the region at once and unnoticed, and allocates others in it.
static u64 wrong_in_region(struct thread *t) {
    enum { ADDED = 14000, REGION = 16 << 10, MOST_RECORDS = 4 * REGION / 64 };
    static u64 expected[REGION];
    u64 start = BASE + 2 * SPACE, wrong = 0, records = t->next_record;
    for (int n = 0; n < ADDED; n++) {
        struct known new = {.group = ALLOCATED, .ordinal = ++next_ordinal};
        new.bytes = chance(50) ? 1 + chance(80) : 1 + chance(REGION / 2);
        u64 at = chance(REGION - new.bytes);
        new.start = start + at;
        add_block(t, &new);
        for (u64 byte = 0; byte < new.bytes; byte++)
            expected[at + byte] = new.ordinal;
        for (int look = 0; look < LOOKS; look++) {
            u64 address = at + chance(new.bytes);
            wrong += found_at(start + address) != expected[address];
        }
    }
    return wrong + (t->next_record - records > MOST_RECORDS);
}

int main(void) {
    static struct thread thread;
    if (!map_tables()) {
        puts("not tried: no room for the tables");
        return 0;
    }
    tt_session.threads = &threads, tt_session.blocks_unknown = &unknown;
    tt_session.groups = (u64)groups;
    u64 wrong = 0, in_blocks = 0, not_freed = 0;
    for (int n = 0; n < STEPS; n++) {
        threads = n < STEPS / 2 ? 1 : 2;
        not_freed += !step(&thread, &live[chance(BLOCKS)]);
        for (int look = 0; look < LOOKS; look++) {
            const struct known *near = &live[chance(BLOCKS)];
            u64 address = near->bytes ? near->start + chance(near->bytes + 64) : BASE + chance(SPACE);
            u64 expected = expected_at(address);
            wrong += found_at(address) != expected;
            in_blocks += expected != 0;
        }
    }
    not_freed += lost_at_same_start(&thread);
    wrong += wrong_in_region(&thread);
    printf("wrong %llu, not freed %llu, in blocks %llu of %d\n", (unsigned long long)wrong,
           (unsigned long long)not_freed, (unsigned long long)in_blocks, STEPS * LOOKS);
    return wrong || not_freed || in_blocks < (u64)STEPS * LOOKS / 2;
}
