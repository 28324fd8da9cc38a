// How soon a thread comes back to a line that it shares with others.
//
// How often a line changes hands depends on how threads happen to overlap while they are recorded.
// How often each thread comes to it does not. So once in each time slice and window, a thread takes
// its own grants of a few lines of which it knows events, and waits: its next access comes to a
// slow path, however the other threads run. The wait is told in executed instructions, which
// recording does not change. A line to which it does not come back before the next slice counts as
// well, or only short waits would be seen.
//
// The next few returns are awaited, too: a thread that has no more events is not seen otherwise.
//
// What was found is kept among the events, under the line and the thread itself, with one of two
// kinds of its own; `own_bytes` sums the instructions. It never takes an event's place.
//
// Neighbours: `access.h` says which lines are accessed, `meeting.h` when there was an event,
// `windows.h` when observation ends.
#ifndef TT_RETURNS_H
#define TT_RETURNS_H
#include "events.h"
#include "grants.h"

enum { LOOKS = 8 };        // at events, to choose one
enum { FIRST_EVENTS = 4 }; // of a slice, whose lines are awaited, too, instead of others
enum { AGAIN = 3 };        // further returns that are awaited right after the first one

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

// One more return, or absence, of the thread after so many instructions.
COLD static void count_return(struct thread *t, u64 line, u32 gap, u64 instructions) {
    struct key key = {line, 0, (u64)gap << (KIND_SHIFT + GAP_SHIFT) | t->id};
    u32 *place = find(t, key);
    if (holds_event(*place)) {
        struct event *e = event_at(t, name_in(*place));
        e->own_bytes += instructions;
        e->count++;
        return;
    }
    if (t->returns >= MAX_RETURNS)
        return;
    t->returns++;
    u32 name = append(t, max_events(t));
    struct event e = {.key = key, .count = 1, .own_bytes = instructions};
    if (name != NONE)
        insert(t, name, &e);
    else
        t->returns--;
}

static inline void end_probe(struct thread *t, struct probe *p, u32 gap, u64 instructions) {
    u64 line = p->line;
    p->line = 0;
    t->probed--;
    if (t->counts)
        count_return(t, line, gap, instructions);
}

// Since the waiting began; at least 1, which tells it from what is not known.
static inline u64 waited(const struct probe *p, u64 now) { return now > p->since ? now - p->since : 1; }

#ifndef MODE
// Observation ends. How long it lasted is not known where code without checks has run meanwhile.
COLD void tt_end_probes(struct thread *t, int known) {
    if (!t->probed)
        return;
    u64 now = executed_by(t);
    for (u32 k = 0; k < MAX_PROBES; k++)
        if (t->probes[k].line)
            end_probe(t, &t->probes[k], GAP_AWAY, known ? waited(&t->probes[k], now) : 0);
}
#endif

// The thread has come back; the next few times are of interest, too.
COLD static void tell_return(struct thread *t, u64 line) {
    for (u32 k = 0; k < MAX_PROBES; k++) {
        struct probe *p = &t->probes[k];
        if (p->line != line)
            continue;
        u64 now = executed_by(t), again = p->again;
        end_probe(t, p, GAP_RETURNED, waited(p, now));
        if (!again)
            continue;
        *p = (struct probe){line, now, again - 1};
        t->probed++;
        t->rearm = 1;
    }
}

#ifndef MODE
// After a slow path in which the thread has come back to a line, and got its grants.
COLD static void take_again(struct thread *t) {
    t->rearm = 0;
    for (u32 k = 0; k < MAX_PROBES; k++)
        if (t->probes[k].line)
            take_back(grant_of(t, t->probes[k].line), NOTHING);
}
#endif

// The thread accesses this address.
static inline void note_return(struct thread *t, u64 address) {
    if (__builtin_expect(!t->probed, 1))
        return;
    u64 line = address & ~(LINE - 1);
    int awaited = 0;
    for (u32 k = 0; k < MAX_PROBES; k++)
        awaited |= t->probes[k].line == line;
    if (awaited)
        tell_return(t, line);
}

static int is_awaited(const struct thread *t, u64 line) {
    for (u32 k = 0; k < MAX_PROBES; k++)
        if (t->probes[k].line == line)
            return 1;
    return 0;
}

// A line of an event of the thread's, which it does not wait for yet: the hottest of some, or any;
// or 0.
static u64 line_to_await(struct thread *t, int hottest) {
    u64 line = 0, count = 0;
    for (u32 k = 0; k < LOOKS; k++) {
        const struct event *e = event_at(t, next_event(t));
        int can_be = e->key.line && !is_return(e) && !is_awaited(t, e->key.line);
        if (can_be && !is_tracked(e->key.line) && e->count > count) {
            line = e->key.line;
            count = e->count;
            if (!hottest)
                break;
        }
    }
    return line;
}

static void await(struct thread *t, struct probe *p, u64 line, u64 now) {
    *p = (struct probe){line, now, AGAIN};
    t->probed++;
    take_back(grant_of(t, line), NOTHING);
}

COLD static void choose_lines(struct thread *t, u32 slice) {
    t->probe_slice = slice + 1;
    t->probe_phase = t->phase;
    t->probe_first = FIRST_EVENTS;
    if (!t->event_chunks)
        return;
    u64 now = executed_by(t);
    for (u32 k = 0; k < MAX_PROBES; k++) {
        struct probe *p = &t->probes[k];
        if (p->line)
            end_probe(t, p, GAP_AWAY, waited(p, now));
        u64 line = line_to_await(t, k < MAX_PROBES / 2);
        if (!line)
            continue;
        await(t, p, line, now);
    }
}

// Of an event that came early in its slice: threads that have few others are seen then.
COLD static void await_line(struct thread *t, u64 line) {
    t->probe_first--;
    if (is_awaited(t, line) || is_tracked(line))
        return;
    struct probe *p = &t->probes[t->probe_first % MAX_PROBES];
    u64 now = executed_by(t);
    if (p->line)
        end_probe(t, p, GAP_AWAY, waited(p, now));
    await(t, p, line, now);
}

// The thread has counted an event on this line. The first one of a slice or a window comes at about
// any moment.
static inline void choose_probes(struct thread *t, u64 line) {
    u32 slice = __atomic_load_n(tt_session.slice, __ATOMIC_RELAXED);
    if (__builtin_expect(t->probe_slice != slice + 1 || t->probe_phase != t->phase, 0))
        choose_lines(t, slice);
    else if (__builtin_expect(t->probe_first != 0, 0))
        await_line(t, line);
}

#endif
