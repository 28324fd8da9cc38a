// Grants: what each thread may do to a block without asking (engine::grants), a byte for each block in
// a map of the thread's own.
//
// Only the thread itself sets its bytes, others only clear them. A thread first sets its byte and then
// looks at the shadow word, or changes it; another first changes the word and then clears the bytes of
// those that it finds in it. So whoever comes second sees the other, and a byte that is cleared in vain
// costs a slow path, nothing else.
//
// Neighbours: `grants.rs` maps the maps and watches over blocks that share a place in them.
#ifndef TT_GRANTS_H
#define TT_GRANTS_H
#include "shadow.h"

// Mirrors engine::grants.
enum { READ = 1, WRITE = 2, READ_PAIR = 4, WRITE_PAIR = 8, OWN = 16 };

u64 tt_grants[MAX_BANKS][64];     // the map of the thread in each slot
u8 tt_slot_of[1 << 16];           // slot of each logical id
u8 tt_folded[1 << 17];            // bits of the map's pages whose places several blocks share
u32 tt_any_folded;

static inline u8 *grant_in(u64 map, u64 address) {
    return (u8 *)(map + (u32)(address >> tt_block_shift));
}

static inline u8 *grant_of(const struct thread *t, u64 address) {
    return grant_in(t->grants, address);
}

static inline int is_folded(u64 address) {
    u32 page = (u32)(address >> tt_block_shift) >> 12;
    return __builtin_expect(__atomic_load_n(&tt_any_folded, __ATOMIC_RELAXED) != 0, 0) &&
           tt_folded[page >> 3] >> (page & 7) & 1;
}

// Neighbouring bytes change in one step, unless they are in two lines of the cache: that would stop all
// processors, so pairs that lie so are not granted.
static inline int is_first_in_line(const u8 *at) { return ((u64)at & 63) == 0; }
static inline int is_last_in_line(const u8 *at) { return ((u64)at & 63) == 63; }

// The pairs that two neighbours make, as bits of the first.
static inline u8 pairs(unsigned first, unsigned second) {
    unsigned both = first & second;
    return (u8)((both & READ ? READ_PAIR : 0) | (both & WRITE ? WRITE_PAIR : 0));
}

static inline void change_both(u16 *at, unsigned keep, unsigned set) {
    u16 old = __atomic_load_n(at, __ATOMIC_RELAXED), new;
    do {
        new = (u16)((old & keep) | set);
        new |= pairs(new & 0xff, new >> 8);
        if (new == old)
            return;
    } while (!__atomic_compare_exchange_n(at, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

// Takes from a thread what is not in `kept`: all, or all but reading.
static inline void take_back(u8 *at, unsigned kept) {
    if (!(__atomic_load_n(at, __ATOMIC_RELAXED) & ~kept))
        return;
    unsigned before = kept & READ ? ~WRITE_PAIR : ~(READ_PAIR | WRITE_PAIR);
    if (is_first_in_line(at))
        __atomic_fetch_and(at, (u8)kept, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_and((u16 *)(at - 1), (u16)(kept << 8 | (before & 0xff)), __ATOMIC_SEQ_CST);
}

enum { NOTHING = 0, READING = READ | READ_PAIR };

// Grants the calling thread these bits of the block, and pairs with its neighbours.
static inline void grant(struct thread *t, u64 address, unsigned bits) {
    u8 *at = grant_of(t, address);
    if (is_folded(address))
        return;
    if (is_last_in_line(at))
        __atomic_exchange_n(at, (u8)bits, __ATOMIC_SEQ_CST);
    else
        change_both((u16 *)at, 0xff00, bits);
    if (!is_first_in_line(at))
        change_both((u16 *)(at - 1), 0xffff, 0);
    if (is_folded(address))
        take_back(at, NOTHING);
}

#endif
