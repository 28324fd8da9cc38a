// Gaps: how long before an event its block was last written. And how many blocks threads come to
// meanwhile, which tells whether caches can still hold that one. Both of tracked blocks only.
//
// Gaps up to the length of a window are told apart by time; how much a thread comes to in such a
// time, windows tell in the mean. Longer gaps are late. Of these it is known how many blocks all
// threads have come to since the write: each block has the number of the window or stretch in which
// a thread last came to it, and it is counted how many blocks have each number. That is the stack
// distance of Mattson and others (1970), of a sample of blocks, in steps of windows.
//
// Slow paths see the first write after another thread's access, and those that add bytes. A block
// that is written again and again before anyone reads it seems to have been written longer ago.
//
// A window slows a thread where it comes to new blocks. Gaps and blocks are counted in the same
// time, so that both are slowed alike.
//
// Neighbours: `access.h` asks, `meeting.h` enters gaps with events.
#ifndef TT_GAPS_H
#define TT_GAPS_H
#include "clock.h"
#include "tracked.h"

SHARED u32 tt_opened_at;        // when the present window was opened, in units
SHARED u32 tt_seen[KNOWN_BACK]; // how many tracked blocks have each number, by its last bits
SHARED u32 tt_seen_number;      // the last number that has begun

// The time now, in units of gaps.
static inline u32 gap_units(void) { return clock_units(GAP_UNIT_SHIFT); }

// Class of a time of so many units. Clocks of two processors may differ a little: less than none is
// none.
static inline unsigned gap_class(u32 units) {
    static const u32 ends[] = {GAP_END_0, GAP_END_1, GAP_END_2};
    unsigned class = GAP_FIRST;
    while (class < GAP_LAST && (int)units >= (int)ends[class - GAP_FIRST])
        class ++;
    return class;
}

// Class of a gap that began in the window or stretch with this number.
static unsigned late_class(const struct thread *t, u32 written) {
    u32 now = WINDOW_OF(t->phase), blocks = 0;
    u32 back = now - written < KNOWN_BACK - 1 ? now - written : KNOWN_BACK - 1;
    for (u32 k = 0; k < back; k++)
        blocks += __atomic_load_n(&tt_seen[(now - k) % KNOWN_BACK], __ATOMIC_RELAXED);
    return GAP_LATE + (blocks ? 32 - (unsigned)__builtin_clz(blocks) : 0);
}

// A thread comes to the block in this window or stretch.
static inline void note_seen(const struct thread *t, u64 address) {
    u32 *seen = &note_at(address)->seen, now = WINDOW_OF(t->phase);
    u32 before = __atomic_load_n(seen, __ATOMIC_RELAXED);
    if (before == now ||
        !__atomic_compare_exchange_n(seen, &before, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    // Older ones are not counted any more.
    if (before && now - before < KNOWN_BACK)
        __atomic_fetch_sub(&tt_seen[before % KNOWN_BACK], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&tt_seen[now % KNOWN_BACK], 1, __ATOMIC_RELAXED);
}

// Class of the gap of an event of the block now.
static inline unsigned gap_of(const struct thread *t, u64 address) {
    if (__builtin_expect(!is_tracked(address), 1))
        return GAP_UNKNOWN;
    if (is_late(t, address))
        return late_class(t, __atomic_load_n(&note_at(address)->written, __ATOMIC_RELAXED) & ~WAS_LATE);
    u32 when = __atomic_load_n(&note_at(address)->when, __ATOMIC_RELAXED);
    return t->observes && when && has_clock() ? gap_class(gap_units() - when) : GAP_UNKNOWN;
}

// The thread writes to the block, or is about to; class of the gap of an event of that.
static inline unsigned note_write(const struct thread *t, u64 address) {
    if (__builtin_expect(!is_tracked(address), 1))
        return GAP_UNKNOWN;
    unsigned gap = gap_of(t, address);
    struct tracked_note *note = note_at(address);
    if (gap >= GAP_LATE) {
        u32 was_late = __atomic_load_n(&note->written, __ATOMIC_RELAXED) & WAS_LATE;
        __atomic_store_n(&note->written, WINDOW_OF(t->phase) | was_late, __ATOMIC_RELAXED);
    }
    u32 when = t->observes && has_clock() ? gap_units() | 1 : 0;
    __atomic_store_n(&note->when, when, __ATOMIC_RELAXED);
    return gap;
}

// The thread comes to a block, with this grant. If that is none, and no other thread has written
// the block, this is the first time in the window.
static inline void note_touch(const struct thread *t, u64 address, u8 granted) {
    if (__builtin_expect(!is_tracked(address), 1))
        return;
    note_seen(t, address);
    if (granted || !t->observes || !has_clock() || WINDOW_OF(t->phase) <= FIRST_WINDOW)
        return;
    u64 writer = *word_in(0, address) >> WRITER_SHIFT;
    unsigned class = gap_class(gap_units() - __atomic_load_n(&tt_opened_at, __ATOMIC_RELAXED));
    if ((!writer || writer - 1 == t->id) && (class < GAP_LAST || !t->counts))
        ++((u64 *)(t->page + PAGE_TOUCHED))[class - GAP_FIRST];
}

#endif
