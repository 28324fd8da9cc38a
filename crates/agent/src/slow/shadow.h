// The shadow memory: who wrote a block last, who has read it since, and which bytes were written.
//
// A shadow word, one per block:
//   bits 48..63  logical id of the last writer + 1; 0 = not written yet
//   bit  47      threads of other banks have read (only in the last writer's bank)
//   bit  45      threads that have ended have read (departed.h)
//   bits 0..44   reader slots; a writer's own slot is set by its write
//
// 45 threads share a bank, a flat array of words. Only slow paths look at them. While one bank suffices, a
// word changes by compare-and-swap. Further banks are smaller: they fold addresses 16 TiB apart into one word, which
// `shadow.rs` watches over. With more banks every block has a word in each: the writer stands in all of them,
// readers only in their own, and slow paths take the block's lock. The writer in
// bank 0 is the true one: other banks may be younger than the write.
//
// With sharing told apart, writers take the block's lock, too: who took a block and which bytes he
// wrote belong together. For that there are, for all banks together, 64 bits per 64-byte line, set for each
// byte that the block's last writer has *not* written since it took the block, and the code site that
// last added bytes, one per line or block, whichever is larger. The site's word is also the lock, so that it
// does not have to be fetched from another processor, too. Its top bits say how much threads fight for the
// block, taking it from each other before it is whole: then bytes are added under the lock only (engine::bytes
// looks).
//
// Neighbours: `shadow.rs` maps it all, `thread.rs` fills struct thread.
#ifndef TT_SHADOW_H
#define TT_SHADOW_H
#include <stdint.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;

#define WRITER_SHIFT 48
#define FOREIGN (1ull << 47)
#define DEPARTED (1ull << 45)
#define READERS (DEPARTED - 1)
#define MAX_BANKS 24
#define ADDRESS_BITS 47 // of a program's addresses
#define LINE_SHIFT 6
#define LINE 64ull
#define LOCK_BITS 14
#define LOCKS (1u << LOCK_BITS)

// wire::session::mode.
enum { TRANSLATE, MATRIX, DETAIL, UNDIRECTED, TRACE };

// Mirrors thread.rs.
struct thread {
    u64 id, mask, own_word, bank; // own_word: of a block that is its alone
    u64 page;                    // of the session
    u64 grants;                  // its map; see grants.h
    u64 taken_from, partner;     // the map that it has taken grants from last; if twice running, else its own
    struct slot *cells;          // see cells.h
    u32 *events;                 // see events.h
    u32 cell_chunk;              // last chunk of cells + 1; 0 = none yet
    u32 event_chunks;            // chunks of events
    u32 event_bits;              // log2 of the places in the table of events
    u32 event_count, event_gone; // places taken and places given up in it
    u32 hand;                    // where to look for events to give up
    u32 refused;                 // events on lines that were not let in
    u32 waiting_chunk;           // of events that have not been looked up yet, + 1; 0 = none yet
    u32 thinned;                 // whether only hot lines have events
    u32 widened;                 // bits that the table may have more than usual
    u32 without_line[16];        // names of events that were counted lately
    u64 hashes[20];              // of the waiting events, EVENTS_PER_CHUNK at most
    const void *holds;           // the lock of wait.h that it holds or is about to take
    u32 running;                 // its thread id meanwhile: the futex by which others lend it their priority
    u32 tid;
};

// What slow.c, usual.c and matrix.c share; the mode and the block are constants in the latter two.
#ifdef MODE
#define SHARED extern
#define tt_mode MODE
#define tt_block_shift LINE_SHIFT
#else
#define SHARED
u64 tt_mode;
u64 tt_block_shift; // log2 of the block's bytes
#endif
SHARED u64 tt_shadow[MAX_BANKS];         // address of the word of block 0 in each bank
SHARED u64 tt_reach[MAX_BANKS];          // bits of an address that count in each bank
SHARED u64 tt_banks;                     // banks in use
SHARED u64 tt_written;                   // address of the bits of line 0
SHARED u64 tt_last_sites;                // address of the site of line or block 0
SHARED u32 tt_slot_owner[MAX_BANKS][64]; // logical id of the thread in each slot
SHARED u8 tt_bank_of[1 << 16];           // bank of each logical id
SHARED u8 tt_forbidden;                  // calls that a filter of the program's does not allow: see wait.h
static u32 tt_block_locks[LOCKS];        // where there are no sites

static inline u64 *word_in(u64 bank, u64 address) {
    return (u64 *)(tt_shadow[bank] + (((address & tt_reach[bank]) >> tt_block_shift) << 3));
}

static inline u64 *word_of(const struct thread *t, u64 address) {
    return word_in(t->bank, address);
}

static inline u64 *written_in_line(u64 address) {
    return (u64 *)(tt_written + ((address >> LINE_SHIFT) << 3));
}

// In the word of a site, whose number is below 2^24 (wire::session::MAX_SITES).
#define HEAT_SHIFT 25
#define MOST_HEAT (127u << HEAT_SHIFT)
#define LOCKED_BIT 24
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
static inline void fetch_to_change(const void *at) { __asm__ volatile("prefetchw %0" : : "m"(*(const u8 *)at)); }
static inline void fetch_to_read(const void *at) { __asm__ volatile("prefetcht0 %0" : : "m"(*(const u8 *)at)); }

#endif
