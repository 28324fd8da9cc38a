// Slow paths of the checks: the shadow said that an access may be communication.
//
// Rules of these files: general registers only (enforced by -mgeneral-regs-only), no calls out of
// them, no thread-local storage; any instruction may be interrupted by a signal or a kill, and what
// was counted up to there stays counted. They are one translation unit, so that the short functions
// of each layer are inlined into the next: shadow.h, cells.h, objects.h, events.h, returns.h,
// access.h, then what a check (check.h), a string instruction (repeat.h), a gather or another
// operand of that kind (elements.h, areas.h) and a system call (system_calls.h) access. What checks
// mostly need is compiled again, for one mode each (usual.c, windowed.c, matrix.c).
//
// Neighbours: `thread.rs` fills struct thread, `counting.rs` struct session, `shadow.rs` maps the
// shadow, `stubs.rs` calls the functions named tt_….
#include "allocations.h"
#include "check.h"
#include "elements.h"
#include "mappings.h"
#include "registers.h"
#include "repeat.h"
#include "system_calls.h"
#include "libc.h"

void tt_usual_access(struct thread *t, u64 address, const struct descriptor *d);
void tt_windowed_access(struct thread *t, u64 address, const struct descriptor *d);
void tt_matrix_access(struct thread *t, u64 address, const struct descriptor *d);

// All accesses behind a check, by page.
static void count_members(const struct thread *t, u64 address, const struct descriptor *d) {
    for (u32 k = 0; k < d->count; k++) {
        const struct member *m = &d->members[k];
        count_by_page(t, address + (int64_t)m->delta, m->bytes, m->reads, m->writes, m->site);
    }
}

// All accesses behind a check, one after the other as they are traced.
static void access_traced(struct thread *t, u64 address, const struct descriptor *d) {
    for (u32 k = 0; k < d->count; k++) {
        const struct member *m = &d->members[k];
        if (m->reads)
            access_blocks(t, address + (int64_t)m->delta, m->bytes, 0, m->site);
        if (m->writes)
            access_blocks(t, address + (int64_t)m->delta, m->bytes, 1, m->site);
    }
}

// A check has failed: all accesses behind it are looked at. This and the other slow paths return
// whether call paths are to be looked at.
u64 tt_slow_access(struct thread *t, u64 address, const struct descriptor *d) {
    int observed = observes(t);
    if (tt_pages && d->count != ELEMENTS)
        count_members(t, address, d);
    if (!observed && !is_between(t) && !(tt_pages && d->count == ELEMENTS))
        return 0;
    if (d->count == ELEMENTS)
        access_elements(t, address, (const struct elements *)d);
    else if (tt_trace_ways)
        access_traced(t, address, d);
    else if (observed && tt_mode == DETAIL && tt_block_shift == LINE_SHIFT && !tt_tracked_notes)
        tt_usual_access(t, address, d);
    else if (observed && tt_mode == DETAIL && tt_block_shift == LINE_SHIFT)
        tt_windowed_access(t, address, d);
    else if (observed && tt_mode == MATRIX && tt_block_shift == LINE_SHIFT)
        tt_matrix_access(t, address, d);
    else
        access_members(t, address, d);
    if (__builtin_expect(t->waits_again != 0, 0))
        wait_again(t);
    return has_chosen(t);
}
