// Accesses by page and thread, where the slow path counts them: engine::pages has the rest.
//
// A page's first access by a thread, and that to each of its lines, always comes here, since
// nothing is granted before. So what was touched, and by whom first, is noted here alone.
//
// Neighbours: `pages.rs` maps the counters and moves them into the past; `wire::pages` has the
// layout.
#ifndef TT_PAGES_H
#define TT_PAGES_H
#include "events.h"

SHARED u64 tt_page_owners;             // address of the owners of places
SHARED u64 tt_touched_runs[RUNS / 64]; // where any thread has touched a page

#define WITHIN_PAGE ((1ull << PAGE_SHIFT) - 1)
#define RUN_OF_PLACE(place) ((place) / ((1ull << PLACES_BITS) / RUNS))

static inline void set_bit(u64 *bits, u64 bit) {
    if (!(__atomic_load_n(&bits[bit / 64], __ATOMIC_RELAXED) >> bit % 64 & 1))
        __atomic_fetch_or(&bits[bit / 64], 1ull << bit % 64, __ATOMIC_RELAXED);
}

// The page has the place, or gets it, touched first by the thread; whether it does.
COLD static int take_place(const struct thread *t, struct page_owner *owner, u64 place, u64 page, u32 site) {
    u64 found = 0;
    if (__atomic_compare_exchange_n(&owner->page, &found, page + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        owner->site = site;
        owner->thread = (u32)t->id + 1;
        set_bit(tt_touched_runs, RUN_OF_PLACE(place));
        return 1;
    }
    return found == page + 1;
}

// Says that the block lies on the page, unless it is known to hold another one.
static void set_block(struct page_owner *owner, const struct known *k) {
    u32 none = 0;
    if (!__atomic_compare_exchange_n(&owner->group, &none, k->group, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    owner->allocated_by = k->thread;
    owner->start = k->start;
    owner->bytes = k->bytes;
    owner->ordinal = k->ordinal;
}

// Says which allocated block the address lies in, if it does.
COLD static void note_block(struct page_owner *owner, u64 address) {
    struct known k;
    struct block *b = block_at(address);
    if (b && read_block(b, address, &k))
        set_block(owner, &k);
}

// The call that has allocated the block may have filled it: those pages were touched before
// anything was known of it.
COLD static void note_filled(const struct known *k) {
    u64 last = (k->start + k->bytes - 1) >> PAGE_SHIFT;
    for (u64 page = k->start >> PAGE_SHIFT; page <= last; page++) {
        u64 place = page & ((1ull << PLACES_BITS) - 1), run = RUN_OF_PLACE(place);
        if (!(__atomic_load_n(&tt_touched_runs[run / 64], __ATOMIC_RELAXED) >> run % 64 & 1)) {
            page |= (1ull << PLACES_BITS) / RUNS - 1;
            continue;
        }
        struct page_owner *owner = (struct page_owner *)tt_page_owners + place;
        if (__atomic_load_n(&owner->page, __ATOMIC_RELAXED) == page + 1)
            set_block(owner, k);
    }
}

// The part of an access that lies in one page, from `start` to the byte at `end`.
static inline void count_in_page(const struct thread *t, u64 start, u64 end, unsigned reads, unsigned writes,
                                 u32 site) {
    u64 page = start >> PAGE_SHIFT, first = (start & WITHIN_PAGE) / LINE, last = (end & WITHIN_PAGE) / LINE;
    u64 place = page & ((1ull << PLACES_BITS) - 1);
    struct page_owner *owner = (struct page_owner *)tt_page_owners + place;
    u64 owned = __atomic_load_n(&owner->page, __ATOMIC_RELAXED);
    if (__builtin_expect(owned != page + 1, 0) && !take_place(t, owner, place, page, site)) {
        __atomic_fetch_add(tt_session.page_accesses_lost, reads + writes, __ATOMIC_RELAXED);
        return;
    }
    struct page_touched *touched = (struct page_touched *)(t->grants - TOUCHED_BELOW) + place;
    struct page_counters *counters = (struct page_counters *)(t->grants - COUNTERS_BELOW) + place;
    u64 lines = ~0ull >> (LINE - 1 - (last - first)) << first;
    if (lines & ~touched->lines) {
        set_bit((u64 *)(t->grants - RUNS_BELOW), RUN_OF_PLACE(place));
        touched->lines |= lines;
        if (!owner->group && tt_blocks.records)
            note_block(owner, start);
    }
    if (writes && lines & ~touched->written)
        touched->written |= lines;
    counters->reads += reads;
    counters->writes += writes;
}

// An access counts once for each page that it touches; one of more bytes than a line has, like a
// repeated string instruction or a system call, once for each line there.
static inline void count_by_page(const struct thread *t, u64 start, u64 bytes, unsigned reads,
                                 unsigned writes, u32 site) {
    if (!bytes || (start | (start + bytes - 1)) >> ADDRESS_BITS || !t->grants)
        return;
    for (u64 last = start + bytes - 1, at = start; at <= last; at = (at | WITHIN_PAGE) + 1) {
        u64 end = at | WITHIN_PAGE;
        end = end < last ? end : last;
        unsigned lines = bytes > LINE ? (unsigned)(end / LINE - at / LINE) + 1 : 1;
        count_in_page(t, at, end, reads * lines, writes * lines, site);
    }
}

#endif
