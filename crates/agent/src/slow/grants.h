// Grants: what each thread may do to a block without asking (engine::grants), a byte for each block
// in a map of the thread's own.
//
// Only the thread itself sets its bytes, others only clear them. A thread first sets its byte and
// then looks at the shadow word, or changes it; another first changes the word and then clears the
// bytes of those that it finds in it. So the second thread sees what the first one did. A byte that
// is cleared without need costs one slow path, nothing else.
//
// Atomic instructions are most of what a slow path costs, so the thread stores its byte plainly,
// and the change of the word makes it known. A pair that was made of a neighbour just being cleared
// is found afterwards (`settle`): the thread uses no grant before that.
//
// Neighbours: `grants.rs` maps the maps and watches over blocks that share a place in them.
#ifndef TT_GRANTS_H
#define TT_GRANTS_H
#include "gaps.h"

SHARED u64 tt_grants[MAX_BANKS][SLOT_PLACES]; // the map of the thread in each slot
SHARED u8 tt_slot_of[IDS];                    // slot of each logical id
SHARED u8 tt_folded[MAP_PAGES / 8];           // bits of the map's pages whose places several blocks share
SHARED u32 tt_any_folded;
SHARED u32 tt_pages; // 1: accesses are counted by page

// The threads that have ever been granted anything in a region, as bits by bank and slot. When
// memory comes or goes, maps that grant nothing there need not be touched.
SHARED u64 tt_granted[REGIONS][MAX_BANKS];

static inline u8 *grant_in(u64 map, u64 address) { return (u8 *)(map + (u32)(address >> tt_block_shift)); }

static inline u8 *grant_of(const struct thread *t, u64 address) { return grant_in(t->map, address); }

static inline int is_folded(u64 address) {
    u32 page = (u32)(address >> tt_block_shift) >> MAP_PAGE_SHIFT;
    return __builtin_expect(__atomic_load_n(&tt_any_folded, __ATOMIC_RELAXED) != 0, 0) &&
           tt_folded[page >> 3] >> (page & 7) & 1;
}

// Before anything is granted there.
static inline void note_granted(const struct thread *t, u64 address) {
    u64 *granted = &tt_granted[(u32)(address >> tt_block_shift) >> REGION_SHIFT][t->bank];
    if (__builtin_expect(!(__atomic_load_n(granted, __ATOMIC_RELAXED) & t->mask), 0))
        __atomic_fetch_or(granted, t->mask, __ATOMIC_SEQ_CST);
}

// Bits of two neighbours are taken in one step, unless they are in two lines of the cache: that
// would stop all processors, so pairs that lie so are not granted.
static inline int is_first_in_line(const u8 *at) { return ((u64)at & (LINE - 1)) == 0; }
static inline int is_last_in_line(const u8 *at) { return ((u64)at & (LINE - 1)) == LINE - 1; }

// The pairs that two neighbours make, as bits of the upper one.
static inline unsigned pairs(unsigned lower, unsigned upper) {
    _Static_assert(READ_PAIR == READ << 2 && WRITE_PAIR == WRITE << 2, "the same distance");
    return (lower & upper & (READ | WRITE)) << 2;
}

enum { PAIRS = READ_PAIR | WRITE_PAIR, NOTHING = 0, READING = READ | READ_PAIR | READ_ASIDE };
enum { ASIDE = READ_ASIDE | WRITE_ASIDE | OWN_ASIDE };

_Static_assert(READ_ASIDE == READ << 5 && WRITE_ASIDE == WRITE << 5 && OWN_ASIDE == OWN << 3, "shifts");

// The same, set aside, and the other way round.
static inline unsigned aside(unsigned bits) { return (bits & (READ | WRITE)) << 5 | (bits & OWN) << 3; }

static inline unsigned granted_by(unsigned bits) {
    return (bits & (READ_ASIDE | WRITE_ASIDE)) >> 5 | (bits & OWN_ASIDE) >> 3;
}

static inline u8 look(const u8 *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }

// Takes from a thread what is not in `kept`: all, or all but reading.
static inline void take_back(u8 *at, unsigned kept) {
    unsigned kept_above = kept & READ ? ~WRITE_PAIR : ~PAIRS;
    if (is_last_in_line(at))
        __atomic_fetch_and(at, (u8)kept, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_and((u16 *)at, (u16)(kept_above << 8 | kept), __ATOMIC_SEQ_CST);
}

// Takes it from the thread with that map. Only the word says whose map that is. But a thread that
// took from the same map twice running will probably do so again, and then fetches that map
// together with the word (fetch_block).
static inline void take_from(struct thread *t, u64 map, u64 address, unsigned kept) {
    t->partner = map == t->taken_from ? map : t->grants;
    t->taken_from = map;
    take_back(grant_in(map, address), kept);
    if (__builtin_expect(is_tracked(address), 0))
        take_back(grant_in(map + tt_to_passing, address), kept);
}

// Sets what the calling thread may do to the block; returns where. Until it has made this known to
// all, by an atomic change of memory, and then settled it, it may have come too late.
static inline u8 *offer(const struct thread *t, u64 address, unsigned bits) {
    u8 *at = grant_of(t, address);
    if (is_folded(address))
        return at;
    note_granted(t, address);
    if (!is_first_in_line(at))
        bits |= pairs(look(at - 1), bits);
    __atomic_store_n(at, (u8)bits, __ATOMIC_RELAXED);
    if (is_last_in_line(at))
        return at;
    unsigned above = look(at + 1), with_above = pairs(bits, above);
    if (with_above & ~above)
        __atomic_fetch_or(at + 1, (u8)with_above, __ATOMIC_RELAXED);
    return at;
}

// A pair may have been offered when one of the two had just been taken back.
static inline void drop_false_pairs(u8 *upper) {
    unsigned wrong = look(upper) & PAIRS & ~pairs(look(upper - 1), look(upper));
    if (wrong)
        __atomic_fetch_and(upper, (u8)~wrong, __ATOMIC_SEQ_CST);
}

// After an offer has been made known.
static inline void settle(u64 address, u8 *at) {
    if (!is_first_in_line(at))
        drop_false_pairs(at);
    if (!is_last_in_line(at))
        drop_false_pairs(at + 1);
    if (is_folded(address))
        take_back(at, NOTHING);
}

// Grants the calling thread more of a block for which it has been granted `condition`; not if any
// of that has been taken back.
static inline int grant_more(u64 address, u8 *at, unsigned bits, unsigned condition) {
    unsigned below = is_first_in_line(at) ? NOTHING : look(at - 1), with_below = pairs(below, bits);
    if ((__atomic_fetch_or(at, (u8)(bits | with_below), __ATOMIC_SEQ_CST) & condition) != condition) {
        __atomic_fetch_and(at, (u8) ~(bits | with_below), __ATOMIC_SEQ_CST);
        return 0;
    }
    unsigned above = is_last_in_line(at) ? NOTHING : look(at + 1), with_above = pairs(bits, above);
    if (with_above & ~above)
        __atomic_fetch_or(at + 1, (u8)with_above, __ATOMIC_SEQ_CST);
    settle(address, at);
    return 1;
}

// Sets aside what the calling thread is granted of a block.
static inline void set_aside(u8 *at) {
    u8 bits = look(at), left;
    do
        left = (u8)((bits & ASIDE) | aside(bits));
    while (!__atomic_compare_exchange_n(at, &bits, left, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (!is_last_in_line(at) && look(at + 1) & PAIRS)
        __atomic_fetch_and(at + 1, (u8)~PAIRS, __ATOMIC_RELAXED);
}

// Grants the calling thread again what was set aside when the byte was looked at; not if any of it
// has been taken back since.
static inline int resume(u64 address, u8 *at, unsigned seen) {
    return grant_more(address, at, granted_by(seen), seen & ASIDE);
}

// Grants the calling thread these bits of the block, and pairs with its neighbours; the word can be
// looked at then.
static inline void grant(const struct thread *t, u64 address, unsigned bits) {
    u8 *at = offer(t, address, bits);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    settle(address, at);
}

#endif
