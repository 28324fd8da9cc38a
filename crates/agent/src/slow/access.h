// What an access means: events against the last writer and the readers, and the shadow's new state.
#ifndef TT_ACCESS_H
#define TT_ACCESS_H
#include "events.h"
#include "trace.h"

// An event with the last writer of the block, about bytes `start` to `end` of it. `kind` is RAW or
// WAW; with sharing told apart, true and false follow it.
static void count_with_writer(struct thread *t, unsigned kind, u64 writer, u64 start, u64 end,
                              u32 site) {
    if (tt_mode != DETAIL) {
        count_cell(t, kind, writer);
        return;
    }
    int overlap = 0;
    for (u64 a = start; a < end; a = (a | (LINE - 1)) + 1)
        overlap |= (~*written_in_line(a) & bytes_in_line(a, end)) != 0;
    kind += overlap ? 1 : 2;
    count_cell(t, kind, writer);
    struct event e = {
        .line = start & ~(LINE - 1),
        .own_site = site,
        .other_site = *last_site(start) & ~CONTENDED,
        .other = (u16)writer,
        .kind = (u8)kind,
        .count = 1,
        .own_bytes = bytes_in_line(start, end),
        .other_bytes = ~*written_in_line(start),
    };
    count_event(t, &e);
}

static void count_invalidations(struct thread *t, u64 bank, u64 word, u64 writer) {
    u64 others = word & READERS & ~(bank == t->bank ? t->mask : 0);
    for (; others; others &= others - 1) {
        u64 reader = tt_slot_owner[bank][__builtin_ctzll(others)];
        if (reader != writer - 1)
            count_cell(t, INVALIDATION, reader);
    }
}

// Whether one word is the whole truth and changes in one step.
static inline int lock_free(void) { return tt_banks == 1 && tt_mode != DETAIL; }

// Marks the block as read by the thread, which has not read it; the word before. Under the lock.
static u64 join_readers(struct thread *t, u64 address) {
    u64 *own = word_of(t, address);
    if (tt_banks == 1)
        return __atomic_fetch_or(own, t->mask, __ATOMIC_RELAXED);
    u64 before = *own, truth = *word_in(0, address);
    u64 writer = truth >> WRITER_SHIFT;
    u64 kept = (before & (FOREIGN | FULL | READERS)) | t->mask;
    __atomic_store_n(own, (truth & ~(FOREIGN | FULL | READERS)) | kept, __ATOMIC_RELAXED);
    if (writer && tt_bank_of[writer - 1] != t->bank) {
        u64 *writers = word_in(tt_bank_of[writer - 1], address);
        __atomic_store_n(writers, *writers | FOREIGN, __ATOMIC_RELAXED);
    }
    return truth;
}

static void count_read(struct thread *t, u64 before, u64 start, u64 end, u32 site) {
    u64 writer = before >> WRITER_SHIFT;
    if (writer && writer - 1 != t->id)
        count_with_writer(t, RAW, writer - 1, start, end, site);
}

// Reads bytes `start` to `end` of one block.
static void read_part(struct thread *t, u64 start, u64 end, u32 site) {
    u64 *own = word_of(t, start);
    if (*own & t->mask)
        return;
    if (lock_free()) {
        u64 before = __atomic_fetch_or(own, t->mask, __ATOMIC_RELAXED);
        count_read(t, before, start, end, site);
        return;
    }
    u8 *lock = lock_block(start);
    if (!(*own & t->mask))
        count_read(t, join_readers(t, start), start, end, site);
    unlock_block(lock);
}

// Whether no byte of the block is missing.
static int is_whole(u64 first, u64 end) {
    u64 missing = 0;
    for (u64 a = first; a < end && !missing; a += LINE)
        missing = *written_in_line(a) & bytes_in_line(a, end);
    return !missing;
}

// Notes which bytes of the thread's block have been written since it was taken, and from where. Under
// the lock.
static void note_written(struct thread *t, u64 start, u64 end, int taken, int contended, u32 site) {
    u64 added = 0, block = 1ull << tt_block_shift, first = start & ~(block - 1);
    if (taken) {
        for (u64 a = first; a < first + block; a += LINE)
            *written_in_line(a) |= bytes_in_line(a, first + block);
    }
    for (u64 a = start; a < end; a = (a | (LINE - 1)) + 1) {
        u64 *missing = written_in_line(a), bytes = bytes_in_line(a, end);
        added |= *missing & bytes;
        *missing &= ~bytes;
    }
    u32 *last = last_site(start);
    if (added)
        *last = site | (contended ? CONTENDED : *last & CONTENDED);
    if (is_whole(first, first + block))
        __atomic_fetch_or(word_of(t, start), FULL, __ATOMIC_RELAXED);
}

// The thread takes the block; the word before, which is not its own.
static u64 take_block(struct thread *t, u64 address) {
    u64 *own = word_of(t, address), taken = t->own_word & (tt_mode == DETAIL ? ~FULL : ~0ull);
    if (tt_banks == 1) {
        u64 old = __atomic_exchange_n(own, taken, __ATOMIC_RELAXED);
        count_invalidations(t, t->bank, old, old >> WRITER_SHIFT);
        return old;
    }
    u64 old = *word_in(0, address);
    for (u64 bank = 0; bank < tt_banks; bank++) {
        u64 *word = word_in(bank, address);
        count_invalidations(t, bank, *word, old >> WRITER_SHIFT);
        u64 mine = bank == t->bank ? taken : taken & ~(FOREIGN | FULL | READERS);
        __atomic_store_n(word, mine, __ATOMIC_RELAXED);
    }
    return old;
}

// Whether the block is the thread's alone and it has written all these bytes since it took it: what
// checks ask before they come here.
static int is_written(const struct thread *t, u64 start, u64 end) {
    u64 word = __atomic_load_n(word_of(t, start), __ATOMIC_RELAXED), missing = 0;
    if (word == t->own_word || (word | FULL) != t->own_word)
        return word == t->own_word;
    for (u64 a = start; tt_mode == DETAIL && a < end; a = (a | (LINE - 1)) + 1)
        missing |= __atomic_load_n(written_in_line(a), __ATOMIC_RELAXED) & bytes_in_line(a, end);
    return !missing;
}

// Writes bytes `start` to `end` of one block.
static void write_part(struct thread *t, u64 start, u64 end, u32 site) {
    if (is_written(t, start, end))
        return;
    u8 *lock = lock_free() ? 0 : lock_block(start);
    u64 word = __atomic_load_n(word_of(t, start), __ATOMIC_RELAXED);
    int contended = 0, taken = (word | FULL) != t->own_word;
    if (taken) {
        u64 writer = take_block(t, start) >> WRITER_SHIFT;
        contended = writer && writer - 1 != t->id;
        if (contended)
            count_with_writer(t, WAW, writer - 1, start, end, site);
    }
    if (tt_mode == DETAIL)
        note_written(t, start, end, taken, contended, site);
    if (lock)
        unlock_block(lock);
}

// Thesis, Algorithm 3.1: an access pairs with each of the two most recent accessors that is another
// thread. The word holds the most recent one + 1, the word in the second shadow the one before. While
// there is one before, every access counts, so the word differs from any thread's own and no check
// passes.
#define PAIRED (1ull << 63)

static void touch_part(struct thread *t, u64 start) {
    u8 *lock = lock_block(start);
    u64 *recent = word_in(0, start);
    u64 *before = (u64 *)(tt_written + ((start >> tt_block_shift) << 3));
    u64 first = *recent & ~PAIRED, second = *before;
    if (first && first != t->own_word)
        count_cell(t, UNDIRECTED_PAIR, first - 1);
    if (second && second != t->own_word)
        count_cell(t, UNDIRECTED_PAIR, second - 1);
    if (first != t->own_word) {
        *before = first;
        __atomic_store_n(recent, t->own_word | (first ? PAIRED : 0), __ATOMIC_RELAXED);
    }
    unlock_block(lock);
}

// An access of the thread, block by block.
static void access_range(struct thread *t, u64 start, u64 bytes, int writes, u32 site) {
    // Beyond the addresses that programs have, there is no shadow: the access itself will fault.
    if (!bytes || (start | (start + bytes - 1)) >> ADDRESS_BITS)
        return;
    if (tt_mode == TRACE) {
        trace(t->id, writes ? TRACE_WRITE : TRACE_READ, start, bytes, site);
        return;
    }
    u64 last = start + bytes - 1;
    for (u64 a = start;;) {
        u64 block_last = a | ((1ull << tt_block_shift) - 1);
        u64 end = (block_last < last ? block_last : last) + 1;
        if (tt_mode == UNDIRECTED)
            touch_part(t, a);
        else if (writes)
            write_part(t, a, end, site);
        else
            read_part(t, a, end, site);
        if (block_last >= last)
            break;
        a = end;
    }
}

static void read_range(struct thread *t, u64 start, u64 bytes, u32 site) {
    access_range(t, start, bytes, 0, site);
}

static void write_range(struct thread *t, u64 start, u64 bytes, u32 site) {
    access_range(t, start, bytes, 1, site);
}

enum { READS = 1, WRITES = 2 };

static void access_as(struct thread *t, unsigned access, u64 start, u64 bytes, u32 site) {
    if (access & READS)
        read_range(t, start, bytes, site);
    if (access & WRITES)
        write_range(t, start, bytes, site);
}

#endif
