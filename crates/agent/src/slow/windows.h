// Windows: when the accesses of a thread are observed.
//
// The recorder says in `tt_phase` which phase it is; each slow path looks first whether it has
// changed. Between windows a thread uses its passing map, in which every check passes but those of
// tracked blocks. Where one fails, the page of the map is filled with grants. The map lies in the
// recording's file: the recorder empties it when a window opens, and so each thread comes to a slow
// path with its next check. There it goes over to its own map.
//
// The first thread that comes into a window forgets what was known before: the shadow, and the
// grants of all threads, also of those that have not seen that the last window has closed. Until
// that is done, other threads' accesses are not observed; no thread waits. A thread in a slow path
// meanwhile does no harm: it grants itself something before it looks at the shadow, and the shadow
// is emptied before the maps.
//
// Neighbours: `windows.rs` maps the passing maps, `grants.rs` says where they lie, `tracked.h` has
// the tracked blocks, `access.h` asks.
#ifndef TT_WINDOWS_H
#define TT_WINDOWS_H
#include "wait.h"

SHARED const u32 *tt_phase;      // of the recording, or one that never changes
SHARED const u32 *tt_unfollowed; // what of allocations is looked at in windows only
SHARED u64 *tt_large_looks;      // counts looks at large blocks while small ones are not followed
SHARED u32 tt_writes_gs;         // whether programs may write %gs themselves
SHARED u32 tt_opened;            // number of the window for which everything has been forgotten
SHARED u32 tt_was_light; // whether code may have run without checks since tracked blocks were forgotten

int tt_enter_phase(struct thread *t, u32 phase);
void tt_stop_waiting(struct thread *t);
void tt_trace_window(struct thread *t, int was_observed);

// Whether the calling thread's accesses are observed now.
static inline int observes(struct thread *t) {
    u32 phase = __atomic_load_n(tt_phase, __ATOMIC_ACQUIRE);
    return __builtin_expect(phase == t->phase, 1) ? (int)t->observes : tt_enter_phase(t, phase);
}

// Whether the thread, which does not observe, is between two windows. Else it waits for one to
// open.
static inline int is_between(const struct thread *t) {
    return !t->observes && __atomic_load_n(tt_phase, __ATOMIC_RELAXED) == t->phase;
}

// Whether the thread, as far as it knows, is between two windows where code runs without checks.
// One whose process has no such code, or that has not left the other yet, lets everything pass.
static inline int is_light(const struct thread *t) {
    return !t->observes && PHASE_OF(t->phase) == PHASE_LIGHT;
}

void tt_pass_at(const struct thread *t, u64 address);
int tt_visit(struct thread *t, u64 address);

// Whether an access of the block means nothing at the moment: all checks like it shall pass.
static inline int passes(struct thread *t, u64 address) {
    if (!tt_tracked_notes)
        return 0;
    if (!is_light(t) && (is_tracked(address) ? tt_visit(t, address) : (int)t->observes))
        return 0;
    tt_pass_at(t, address);
    return 1;
}

#ifndef MODE
static u32 opening; // 1: a thread is about to forget everything

enum { CALL_MADVISE = 28, ADVICE_DONTNEED = 4 };

static int empty(u64 start, u64 bytes) {
    return !start || !call4(CALL_MADVISE, start, bytes, ADVICE_DONTNEED, 0);
}

// What was written of a block and from where need not be emptied: it means nothing without a
// writer.
static int empty_shadow(void) {
    int done = 1;
    for (u64 bank = 0; bank < tt_banks; bank++)
        done &= empty(tt_shadow[bank], ((tt_reach[bank] + 1) >> tt_block_shift) << 3);
    return done;
}

static int empty_maps(void) {
    int done = 1;
    for (u64 bank = 0; bank < tt_banks; bank++)
        for (unsigned slot = 0; slot < SLOT_PLACES; slot++)
            done &= empty(__atomic_load_n(&tt_grants[bank][slot], __ATOMIC_RELAXED), MAP_BYTES);
    return done;
}

// Whether everything from before this window has been forgotten; if no thread has begun to, the
// calling thread does it.
static int open_window(u32 window) {
    if (__atomic_load_n(&tt_opened, __ATOMIC_ACQUIRE) == window)
        return 1;
    if (is_forbidden(NO_ADVICE) || __atomic_exchange_n(&opening, 1, __ATOMIC_ACQUIRE))
        return 0;
    int opened = tt_opened == window || (empty_shadow() & empty_maps());
    if (opened) {
        __atomic_store_n(&tt_opened_at, has_clock() ? gap_units() : 0, __ATOMIC_RELAXED);
        __atomic_store_n(&tt_opened, window, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&opening, 0, __ATOMIC_RELEASE);
    return opened;
}

// Whether nothing is known any more of tracked blocks from before code ran without checks; if no
// thread has begun to, the calling thread forgets it.
static int forget_tracked(void) {
    if (!__atomic_load_n(&tt_was_light, __ATOMIC_ACQUIRE))
        return 1;
    if (is_forbidden(NO_ADVICE) || __atomic_exchange_n(&opening, 1, __ATOMIC_ACQUIRE))
        return 0;
    int done = 1;
    if (__atomic_exchange_n(&tt_was_light, 0, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&tt_tracked_anew, 1, __ATOMIC_RELAXED);
        for (u64 bank = 0; bank < tt_banks; bank++)
            done &= empty(tt_tracked[bank], ((tt_reach[bank] + 1) >> tt_block_shift >> GROUP_SHIFT) << 3);
        if (!done)
            __atomic_store_n(&tt_was_light, 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&opening, 0, __ATOMIC_RELEASE);
    return done;
}

// In the child of a fork, whose shadow, maps and notes are empty.
void tt_begin_windows(void) {
    opening = tt_was_light = 0;
    tt_opened = WINDOW_OF(__atomic_load_n(tt_phase, __ATOMIC_ACQUIRE));
    for (u32 k = 0; k < KNOWN_BACK; k++)
        tt_seen[k] = 0;
}

// A window or stretch with this number has begun: its place may have counts of an old one.
static void begin_number(u32 now) {
    u32 last = __atomic_load_n(&tt_seen_number, __ATOMIC_RELAXED);
    if (last == now || __atomic_exchange_n(&tt_seen_number, now, __ATOMIC_RELAXED) == now)
        return;
    u32 places = now - last < KNOWN_BACK ? now - last : KNOWN_BACK;
    for (u32 k = 0; k < places; k++)
        __atomic_store_n(&tt_seen[(now - k) % KNOWN_BACK], 0, __ATOMIC_RELAXED);
}

enum { CALL_ARCH_PRCTL = 158, ARCH_SET_GS = 0x1001 };

// Lets %gs point to the map that the thread's checks shall look at; what lies below is the same for
// both. Whether that may be done.
static int use_map(struct thread *t, u64 map) {
    if (tt_writes_gs)
        __asm__ volatile("wrgsbase %0" : : "r"(map) : "memory");
    else if (is_forbidden(NO_GS) || call4(CALL_ARCH_PRCTL, ARCH_SET_GS, map, 0, 0))
        return 0;
    t->map = map;
    return 1;
}

// The calling thread sees that the phase has changed; whether it observes now. After light code,
// what was known of tracked blocks is forgotten, unless the window goes on that was open before:
// then all is kept, as if nothing had been written meanwhile. One that may not
// change its map goes on to observe, and counts in windows only, but for late events of tracked
// blocks, which count between them.
COLD int tt_enter_phase(struct thread *t, u32 phase) {
    int was_observed = (int)t->observes;
    tt_stop_waiting(t);
    if (PHASE_OF(phase) == PHASE_LIGHT)
        __atomic_store_n(&tt_was_light, 1, __ATOMIC_RELAXED);
    else if (WINDOW_OF(phase) != __atomic_load_n(&tt_opened, __ATOMIC_RELAXED) && !forget_tracked())
        return 0;
    if (PHASE_OF(phase) == PHASE_OFF || PHASE_OF(phase) == PHASE_LIGHT || PHASE_OF(phase) == PHASE_LATE) {
        if (t->observes && use_map(t, t->passing))
            t->observes = 0;
        t->counts = PHASE_OF(phase) == PHASE_LATE && !t->observes;
    } else {
        if (!open_window(WINDOW_OF(phase)) || (!t->observes && !use_map(t, t->grants)))
            return 0;
        int is_new = WINDOW_OF(phase) != WINDOW_OF(t->phase) && WINDOW_OF(phase) > FIRST_WINDOW;
        *(u64 *)(t->page + PAGE_WINDOWS) += (u64)is_new;
        t->observes = 1;
        t->counts = PHASE_OF(phase) == PHASE_COUNT;
    }
    begin_number(WINDOW_OF(phase));
    t->phase = phase;
    tt_trace_window(t, was_observed);
    t->visits = t->visited = 0;
    return (int)t->observes;
}

// What passes at the place of a block that is not observed: all but the pair with the block below
// it if that one is tracked, since heads of loops ask about both at once. Where accesses are
// counted by page, no pair of blocks in two pages.
static inline u8 passing(const u8 *at, u64 block) {
    u64 below = block - 1, group = below >> GROUP_SHIFT;
    int is_above = (below & (TRACKED_OF - 1)) == tracked_in(group);
    return is_above || (tt_pages && is_first_in_line(at)) ? (u8)~PAIRS : 0xff;
}

// Lets the blocks of one page of memory pass, so that its first access is seen here: the place is
// that of this address.
static void fill_line(u8 *at, u64 address) {
    u8 *first = (u8 *)((u64)at & ~(LINE - 1));
    u64 block = address >> tt_block_shift & ~(LINE - 1);
    for (u64 k = 0; k < LINE; k++)
        if (k % TRACKED_OF != tracked_in(tracked_group(address)))
            __atomic_store_n(first + k, passing(first + k, block + k), __ATOMIC_RELAXED);
}

// Fills a page of the passing map, which has the place of this address, with grants of all blocks
// but tracked ones.
static void fill_page(u64 *page, u64 address) {
    u64 words = 1ull << (MAP_PAGE_SHIFT - 3), count = words, *at = page;
    u64 first = address >> tt_block_shift & ~((1ull << MAP_PAGE_SHIFT) - 1);
    __asm__ volatile("rep stosq" : "+D"(at), "+c"(count) : "a"(~0ull) : "memory");
    __atomic_store_n((u8 *)page, passing((u8 *)page, first), __ATOMIC_RELAXED);
    for (u64 k = 0; k < 1u << MAP_PAGE_SHIFT; k += TRACKED_OF) {
        u64 tracked = k + tracked_in((first + k) >> GROUP_SHIFT), above = tracked + 1;
        __atomic_store_n((u8 *)page + tracked, NOTHING, __ATOMIC_RELAXED);
        if (above < 1u << MAP_PAGE_SHIFT)
            __atomic_store_n((u8 *)page + above, passing((u8 *)page + above, first + above),
                             __ATOMIC_RELAXED);
    }
}

// Lets all checks pass that look at the place of this address, or one near it.
COLD void tt_pass_at(const struct thread *t, u64 address) {
    u8 *at = grant_in(t->passing, address);
    u64 *page = (u64 *)((u64)at & ~((1ull << MAP_PAGE_SHIFT) - 1));
    u8 granted = look(at);
    if (granted == 0xff)
        return;
    if (granted || is_tracked(address))
        __atomic_store_n(at, passing(at, address >> tt_block_shift), __ATOMIC_RELAXED);
    else if (tt_pages)
        fill_line(at, address);
    else
        fill_page(page, address);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    // The map may just have been emptied for a window: either that came later, or this sees the
    // window.
    if (__atomic_load_n(tt_phase, __ATOMIC_RELAXED) != t->phase)
        for (u64 k = 0; k < 1u << (MAP_PAGE_SHIFT - 3); k++)
            __atomic_store_n(&page[k], 0, __ATOMIC_RELAXED);
}

// What is noted about visits: the number of the window before them, and how many they were, or that
// the block has been given up. That happens to the hottest: blocks with more than USUAL_VISITS, and
// HOT times as many as the thread makes to each of its tracked blocks, of which FEW do not tell.
enum { VISIT_BITS = 12, GIVEN_UP = (1 << VISIT_BITS) - 1, USUAL_VISITS = 64, HOT = 16, FEW = 64 };

static inline int is_hot(const struct thread *t, u64 visits) {
    u64 blocks = t->visited > FEW ? t->visited : FEW;
    return visits > USUAL_VISITS && visits * blocks > HOT * t->visits;
}

// Nothing is known about a tracked block that was given up before the present window.
COLD static void track_anew(struct thread *t, u64 address, u32 given_up, u32 window) {
    u32 *visits = &note_at(address)->visits, *lock = lock_block(t, address);
    if (__atomic_load_n(visits, __ATOMIC_RELAXED) == given_up) {
        for (u64 bank = 0; bank < tt_banks; bank++)
            __atomic_store_n(word_in(bank, address), BEGAN_UNSEEN, __ATOMIC_SEQ_CST);
        __atomic_store_n(visits, window, __ATOMIC_RELEASE);
    }
    unlock_block(t, lock);
}

// The thread comes to a tracked block; whether it is tracked now.
int tt_visit(struct thread *t, u64 address) {
    u32 *visits = &note_at(address)->visits, was = __atomic_load_n(visits, __ATOMIC_ACQUIRE);
    u32 window = WINDOW_OF(t->phase) << VISIT_BITS, first = was & ~(u32)GIVEN_UP;
    if ((was & GIVEN_UP) == GIVEN_UP) {
        if (first == window)
            return (int)t->observes;
        track_anew(t, address, was, window);
    }
    if (t->observes)
        return 1;
    u32 now = first == window ? was & GIVEN_UP : 0;
    t->visited += !now;
    t->visits++;
    if (is_hot(t, now))
        now = GIVEN_UP;
    else if (now + 1 < GIVEN_UP)
        now++;
    __atomic_store_n(visits, window | now, __ATOMIC_RELAXED);
    return 1;
}

#endif

#endif
