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

// How long a block has been there that began then. Clocks of two processors may differ a little:
// less than none is none.
static inline u32 lived_since(u32 born) {
    const u32 DIFFERENCE = 1u << 16;
    u32 lived = clock_units(LIFE_SHIFT) - born;
    return lived < -DIFFERENCE ? lived : 0;
}

// What a thread has counted of a group.
static void add_to_group(u32 group, u64 count, u64 lived) {
    struct group *g = group_named(group);
    __atomic_fetch_add(&g->freed, count, __ATOMIC_RELAXED);
    __atomic_fetch_add(&g->lived, lived, __ATOMIC_RELAXED);
}

// Where the thread counts what is freed of the group. What it has counted of another one there is
// added to that.
static struct freed *counter_of(struct thread *t, u32 group) {
    struct freed *f = (struct freed *)(t->page + PAGE_FREED) + group % FREED_KEPT;
    if (f->group != group) {
        struct freed last = *f;
        *f = (struct freed){.group = group};
        if (last.count)
            add_to_group(last.group, last.count, last.lived);
    }
    return f;
}

// A block was freed, and ended; of one that is described in the session, its record says how long
// it was there.
static void count_freed(struct thread *t, const struct known *k) {
    if (k->group == OTHERS)
        return;
    int timed = k->born && has_clock();
    u32 lived = timed ? lived_since(k->born) : 0;
    struct freed *f = counter_of(t, k->group);
    f->lived += lived;
    if (++f->count == 1u << 31) {
        add_to_group(f->group, f->count, f->lived);
        f->count = 0;
        f->lived = 0;
    }
    if (!timed)
        __atomic_fetch_or(&group_named(k->group)->lived, UNTIMED, __ATOMIC_RELAXED);
    else if (k->number != NO_NUMBER)
        __atomic_store_n(&((struct described *)tt_session.blocks)[k->number].lived, (u64)lived + 1,
                         __ATOMIC_RELAXED);
}

#endif
