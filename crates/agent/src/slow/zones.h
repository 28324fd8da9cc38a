// What events belong to that are in no block and whose line is not kept: a zone of memory.
//
// Zones begin as pages. When there are many, or many in a stretch of 2 MiB, new ones are larger: a
// program that communicates all over its memory has few objects then, not one for each page. Which
// variables, stacks or files lie in a zone the recorder knows.
//
// Neighbours: `events.h` gives lines up; `blocks.rs` maps the tables.
#ifndef TT_ZONES_H
#define TT_ZONES_H
#include "objects.h"

SHARED u32 *tt_zones[ZONE_SIZES];

enum { PAGES, PARTS, STRETCHES, GIBIBYTES };
static const u32 zone_shifts[ZONE_SIZES] = {12, 17, 21, 30};

// Zones beyond which new ones have the next larger size.
static const u32 zones_until[ZONE_SIZES] = {1u << 11, 1u << 12, 1u << 13, MAX_ZONES};

// Pages of a stretch that may be zones of their own.
#define PAGES_OF_STRETCH 16

static inline u32 *zone_at(unsigned size, u64 address) {
    return &tt_zones[size][address >> zone_shifts[size]];
}

// Whether a stretch has as many pages as zones as it may have.
COLD static int has_many_pages(u64 address) {
    u64 pages = 1ull << (zone_shifts[STRETCHES] - zone_shifts[PAGES]);
    const u32 *first = zone_at(PAGES, address & ~((1ull << zone_shifts[STRETCHES]) - 1));
    u32 zones = 0;
    for (u64 k = 0; k < pages && zones < PAGES_OF_STRETCH; k++)
        zones += first[k] != 0;
    return zones == PAGES_OF_STRETCH;
}

// Makes a zone for the address; its object.
COLD static u32 new_zone(u64 address) {
    if (address >> ADDRESS_BITS)
        return FIRST_ZONE;
    u32 used = __atomic_load_n(tt_session.zones_used, __ATOMIC_RELAXED);
    unsigned size = PAGES;
    while (size < GIBIBYTES && (used >= zones_until[size] || !tt_zones[size]))
        size++;
    if (size == PAGES && has_many_pages(address))
        size = PARTS;
    if (!tt_zones[size])
        return FIRST_ZONE;
    // A larger one may be there already, for addresses beside this one.
    u32 *at = zone_at(size, address), there = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (there)
        return there;
    u32 number = __atomic_fetch_add(tt_session.zones_used, 1, __ATOMIC_RELAXED);
    if (number >= MAX_ZONES) {
        __atomic_fetch_sub(tt_session.zones_used, 1, __ATOMIC_RELAXED);
        return FIRST_ZONE;
    }
    struct zone *zone = (struct zone *)tt_session.zones + number;
    u64 bytes = 1ull << zone_shifts[size];
    zone->start = address & ~(bytes - 1);
    __atomic_store_n(&zone->bytes, bytes, __ATOMIC_RELEASE);
    __atomic_store_n(at, FIRST_ZONE + number, __ATOMIC_RELEASE);
    return FIRST_ZONE + number;
}

// The object of an address that is in no block.
static inline u32 zone_of(u64 address) {
    for (unsigned size = PAGES; size < ZONE_SIZES && !(address >> ADDRESS_BITS); size++) {
        u32 there = tt_zones[size] ? __atomic_load_n(zone_at(size, address), __ATOMIC_ACQUIRE) : 0;
        if (there)
            return there;
    }
    return new_zone(address);
}

#endif
