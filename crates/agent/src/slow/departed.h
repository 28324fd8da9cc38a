// Readings of threads that have ended and whose slots have been given to others: a write still
// counts them as invalidations.
//
// When slots are taken back (`shadow.rs`), each reading of theirs moves from its shadow word into a
// table, and the word's bit DEPARTED says so. Like any reader's bit it sends the next writer into
// the slow path, which takes the block's readings out of the table again. The readings of a block's
// own last writer do not matter.
//
// A writer comes here after it has changed the word. Elsewhere than where one word is the whole
// truth it holds the block's lock from before that, and so does what moves readings. Where it does
// not, a word that has been taken has no bits of ended threads any more, so nothing is moved in
// between.
#ifndef TT_DEPARTED_H
#define TT_DEPARTED_H
#include "cells.h"
#include "wait.h"

// The thread has taken a block whose word said that there are such readings.
void tt_count_departed(struct thread *t, u64 bank, u64 address, u64 writer, int late);

#ifndef MODE

#define DEPARTED_HEADS_BITS 16

struct departed *tt_departed; // mapped with the first reading
u64 tt_departed_most;
static u32 departed_used, departed_free;
static struct thread *departed_lock; // its holder
static u32 departed_heads[1u << DEPARTED_HEADS_BITS];

static void lock_departed(struct thread *t) {
    struct thread *holder = 0;
    if (!t->holds)
        enter(t, &departed_lock);
    for (unsigned spins = 1;
         !__atomic_compare_exchange_n(&departed_lock, &holder, t, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
         holder = 0, spins++)
        wait_for(t, &departed_lock, holder, spins);
}

static void unlock_departed(struct thread *t) {
    __atomic_store_n(&departed_lock, 0, __ATOMIC_RELEASE);
    if (t->holds == &departed_lock)
        leave(t);
}

static u64 departed_key(u64 bank, u64 address) {
    return bank << 56 | (address & tt_reach[bank]) >> tt_block_shift;
}

static u32 *departed_head(u64 key) {
    return &departed_heads[key * 0x9e3779b97f4a7c15ull >> (64 - DEPARTED_HEADS_BITS)];
}

static int add_departed(u64 key, u32 reader) {
    u32 place = departed_free;
    if (place)
        departed_free = tt_departed[place - 1].next;
    else if (departed_used < tt_departed_most)
        place = ++departed_used;
    else
        return 0;
    u32 *head = departed_head(key);
    tt_departed[place - 1] = (struct departed){key, reader, *head};
    *head = place;
    return 1;
}

// Takes up to `most` readings of a block out of the table, the latest first; with a thread, counts
// them as invalidations by it.
static void take_departed(u64 key, u64 most, struct thread *t, u64 writer, int late) {
    for (u32 *link = departed_head(key); *link && most;) {
        u32 place = *link;
        struct departed *e = &tt_departed[place - 1];
        if (e->block != key) {
            link = &e->next;
            continue;
        }
        if (t && e->reader != writer - 1)
            count_cell(t, INVALIDATION + (late ? LATE : 0), e->reader);
        *link = e->next;
        e->next = departed_free;
        departed_free = place;
        most--;
    }
}

void tt_count_departed(struct thread *t, u64 bank, u64 address, u64 writer, int late) {
    lock_departed(t);
    take_departed(departed_key(bank, address), ~0ull, t, writer, late);
    unlock_departed(t);
}

// Thread t moves the readings of `slots` from the word of the block at `address`; how many found no
// room.
u64 tt_depart(struct thread *t, u64 bank, u64 address, u64 slots) {
    u64 *word = word_in(bank, address), key = departed_key(bank, address);
    int one_step = tt_banks == 1 && tt_mode != DETAIL;
    u32 *lock = one_step ? 0 : lock_block(t, address);
    lock_departed(t);
    u64 was = __atomic_load_n(word, __ATOMIC_ACQUIRE), left = was & slots;
    u64 writer = *word_in(0, address) >> WRITER_SHIFT, added = 0, lost = 0;
    if (left && !(was & DEPARTED))
        take_departed(key, ~0ull, 0, 0, 0); // of other memory that was there
    for (u64 rest = left; rest; rest &= rest - 1) {
        u32 reader = tt_slot_owner[bank][__builtin_ctzll(rest)];
        if (reader == writer - 1)
            continue;
        if (add_departed(key, reader))
            added++;
        else
            lost++;
    }
    u64 said = added ? DEPARTED : 0;
    while (!__atomic_compare_exchange_n(word, &was, (was & ~left) | said, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
        if (was & left)
            continue;
        // A writer has taken the block and counts its readers itself.
        take_departed(key, added, 0, 0, 0);
        lost = 0;
        break;
    }
    unlock_departed(t);
    if (lock)
        unlock_block(t, lock);
    return lost;
}

// Memory has moved from one block to another, and such readings of it with it.
void tt_move_departed(struct thread *t, u64 bank, u64 from, u64 to) {
    u64 old = departed_key(bank, from), new = departed_key(bank, to);
    lock_departed(t);
    take_departed(new, ~0ull, 0, 0, 0); // of other memory that was there
    for (u32 *link = departed_head(old); *link;) {
        u32 place = *link, *head = departed_head(new);
        struct departed *e = &tt_departed[place - 1];
        if (e->block != old) {
            link = &e->next;
            continue;
        }
        *link = e->next;
        *e = (struct departed){new, e->reader, *head};
        *head = place;
    }
    unlock_departed(t);
}

// In the child of a fork, whose shadow is empty.
void tt_forget_departed(void) {
    for (u32 k = 0; departed_used && k < 1u << DEPARTED_HEADS_BITS; k++)
        departed_heads[k] = 0;
    departed_used = departed_free = 0;
    departed_lock = 0;
    tt_departed = 0;
    tt_departed_most = 0;
}

#endif
#endif
