// How long allocated blocks are there, by groups.
//
// Neighbours: `objects.h` keeps the blocks, `allocations.h` says when one begins and ends.
#ifndef TT_LIVES_H
#define TT_LIVES_H
#include "clock.h"
#include "objects.h"

// When a block begins, in units of 2^LIFE_SHIFT ticks; 0 = not known.
static inline u32 born_now(void) {
    if (!has_clock())
        return 0;
    u32 now = clock_units(LIFE_SHIFT);
    return now ? now : 1;
}

// A block was freed, and ended; of one that is described in the session, its record says how long
// it was there.
static void count_freed(const struct known *k) {
    if (k->group == OTHERS)
        return;
    struct group *g = group_named(k->group);
    int timed = k->born && has_clock();
    u32 lived = timed ? clock_units(LIFE_SHIFT) - k->born : 0;
    if (is_alone()) {
        g->freed++;
        g->lived += lived;
    } else {
        __atomic_fetch_add(&g->freed, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&g->lived, lived, __ATOMIC_RELAXED);
    }
    if (!timed)
        __atomic_fetch_or(&g->lived, UNTIMED, __ATOMIC_RELAXED);
    else if (k->number != NO_NUMBER)
        __atomic_store_n(&((struct described *)tt_session.blocks)[k->number].lived, (u64)lived + 1,
                         __ATOMIC_RELAXED);
}

#endif
