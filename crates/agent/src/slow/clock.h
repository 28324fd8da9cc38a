// The processor's clock, its time stamp counter, of threads that may read it.
//
// Neighbours: `gaps.h` tells by it how long ago blocks were written, `lives.h` how long memory was
// allocated; `windows.rs` notes that a thread may no longer read it.
#ifndef TT_CLOCK_H
#define TT_CLOCK_H
#include "shadow.h"

SHARED u32 tt_clock_forbidden; // 1: a thread may not read it

static inline int has_clock(void) { return !__atomic_load_n(&tt_clock_forbidden, __ATOMIC_RELAXED); }

// The time now, in units of 2^shift ticks, of a thread that may read the clock; wraps around.
static inline u32 clock_units(unsigned shift) { return (u32)(__builtin_ia32_rdtsc() >> shift); }

#endif
