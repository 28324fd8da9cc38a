// Areas of processor state: what xsave and its kin write and xrstor reads of them (SDM, volume 1,
// chapter 13). An area has a legacy part, a header, and a place for each further component.
#ifndef TT_AREAS_H
#define TT_AREAS_H
#include "access.h"
#include "registers.h"

static void access_as(struct thread *t, unsigned access, u64 start, u64 bytes, u32 site) {
    if (access & READS)
        read_range(t, start, bytes, site);
    if (access & WRITES)
        write_range(t, start, bytes, site);
}

enum { X87, SSE, AVX, FIRST_PLACED = AVX, COMPONENTS = 63 };

#define HEADER AREA_HEADER
#define HEADER_END (HEADER + 64)
#define COMPACTED (1ull << 63)

// Leaf 0xD of CPUID, asked once.
static struct {
    u32 ready, tells_use; // xgetbv(1) says which components are in use
    u32 bytes[COMPONENTS], offset[COMPONENTS];
    u64 aligned; // components that start at a line in the compacted form
} layout;

static inline void cpuid(u32 sub, u32 *a, u32 *b, u32 *c) {
    u32 d;
    __asm__ volatile("cpuid" : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(d) : "a"(0xd), "c"(sub));
}

static inline u64 xgetbv(u32 which) {
    u32 low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(which));
    return (u64)high << 32 | low;
}

// Threads that come here at once find out the same.
static void learn_layout(u64 enabled) {
    u32 a, b, c;
    cpuid(1, &a, &b, &c);
    layout.tells_use = a >> 2 & 1;
    for (u32 k = FIRST_PLACED; k < COMPONENTS; k++) {
        if (!(enabled >> k & 1))
            continue;
        cpuid(k, &a, &b, &c);
        layout.bytes[k] = a;
        layout.offset[k] = b;
        __atomic_fetch_or(&layout.aligned, (u64)(c >> 1 & 1) << k, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&layout.ready, 1, __ATOMIC_RELEASE);
}

struct area {
    struct thread *t;
    u64 address;
    int writes;
    u32 site;
};

static void part(const struct area *a, u64 from, u64 end) {
    access_as(a->t, a->writes ? WRITES : READS, a->address + from, end - from, a->site);
}

static void legacy_parts(const struct area *a, u64 components, int control) {
    if (components >> X87 & 1) {
        part(a, 0, 24);
        part(a, 32, 160);
    }
    if (control)
        part(a, 24, 32);
    if (components >> SSE & 1)
        part(a, 160, 416);
}

// The components beyond the legacy ones. `room`: those that have a place in the compacted form.
static void placed_parts(const struct area *a, u64 components, u64 room, int compacted) {
    u64 at = HEADER_END;
    for (u64 all = (compacted ? room : components) & ~3ull & ~COMPACTED; all; all &= all - 1) {
        u32 k = (u32)__builtin_ctzll(all);
        if (compacted && layout.aligned >> k & 1)
            at = (at + LINE - 1) & ~(LINE - 1);
        u64 from = compacted ? at : layout.offset[k];
        if (components >> k & 1)
            part(a, from, from + layout.bytes[k]);
        at += layout.bytes[k];
    }
}

static void save(const struct area *a, unsigned kind, u64 requested) {
    u64 saved = requested;
    if (kind != XSAVE && layout.tells_use)
        saved &= xgetbv(1);
    if (kind == XSAVEC) {
        legacy_parts(a, saved, saved >> SSE & 1);
        placed_parts(a, saved, requested, 1);
        part(a, HEADER, HEADER + 16);
        return;
    }
    legacy_parts(a, saved, (requested & (1ull << SSE | 1ull << AVX)) != 0);
    placed_parts(a, saved, 0, 0);
    access_as(a->t, READS | WRITES, a->address + HEADER, 8, a->site);
}

static void restore(const struct area *a, u64 requested, u64 present, u64 form) {
    int compacted = (form & COMPACTED) != 0;
    part(a, HEADER, compacted ? HEADER_END : HEADER + 24);
    u64 restored = requested & present;
    int control = compacted ? restored >> SSE & 1 : (requested & (1ull << SSE | 1ull << AVX)) != 0;
    legacy_parts(a, restored, control);
    placed_parts(a, restored, form, compacted);
}

static void access_area(struct thread *t, unsigned kind, u64 address, u32 site) {
    const u64 *eax = (const u64 *)(t->page + CONTROL_INDICES);
    const u64 *header = (const u64 *)(t->page + CONTROL_SELECTED);
    u64 enabled = xgetbv(0);
    if (!__atomic_load_n(&layout.ready, __ATOMIC_ACQUIRE))
        learn_layout(enabled);
    u64 requested = ((u64)(u32)eax[1] << 32 | (u32)eax[0]) & enabled;
    struct area a = {t, address, kind != XRSTOR, site};
    if (kind == XRSTOR)
        restore(&a, requested, header[0], header[1] & (COMPACTED | enabled));
    else
        save(&a, kind, requested);
}

#endif
