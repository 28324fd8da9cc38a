// The matrices: events by time slice, kind and other thread, in chunks of the session's pool.
//
// A thread finds the cell of the current slice through an index of its own;
// a new slice makes new cells.
#ifndef TT_CELLS_H
#define TT_CELLS_H
#include "shadow.h"

SHARED struct session tt_session;

enum { FIRST_EVENTS = 8 }; // of a slice, of which returns are awaited (returns.h)

// The name of a cell: the number of its chunk, and its own in there.
#define CELL_NAME_BITS 6
_Static_assert(CELLS_PER_CHUNK <= 1 << CELL_NAME_BITS, "room for the cell's own number");

static inline struct head *chunk_at(u64 chunk) {
    return (struct head *)(tt_session.pool + chunk * CHUNK_BYTES);
}

static inline struct cell *cell_at(u32 cell) {
    return (struct cell *)(chunk_at(cell >> CELL_NAME_BITS) + 1) + cell % (1u << CELL_NAME_BITS);
}

static inline void add_shared(u64 *counter, u64 n) { __atomic_fetch_add(counter, n, __ATOMIC_RELAXED); }

// A chunk of the pool for the thread; its number + 1, or 0 when there is none left.
static u32 take_chunk(struct thread *t, u32 holds) {
    int cells = holds == HOLDS_CELLS;
    u32 *used = cells ? tt_session.cell_chunks_used : tt_session.event_chunks_used;
    u64 most = cells ? tt_session.cell_chunks : tt_session.event_chunks;
    if (__atomic_load_n(used, __ATOMIC_RELAXED) >= most)
        return 0;
    if (__atomic_fetch_add(used, 1, __ATOMIC_RELAXED) >= most) {
        __atomic_fetch_sub(used, 1, __ATOMIC_RELAXED);
        return 0;
    }
    u64 chunk = __atomic_fetch_add(tt_session.chunks, 1, __ATOMIC_RELAXED);
    if (chunk >= tt_session.max_chunks)
        return 0;
    struct head *head = chunk_at(chunk);
    head->thread = (u32)t->id;
    head->used = 0;
    __atomic_store_n(&head->holds, holds, __ATOMIC_RELEASE);
    return (u32)chunk + 1;
}

// A new cell, or 0.
static u32 new_cell(struct thread *t, u32 slice, u64 other, unsigned kind) {
    if (!t->cell_chunk || chunk_at(t->cell_chunk - 1)->used == CELLS_PER_CHUNK) {
        u32 chunk = take_chunk(t, HOLDS_CELLS);
        if (!chunk)
            return 0;
        t->cell_chunk = chunk;
    }
    struct head *head = chunk_at(t->cell_chunk - 1);
    u32 cell = ((t->cell_chunk - 1) << CELL_NAME_BITS) + head->used;
    *cell_at(cell) = (struct cell){.slice = slice, .other = (u16)other, .kind = (u8)kind, .count = 1};
    __atomic_store_n(&head->used, head->used + 1, __ATOMIC_RELEASE);
    return cell + 1;
}

// A first read or write of so many blocks whose last writer may have been forgotten: each may be a
// transfer that is missed.
static inline void count_unknown(struct thread *t, u64 blocks) {
    if (t->counts && t->observes)
        *(u64 *)(t->page + PAGE_UNKNOWN) += blocks;
}

// Where the name of a cell is kept: those with threads of other processes behind the others, then
// those of late events, which are within a process, and at the end those of partly known bytes.
static inline struct slot *slot_of(const struct thread *t, unsigned kind, u64 other) {
    u64 group = (kind & OTHER_PROCESS ? 1 : 0) + (kind & LATE ? 2 : 0) + (kind & PARTLY ? 3 : 0);
    return &t->cells[(group * IDS + other) * KINDS + (kind & (KINDS - 1))];
}

// Whether an event counts now: in windows all do, and between them late ones.
static inline int counts_event(const struct thread *t, int late) {
    return t->counts && (t->observes || late);
}

static void count_cell(struct thread *t, unsigned kind, u64 other) {
    if (!counts_event(t, kind & LATE))
        return;
    *(u64 *)(t->page + PAGE_EVENTS) += !(kind & LATE);
    u32 slice = __atomic_load_n(tt_session.slice, __ATOMIC_RELAXED);
    struct slot *slot = slot_of(t, kind, other);
    if (__builtin_expect(slot->stamp == slice + 1, 1)) {
        cell_at(slot->cell)->count++;
        return;
    }
    if (t->slice != slice + 1) {
        t->slice = slice + 1;
        t->to_await = FIRST_EVENTS;
    }
    u32 cell = new_cell(t, slice, other, kind);
    if (cell) {
        slot->cell = cell - 1;
        slot->stamp = slice + 1;
    } else if (slot->stamp) {
        cell_at(slot->cell)->count++;
        add_shared(tt_session.cells_late, 1);
    } else {
        add_shared(tt_session.cells_lost, 1);
    }
}

#endif
