// How many blocks groups have, and how long these are there. Threads count by themselves, but for a
// group's first blocks: their numbers tell in which order they were allocated.
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
static void add_to_group(const struct counted *c) {
    struct group *g = group_named(c->group);
    __atomic_fetch_add(&g->freed, c->freed, __ATOMIC_RELAXED);
    __atomic_fetch_add(&g->lived, c->lived, __ATOMIC_RELAXED);
    __atomic_fetch_add(&g->bytes, c->bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&g->unused, c->left, __ATOMIC_RELAXED);
}

// Where the thread counts the group's blocks. What it has counted of another one there is added to
// that.
static struct counted *counter_of(struct thread *t, u32 group) {
    struct counted *c = (struct counted *)(t->page + PAGE_COUNTED) + group % MAX_COUNTED;
    if (c->group != group) {
        struct counted last = *c;
        *c = (struct counted){.group = group};
        if (last.group)
            add_to_group(&last);
    }
    return c;
}

// One more block of the group; how many came before it.
static u64 count_block(u32 group, u64 bytes) {
    struct group *g = group_named(group);
    if (is_alone()) {
        g->bytes += bytes;
        return g->blocks++;
    }
    __atomic_fetch_add(&g->bytes, bytes, __ATOMIC_RELAXED);
    return __atomic_fetch_add(&g->blocks, 1, __ATOMIC_RELAXED);
}

// The same where threads may do so often.
static u64 count_often(struct thread *t, u32 group, u64 bytes) {
    const u32 FIRST = 1 << 12, MAX_TOGETHER = 64;
    struct group *g = group_named(group);
    if (is_alone() || __atomic_load_n(&g->blocks, __ATOMIC_RELAXED) < FIRST)
        return count_block(group, bytes);
    struct counted *c = counter_of(t, group);
    if (!c->left) {
        u32 more = 2 * c->together;
        c->together = more < MAX_TOGETHER ? more ? more : 1 : MAX_TOGETHER;
        c->next = __atomic_fetch_add(&g->blocks, c->together, __ATOMIC_RELAXED);
        // A fork's child knows of the group what is added to it.
        __atomic_fetch_add(&g->bytes, c->bytes, __ATOMIC_RELAXED);
        c->bytes = 0;
        c->left = c->together;
    }
    c->bytes += bytes;
    c->left--;
    return c->next++;
}

// A block was freed, and ended; of one that is described in the session, its record says how long
// it was there.
static void count_freed(struct thread *t, const struct known *k) {
    if (k->group == OTHERS)
        return;
    int timed = k->born && has_clock();
    u32 lived = timed ? lived_since(k->born) : 0;
    struct counted *c = counter_of(t, k->group);
    c->lived += lived;
    if (++c->freed == 1u << 31) {
        add_to_group(c);
        *c = (struct counted){.group = k->group};
    }
    if (!timed)
        __atomic_fetch_or(&group_named(k->group)->lived, UNTIMED, __ATOMIC_RELAXED);
    else if (k->number != NO_NUMBER)
        __atomic_store_n(&((struct described *)tt_session.blocks)[k->number].lived, (u64)lived + 1,
                         __ATOMIC_RELAXED);
}

#endif
