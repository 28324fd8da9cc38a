// The reference recorder's trace.
#ifndef TT_TRACE_H
#define TT_TRACE_H
#include "cells.h"
#include "wait.h"

#define TRACE_REST_NS 20000

static void trace(u64 thread, u32 what, u64 address, u64 bytes, u32 site) {
    u64 turn = __atomic_fetch_add(tt_session.trace_head, 1, __ATOMIC_RELAXED);
    for (unsigned spins = 1; turn - __atomic_load_n(tt_session.trace_tail, __ATOMIC_ACQUIRE) >= TRACE_RECORDS;
         spins++) {
        __asm__ volatile("pause");
        // The recorder may need this very processor.
        if (spins % SPINS_PER_YIELD == 0 && !is_forbidden(NO_FUTEX))
            sleep_ns(TRACE_REST_NS);
    }
    struct record *r = (struct record *)tt_session.trace + turn % TRACE_RECORDS;
    r->address = address;
    r->bytes = bytes;
    r->site = site;
    r->thread_and_what = (u32)(thread % (1u << TRACE_THREAD_BITS)) | what << TRACE_THREAD_BITS;
    __atomic_store_n(&r->turn, turn + 1, __ATOMIC_RELEASE);
}

// The memory at `address` is new.
void tt_trace_forget(u64 address, u64 bytes) { trace(0, TRACE_FORGET, address, bytes, 0); }

// Memory has moved.
void tt_trace_copy(u64 from, u64 to, u64 bytes) {
    u64 page = to >> TRACE_PAGE_SHIFT;
    trace(page >> 32, TRACE_COPY, from, bytes, (u32)page);
}

#endif
