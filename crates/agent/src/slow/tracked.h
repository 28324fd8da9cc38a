// Tracked blocks: a sample that is observed between windows, too, so that their last writers are
// known however long ago they wrote. Of each group of TRACKED_OF neighbouring blocks one is
// tracked.
//
// An event of a tracked block is *late* if the last write came before the window, or before the
// present stretch of the time between windows: each has a number. Of other blocks such events are
// not seen, so each late one stands for those of its whole group.
//
// What takes most time is no news: hot lines, whose gaps are short. A block that slow paths come to
// too often between two windows is given up until the next one, and then nothing is known about it.
//
// Windows empty the shadow, so tracked blocks have their words in other arrays (`tracked.rs`).
// Grants of them are taken back in both maps of a thread.
//
// Neighbours: `windows.h` changes between the maps, `gaps.h` notes writes.
#ifndef TT_TRACKED_H
#define TT_TRACKED_H
#include "shadow.h"

SHARED u64 tt_tracked[MAX_BANKS]; // addresses of the words of group 0
#ifdef WHOLE
#define tt_tracked_notes 0ull
#else
SHARED u64 tt_tracked_notes; // address of the note of group 0; 0 = there are no windows
#endif
SHARED u64 tt_to_passing;   // from a thread's map to its passing map
SHARED u32 tt_tracked_anew; // whether tracked blocks have ever been forgotten

#define GROUP_SHIFT __builtin_ctzll(TRACKED_OF)
#define TRACKED_SPREAD 0x9e3779b97f4a7c15ull

static inline u64 tracked_group(u64 address) { return address >> tt_block_shift >> GROUP_SHIFT; }

// The number within its group of the block that is tracked.
static inline u64 tracked_in(u64 group) { return group * TRACKED_SPREAD >> (64 - GROUP_SHIFT); }

static inline int is_tracked(u64 address) {
    return tt_tracked_notes &&
           (address >> tt_block_shift & (TRACKED_OF - 1)) == tracked_in(tracked_group(address));
}

static inline struct tracked_note *note_at(u64 address) {
    return (struct tracked_note *)tt_tracked_notes + tracked_group(address);
}

// The word of a block in a bank.
static inline u64 *word_in(u64 bank, u64 address) {
    u64 near = address & tt_reach[bank];
    if (__builtin_expect(is_tracked(address), 0))
        return (u64 *)tt_tracked[bank] + tracked_group(near);
    return (u64 *)tt_shadow[bank] + (near >> tt_block_shift);
}

static inline u64 *word_of(const struct thread *t, u64 address) { return word_in(t->bank, address); }

// For how many blocks a first read or write of one with this word stands, which has no writer: if
// it is a tracked one that was given up, or forgotten with all others, it may have had one, and so
// it may be with those of its group.
static inline u64 unknown_by(u64 word, u64 address) {
    int forgotten = word & BEGAN_UNSEEN || (tt_tracked_anew && is_tracked(address));
    return forgotten ? TRACKED_OF : 0;
}

#define PHASE_OF(word) ((word) & ((1u << PHASE_BITS) - 1))
#define WINDOW_OF(word) ((word) >> PHASE_BITS)

// In what is noted about the last write: the block has had a late event.
#define WAS_LATE (1u << 31)

// Whether an access of the block now is late.
static inline int is_late(const struct thread *t, u64 address) {
    return is_tracked(address) && (note_at(address)->written & ~WAS_LATE) != WINDOW_OF(t->phase);
}

// A late event of the block is counted.
static inline void note_late(const struct thread *t, u64 address) {
    u32 *written = &note_at(address)->written, before = __atomic_load_n(written, __ATOMIC_RELAXED);
    if (before & WAS_LATE)
        return;
    __atomic_store_n(written, before | WAS_LATE, __ATOMIC_RELAXED);
    ++*(u64 *)(t->page + PAGE_LATE_BLOCKS);
}

#endif
