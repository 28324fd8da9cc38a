// Filtered traces: accesses that hit in a small cache of the thread's are left out.
//
// Such an access is called quiet here: its line is one of the last few (`ways`) that came into its
// set of 64, its page one of the last few in its set of pages, and, since the thread's last access
// to the line, no other thread has written it nor, if this access writes, read it, and the thread
// has written it before if it writes. Such an access hits in any cache and TLB with a multiple of
// as many sets and at least as many ways. It is what a check asks, if the thread is granted a line
// only as long as all this holds. So translated code passes over quiet accesses; slow paths trace
// the others, grant their lines, and take back the grant of the line that has been in the set for
// longest. How many accesses were quiet is the difference of what the thread has counted.
//
// With one way, quiet accesses change nothing in the cache (Puzak's trace stripping, 1985). With
// more, a cache that sees the trace does not know in which order the lines of the filter were used
// last, so it may evict another line than it would have. In caches with twice the filter's ways
// that is rare: docs/internals/simulation.md has the figures.
//
// Memory that processes share is in the trace of each of them, by the process's own addresses. No
// thread is granted a line of it, so none of its accesses is quiet.
//
// How often a line moves that threads contend for depends on how they are interleaved. A thread is
// not granted a line that changes hands again and again.
#ifndef TT_FILTER_H
#define TT_FILTER_H
#include "grants.h"
#ifndef MODE
#include "trace.h"
#endif

SHARED u64 tt_trace_ways;    // of each set; 0: there is no filtered trace
SHARED u64 tt_trace_filters; // address of the filter of the thread with id 0
SHARED u64 tt_hands;         // address of a u16 for each line

#ifndef MODE
#define PAGE_SETS 16

struct trace_filter {
    u64 accounted; // accesses that are in the trace, or of which it says how many they were
    u64 turn;      // number of its last record
    u64 seen;      // window, and how the thread is observed in it, as the trace last said
    u64 pages[PAGE_SETS][TRACE_MAX_WAYS];   // last pages in each set of pages, plus 1, newest first
    u64 of_page[PAGE_SETS][TRACE_MAX_WAYS]; // sets that may hold lines of these, as bits
    u64 lines[TRACE_SETS][TRACE_MAX_WAYS];  // last lines in each set, plus 1, newest first
};
_Static_assert(sizeof(struct trace_filter) <= TRACE_FILTER_BYTES && TRACE_SETS <= 64, "room for it");

static inline struct trace_filter *filter_of(const struct thread *t) {
    return (struct trace_filter *)(tt_trace_filters + t->id * TRACE_FILTER_BYTES);
}

static inline u64 line_of(u64 address) { return address >> tt_block_shift; }

// Where `value` is among the last ones of a set; `tt_trace_ways` if it is not.
static inline u64 way_of(const u64 *ways, u64 value) {
    u64 way = 0;
    while (way < tt_trace_ways && ways[way] != value)
        way++;
    return way;
}

// Makes room for a new value in front of those before `way`.
static inline void shift(u64 *ways, u64 way) {
    for (; way > 0; way--)
        ways[way] = ways[way - 1];
}

static int is_quiet(const struct thread *t, u64 address, int writes) {
    u64 line = line_of(address);
    const u64 *ways = filter_of(t)->lines[line & (TRACE_SETS - 1)];
    return way_of(ways, line + 1) < tt_trace_ways && look(grant_of(t, address)) & (writes ? OWN : READ);
}

// In what is known of a line: how often it has changed hands of late, and when it last did, in
// thousands of records.
#define HANDS 3u
#define HANDS_MASK 3u
#define WHEN_SHIFT 2
#define SPELL_SHIFT 16
#define BEHIND 16 // spells that a thread may be behind others

// Notes that the thread is about to access the line; whether it may hold it then.
static int note_hands(const struct thread *t, u64 address, int writes) {
    u16 *at = (u16 *)tt_hands + (line_of(address) & ((1u << HANDS_BITS) - 1));
    u16 known = __atomic_load_n(at, __ATOMIC_RELAXED);
    u64 word = *word_in(0, address), writer = word >> WRITER_SHIFT, own = *word_of(t, address);
    int other = writer && writer - 1 != t->id;
    int taken = writes ? other || own & (READERS | DEPARTED | FOREIGN) & ~t->mask : other && !(own & t->mask);
    // The number of the newest record would be a miss on most calls. Others may be somewhat ahead.
    u16 now = (u16)(filter_of(t)->turn >> SPELL_SHIFT << WHEN_SHIFT), when = known & (u16)~HANDS_MASK;
    int16_t spells = (int16_t)(now - when);
    int lately = spells <= 1 << WHEN_SHIFT && spells >= -(BEHIND << WHEN_SHIFT);
    now = lately && spells < 0 ? when : now;
    unsigned hands = lately ? known & HANDS_MASK : 0;
    if (taken) {
        hands = hands < HANDS ? hands + 1 : HANDS;
        __atomic_store_n(at, (u16)(now | hands), __ATOMIC_RELAXED);
    }
    return hands < HANDS;
}

// What the thread has counted.
static inline u64 counted_by(const struct thread *t) {
    const u64 *loads = (const u64 *)(t->page + PAGE_LOADS), *stores = (const u64 *)(t->page + PAGE_STORES);
    return *loads + *stores;
}

// How many accesses of the thread are not in the trace, `now` being the number of those that have
// just come; so many that a record has no room for them are traced here.
static u64 skip_filtered(struct thread *t, u64 now) {
    struct trace_filter *f = filter_of(t);
    u64 counted = counted_by(t), skipped = 0;
    if ((int64_t)(counted - f->accounted) > (int64_t)now)
        skipped = counted - f->accounted - now;
    f->accounted += skipped + now;
    if (skipped >> (64 - TRACE_SKIPPED_SHIFT)) {
        trace(t->id, TRACE_SKIP, 0, skipped, 0);
        skipped = 0;
    }
    return skipped;
}

// The access is in the trace, with how many were quiet since the one before.
static void trace_filtered(struct thread *t, u64 start, u64 bytes, int writes, u32 site, int held) {
    struct trace_filter *f = filter_of(t);
    u64 skipped = skip_filtered(t, 1);
    u32 what = (writes ? TRACE_WRITE : TRACE_READ) | (held ? TRACE_HELD : 0);
    f->turn = trace(t->id, what, start | skipped << TRACE_SKIPPED_SHIFT, bytes, site);
}

// How the thread is observed may have changed, or which window it is: the trace says so. What it
// does between windows is not in the trace, nor how much that is.
void tt_trace_window(struct thread *t, int was_observed) {
    u64 window = WINDOW_OF(t->phase), how = !t->observes ? SEEN_NOT : t->counts ? SEEN_COUNTED : SEEN_WARM_UP;
    if (!tt_trace_ways || window < FIRST_WINDOW)
        return;
    struct trace_filter *f = filter_of(t);
    u64 last = f->seen ? f->seen : (u64)FIRST_WINDOW << 2 | SEEN_COUNTED, seen = window << 2 | how;
    if (seen == last)
        return;
    f->seen = seen;
    if (!was_observed)
        f->accounted = counted_by(t);
    u64 skipped = skip_filtered(t, 0);
    trace(t->id, TRACE_WINDOW, window | skipped << TRACE_SKIPPED_SHIFT, how, 0);
}

// The thread asks for the line again.
static inline void give_up(struct thread *t, u64 line) {
    take_back(grant_of(t, line << tt_block_shift), NOTHING);
}

// The lines of a page that others are in the way of.
static void give_up_page(struct thread *t, struct trace_filter *f, u64 page, u64 sets) {
    for (; sets; sets &= sets - 1) {
        u64 *ways = f->lines[__builtin_ctzll(sets)];
        for (u64 way = 0; way < tt_trace_ways; way++)
            if (ways[way] && (ways[way] - 1) << tt_block_shift >> PAGE_SHIFT == page) {
                give_up(t, ways[way] - 1);
                ways[way] = 0;
            }
    }
}

// The page is the newest one in its set; returns where the sets that hold its lines are noted.
static u64 *hold_page(struct thread *t, struct trace_filter *f, u64 page) {
    u64 *pages = f->pages[page % PAGE_SETS], *sets = f->of_page[page % PAGE_SETS];
    u64 way = way_of(pages, page + 1), held = 0;
    if (way < tt_trace_ways)
        held = sets[way];
    else if (pages[--way])
        give_up_page(t, f, pages[way] - 1, sets[way]);
    shift(pages, way);
    shift(sets, way);
    pages[0] = page + 1;
    sets[0] = held;
    return sets;
}

// The thread has accessed the line: it is the newest one in its set, and may be granted if `held`.
static void hold(struct thread *t, u64 address, int held) {
    struct trace_filter *f = filter_of(t);
    u64 line = line_of(address), set = line & (TRACE_SETS - 1);
    *hold_page(t, f, address >> PAGE_SHIFT) |= 1ull << set;
    u64 *ways = f->lines[set], way = way_of(ways, line + 1);
    if (way == tt_trace_ways && ways[--way])
        give_up(t, ways[way] - 1);
    shift(ways, way);
    ways[0] = line + 1;
    if (!held)
        take_back(grant_of(t, address), NOTHING);
}
#endif

#endif
