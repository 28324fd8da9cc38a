// Memory that several processes share: its shadow is one for all, in the recording's file.
//
// A page map of the process's own says which pages these are, and their place among all shared
// memory, which is the same in all processes (wire::shared). Their blocks are never granted, so
// each access comes here. What there is to do is mostly to see that there is nothing to do: the
// thread has read the block, or written these bytes, and nobody else has come since.
//
// A block holds the same as the shadow words do (shadow.h), but threads are named by their numbers
// as sharers, bytes that the writer has written are set, and all of it is of one window: in a later
// one it counts as empty. So it needs no thread to empty it when a window opens. A thread that has
// not seen a later window's beginning, which others have, leaves the block alone.
//
// Whoever changes a block holds its lock. The holder may be killed, or stopped for good, so the
// lock of one that does not go on for a second is taken from it. That may cost an event. Nothing
// in a block can lead anybody astray.
//
// Neighbours: `shared.rs` keeps the page map; `access.h` asks for each block; `wire::shared`
// has the layout.
#ifndef TT_SHARED_H
#define TT_SHARED_H
#include "meeting.h"
#include "windows.h"

SHARED u64 tt_shared;         // address of the shadow; 0 = the mode has none
SHARED u32 *tt_shared_chunks; // what is shared, by chunks and by pages; 0 = nothing
SHARED u32 *tt_shared_pages;
SHARED u64 tt_image; // the process and its program, as in a sharer

// Not part of its caller, which other memory leaves with few registers to save.
#define APART __attribute__((noinline))

#define NOT_SHARED (~0ull)
#define SHARED_PAGE_SHIFT 12
#define NEAR_BITS (~0u >> (32 - 6))
_Static_assert(NEAR_SHARERS == NEAR_BITS + 1, "a bit for each");

// The place of an address among all shared memory.
static inline u64 place_of(u64 address) {
    const u32 *chunks = __atomic_load_n(&tt_shared_chunks, __ATOMIC_ACQUIRE);
    if (__builtin_expect(!chunks, 1))
        return NOT_SHARED;
    u32 chunk = __atomic_load_n(&chunks[address >> CHUNK_SHIFT], __ATOMIC_ACQUIRE);
    if (__builtin_expect(!chunk, 1))
        return NOT_SHARED;
    u64 page = address >> SHARED_PAGE_SHIFT, number;
    if (chunk != MIXED) {
        number = chunk - 1 + (page & ((1u << (CHUNK_SHIFT - SHARED_PAGE_SHIFT)) - 1));
    } else {
        u32 entry = __atomic_load_n(&tt_shared_pages[page], __ATOMIC_RELAXED);
        if (!entry)
            return NOT_SHARED;
        number = entry - 1;
    }
    return number << SHARED_PAGE_SHIFT | (address & ((1u << SHARED_PAGE_SHIFT) - 1));
}

// Whether an access of a block of this place means nothing at the moment. Shared memory is not
// tracked: all of it passes between windows.
static inline int passes_at(struct thread *t, u64 place, u64 address) {
    if (place == NOT_SHARED)
        return passes(t, address);
    if (!t->observes)
        tt_pass_at(t, address);
    return !t->observes;
}

static inline struct shared *shared_counters(void) { return (struct shared *)tt_shared; }

static inline struct sharer *sharer_at(u32 number) {
    return (struct sharer *)(tt_shared + SHARERS_OFFSET) + number;
}

COLD static u32 become_sharer(struct thread *t) {
    struct shared *all = shared_counters();
    u32 number = MAX_SHARERS;
    if (__atomic_load_n(&all->sharers, __ATOMIC_RELAXED) < MAX_SHARERS)
        number = __atomic_fetch_add(&all->sharers, 1, __ATOMIC_RELAXED);
    if (number >= MAX_SHARERS)
        return t->sharer = NO_SHARER;
    struct sharer *own = sharer_at(number);
    own->segment = (u32)(tt_image >> 32);
    own->execs = (u32)tt_image;
    own->thread = (u32)t->id;
    __atomic_store_n(&own->known, 1, __ATOMIC_RELEASE);
    return t->sharer = number + 1;
}

// The thread's number plus one.
static inline u32 sharer_of(struct thread *t) {
    return __builtin_expect(t->sharer != 0, 1) ? t->sharer : become_sharer(t);
}

// A sharer's number plus one as counting names the thread; adds to the kind if it is of another
// process.
static inline u64 thread_of(u32 sharer, unsigned *kind) {
    const struct sharer *other = sharer_at(sharer - 1);
    if (((u64)other->segment << 32 | other->execs) == tt_image)
        return other->thread;
    *kind += OTHER_PROCESS;
    return sharer - 1;
}

static inline u64 number_of_block(u64 place) { return place >> tt_block_shift; }

static inline struct shared_block *shared_block_at(u64 place) {
    return (struct shared_block *)(tt_shared + BLOCKS_OFFSET) + number_of_block(place);
}

// The bytes written of the line that holds the place.
static inline u64 *shared_written(struct shared_block *b, u64 place) {
    if (tt_block_shift <= LINE_SHIFT)
        return &b->written;
    return (u64 *)(tt_shared + WRITTEN_OFFSET) + (place >> LINE_SHIFT);
}

// The lock has been somebody's for long. Of one that does not go on it is taken.
COLD static void wait_for_shared(struct shared_block *b, u32 own) {
    enum { MOMENT_NS = 50000, STEAL_AFTER = 1 << 13, STEAL_AFTER_YIELDS = 1 << 20 };
    u32 seen = 0, rests = 0;
    for (u32 spins = 1;; spins++) {
        u32 held = __atomic_load_n(&b->lock, __ATOMIC_RELAXED);
        if (held != seen) {
            seen = held;
            rests = 0;
        }
        u32 after = is_forbidden(NO_FUTEX) ? STEAL_AFTER_YIELDS : STEAL_AFTER;
        if ((!held || rests > after) &&
            __atomic_compare_exchange_n(&b->lock, &held, own, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
        __asm__ volatile("pause");
        if (spins % SPINS_PER_YIELD)
            continue;
        rests++;
        if (rests > YIELDS && !is_forbidden(NO_FUTEX))
            sleep_ns(MOMENT_NS);
        else if (!is_forbidden(NO_YIELD))
            call4(CALL_YIELD, 0, 0, 0, 0);
    }
}

static inline u32 lock_shared(struct thread *t, struct shared_block *b, u32 sharer) {
    u32 own = sharer | t->shared_locks++ << 16, free = 0;
    if (!__atomic_compare_exchange_n(&b->lock, &free, own, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        wait_for_shared(b, own);
    return own;
}

// Somebody else may have taken the lock, to whom it is left.
static inline void unlock_shared(struct shared_block *b, u32 own) {
    if (__builtin_expect(__atomic_load_n(&b->lock, __ATOMIC_RELAXED) == own, 1))
        __atomic_store_n(&b->lock, 0, __ATOMIC_RELEASE);
}

// The readers of one bank beyond the first; 0 = there are none, or no place for them.
static struct far_readers *find_far(u64 block, u64 bank, int add) {
    enum { TRIES = 64 };
    struct far_readers *all = (struct far_readers *)(tt_shared + FAR_OFFSET);
    u64 key = (block + 1) << FAR_BANK_BITS | bank, at = (key * 0x9e3779b97f4a7c15ull) >> 32;
    for (u64 k = 0; k < TRIES; k++) {
        struct far_readers *place = &all[(at + k) % FAR_PLACES];
        u64 found = __atomic_load_n(&place->key, __ATOMIC_RELAXED);
        if (!found && !add)
            return 0;
        if (!found &&
            __atomic_compare_exchange_n(&place->key, &found, key, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return place;
        if (found == key)
            return place;
    }
    return 0;
}

// Banks beyond the first of which a block may have readers.
static u64 next_far_bank(const struct shared_block *b, u64 bank) {
    u64 sharers = __atomic_load_n(&shared_counters()->sharers, __ATOMIC_RELAXED);
    u64 banks = (sharers + NEAR_SHARERS - 1) / NEAR_SHARERS;
    while (++bank < banks)
        if (b->far >> bank % 16 & 1)
            return bank;
    return 0;
}

// Forgets the readers beyond the first bank; with a thread, counts those as invalidations that are
// neither itself nor the last writer. Under the lock.
COLD static void empty_far(struct shared_block *b, u64 block, struct thread *t, u32 own, u32 writer) {
    for (u64 bank = next_far_bank(b, 0); bank; bank = next_far_bank(b, bank)) {
        struct far_readers *far = find_far(block, bank, 0);
        for (u64 left = far && t ? far->readers : 0; left; left &= left - 1) {
            u32 reader = (u32)(bank * NEAR_SHARERS) + (u32)__builtin_ctzll(left) + 1;
            unsigned kind = INVALIDATION;
            u64 other = thread_of(reader, &kind);
            if (reader != own && reader != writer)
                count_cell(t, kind, other);
        }
        if (far)
            __atomic_store_n(&far->readers, 0, __ATOMIC_RELAXED);
    }
    b->far = 0;
}

static inline u64 near_bit(u32 sharer) { return sharer <= NEAR_SHARERS ? 1ull << (sharer - 1) : 0; }

COLD static int has_read_far(const struct shared_block *b, u64 block, u32 sharer) {
    u64 bank = (sharer - 1) / NEAR_SHARERS;
    if (!(b->far >> bank % 16 & 1))
        return 0;
    struct far_readers *far = find_far(block, bank, 0);
    return far && __atomic_load_n(&far->readers, __ATOMIC_RELAXED) >> ((sharer - 1) & NEAR_BITS) & 1;
}

// Whether a read by the sharer says nothing new.
static inline int knows(const struct shared_block *b, u64 block, u32 sharer) {
    u64 bit = near_bit(sharer);
    return __atomic_load_n(&b->writer, __ATOMIC_RELAXED) == sharer ||
           (bit ? (__atomic_load_n(&b->readers, __ATOMIC_RELAXED) & bit) != 0
                : has_read_far(b, block, sharer));
}

// Whether there was a place to note it.
static inline int note_reader(struct shared_block *b, u64 block, u32 sharer) {
    u64 bit = near_bit(sharer), bank = (sharer - 1) / NEAR_SHARERS;
    if (bit) {
        __atomic_store_n(&b->readers, b->readers | bit, __ATOMIC_RELAXED);
        return 1;
    }
    struct far_readers *far = find_far(block, bank, 1);
    if (!far) {
        add_shared(&shared_counters()->reads_forgotten, 1);
        return 0;
    }
    far->readers |= 1ull << ((sharer - 1) & NEAR_BITS);
    b->far |= (u16)(1u << bank % 16);
    return 1;
}

static inline int is_of_window(const struct shared_block *b, u32 window) {
    return __atomic_load_n(&b->window, __ATOMIC_ACQUIRE) == window;
}

static inline void forget_bytes(struct shared_block *b, u64 place) {
    u64 block = 1ull << tt_block_shift, first = place & ~(block - 1);
    if (tt_mode == DETAIL)
        for (u64 at = first; at < first + block; at += LINE)
            *shared_written(b, at) = 0;
}

// Empties a block that an earlier window has left. Those who look at it without the lock see
// the window last.
COLD static void forget_shared(struct shared_block *b, u64 place, u32 window) {
    if (b->far && tt_mode != UNDIRECTED)
        empty_far(b, number_of_block(place), 0, 0, 0);
    b->far = 0;
    b->readers = 0;
    b->writer = 0;
    b->site = 0;
    forget_bytes(b, place);
    __atomic_store_n(&b->window, window, __ATOMIC_RELEASE);
}

// Whether the block is of the thread's window now; not if it is of a later one. Under the lock.
static inline int is_current(struct shared_block *b, u64 place, u32 window) {
    if (__builtin_expect(!is_of_window(b, window), 0)) {
        if ((int32_t)((window - b->window) << PHASE_BITS) < 0)
            return 0;
        forget_shared(b, place, window);
    }
    return 1;
}

static inline struct meeting meet_shared(struct shared_block *b, u64 place, u64 start, u64 end) {
    struct meeting m = {.bytes = *shared_written(b, place), .site = b->site & SITE};
    m.unseen = (b->site & SHARED_BEGAN_UNSEEN) != 0;
    m.overlap = (m.bytes & bytes_in_line(start, end)) != 0;
    for (u64 a = (start | (LINE - 1)) + 1; a < end; a += LINE)
        m.overlap |= (*shared_written(b, place + (a - start)) & bytes_in_line(a, end)) != 0;
    return m;
}

APART static void read_shared(struct thread *t, u64 place, u64 start, u64 end, u32 site) {
    struct shared_block *b = shared_block_at(place);
    u32 own = sharer_of(t), window = WINDOW_OF(t->phase);
    u64 block = number_of_block(place);
    if (own == NO_SHARER || (is_of_window(b, window) && knows(b, block, own)))
        return;
    struct meeting m = {0};
    u32 lock = lock_shared(t, b, own), writer = 0;
    int first = is_current(b, place, window) && !knows(b, block, own) && note_reader(b, block, own);
    if (first)
        writer = b->writer;
    if (writer && tt_mode == DETAIL)
        m = meet_shared(b, place, start, end);
    unlock_shared(b, lock);
    unsigned kind = RAW;
    if (writer) {
        u64 other = thread_of(writer, &kind);
        count_with_writer(t, kind, other, start, end, site, &m, 0);
    } else if (first && window > FIRST_WINDOW) {
        count_unknown(t, 1);
    }
}

// Whether the block is the thread's alone, and these bytes are known to be written.
static inline int is_written(struct shared_block *b, u64 place, u64 start, u64 end, u32 own) {
    if (__atomic_load_n(&b->writer, __ATOMIC_RELAXED) != own ||
        __atomic_load_n(&b->readers, __ATOMIC_RELAXED) & ~near_bit(own) ||
        __atomic_load_n(&b->far, __ATOMIC_RELAXED))
        return 0;
    for (u64 a = start; tt_mode == DETAIL && a < end; a = (a | (LINE - 1)) + 1) {
        u64 written = __atomic_load_n(shared_written(b, place + (a - start)), __ATOMIC_RELAXED);
        if (bytes_in_line(a, end) & ~written)
            return 0;
    }
    return 1;
}

// Notes which bytes have been written since the block was taken, and from where.
static inline void note_shared_bytes(struct shared_block *b, u64 place, u64 start, u64 end, u32 site) {
    u64 added = 0;
    for (u64 a = start; a < end; a = (a | (LINE - 1)) + 1) {
        u64 *written = shared_written(b, place + (a - start)), bytes = bytes_in_line(a, end);
        added |= bytes & ~*written;
        *written |= bytes;
    }
    if (added)
        b->site = (b->site & SHARED_BEGAN_UNSEEN) | site;
}

// The thread takes the block, if it is not its alone; returns the readers that are to be counted.
static inline u64 take_shared(struct thread *t, struct shared_block *b, u64 place, u32 own) {
    u32 writer = b->writer, window = WINDOW_OF(t->phase);
    u64 others = b->readers & ~near_bit(own);
    if (writer == own && !others && !b->far)
        return 0;
    int unseen = !writer && !others && !b->far && window > FIRST_WINDOW;
    if (b->far)
        empty_far(b, number_of_block(place), t, own, writer);
    forget_bytes(b, place);
    b->site = unseen ? SHARED_BEGAN_UNSEEN : 0;
    __atomic_store_n(&b->readers, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&b->writer, (u16)own, __ATOMIC_RELAXED);
    return writer ? others & ~near_bit(writer) : others;
}

APART static void write_shared(struct thread *t, u64 place, u64 start, u64 end, u32 site) {
    struct shared_block *b = shared_block_at(place);
    u32 own = sharer_of(t), window = WINDOW_OF(t->phase);
    if (own == NO_SHARER || (is_of_window(b, window) && is_written(b, place, start, end, own)))
        return;
    struct meeting m = {0};
    u64 readers = 0;
    u32 lock = lock_shared(t, b, own), writer = 0;
    int unknown = 0;
    if (is_current(b, place, window)) {
        unknown = !b->writer && window > FIRST_WINDOW;
        writer = b->writer != own ? b->writer : 0;
        if (writer && tt_mode == DETAIL)
            m = meet_shared(b, place, start, end);
        readers = take_shared(t, b, place, own);
        if (tt_mode == DETAIL)
            note_shared_bytes(b, place, start, end, site);
    }
    unlock_shared(b, lock);
    unsigned kind = WAW;
    if (writer) {
        u64 other = thread_of(writer, &kind);
        count_with_writer(t, kind, other, start, end, site, &m, 0);
    }
    if (unknown)
        count_unknown(t, 1);
    for (; readers; readers &= readers - 1) {
        kind = INVALIDATION;
        u64 other = thread_of((u32)__builtin_ctzll(readers) + 1, &kind);
        count_cell(t, kind, other);
    }
}

// Undirected: the last two accessors.
APART static void touch_shared(struct thread *t, u64 place) {
    struct shared_block *b = shared_block_at(place);
    u32 own = sharer_of(t), window = WINDOW_OF(t->phase), first = 0, second = 0;
    if (own == NO_SHARER)
        return;
    u32 lock = lock_shared(t, b, own);
    if (is_current(b, place, window)) {
        first = b->writer;
        second = b->far;
        if (first != own) {
            b->far = (u16)first;
            b->writer = (u16)own;
        }
    }
    unlock_shared(b, lock);
    u32 others[] = {first, second};
    for (unsigned k = 0; k < 2; k++)
        if (others[k] && others[k] != own) {
            unsigned kind = UNDIRECTED_PAIR;
            u64 other = thread_of(others[k], &kind);
            count_cell(t, kind, other);
        }
}

#endif
