// How often a thread comes to a line that it shares with others.
//
// How often a line changes hands depends on how threads happen to overlap while they are recorded.
// How often each thread comes to it does not. So of the first few events in each time slice, the
// thread takes its own grants of the line back: its next access comes to a slow path, whether or
// not another thread has had the line meanwhile, and so do the next few. These returns are counted,
// and the instructions that the thread executes meanwhile, which recording does not change. Where
// the thread has not come back when the place of the line is needed for another, that time counts,
// too, or only short absences would be seen. For the same reason, a place is not given to another
// line, and what was seen does not count, before the thread has executed enough instructions: a
// lock that is taken and released at once, and then not for long, would seem to be taken all the
// time.
//
// What the thread has executed is the sum of many tallies, so it is looked up when waiting begins
// and ends, not at each return.
//
// Neighbours: `access.h` says which lines are accessed, `meeting.h` when there was an event,
// `cells.h` when a slice begins, `slow.c` when a slow path ends, `windows.h` when observation ends,
// `windows.rs` when the thread leaves checked code.
#ifndef TT_RETURNS_H
#define TT_RETURNS_H
#include "grants.h"

enum {
    MAX_RETURNS = 32,   // that are awaited one after the other: more than most code comes in a row
    MIN_WAIT = 1 << 19, // instructions: about what a thread does in a millisecond while it is observed
};

// Instructions that the thread has executed.
static u64 executed_by(const struct thread *t) {
    const u64 *tallies = (const u64 *)(t->page - TALLIES_BYTES);
    const u32 *meanings = (const u32 *)tt_session.meanings;
    u32 count = __atomic_load_n(tt_session.tallies, __ATOMIC_ACQUIRE);
    u64 sum = *(const u64 *)(t->page + PAGE_INSTRUCTIONS);
    for (u32 k = 0; k < count; k++)
        sum += tallies[k] * (meanings[k] >> 16 & 0xff);
    return sum;
}

static inline struct returns *returns_in(u32 chunk) { return (struct returns *)(chunk_at(chunk - 1) + 1); }

// What is known of the thread and the line, which may be nothing yet; 0 when there is no more room.
static struct returns *returns_to(struct thread *t, u64 line) {
    for (u32 k = 0; k < MAX_RETURN_CHUNKS; k++) {
        u32 *chunk = &t->return_chunks[k];
        if (!*chunk && !(*chunk = take_chunk(t, HOLDS_RETURNS)))
            return 0;
        struct head *head = chunk_at(*chunk - 1);
        struct returns *all = returns_in(*chunk);
        for (u32 i = 0; i < head->used; i++)
            if (all[i].line == line)
                return &all[i];
        if (head->used == RETURNS_PER_CHUNK)
            continue;
        all[head->used] = (struct returns){.line = line};
        __atomic_store_n(&head->used, head->used + 1, __ATOMIC_RELEASE);
        return &all[head->used - 1];
    }
    return 0;
}

static inline u64 bit_of(u64 line) { return 1ull << (line >> LINE_SHIFT) % 64; }

// Slow paths must see at once that a line is not awaited.
static void note_awaited(struct thread *t) {
    t->awaits = 0;
    for (u32 k = 0; k < MAX_AWAITED; k++)
        t->awaits |= t->awaited[k].line ? bit_of(t->awaited[k].line) : 0;
}

// What was seen counts if the thread waited long enough, or came back often enough.
COLD static void stop_waiting(struct thread *t, struct awaited *a, u64 now) {
    if (!a->line)
        return;
    u64 waited = now > a->since ? now - a->since : 1;
    int tells = t->counts && (waited >= MIN_WAIT || a->returned >= MAX_RETURNS);
    struct returns *to = tells ? returns_to(t, a->line) : 0;
    if (to) {
        to->returns += a->returned;
        to->writes += a->wrote;
        to->instructions += waited;
    }
    a->line = 0;
    note_awaited(t);
}

// A place for another line; 0 if none is free.
static struct awaited *free_place(struct thread *t, u64 now) {
    for (u32 k = 0; k < MAX_AWAITED; k++) {
        struct awaited *a = &t->awaited[k];
        if (a->line && now - a->since < MIN_WAIT)
            continue;
        stop_waiting(t, a, now);
        return a;
    }
    return 0;
}

#ifndef MODE
// Observation ends.
COLD void tt_stop_waiting(struct thread *t) {
    u64 now = t->awaits ? executed_by(t) : 0;
    for (u32 k = 0; t->awaits && k < MAX_AWAITED; k++)
        stop_waiting(t, &t->awaited[k], now);
}

// A slow path ends in which the thread has come back to a line, and got its grants.
COLD static void wait_again(struct thread *t) {
    t->waits_again = 0;
    for (u32 k = 0; k < MAX_AWAITED; k++)
        if (t->awaited[k].line)
            take_back(grant_of(t, t->awaited[k].line), NOTHING);
}
#endif

COLD static void count_return(struct thread *t, u64 line, u32 writes) {
    for (u32 k = 0; k < MAX_AWAITED; k++) {
        struct awaited *a = &t->awaited[k];
        if (a->line != line)
            continue;
        a->wrote += writes;
        if (++a->returned < MAX_RETURNS)
            t->waits_again = 1;
        else
            stop_waiting(t, a, executed_by(t));
    }
}

// The thread reads or, with `writes` 1, writes at this address.
static inline void note_return(struct thread *t, u64 address, u32 writes) {
    if (__builtin_expect((t->awaits & bit_of(address)) != 0, 0))
        count_return(t, address & ~(LINE - 1), writes);
}

COLD static void await_return(struct thread *t, u64 line) {
    t->to_await--;
    if (tt_block_shift != LINE_SHIFT || !t->observes)
        return;
    for (u32 k = 0; k < MAX_AWAITED; k++)
        if (t->awaited[k].line == line)
            return;
    u64 now = executed_by(t);
    struct awaited *a = free_place(t, now);
    if (!a)
        return;
    *a = (struct awaited){.line = line, .since = now};
    note_awaited(t);
    take_back(grant_of(t, line), NOTHING);
}

// The thread has counted an event on the line, and has its grants.
static inline void note_event_on(struct thread *t, u64 line) {
    if (__builtin_expect(t->to_await != 0, 0))
        await_return(t, line);
}

#endif
