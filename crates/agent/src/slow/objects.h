// Which block of the heap an address lies in, and what allocated it.
//
// A record of each block that is allocated is found by where the block begins. Small blocks, of
// which several may lie in a page, hang in chains, one for each line of memory in which any begins.
// Larger ones are found through cells of pages or, from 2 MiB on, of stretches of that size: a cell
// names the block that begins there and the one that covers its first byte. Since blocks do not
// overlap, no more than one of each kind can. A page's cell also says whether small blocks have
// ever begun in it: where none have, as in large blocks, chains are not looked at.
//
// Records stay where they are when their block is freed, and serve the next block that begins in
// the same line, page or stretch. So chains do not change but at their beginning, nothing is
// locked, and there are at most as many records as blocks ever were at once in each place. Whatever
// a cell or a chain names is believed only if the record says that its block holds the address. A
// record changes while its version is odd; who reads it looks at the version before and after.
//
// Blocks belong to groups (wire::objects), which lie in the session, so that they are there however
// the process ends. An index of ours finds a group by what makes it.
//
// Files that are mapped while the program runs have numbers among those of groups. Cells of pages
// and stretches name them (`files.rs`).
//
// Neighbours: `allocations.h` says what is allocated and freed, `events.h` asks; `blocks.rs` maps
// the tables.
#ifndef TT_OBJECTS_H
#define TT_OBJECTS_H
#include "cells.h"
#include "wait.h"

SHARED struct blocks tt_blocks;

// Above the ordinal: in which epoch the block was allocated, and whether others were allocated in
// it.
#define EPOCH_SHIFT 48
#define HOLDS_OTHERS (1ull << 63)

static inline u32 *first_in_line(u64 address) {
    u64 folded = address & ((1ull << FOLDED_BITS) - 1);
    return (u32 *)(tt_blocks.lines + ((folded >> LINE_SHIFT) << 2));
}

static inline struct place *page_of(u64 address) {
    return (struct place *)(tt_blocks.pages + ((address >> LARGE_SHIFT) << 3));
}

static inline struct place *stretch_of(u64 address) {
    return (struct place *)(tt_blocks.stretches + ((address >> STRETCH_SHIFT) << 3));
}

// Names are numbers of records + 1; 0 = none.
static inline struct block *block_named(u32 name) { return tt_blocks.records + (name - 1); }

// A bit of a page's cell, beside the name of the large block that begins there: small blocks have
// begun there, too.
#define HAS_SMALL (1u << 31)

static inline u32 name_of_starting(const struct place *p) {
    return __atomic_load_n(&p->starting, __ATOMIC_ACQUIRE) & ~HAS_SMALL;
}

static inline u64 bytes_of(const struct block *b) { return __atomic_load_n(&b->bytes, __ATOMIC_ACQUIRE); }

// Whether it is the record of a live block that holds the address.
static inline int holds(const struct block *b, u64 address) {
    return address - __atomic_load_n(&b->start, __ATOMIC_RELAXED) < bytes_of(b);
}

static inline struct block *if_holds(u32 name, u64 address) {
    return name && holds(block_named(name), address) ? block_named(name) : 0;
}

// Looks through a chain for the block that holds the address; `*live` says whether any block of it
// is there.
static inline struct block *in_chain(u32 name, u64 address, int *live) {
    while (name) {
        struct block *b = block_named(name);
        if (holds(b, address))
            return b;
        *live |= bytes_of(b) != 0;
        name = b->next;
    }
    return 0;
}

// A small block that begins in an earlier line and reaches up to the address.
static inline struct block *begun_before(u64 address) {
    u32 *line = first_in_line(address), *first = line - (1u << (LARGE_SHIFT - LINE_SHIFT));
    int live = 0;
    struct block *found = 0;
    while (!found && !live && --line >= first)
        if (*line)
            found = in_chain(__atomic_load_n(line, __ATOMIC_ACQUIRE), address, &live);
    return found;
}

static inline struct group *group_named(u32 group) { return (struct group *)tt_session.groups + group; }

// Whether others may lie in the block: an allocator's, in what it has mapped or allocated.
static inline int may_hold_others(const struct block *b) {
    return group_named(b->group)->by == BY_MAPPED ||
           __atomic_load_n(&b->ordinal, __ATOMIC_RELAXED) & HOLDS_OTHERS;
}

// The record of the live block that holds the address, or 0.
static inline struct block *block_at(u64 address) {
    int live = 0, has_small;
    struct block *found = 0, *around;
    struct place page = *page_of(address);
    has_small = (page.starting & HAS_SMALL) != 0;
    if (has_small)
        found = in_chain(__atomic_load_n(first_in_line(address), __ATOMIC_ACQUIRE), address, &live);
    if (found)
        return found;
    around = if_holds(page.starting & ~HAS_SMALL, address);
    around = around ? around : if_holds(page.covering, address);
    if (around && !may_hold_others(around))
        return around;
    if ((has_small || around) && (found = begun_before(address)))
        return found;
    if (around)
        return around;
    struct place stretch = *stretch_of(address);
    found = if_holds(stretch.covering, address);
    return found ? found : if_holds(stretch.starting, address);
}

// What is known of the block that holds an address.
struct known {
    struct block *record;
    u64 start, bytes, ordinal;
    u32 group, thread, version, born, number;
};

// Reads a record of which a search said that its block holds the address; whether it still does.
static inline int read_block(struct block *b, u64 address, struct known *k) {
    u32 version = __atomic_load_n(&b->version, __ATOMIC_ACQUIRE);
    *k = (struct known){b,         b->start, bytes_of(b), b->ordinal, b->group,
                        b->thread, version,  b->born,     NO_NUMBER};
    if ((k->ordinal & ~HOLDS_OTHERS) >> EPOCH_SHIFT != tt_blocks.epoch)
        k->thread = ~0u; // of the process that this one was forked from
    k->ordinal &= (1ull << EPOCH_SHIFT) - 1;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return !(version & 1) && __atomic_load_n(&b->version, __ATOMIC_RELAXED) == version &&
           address - k->start < k->bytes;
}

// The mapped file that the address lies in; 0 = none.
static inline u32 file_at(u64 address) {
    if (!tt_blocks.mapped_stretches || address >> ADDRESS_BITS)
        return 0;
    u32 file = __atomic_load_n(&tt_blocks.mapped_stretches[address >> STRETCH_SHIFT], __ATOMIC_ACQUIRE);
    if (file != VARIOUS)
        return file;
    return __atomic_load_n(&tt_blocks.mapped_pages[address >> LARGE_SHIFT], __ATOMIC_RELAXED);
}

// The group of the block that holds the address, or the file that is mapped there; 0 = none.
static inline u32 group_at(u64 address) {
    struct known k;
    if (!tt_blocks.records)
        return 0;
    struct block *b = block_at(address);
    return b && read_block(b, address, &k) ? k.group : file_at(address);
}

// An event on a line with this address is kept: the recorder shall know the block that it is in.
COLD static void describe_block(u64 address) {
    struct known k;
    struct block *b = block_at(address);
    if (!b || !read_block(b, address, &k) || b->described == tt_blocks.epoch)
        return;
    b->described = (u16)tt_blocks.epoch;
    u32 number = __atomic_fetch_add(tt_session.blocks_described, 1, __ATOMIC_RELAXED);
    if (number >= tt_session.max_blocks) {
        __atomic_fetch_sub(tt_session.blocks_described, 1, __ATOMIC_RELAXED);
        return;
    }
    struct described *to = (struct described *)tt_session.blocks + number;
    *to = (struct described){.start = k.start, .bytes = k.bytes, .ordinal = k.ordinal, .thread = k.thread};
    __atomic_store_n(&to->group, k.group, __ATOMIC_RELEASE);
    __atomic_store_n(&b->number, number, __ATOMIC_RELAXED);
}

#ifndef MODE

// A record for a block; 0 when there is no memory left.
static u32 new_record(struct thread *t) {
    if (t->next_record == t->end_record) {
        u64 first = __atomic_fetch_add(&tt_blocks.used, RECORDS_AT_ONCE, __ATOMIC_RELAXED);
        if (first + RECORDS_AT_ONCE > tt_blocks.most) {
            __atomic_fetch_sub(&tt_blocks.used, RECORDS_AT_ONCE, __ATOMIC_RELAXED);
            add_shared(tt_session.blocks_unknown, 1);
            return 0;
        }
        t->next_record = (u32)first;
        t->end_record = (u32)first + RECORDS_AT_ONCE;
    }
    return ++t->next_record;
}

// Whether there has been one thread so far, so that nothing need be atomic. It makes the others
// itself, not while it is here.
static inline int is_alone(void) { return __atomic_load_n(tt_session.threads, __ATOMIC_RELAXED) == 1; }

// Begins to change a record; whether no other thread does.
static int claim(struct block *b) {
    u32 version = __atomic_load_n(&b->version, __ATOMIC_RELAXED);
    if (is_alone()) {
        b->version = version + 1;
        return 1;
    }
    return !(version & 1) && __atomic_compare_exchange_n(&b->version, &version, version + 1, 0,
                                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void release(struct block *b) { __atomic_store_n(&b->version, b->version + 1, __ATOMIC_RELEASE); }

// Fills a claimed record.
static void fill_record(struct block *b, const struct known *k) {
    __atomic_store_n(&b->bytes, 0, __ATOMIC_RELEASE);
    b->start = k->start;
    b->ordinal = k->ordinal | tt_blocks.epoch << EPOCH_SHIFT;
    b->group = k->group;
    b->thread = (u16)k->thread;
    b->born = k->born;
    b->described = 0;
    b->number = NO_NUMBER;
    __atomic_store_n(&b->bytes, k->bytes, __ATOMIC_RELEASE);
    release(b);
}

static int overlaps(const struct block *b, u64 start, u64 bytes) {
    u64 its_bytes = bytes_of(b);
    return its_bytes && b->start < start + bytes && start < b->start + its_bytes;
}

// Ends the blocks of a chain that a new one overlaps: they were freed without our noticing, as by
// allocators that free all blocks of a region at once.
static void end_in_chain(u32 name, u64 start, u64 bytes) {
    for (; name; name = block_named(name)->next) {
        struct block *b = block_named(name);
        if (!overlaps(b, start, bytes) || !claim(b))
            continue;
        if (overlaps(b, start, bytes))
            __atomic_store_n(&b->bytes, 0, __ATOMIC_RELEASE);
        release(b);
    }
}

// The same in these lines of memory.
static void end_in_lines(const u32 *line, const u32 *end, u64 start, u64 bytes) {
    for (; line < end; line++) {
        u32 name = __atomic_load_n(line, __ATOMIC_ACQUIRE);
        if (name)
            end_in_chain(name, start, bytes);
    }
}

// Claims a record of the chain whose block is gone, and ends all blocks that the new one overlaps.
// With any of them left, the chain would grow with each new one of another size or place.
static u32 claim_in_chain(u32 name, u64 start, u64 bytes) {
    for (; name; name = block_named(name)->next) {
        struct block *b = block_named(name);
        if ((bytes_of(b) && !overlaps(b, start, bytes)) || !claim(b))
            continue;
        if (!bytes_of(b) || overlaps(b, start, bytes)) {
            end_in_chain(b->next, start, bytes);
            return name;
        }
        release(b);
    }
    return 0;
}

// A small block begins in the page. A larger block around it holds others from now on; one that
// begins within it is gone.
static void note_small(struct place *page, const struct known *k) {
    u32 starting = __atomic_load_n(&page->starting, __ATOMIC_ACQUIRE);
    if (!(starting & HAS_SMALL))
        __atomic_fetch_or(&page->starting, HAS_SMALL, __ATOMIC_RELAXED);
    struct block *around = if_holds(starting & ~HAS_SMALL, k->start);
    if (!around)
        end_in_chain(starting & ~HAS_SMALL, k->start, k->bytes);
    around = around ? around : if_holds(page->covering, k->start);
    if (around && !may_hold_others(around))
        __atomic_fetch_or(&around->ordinal, HOLDS_OTHERS, __ATOMIC_RELAXED);
}

static void add_small(struct thread *t, const struct known *k) {
    u32 *first = first_in_line(k->start);
    note_small(page_of(k->start), k);
    u32 name = claim_in_chain(__atomic_load_n(first, __ATOMIC_ACQUIRE), k->start, k->bytes);
    if (name) {
        fill_record(block_named(name), k);
    } else {
        name = new_record(t);
        if (!name)
            return;
        struct block *b = block_named(name);
        b->version = 1;
        fill_record(b, k);
        u32 next = __atomic_load_n(first, __ATOMIC_RELAXED);
        do
            b->next = next;
        while (!__atomic_compare_exchange_n(first, &next, name, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    }
    u64 last = k->start + k->bytes - 1, page = last & ~((1ull << LARGE_SHIFT) - 1);
    end_in_lines(first + 1, first_in_line(last) + 1, k->start, k->bytes);
    if (page <= k->start)
        return;
    end_in_chain(name_of_starting(page_of(page)), k->start, k->bytes);
    struct block *around = if_holds(page_of(page)->covering, page);
    if (!(around && may_hold_others(around)))
        __atomic_store_n(&page_of(page)->covering, name, __ATOMIC_RELEASE);
}

// The same in a large one's pages, unless it is an allocator's own mapping.
static void end_in_pages(const struct known *k) {
    const u64 LINES = 1ull << (LARGE_SHIFT - LINE_SHIFT);
    u64 end = k->start + k->bytes;
    if (group_named(k->group)->by == BY_MAPPED)
        return;
    for (u64 page = k->start & ~((1ull << LARGE_SHIFT) - 1); page < end; page += 1ull << LARGE_SHIFT) {
        u32 starting = __atomic_load_n(&page_of(page)->starting, __ATOMIC_ACQUIRE);
        end_in_chain(starting & ~HAS_SMALL, k->start, k->bytes);
        if (starting & HAS_SMALL)
            end_in_lines(first_in_line(page), first_in_line(page) + LINES, k->start, k->bytes);
    }
}

static void add_large(struct thread *t, const struct known *k, struct place *first, u64 count) {
    u32 name = name_of_starting(first);
    if (name && !claim(block_named(name)))
        return; // another thread's block begins in the same page: one of the two is gone
    if (!name) {
        name = new_record(t);
        if (!name)
            return;
        block_named(name)->version = 1;
        u32 beside = 0; // what the cell holds: nothing, HAS_SMALL, or another thread's block
        while (!__atomic_compare_exchange_n(&first->starting, &beside, name | beside, 0, __ATOMIC_RELEASE,
                                            __ATOMIC_RELAXED))
            if (beside & ~HAS_SMALL)
                return;
    }
    fill_record(block_named(name), k);
    for (u64 n = 1; n < count; n++)
        __atomic_store_n(&first[n].covering, name, __ATOMIC_RELEASE);
}

// The bit of an address at which a large block may begin. Bits are never taken back: that costs
// the time of a few looks, and a bit may stand for several blocks.
static inline u32 start_bit(u64 start) { return (u32)(start >> STARTS_SHIFT) & ((1u << STARTS_BITS) - 1); }

static int may_be_large(u64 start) {
    u32 bit = start_bit(start);
    return __atomic_load_n(&tt_blocks.starts[bit / 32], __ATOMIC_RELAXED) >> bit % 32 & 1;
}

static void note_large(u64 start) {
    u32 bit = start_bit(start);
    if (!may_be_large(start))
        __atomic_fetch_or(&tt_blocks.starts[bit / 32], 1u << bit % 32, __ATOMIC_RELAXED);
}

static void add_block(struct thread *t, const struct known *k) {
    u64 first = k->start, last = first + k->bytes - 1;
    if (!k->bytes || last < first || last >> ADDRESS_BITS)
        return;
    if (k->bytes < 1ull << LARGE_SHIFT) {
        add_small(t, k);
        return;
    }
    note_large(first);
    if (k->bytes < 1ull << STRETCH_SHIFT) {
        end_in_pages(k);
        add_large(t, k, page_of(first), (last >> LARGE_SHIFT) - (first >> LARGE_SHIFT) + 1);
    } else {
        add_large(t, k, stretch_of(first), (last >> STRETCH_SHIFT) - (first >> STRETCH_SHIFT) + 1);
    }
}

// Whether it names the record of a live block that begins at the address.
static inline int begins_at(u32 name, u64 start) {
    return name && block_named(name)->start == start && bytes_of(block_named(name));
}

// The live block that begins at the address; whether there is one.
static int block_from(u64 start, struct known *k) {
    u32 name = *first_in_line(start);
    while (name && !begins_at(name, start))
        name = block_named(name)->next;
    if (!name && !begins_at(name = name_of_starting(page_of(start)), start))
        name = name_of_starting(stretch_of(start));
    return begins_at(name, start) && read_block(block_named(name), start, k) && k->start == start;
}

// The record's number among those that are described in the session. Only of a claimed record.
static u32 number_of(const struct block *b) {
    return b->described == tt_blocks.epoch ? __atomic_load_n(&b->number, __ATOMIC_RELAXED) : NO_NUMBER;
}

// The block is no more; whether it was not another one by now. Sets its number.
static int end_block(struct known *k) {
    struct block *b = k->record;
    u32 version = k->version;
    if (is_alone()) {
        if (b->version != version)
            return 0;
        k->number = number_of(b);
        b->bytes = 0;
        b->version = version + 2;
        return 1;
    }
    if (!__atomic_compare_exchange_n(&b->version, &version, version + 1, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return 0;
    k->number = number_of(b);
    __atomic_store_n(&b->bytes, 0, __ATOMIC_RELEASE);
    release(b);
    return 1;
}

// In which mapped files code lies: a hash of their numbers, 0 if in none.
static u32 files_of(const u64 *frames) {
    u32 files = 0;
    for (int k = 0; k < FRAMES && tt_blocks.mapped_stretches; k++)
        files = (files ^ file_at(frames[k])) * 0x9e3779b1u;
    return files;
}

static int is_group(const struct group *g, const u64 *frames, u32 files, u32 by, u32 digits) {
    int same = g->files == files && g->by == by && g->digits == digits;
    for (int k = 0; k < FRAMES; k++)
        same &= g->frames[k] == frames[k];
    return same;
}

// The group of blocks with so many binary digits that are allocated by way of these return
// addresses. `like` is another group whose blocks were, or 0.
static u32 find_group(const u64 *frames, u32 by, u32 digits, const struct group *like) {
    u32 files = like ? like->files : files_of(frames);
    u64 hash = (u64)files << 16 | by << 8 | digits;
    for (int k = 0; k < FRAMES; k++) {
        hash = (hash ^ frames[k]) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    u32 mine = 0;
    for (u64 n = 0; n < MAX_GROUPS / 4; n++) {
        u32 *at = &tt_blocks.index[(hash + n) & ((1u << INDEX_BITS) - 1)];
        u32 there = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        if (there && is_group(group_named(there), frames, files, by, digits))
            return there;
        if (there)
            continue;
        if (!mine) {
            mine = __atomic_load_n(tt_session.groups_used, __ATOMIC_RELAXED);
            do
                if (mine >= MAX_GROUPS)
                    return OTHERS;
            while (!__atomic_compare_exchange_n(tt_session.groups_used, &mine, mine + 1, 0, __ATOMIC_RELAXED,
                                                __ATOMIC_RELAXED));
            struct group *g = group_named(mine);
            for (int k = 0; k < FRAMES; k++)
                g->frames[k] = frames[k];
            g->files = files;
            g->modules = like ? like->modules : __atomic_load_n(tt_session.modules, __ATOMIC_RELAXED);
            g->by = by;
            g->digits = digits;
        }
        if (__atomic_compare_exchange_n(at, &there, mine, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            return mine;
        if (is_group(group_named(there), frames, files, by, digits))
            return there;
    }
    return OTHERS;
}

#endif
#endif
