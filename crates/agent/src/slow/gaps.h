// How long ago the last writer of a block wrote, by what caches can have kept since.
//
// Time would say little: recorded programs are slow, and not evenly. What matters is how much has
// been fetched since. Slow paths see each thread's first access to a block that another thread has
// had, and in a window to any block; accesses by grants alone are not seen. So it is at least as
// much as they say.
//
// A line's stamp holds what its writer had fetched when slow paths saw it write, and above that
// what all threads had. A count that begins anew looks small: that of the writer alone does so
// after 64 MiB, which what all have fetched tells.
//
// Stamps lie apart from all else that a slow path needs: only one line in eight has one, and
// gaps of the others are unknown.
//
// Neighbours: `access.h` stamps, `meeting.h` asks.
#ifndef TT_GAPS_H
#define TT_GAPS_H
#include "events.h"

SHARED u32 tt_fetched[IDS]; // by each thread, in units
SHARED u32 tt_all_fetched;  // by all together

#define OWN_UNITS (1u << GAP_OWN_BITS)
#define LINES_OF_UNIT (1u << (GAP_UNIT_SHIFT - LINE_SHIFT))

// The thread has come to a line that another thread has had.
static inline void note_fetched(struct thread *t) {
    if (__builtin_expect(++t->fetched % LINES_OF_UNIT != 0, 1))
        return;
    __atomic_store_n(&tt_fetched[t->id], (u32)(t->fetched / LINES_OF_UNIT), __ATOMIC_RELAXED);
    __atomic_fetch_add(&tt_all_fetched, 1, __ATOMIC_RELAXED);
}

// Whether the line of this address has a stamp: as good as at random, since programs go over their
// memory in steps.
#define STAMPED_OF_BITS 3
static inline int is_stamped(u64 address) {
    return (address >> LINE_SHIFT) * 0x9e3779b97f4a7c15ull >> (64 - STAMPED_OF_BITS) == 0;
}

static inline u32 stamp_with(u32 all, u32 own) { return all << GAP_OWN_BITS | (own & (OWN_UNITS - 1)); }

static inline u32 stamp_now(const struct thread *t) {
    return stamp_with(__atomic_load_n(&tt_all_fetched, __ATOMIC_RELAXED), (u32)(t->fetched / LINES_OF_UNIT));
}

// What has been fetched since a line of this writer (+ 1) was stamped, as one of GAP_….
static inline u32 gap_since(u32 stamp, u64 writer) {
    const u32 *limits = tt_session.gap_limits;
    if (!writer || !limits[2])
        return 0;
    u32 own = __atomic_load_n(&tt_fetched[writer - 1], __ATOMIC_RELAXED);
    u32 all = __atomic_load_n(&tt_all_fetched, __ATOMIC_RELAXED);
    u32 since = ((all << GAP_OWN_BITS) - (stamp & ~(OWN_UNITS - 1))) >> GAP_OWN_BITS;
    u32 own_since = (own - stamp) & (OWN_UNITS - 1);
    if (since >= limits[2])
        return GAP_BEYOND;
    if (since >= OWN_UNITS || own_since >= limits[1])
        return GAP_SHARED;
    return own_since >= limits[0] ? GAP_PRIVATE : GAP_INNERMOST;
}

#endif
