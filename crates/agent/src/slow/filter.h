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
// A filter may also be a cache: one that knows more lines of each set (`lines`) than the thread is
// granted. What the thread was granted of the others is set aside: it has to ask before it accesses
// them, so the filter knows in which order they are used. If the line was still the thread's, that
// is a hit, the thread is granted the line again, and the trace says nothing. What is not in the
// cache is in the trace, with the way that it takes, so that the simulated cache has the same
// lines.
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
SHARED u64 tt_trace_lines;   // that the filter knows of each set
SHARED u64 tt_trace_filters; // address of the filter of the thread with id 0
SHARED u64 tt_hands;         // address of a u16 for each line

#ifndef MODE
// As many sets as the TLBs of families.json have, and half as many ways as most.
#define PAGE_SETS 128
#define PAGE_WAYS 6

struct trace_filter {
    u64 accounted;                   // accesses that are in the trace, or of which it says how many they were
    u64 turn;                        // number of its last record
    u64 seen;                        // window, and how the thread is observed in it, as the trace last said
    u64 pages[PAGE_SETS][PAGE_WAYS]; // last pages in each set of pages, plus 1, newest first
    u64 of_page[PAGE_SETS][PAGE_WAYS]; // sets that may hold lines of these, as bits
    // Last lines in each set, newest first: number plus 1, and the way.
    u64 lines[TRACE_SETS][TRACE_MAX_LINES];
};
_Static_assert(TRACE_MAX_LINES < 1 << TRACE_WAY_BITS, "ways have room");
_Static_assert(sizeof(struct trace_filter) <= TRACE_FILTER_BYTES && TRACE_SETS <= 64, "room for it");

static inline struct trace_filter *filter_of(const struct thread *t) {
    return (struct trace_filter *)(tt_trace_filters + t->id * TRACE_FILTER_BYTES);
}

static inline u64 line_of(u64 address) { return address >> tt_block_shift; }

// Where the page is among the last ones of its set; `PAGE_WAYS` if it is not.
static inline u64 way_of_page(const struct trace_filter *f, u64 page) {
    const u64 *pages = f->pages[page % PAGE_SETS];
    u64 way = 0;
    while (way < PAGE_WAYS && pages[way] != page + 1)
        way++;
    return way;
}

// Where the line is among those that are known of its set; `tt_trace_lines` if it is not.
static inline u64 index_of(const u64 *lines, u64 line) {
    u64 at = 0;
    while (at < tt_trace_lines && lines[at] >> TRACE_WAY_BITS != line + 1)
        at++;
    return at;
}

// Makes room for a new value in front of those before `way`.
static inline void shift(u64 *ways, u64 way) {
    for (; way > 0; way--)
        ways[way] = ways[way - 1];
}

// The thread asks for the line again.
static inline void give_up(struct thread *t, u64 line) {
    take_back(grant_of(t, line << tt_block_shift), NOTHING);
}

// The way that a line has or takes which is at `at`, or not there.
static inline u64 way_at(const u64 *lines, u64 at) {
    u64 way = 0, entry = lines[at < tt_trace_lines ? at : tt_trace_lines - 1];
    if (entry)
        return entry & ((1u << TRACE_WAY_BITS) - 1);
    while (lines[way])
        way++;
    return way;
}

// The line is the newest one of its set, where it has been at `at`, if anywhere.
static void renew_line(struct thread *t, u64 *lines, u64 at, u64 line) {
    u64 way = way_at(lines, at);
    if (at == tt_trace_lines && lines[--at])
        give_up(t, (lines[at] >> TRACE_WAY_BITS) - 1);
    u64 left = lines[tt_trace_ways - 1];
    if (at >= tt_trace_ways && left)
        set_aside(grant_of(t, ((left >> TRACE_WAY_BITS) - 1) << tt_block_shift));
    shift(lines, at);
    lines[0] = (line + 1) << TRACE_WAY_BITS | way;
}

// Whether the access need not be in the trace. If the line was set aside, the thread is granted it
// again, and it is the newest one of its set.
static int is_quiet(struct thread *t, u64 address, int writes) {
    u64 line = line_of(address), *lines = filter_of(t)->lines[line & (TRACE_SETS - 1)];
    u64 at = index_of(lines, line), asked = writes ? OWN : READ;
    u8 *grants = grant_of(t, address), seen = look(grants);
    if (at < tt_trace_ways)
        return seen & asked;
    if (at == tt_trace_lines || !(seen & aside(asked)) || !resume(address, grants, seen))
        return 0;
    renew_line(t, lines, at, line);
    return 1;
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

// The way that a line takes in the cache that the filter is, plus 1.
static u64 way_for(const struct trace_filter *f, u64 line) {
    const u64 *lines = f->lines[line & (TRACE_SETS - 1)];
    return way_at(lines, index_of(lines, line)) + 1;
}

// The ways of an access to one line or two, as a record has them.
static u64 ways_for(const struct trace_filter *f, u64 start, u64 bytes) {
    u64 first = line_of(start), last = line_of(start + bytes - 1);
    if (tt_trace_lines == tt_trace_ways || last - first > 1)
        return 0;
    return (way_for(f, first) | (last > first ? way_for(f, last) << TRACE_WAY_BITS : 0)) << TRACE_WAYS_SHIFT;
}

// The access is in the trace, with how many were quiet since the one before.
static void trace_filtered(struct thread *t, u64 start, u64 bytes, int writes, u32 site, int held) {
    struct trace_filter *f = filter_of(t);
    bytes |= ways_for(f, start, bytes);
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

// The lines of a page that others are in the way of.
static void give_up_page(struct thread *t, struct trace_filter *f, u64 page, u64 sets) {
    for (; sets; sets &= sets - 1) {
        const u64 *lines = f->lines[__builtin_ctzll(sets)];
        for (u64 at = 0; at < tt_trace_lines; at++) {
            u64 line = (lines[at] >> TRACE_WAY_BITS) - 1;
            if (lines[at] && line << tt_block_shift >> PAGE_SHIFT == page)
                give_up(t, line);
        }
    }
}

// The page is the newest one in its set; returns where the sets that hold its lines are noted.
static u64 *hold_page(struct thread *t, struct trace_filter *f, u64 page) {
    u64 *pages = f->pages[page % PAGE_SETS], *sets = f->of_page[page % PAGE_SETS];
    u64 way = way_of_page(f, page), held = 0;
    if (way < PAGE_WAYS)
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
    u64 *lines = f->lines[set];
    renew_line(t, lines, index_of(lines, line), line);
    if (!held)
        take_back(grant_of(t, address), NOTHING);
}
#endif

#endif
