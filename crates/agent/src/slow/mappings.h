// Anonymous memory that the program maps for itself: one block of the place that maps it.
//
// What an allocator of the program's makes of it later lies in smaller blocks, which are found
// first. `blocks/mapped.rs` knows which mappings there are, and calls with the engine's lock held.
//
// Neighbours: `objects.h` keeps the blocks, `allocations.h` those of allocation functions.
#ifndef TT_MAPPINGS_H
#define TT_MAPPINGS_H
#include "allocations.h"

// Whether the thread is in a call that allocates, with this stack pointer.
int tt_is_allocating(struct thread *t, u64 stack) {
    return t->calls_under_way && is_under_way(t, &t->calls[t->calls_under_way - 1], stack);
}

// The group of what these calls map, with one more block in it; `*ordinal`: how many came before.
u32 tt_count_mapping(const u64 *frames, u64 bytes, u64 *ordinal) {
    u32 group = find_group(frames, BY_MAPPED, digits_of(bytes), 0);
    *ordinal = count_block(group, bytes);
    if (group == OTHERS)
        add_shared(tt_session.blocks_unknown, 1);
    return group;
}

// A mapping, or what is left of one, is a block.
void tt_add_mapping(struct thread *t, const struct mapping *m) {
    struct known k = {
        .start = m->start, .bytes = m->bytes, .ordinal = m->ordinal, .group = m->group, .thread = m->thread};
    add_block(t, &k);
}

// It is none any more, unless another block has taken its record.
void tt_end_mapping(const struct mapping *m) {
    struct place *at = m->bytes < 1ull << STRETCH_SHIFT ? page_of(m->start) : stretch_of(m->start);
    u32 name = name_of_starting(at);
    struct known k;
    if (name && read_block(block_named(name), m->start, &k) && k.start == m->start && k.group == m->group)
        end_block(&k);
}

#endif
