// Operands of which only the run tells what they touch: engine::elements. Translated code has put
// the registers that decide into the thread's control block.
#ifndef TT_ELEMENTS_H
#define TT_ELEMENTS_H
#include "areas.h"

static u64 ones(u64 count) { return count >= 64 ? ~0ull : (1ull << count) - 1; }

// A number of 1 to 8 bytes, without its sign.
static u64 number_at(const u8 *p, u64 bytes) {
    switch (bytes) {
    case 0: return 0;
    case 1: return *p;
    case 2: return *(const u16 *)p;
    case 4: return *(const u32 *)p;
    default: return *(const u64 *)p;
    }
}

static u64 signed_at(const u8 *p, u64 bytes) {
    u64 unused = 64 - 8 * bytes;
    return bytes ? (u64)((int64_t)(number_at(p, bytes) << unused) >> unused) : 0;
}

// The elements that are touched, a bit for each.
static u64 selected(const struct thread *t, const struct elements *e) {
    const u8 *mask = (const u8 *)(t->page + CONTROL_SELECTED);
    u64 set = ~0ull;
    if (e->mask == BITS) {
        set = e->count <= 16 ? *(const u16 *)mask : *(const u64 *)mask;
    } else if (e->mask == SIGNS) {
        set = 0;
        for (u64 k = 0; k < e->count; k++)
            set |= (u64)(mask[(k + 1) * e->bytes - 1] >> 7) << k;
    }
    return set & ones(e->count);
}

// Neighbours among the elements count as one access.
static void access_masked(struct thread *t, u64 address, const struct elements *e) {
    u64 set = selected(t, e), used = set;
    for (u64 k = e->stored; k < e->count; k += e->stored)
        used |= set >> k;
    used &= ones(e->stored);
    while (used) {
        u64 first = (u64)__builtin_ctzll(used);
        u64 others = ~(used >> first);
        u64 run = others ? (u64)__builtin_ctzll(others) : 64;
        access_as(t, e->access, address + first * e->bytes, run * e->bytes, e->site);
        used &= ~(ones(run) << first);
    }
}

static void access_packed(struct thread *t, u64 address, const struct elements *e) {
    u64 count = 0;
    for (u64 set = selected(t, e); set; set &= set - 1)
        count++;
    access_as(t, e->access, address, count * e->bytes, e->site);
}

// Whether nothing can be said about an element: what a check would ask, of its first byte and its
// last.
static inline int is_known(const struct thread *t, const struct elements *e, u64 first) {
    u64 last = first + e->bytes - 1;
    if ((first | last) >> ADDRESS_BITS)
        return 0;
    unsigned granted = look(grant_of(t, first)) & look(grant_of(t, last));
    return (granted & (e->access == READS ? READ : WRITE)) != 0;
}

static void access_indexed(struct thread *t, u64 base, const struct elements *e) {
    const void *indices = (const void *)(t->page + CONTROL_INDICES);
    u64 scale = e->scale & ~ADDRESS32 & 0xff, limit = e->scale & ADDRESS32 ? ~0u : ~0ull;
    int is_wide = e->index_bytes == 8, can_ask = tt_mode != TRACE && !tt_pages && !tt_trace_ways;
    for (u64 set = selected(t, e); set; set &= set - 1) {
        u64 k = (u64)__builtin_ctzll(set);
        u64 index = is_wide ? ((const u64 *)indices)[k] : (u64)(int64_t)((const int32_t *)indices)[k];
        u64 address = (base + index * scale) & limit;
        if (!(can_ask && is_known(t, e, address)))
            access_as(t, e->access, address, e->bytes, e->site);
    }
}

static void access_bit_string(struct thread *t, u64 base, const struct elements *e) {
    int64_t bit = (int64_t)signed_at((const u8 *)(t->page + CONTROL_INDICES), e->index_bytes);
    int64_t word = bit >> (3 + __builtin_ctz(e->bytes));
    access_as(t, e->access, base + (u64)word * e->bytes, e->bytes, e->site);
}

// The tile configuration (SDM, LDTILECFG): the row to start with, then bytes of a row and rows of
// each tile.
static void access_tile(struct thread *t, u64 base, const struct elements *e) {
    const u8 *configuration = (const u8 *)(t->page + CONTROL_SELECTED);
    u64 bytes = *(const u16 *)(configuration + 16 + 2 * e->bytes), rows = configuration[48 + e->bytes];
    u64 distance = signed_at((const u8 *)(t->page + CONTROL_INDICES), e->index_bytes);
    for (u64 row = configuration[1]; row < rows; row++)
        access_as(t, e->access, base + row * distance, bytes, e->site);
}

// What the operand at `address` touches, element by element.
static void access_elements(struct thread *t, u64 address, const struct elements *e) {
    switch (e->kind) {
    case MASKED: access_masked(t, address, e); break;
    case PACKED: access_packed(t, address, e); break;
    case INDEXED: access_indexed(t, address, e); break;
    case BIT_STRING: access_bit_string(t, address, e); break;
    case TABLE:
        address += number_at((const u8 *)(t->page + CONTROL_INDICES), e->index_bytes);
        access_as(t, e->access, address, e->bytes, e->site);
        break;
    case WHOLE_LINE: access_as(t, e->access, address & ~(LINE - 1), LINE, e->site); break;
    case TILE: access_tile(t, address, e); break;
    default: access_area(t, e->kind, address, e->site); break;
    }
}

#endif
