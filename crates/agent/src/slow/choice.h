// Which accesses have their call path looked at.
//
// Not all: to walk the stack takes longer than to count. A few in each range of counts are chosen
// by chance, so that a program that comes by several ways in turns shows all of them. Each stands
// for as many as there are between two of that range. The stack is walked when the slow path ends
// and no lock is held (`paths.rs`).
//
// Neighbours: `meeting.h` and `access.h` say what happens at a site, `stubs.rs` calls `paths.rs`.
#ifndef TT_CHOICE_H
#define TT_CHOICE_H
#include "zones.h"

// One more of the accesses that these counters count has been chosen.
COLD static void choose(struct thread *t, struct choice *c, u32 site) {
    // Fewer of the first, since many sites are seldom come to.
    enum { EARLY = 6, ABOUT_OF_EARLY = 4, ABOUT_OF_EACH = 16, WIDEST = 24 };
    u64 n = t->chosen_count, weight = 1ull << c->shift;
    for (u64 k = 0; k < n; k++)
        if (t->chosen[k].site == site)
            n = k;
    if (n < MAX_CHOSEN) {
        int is_new = n == t->chosen_count;
        t->chosen[n] = (struct chosen){site, (u32)weight + (is_new ? 0 : t->chosen[n].weight)};
        t->chosen_count += (u64)is_new;
    }
    u64 x = t->chance; // Marsaglia's xorshift
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    t->chance = x;
    if (x % (c->shift < EARLY ? ABOUT_OF_EARLY : ABOUT_OF_EACH) == 0 && c->shift < WIDEST)
        c->shift++;
    c->left = (u32)((x >> 32) * ((2ull << c->shift) - 1) >> 32);
}

// Something has happened at a site of the thread's that is told by call path.
static inline void count_for_path(struct thread *t, u32 site) {
    struct choice *c = &t->choices[site % (1u << CHOICE_BITS)];
    if (__builtin_expect(c->left-- == 0, 0))
        choose(t, c, site);
}

// What the slow path returns: whether call paths are to be looked at.
static inline u64 has_chosen(const struct thread *t) { return t->chosen_count; }

#endif
