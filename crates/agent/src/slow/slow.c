// Slow paths of the checks: the shadow said that an access may be communication.
//
// Rules of these files: general registers only (enforced by -mgeneral-regs-only), no calls out of
// them, no thread-local storage; any instruction may be interrupted by a signal or a kill, and what
// was counted up to there stays counted. They are one translation unit, so that the short functions of
// each layer are inlined into the next: shadow.h, cells.h, events.h, access.h, then what a check,
// a string instruction (repeat.h), a gather or another operand of that kind (elements.h, areas.h) and a
// system call (system_calls.h) access.
//
// Neighbours: `thread.rs` fills struct thread, `counting.rs` struct session, `shadow.rs` maps the
// shadow, `stubs.rs` calls the functions named tt_….
#include "access.h"
#include "elements.h"
#include "registers.h"
#include "repeat.h"
#include "system_calls.h"
#include "libc.h"

// One access behind a check, as engine::descriptor lays it out.
struct __attribute__((packed)) member {
    int32_t delta;
    u16 bytes;
    u8 reads, writes;
    u32 site;
};

struct __attribute__((packed)) descriptor {
    u32 count;
    struct member members[];
};

// What the block at `address` needs, from the last writer's processor: its word, what was written and
// from where, and the program's data itself, which the program waits for next.
static inline void fetch_block(const struct thread *t, u64 address, int writes) {
    if (look(grant_of(t, address)) & (writes ? OWN : READ)) // it is here
        return;
    fetch_to_change(word_of(t, address));
    fetch_to_change(grant_of(t, address));
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

// An access within one block, as most are.
static inline void access_block(struct thread *t, u64 at, const struct member *m) {
    u64 end = at + m->bytes;
    if (m->reads)
        read_part(t, at, end, m->site);
    if (m->writes)
        write_part(t, at, end, m->site);
}

// A check has failed: all accesses behind it are looked at, in program order.
void tt_slow_access(struct thread *t, u64 address, const struct descriptor *d) {
    if (d->count == ELEMENTS) {
        access_elements(t, address, (const struct elements *)d);
        return;
    }
    int by_readers = tt_mode == MATRIX || tt_mode == DETAIL;
    for (u32 k = 0; k < d->count; k++) {
        const struct member *m = &d->members[k];
        u64 at = address + (int64_t)m->delta, last = at + m->bytes - 1;
        if (k == 0 && by_readers)
            fetch_block(t, at, m->writes);
        if (by_readers && (at ^ last) >> tt_block_shift == 0 && at >> ADDRESS_BITS == 0) {
            access_block(t, at, m);
            continue;
        }
        if (m->reads)
            read_range(t, at, m->bytes, m->site);
        if (m->writes)
            write_range(t, at, m->bytes, m->site);
    }
}
