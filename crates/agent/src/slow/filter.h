// Filtered traces: quiet accesses are left out.
//
// An access is quiet if its line is the last one that the thread has accessed in its set, its page
// the last one in its set of pages, and, since the thread's last access to the line, no other
// thread has written it nor, if this access writes, read it, and the thread has written it before
// if it writes. Such an access hits what is most recently used in the set of any cache and TLB with
// a multiple of as many sets, and changes nothing there (Puzak's trace stripping, 1985). It is what
// a check asks, if the thread is granted a line only as long as all this holds. So translated code
// passes over quiet accesses; slow paths trace the others, grant their lines, and take back the
// grant of the line that was last in the set. How many accesses were quiet is the difference of
// what the thread has counted.
//
// How often a line moves that threads contend for depends on how they are interleaved. A thread is
// not granted a line that changes hands again and again.
#ifndef TT_FILTER_H
#define TT_FILTER_H
#include "grants.h"
#ifndef MODE
#include "trace.h"
#endif

SHARED u64 tt_trace_sets;    // 0: there is no filtered trace
SHARED u64 tt_trace_filters; // address of the filter of the thread with id 0
SHARED u64 tt_hands;         // address of a u16 for each line

#ifndef MODE
#define PAGE_SETS 16

struct trace_filter {
    u64 accounted;             // accesses that are in the trace, or of which it says how many they were
    u64 pages[PAGE_SETS];      // last page in each set of pages, plus 1
    u64 of_page[PAGE_SETS];    // sets that hold a line of it, as bits
    u64 lines[TRACE_MAX_SETS]; // last line in each set, plus 1
};
_Static_assert(sizeof(struct trace_filter) <= TRACE_FILTER_BYTES && TRACE_MAX_SETS <= 64, "room for it");

static inline struct trace_filter *filter_of(const struct thread *t) {
    return (struct trace_filter *)(tt_trace_filters + t->id * TRACE_FILTER_BYTES);
}

static inline u64 line_of(u64 address) { return address >> tt_block_shift; }

static int is_quiet(const struct thread *t, u64 address, int writes) {
    u64 line = line_of(address);
    return filter_of(t)->lines[line & (tt_trace_sets - 1)] == line + 1 &&
           look(grant_of(t, address)) & (writes ? OWN : READ);
}

// In what is known of a line: how often it has changed hands of late, and when it last did, in
// thousands of records.
#define HANDS 3u
#define HANDS_MASK 3u
#define WHEN_SHIFT 2
#define SPELL_SHIFT 16

// Notes that the thread is about to access the line; whether it may hold it then.
static int note_hands(const struct thread *t, u64 address, int writes) {
    u16 *at = (u16 *)tt_hands + (line_of(address) & ((1u << HANDS_BITS) - 1));
    u16 known = __atomic_load_n(at, __ATOMIC_RELAXED);
    u64 word = *word_in(0, address), writer = word >> WRITER_SHIFT, own = *word_of(t, address);
    int other = writer && writer - 1 != t->id;
    int taken = writes ? other || own & (READERS | DEPARTED | FOREIGN) & ~t->mask : other && !(own & t->mask);
    u16 now = (u16)(__atomic_load_n(tt_session.trace_head, __ATOMIC_RELAXED) >> SPELL_SHIFT << WHEN_SHIFT);
    int lately = (u16)(now - (known & ~HANDS_MASK)) <= 1u << WHEN_SHIFT;
    unsigned hands = lately ? known & HANDS_MASK : 0;
    if (taken) {
        hands = hands < HANDS ? hands + 1 : HANDS;
        __atomic_store_n(at, (u16)(now | hands), __ATOMIC_RELAXED);
    }
    return hands < HANDS;
}

// The access is in the trace, with how many were quiet since the one before.
static void trace_filtered(struct thread *t, u64 start, u64 bytes, int writes, u32 site, int held) {
    struct trace_filter *f = filter_of(t);
    const u64 *loads = (const u64 *)(t->page + PAGE_LOADS), *stores = (const u64 *)(t->page + PAGE_STORES);
    u64 counted = *loads + *stores, skipped = 0;
    if ((int64_t)(counted - f->accounted) > 1)
        skipped = counted - f->accounted - 1;
    f->accounted += skipped + 1;
    if (skipped >> (64 - TRACE_SKIPPED_SHIFT)) {
        trace(t->id, TRACE_SKIP, 0, skipped, 0);
        skipped = 0;
    }
    u32 what = (writes ? TRACE_WRITE : TRACE_READ) | (held ? TRACE_HELD : 0);
    if (place_of(start) != NOT_SHARED)
        trace_access(t, start, bytes, writes ? TRACE_WRITE : TRACE_READ, site);
    else
        trace(t->id, what, start | skipped << TRACE_SKIPPED_SHIFT, bytes, site);
}

// What the filter knows of a line that others are in the way of is not known any more.
static inline void give_up(struct thread *t, struct trace_filter *f, u64 set) {
    take_back(grant_of(t, (f->lines[set] - 1) << tt_block_shift), NOTHING);
    f->lines[set] = 0;
}

static void hold_page(struct thread *t, struct trace_filter *f, u64 page) {
    u64 *last = &f->pages[page % PAGE_SETS], *sets = &f->of_page[page % PAGE_SETS];
    if (*last == page + 1)
        return;
    for (; *sets; *sets &= *sets - 1)
        give_up(t, f, (u64)__builtin_ctzll(*sets));
    *last = page + 1;
}

// The thread has accessed the line: it is the last one in its set, and may be granted if `held`.
static void hold(struct thread *t, u64 address, int held) {
    struct trace_filter *f = filter_of(t);
    u64 line = line_of(address), set = line & (tt_trace_sets - 1);
    u64 page = address >> PAGE_SHIFT;
    hold_page(t, f, page);
    if (f->lines[set] && f->lines[set] != line + 1) {
        u64 before = (f->lines[set] - 1) << tt_block_shift >> PAGE_SHIFT;
        give_up(t, f, set);
        f->of_page[before % PAGE_SETS] &= ~(1ull << set);
    }
    f->lines[set] = line + 1;
    f->of_page[page % PAGE_SETS] |= 1ull << set;
    if (!held)
        take_back(grant_of(t, address), NOTHING);
}
#endif

#endif
