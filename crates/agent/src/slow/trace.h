// Traces, the reference recorder's and filtered ones: a ring for each process, and one for all
// accesses to shared memory, in which threads are named as sharers and memory by its place.
#ifndef TT_TRACE_H
#define TT_TRACE_H
#include "shared.h"

#define TRACE_REST_NS 20000

struct ring {
    u64 *head;
    const u64 *tail;
    struct record *records;
};

// Returns the number of the record.
static u64 add_record(struct ring ring, u64 thread, u32 what, u64 address, u64 bytes, u32 site) {
    u64 turn = __atomic_fetch_add(ring.head, 1, __ATOMIC_RELAXED);
    for (unsigned spins = 1; turn - __atomic_load_n(ring.tail, __ATOMIC_ACQUIRE) >= TRACE_RECORDS; spins++) {
        __asm__ volatile("pause");
        // The recorder may need this very processor.
        if (spins % SPINS_PER_YIELD == 0 && !is_forbidden(NO_FUTEX))
            sleep_ns(TRACE_REST_NS);
    }
    struct record *r = ring.records + turn % TRACE_RECORDS;
    r->address = address;
    r->bytes = bytes;
    r->site = site;
    r->thread_and_what = (u32)(thread % (1u << TRACE_THREAD_BITS)) | what << TRACE_THREAD_BITS;
    __atomic_store_n(&r->turn, turn + 1, __ATOMIC_RELEASE);
    return turn;
}

static u64 trace(u64 thread, u32 what, u64 address, u64 bytes, u32 site) {
    struct ring own = {tt_session.trace_head, tt_session.trace_tail, (struct record *)tt_session.trace};
    return add_record(own, thread, what, address, bytes, site);
}

// Within a page. The recorder is told the page's address in this process, too.
static void trace_shared(struct thread *t, u32 what, u64 place, u64 start, u64 bytes, u32 site) {
    struct shared *all = shared_counters();
    struct record *records = (struct record *)(tt_shared + SHARED_TRACE_OFFSET);
    struct ring ring = {&all->trace_head, &all->trace_tail, records};
    u32 sharer = sharer_of(t);
    bytes |= start >> SHARED_PAGE_SHIFT << SHARED_BYTES_BITS;
    if (sharer != NO_SHARER)
        add_record(ring, sharer - 1, what, SHARED_TRACE_BASE + place, bytes, site);
}

// An access, in parts where some of it is shared.
static void trace_access(struct thread *t, u64 start, u64 bytes, u32 what, u32 site) {
    const u64 PAGE = 1ull << SHARED_PAGE_SHIFT;
    for (u64 end = start + bytes; start < end;) {
        u64 place = place_of(start), next = (start | (PAGE - 1)) + 1;
        while (next < end && place == NOT_SHARED && place_of(next) == NOT_SHARED)
            next += PAGE;
        u64 part = (next < end ? next : end) - start;
        if (place != NOT_SHARED)
            trace_shared(t, what, place, start, part, site);
        else
            trace(t->id, what, start, part, site);
        start += part;
    }
}

// The memory at `address` is new.
void tt_trace_forget(u64 address, u64 bytes) { trace(0, TRACE_FORGET, address, bytes, 0); }

// Memory has moved.
void tt_trace_copy(u64 from, u64 to, u64 bytes) {
    u64 page = to >> TRACE_PAGE_SHIFT;
    trace(page >> 32, TRACE_COPY, from, bytes, (u32)page);
}

#endif
