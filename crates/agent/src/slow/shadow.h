// The shadow memory: who wrote a block last, who has read it since, and which bytes were written.
//
// A shadow word, one per block:
//   bits 48..63  logical id of the last writer + 1; 0 = not written yet
//   bit  47      threads of other banks have read (only in the last writer's bank)
//   bit  46      the writer may have begun to write before this window: which bytes is not known;
//                without a writer, in a tracked block: there may be one (tracked.h)
//   bit  45      threads that have ended have read (departed.h)
//   bits 0..44   reader slots; a writer's own slot is set by its write
//
// 45 threads share a bank, a flat array of words. Only slow paths look at them. While one bank
// suffices, a word changes by compare-and-swap. Further banks are smaller: they fold addresses 16
// TiB apart into one word, which `shadow.rs` watches over. With more banks every block has a word
// in each: the writer stands in all of them, readers only in their own, and slow paths take the
// block's lock. The writer in bank 0 is the true one: other banks may be younger than the write.
//
// With sharing told apart, writers take the block's lock, too: which thread took a block and which
// bytes it wrote belong together. For that there are, for all banks together, 64 bits per 64-byte
// line, set for each byte that the block's last writer has *not* written since it took the block,
// and the code site that last added bytes, one per line or block, whichever is larger. The site's
// word is also the lock, so that it does not have to be fetched from another processor, too. Its
// top bits say how much threads fight for the block, taking it from each other before it is whole:
// then bytes are added under the lock only (engine::bytes looks).
//
// Neighbours: `shadow.rs` maps it all, `thread.rs` fills struct thread. What is shared with Rust
// comes from layouts.h, which the build script writes: see `layouts.rs`.
#ifndef TT_SHADOW_H
#define TT_SHADOW_H
#include "layouts.h"

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;

#define FOREIGN (1ull << 47)
#define BEGAN_UNSEEN (1ull << 46)
#define READERS (DEPARTED - 1)
_Static_assert(FOREIGN > BEGAN_UNSEEN && BEGAN_UNSEEN > DEPARTED && FOREIGN < 1ull << WRITER_SHIFT,
               "between the writer and the readers");
#define LINE (1ull << LINE_SHIFT)
_Static_assert(LINE == 8 * sizeof(u64), "a bit for each byte of a line");
#define LOCK_BITS 14
#define LOCKS (1u << LOCK_BITS)

// What slow.c and usual.c, windowed.c and matrix.c share; the mode and the block are constants in
// all but the first.
#ifdef MODE
#define SHARED extern
#define tt_mode MODE
#define tt_block_shift LINE_SHIFT
#else
#define SHARED
u64 tt_mode;
u64 tt_block_shift; // log2 of the block's bytes
#endif
SHARED u64 tt_shadow[MAX_BANKS];                  // address of the word of block 0 in each bank
SHARED u64 tt_reach[MAX_BANKS];                   // bits of an address that count in each bank
SHARED u64 tt_banks;                              // banks in use
SHARED u64 tt_written;                            // address of the bits of line 0
SHARED u64 tt_last_sites;                         // address of the site of line or block 0
SHARED u32 tt_slot_owner[MAX_BANKS][SLOT_PLACES]; // logical id of the thread in each slot
SHARED u8 tt_bank_of[IDS];                        // bank of each logical id
SHARED u8 tt_forbidden;           // calls that a filter of the program's does not allow: see wait.h
static u32 tt_block_locks[LOCKS]; // where there are no sites

static inline u64 *written_in_line(u64 address) {
    return (u64 *)(tt_written + ((address >> LINE_SHIFT) << 3));
}

// In the word of a site, above its number.
#define HEAT_SHIFT (LOCKED_BIT + 1)
#define MAX_HEAT (~0u >> HEAT_SHIFT << HEAT_SHIFT)
#define LOCKED (1u << LOCKED_BIT)
#define SITE (LOCKED - 1)

static inline u32 *last_site(u64 address) {
    u64 shift = tt_block_shift > LINE_SHIFT ? tt_block_shift : LINE_SHIFT;
    return (u32 *)(tt_last_sites + ((address >> shift) << 2));
}

// Bytes `address` to `end` of the line that holds `address`.
static inline u64 bytes_in_line(u64 address, u64 end) {
    u64 first = address & (LINE - 1);
    u64 line_end = (address | (LINE - 1)) + 1;
    u64 count = (end < line_end ? end : line_end) - address;
    return (~0ull >> (LINE - count)) << first;
}

// The memory will be changed, or looked at, soon: all that a slow path needs comes from other
// processors at the same time.
static inline void fetch_to_change(const void *at) {
    __asm__ volatile("prefetchw %0" : : "m"(*(const u8 *)at));
}
static inline void fetch_to_read(const void *at) {
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const u8 *)at));
}

#endif
