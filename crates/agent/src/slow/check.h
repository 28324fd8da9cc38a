// What a failed check does: its accesses, in program order.
//
// Compiled four times, into slow.c, usual.c, windowed.c and matrix.c.
#ifndef TT_CHECK_H
#define TT_CHECK_H
#include "access.h"

// All accesses behind a check.
struct __attribute__((packed)) descriptor {
    u32 count;
    struct member members[];
};

// Fetches what a check of the block at `address` needs from the last writer's processor: the
// block's word, what was written and from where, the writer's grants if it is the same writer as
// lately, and the program's data itself, which the program waits for next.
static inline void fetch_block(const struct thread *t, u64 address, int writes) {
    if (look(grant_of(t, address)) & (writes ? OWN : READ)) // it is here
        return;
    fetch_to_change(word_of(t, address));
    fetch_to_change(grant_of(t, address));
    fetch_to_change(grant_in(t->partner, address));
    if (writes)
        fetch_to_change((void *)address);
    else
        fetch_to_read((void *)address);
    if (tt_mode == DETAIL && writes) {
        fetch_to_change(last_site(address));
        fetch_to_change(written_in_line(address));
    } else if (tt_mode == DETAIL) {
        fetch_to_read(last_site(address));
        fetch_to_read(written_in_line(address));
    }
}

// Whether the access lies in the block that holds `within`.
static inline int is_in_block(u64 at, const struct member *m, u64 within) {
    return ((at ^ within) | ((at + m->bytes - 1) ^ within)) >> tt_block_shift == 0;
}

// The member behind number k, which accesses the block that holds `at`, if it writes to that block,
// too.
static inline const struct member *writer_behind(u64 address, const struct descriptor *d, u32 k, u64 at) {
    const struct member *next = &d->members[k + 1];
    int writes = k + 1 < d->count && !next->reads;
    return writes && is_in_block(address + (int64_t)next->delta, next, at) ? next : 0;
}

// A member's access within one block, as most are, with the write behind it, if that changes what
// this one reads: the block is taken once for both. Returns how many members that were.
static inline u32 access_block(struct thread *t, u64 address, const struct descriptor *d, u32 k) {
    const struct member *m = &d->members[k], *next = 0;
    u64 at = address + (int64_t)m->delta, end = at + m->bytes;
    struct reading read = {at, end, m->site};
    if (m->reads && !m->writes && tt_banks == 1)
        next = writer_behind(address, d, k, at);
    if (next) {
        u64 there = address + (int64_t)next->delta;
        write_part(t, there, there + next->bytes, next->site, &read);
        return 2;
    }
    int at_once = m->reads && m->writes && tt_banks == 1;
    if (m->reads && !at_once)
        read_part(t, at, end, m->site);
    if (m->writes)
        write_part(t, at, end, m->site, at_once ? &read : 0);
    return 1;
}

// All accesses behind a check.
static inline void access_members(struct thread *t, u64 address, const struct descriptor *d) {
    int by_readers = tt_mode == MATRIX || tt_mode == DETAIL;
    for (u32 k = 0; k < d->count; k++) {
        const struct member *m = &d->members[k];
        u64 at = address + (int64_t)m->delta;
        if (k == 0 && by_readers && t->observes)
            fetch_block(t, at, m->writes || writer_behind(address, d, k, at));
        if (by_readers && is_in_block(at, m, at) && at >> ADDRESS_BITS == 0) {
            k += access_block(t, address, d, k) - 1;
            continue;
        }
        if (m->reads)
            access_blocks(t, at, m->bytes, 0, m->site);
        if (m->writes)
            access_blocks(t, at, m->bytes, 1, m->site);
    }
}

#endif
