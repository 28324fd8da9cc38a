// Windows: when the accesses of a thread are observed.
//
// The recorder says in `tt_phase` which phase it is; each slow path looks first whether it has
// changed. Between windows a thread uses the passing map, in which every check passes. Where one
// fails, the page of the map is filled with grants. The map is the same for all threads and lies in
// the recording's file: the recorder empties it when a window opens, and so each thread comes to a
// slow path with its next check. There it goes over to its own map.
//
// The first thread that comes into a window forgets what was known before: the shadow, and the
// grants of all threads, also of those that have not seen that the last window has closed. Until
// that is done, other threads' accesses are not observed; no thread waits. A thread in a slow path
// meanwhile does no harm: it grants itself something before it looks at the shadow, and the shadow
// is emptied before the maps.
//
// Neighbours: `windows.rs` maps the passing map, `grants.rs` says where it lies for each thread,
// `access.h` asks.
#ifndef TT_WINDOWS_H
#define TT_WINDOWS_H
#include "wait.h"

SHARED const u32 *tt_phase; // of the recording, or one that never changes
SHARED u32 tt_writes_gs;    // whether programs may write %gs themselves
SHARED u32 tt_opened;       // number of the window for which everything has been forgotten

#define PHASE_OF(word) ((word) & ((1u << PHASE_BITS) - 1))
#define WINDOW_OF(word) ((word) >> PHASE_BITS)

int tt_enter_phase(struct thread *t, u32 phase);

// Whether the calling thread's accesses are observed now.
static inline int observes(struct thread *t) {
    u32 phase = __atomic_load_n(tt_phase, __ATOMIC_ACQUIRE);
    return __builtin_expect(phase == t->phase, 1) ? (int)t->observes : tt_enter_phase(t, phase);
}

#ifndef MODE
static u32 opening; // 1: a thread is about to forget everything

enum { CALL_MADVISE = 28, ADVICE_DONTNEED = 4 };

static int empty(u64 start, u64 bytes) {
    return !start || !call4(CALL_MADVISE, start, bytes, ADVICE_DONTNEED, 0);
}

static int empty_shadow(void) {
    int done = 1;
    for (u64 bank = 0; bank < tt_banks; bank++)
        done &= empty(tt_shadow[bank], ((tt_reach[bank] + 1) >> tt_block_shift) << 3);
    u64 site_shift = tt_block_shift > LINE_SHIFT ? tt_block_shift : LINE_SHIFT;
    return done & empty(tt_written, 1ull << (ADDRESS_BITS - LINE_SHIFT + 3)) &
           empty(tt_last_sites, 1ull << (ADDRESS_BITS - site_shift + 2));
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
    if (opened)
        __atomic_store_n(&tt_opened, window, __ATOMIC_RELEASE);
    __atomic_store_n(&opening, 0, __ATOMIC_RELEASE);
    return opened;
}

// In the child of a fork, whose shadow and maps are empty.
void tt_begin_windows(void) {
    opening = 0;
    tt_opened = WINDOW_OF(__atomic_load_n(tt_phase, __ATOMIC_ACQUIRE));
}

enum { CALL_ARCH_PRCTL = 158, ARCH_SET_GS = 0x1001 };

// Lets %gs point to the map that the thread's checks shall look at; what lies below is the same for
// both. Whether that may be done.
static int use_map(u64 map) {
    if (!tt_writes_gs)
        return !is_forbidden(NO_GS) && !call4(CALL_ARCH_PRCTL, ARCH_SET_GS, map, 0, 0);
    __asm__ volatile("wrgsbase %0" : : "r"(map) : "memory");
    return 1;
}

// The calling thread sees that the phase has changed; whether it observes now. One that may not
// change its map goes on to observe, and counts in windows only.
COLD int tt_enter_phase(struct thread *t, u32 phase) {
    if (PHASE_OF(phase) == PHASE_OFF) {
        if (t->observes && use_map(t->passing))
            t->observes = 0;
        t->counts = 0;
    } else {
        if (!open_window(WINDOW_OF(phase)) || (!t->observes && !use_map(t->grants)))
            return 0;
        t->observes = 1;
        t->counts = PHASE_OF(phase) == PHASE_COUNT;
    }
    t->phase = phase;
    return (int)t->observes;
}

// Lets all checks pass that look at the place of this address, or one near it.
static void pass_at(const struct thread *t, u64 address) {
    u64 *page = (u64 *)((u64)grant_in(t->passing, address) & ~((1ull << MAP_PAGE_SHIFT) - 1)), *at = page;
    u64 words = 1ull << (MAP_PAGE_SHIFT - 3), count = words;
    if (look(grant_in(t->passing, address)) == 0xff)
        return;
    __asm__ volatile("rep stosq" : "+D"(at), "+c"(count) : "a"(~0ull) : "memory");
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    // The map may just have been emptied for a window: either that came later, or this sees the
    // window.
    if (__atomic_load_n(tt_phase, __ATOMIC_RELAXED) != t->phase)
        for (u64 k = 0; k < words; k++)
            __atomic_store_n(&page[k], 0, __ATOMIC_RELAXED);
}

// A check has failed in a thread that does not observe. If it waits for a window to open, its own
// map fails, too.
static void pass(const struct thread *t, u64 first, u64 last) {
    if (t->observes || __atomic_load_n(tt_phase, __ATOMIC_RELAXED) != t->phase)
        return;
    pass_at(t, first);
    pass_at(t, last);
}
#endif

#endif
