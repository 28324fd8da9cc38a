// What an access means: events against the last writer and the readers, and the shadow's new state.
#ifndef TT_ACCESS_H
#define TT_ACCESS_H
#include "departed.h"
#include "pages.h"
#include "shared.h"
#ifndef MODE
#include "trace.h"
#endif
#include "filter.h"

// What changes the heat of a block. Taking a block that is not whole adds FIGHT. Coming back to it
// takes CALM off, and each write that adds bytes takes FILLING off. A thread that fights for a
// block adds few bytes before the block is taken again. A thread that comes once in a phase, to a
// block of which it has a part, fills its part.
enum { FIGHT = 4, CALM = 1, FILLING = 2 };

static inline struct meeting meet(u64 word, u64 start, u64 end) {
    struct meeting m = {.bytes = ~*written_in_line(start), .site = *last_site(start) & SITE};
    m.unseen = (word & BEGAN_UNSEEN) != 0;
    m.overlap = (m.bytes & bytes_in_line(start, end)) != 0;
    for (u64 a = (start | (LINE - 1)) + 1; a < end; a += LINE)
        m.overlap |= (~*written_in_line(a) & bytes_in_line(a, end)) != 0;
    return m;
}

// The thread has taken a block with this word: its readers have to ask again.
static void invalidate(struct thread *t, u64 bank, u64 word, u64 writer, u64 address, int late) {
    if (word & DEPARTED)
        tt_count_departed(t, bank, address, writer, late);
    u64 others = word & READERS & ~(bank == t->bank ? t->mask : 0);
    for (; others; others &= others - 1) {
        unsigned slot = (unsigned)__builtin_ctzll(others);
        take_from(t, tt_grants[bank][slot], address, NOTHING);
        u64 reader = tt_slot_owner[bank][slot];
        if (reader != writer - 1)
            count_cell(t, INVALIDATION + (late ? LATE : 0), reader);
    }
}

// The thread has read a block with this word before. If another thread had the block alone, that
// one has to ask from now on before it writes again.
static inline void share(struct thread *t, u64 bank, u64 word, u64 address) {
    u64 readers = word & READERS;
    if (readers && !(readers & (readers - 1)))
        take_from(t, tt_grants[bank][__builtin_ctzll(readers)], address, READING);
}

// The first reader may have been stopped before it told the writer. The writer would then not ask
// before it writes what this reader waits for, so each later reader tells it, too.
static inline void share_late(u64 bank, u64 word, u64 address) {
    u64 readers = word & READERS, writer = word >> WRITER_SHIFT;
    if (!writer || !(readers & (readers - 1)))
        return;
    u64 map = tt_grants[bank][tt_slot_of[writer - 1]];
    u8 *at = grant_in(map, address);
    if (look(at) & (WRITE | OWN))
        take_back(at, READING);
    if (__builtin_expect(is_tracked(address), 0))
        take_back(grant_in(map + tt_to_passing, address), READING);
}

// Whether one word is the whole truth and changes in one step.
static inline int lock_free(void) { return tt_banks == 1 && tt_mode != DETAIL; }

// Marks the block as read by the thread, which has not read it; the true word before. For several
// banks, under the lock.
static u64 join_readers(struct thread *t, u64 address) {
    u64 *own = word_of(t, address);
    u64 before = *own, truth = *word_in(0, address);
    u64 writer = truth >> WRITER_SHIFT;
    u64 in_bank = FOREIGN | DEPARTED | READERS, kept = (before & in_bank) | t->mask;
    __atomic_store_n(own, (truth & ~in_bank) | kept, __ATOMIC_RELAXED);
    if (writer && tt_bank_of[writer - 1] != t->bank) {
        u64 bank = tt_bank_of[writer - 1], *writers = word_in(bank, address);
        share(t, bank, *writers, address);
        __atomic_store_n(writers, *writers | FOREIGN, __ATOMIC_RELAXED);
    }
    share(t, t->bank, before, address);
    return truth;
}

// Whether `writer` (+ 1, 0 = none) is another thread.
static inline int is_other(const struct thread *t, u64 writer) { return writer && writer - 1 != t->id; }

// Whether the thread has read the block, so that it only lacks the grant, which it gets.
static int has_read(struct thread *t, const u64 *own, u64 address) {
    if (!(__atomic_load_n(own, __ATOMIC_RELAXED) & t->mask))
        return 0;
    grant(t, address, READ);
    return (__atomic_load_n(own, __ATOMIC_ACQUIRE) & t->mask) != 0;
}

// The thread has read a block with this word, which has no writer.
static inline void count_unknown_read(struct thread *t, u64 word, u64 address) {
    note_unknown_stream(t, address, 1);
    count_unknown(t, unknown_by(word, address));
}

// Reads where one word is the whole truth: no lock. What the writer did is looked at first; if
// another thread takes the block meanwhile, the word is not the same any more.
static inline void read_in_one_step(struct thread *t, u64 start, u64 end, u32 site) {
    u64 *own = word_of(t, start);
    if (has_read(t, own, start))
        return;
    u8 *offered = offer(t, start, READ);
    u64 word = __atomic_load_n(own, __ATOMIC_ACQUIRE);
    struct meeting m = {0};
    for (unsigned spins = 1; !(word & t->mask);) {
        u64 writer = word >> WRITER_SHIFT;
        int event = is_other(t, writer);
        if (event && tt_mode == DETAIL) {
            if (__atomic_load_n(last_site(start), __ATOMIC_ACQUIRE) & LOCKED) {
                wait_for(t, last_site(start), 0, spins++);
                word = __atomic_load_n(own, __ATOMIC_ACQUIRE);
                continue;
            }
            m = meet(word, start, end);
        }
        if (__atomic_compare_exchange_n(own, &word, word | t->mask, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)) {
            settle(start, offered);
            share(t, t->bank, word, start);
            share_late(t->bank, word, start);
            if (event)
                count_with_writer(t, RAW, writer - 1, start, end, site, &m, gap_of(t, start));
            else if (!writer)
                count_unknown_read(t, word, start);
            return;
        }
    }
}

// Reads bytes `start` to `end` of one block.
static void read_part(struct thread *t, u64 start, u64 end, u32 site) {
    u64 place = place_of(start);
    note_return(t, start, 0);
    if (passes_at(t, place, start) || *grant_of(t, start) & READ)
        return;
    if (place != NOT_SHARED) {
        read_shared(t, place, start, end, site);
        return;
    }
    note_touch(t, start, look(grant_of(t, start)));
    if (tt_banks == 1) {
        read_in_one_step(t, start, end, site);
        return;
    }
    u32 *lock = lock_block(t, start);
    grant(t, start, READ);
    if (!(*word_of(t, start) & t->mask)) {
        u64 truth = join_readers(t, start), writer = truth >> WRITER_SHIFT;
        if (is_other(t, writer)) {
            struct meeting m = {0};
            if (tt_mode == DETAIL)
                m = meet(truth, start, end);
            count_with_writer(t, RAW, writer - 1, start, end, site, &m, gap_of(t, start));
        } else if (!writer) {
            count_unknown_read(t, truth, start);
        }
    }
    unlock_block(t, lock);
}

// Whether no byte of the block is missing.
static inline int is_whole(u64 first, u64 end) {
    u64 missing = 0;
    for (u64 a = first; a < end && !missing; a += LINE)
        missing = *written_in_line(a) & bytes_in_line(a, end);
    return !missing;
}

// How a write came by its block.
enum coming { STAYED, CAME_BACK, TOOK_OVER }; // it was its own; others have read it; another thread's

// How much threads fight for a block, in its site's word, after a write. A thread that takes a
// whole block usually does not fight: memory passes so from one phase of a program to the next.
static inline u32 heat_after(u32 last, enum coming coming, int was_whole) {
    u32 heat = (last & MAX_HEAT) >> HEAT_SHIFT, most = MAX_HEAT >> HEAT_SHIFT;
    u32 less = coming == STAYED ? FILLING : CALM;
    if (coming == TOOK_OVER && !was_whole)
        heat = heat < most - FIGHT ? heat + FIGHT : most;
    else
        heat = heat > less ? heat - less : 0;
    return heat << HEAT_SHIFT;
}

// Notes which bytes of the thread's block have been written since it was taken, and from where;
// whether that is all of them now. Under the lock.
static inline int note_written(u64 start, u64 end, enum coming coming, u32 site) {
    u64 added = 0, block = 1ull << tt_block_shift, first = start & ~(block - 1);
    int was_whole = coming == TOOK_OVER && is_whole(first, first + block);
    if (coming != STAYED) {
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
        *last = site | heat_after(*last, coming, was_whole) | LOCKED;
    return is_whole(first, first + block);
}

// The thread has taken a block with this word. If no thread is known to have had it, this one may
// have written to it before the window, in bytes that are not known.
static inline void note_beginning(struct thread *t, u64 word, u64 address) {
    if (tt_mode != DETAIL || !tt_tracked_notes || WINDOW_OF(t->phase) <= FIRST_WINDOW)
        return;
    int known = word >> WRITER_SHIFT || (word & (READERS | DEPARTED | FOREIGN) & ~t->mask) ||
                (is_tracked(address) && !tt_tracked_anew && !(word & BEGAN_UNSEEN));
    if (!known)
        for (u64 bank = 0; bank < tt_banks; bank++)
            __atomic_fetch_or(word_in(bank, address), BEGAN_UNSEEN, __ATOMIC_RELAXED);
}

// The thread takes the block; the word before, which is not its own.
static inline u64 take_block(struct thread *t, u64 address, int late) {
    if (tt_banks == 1) {
        u64 old = __atomic_exchange_n(word_of(t, address), t->own_word, __ATOMIC_SEQ_CST);
        invalidate(t, t->bank, old, old >> WRITER_SHIFT, address, late);
        note_beginning(t, old, address);
        return old;
    }
    u64 old = *word_in(0, address);
    for (u64 bank = 0; bank < tt_banks; bank++) {
        u64 *word = word_in(bank, address);
        u64 before = *word;
        u64 mine = bank == t->bank ? t->own_word : t->own_word & ~(FOREIGN | READERS);
        __atomic_store_n(word, mine, __ATOMIC_SEQ_CST);
        invalidate(t, bank, before, old >> WRITER_SHIFT, address, late);
    }
    note_beginning(t, old, address);
    return old;
}

// Whether the block is granted for writing these bytes: what checks ask before they come here. Not
// if it has been written whole by now: then more can be granted.
static inline int is_granted(const struct thread *t, u64 start, u64 end) {
    u8 granted = *grant_of(t, start);
    if (granted & WRITE || !(granted & OWN) || tt_mode != DETAIL)
        return granted & WRITE;
    u64 missing = 0;
    for (u64 a = start; a < end; a = (a | (LINE - 1)) + 1)
        missing |= __atomic_load_n(written_in_line(a), __ATOMIC_RELAXED) & bytes_in_line(a, end);
    u64 block = 1ull << tt_block_shift, first = start & ~(block - 1);
    if (!missing && is_whole(first, first + block))
        return 0;
    return !missing;
}

// Whether the block is the thread's alone.
static inline int is_own(const struct thread *t, u64 address) {
    return (__atomic_load_n(word_of(t, address), __ATOMIC_SEQ_CST) & ~BEGAN_UNSEEN) == t->own_word;
}

// Bytes of one block that the thread reads just before it writes to that block.
struct reading {
    u64 start, end;
    u32 site;
};

// The thread has taken a block with this word, which has no writer, after a reading, or 0: what it
// overwrites, and what it has read there for the first time, may be another thread's.
static inline void count_unknown_write(struct thread *t, u64 word, u64 address, const struct reading *read) {
    u64 blocks = unknown_by(word, address);
    note_unknown_stream(t, address, 0);
    count_unknown(t, read && !(word & t->mask) ? 2 * blocks : blocks);
}

// Writes where one word is the whole truth; after a reading, or 0.
static inline void write_in_one_step(struct thread *t, u64 start, u64 end, u32 site,
                                     const struct reading *read, unsigned gap) {
    if (is_own(t, start)) {
        grant(t, start, READ | WRITE | OWN);
        if (is_own(t, start))
            return;
    }
    u8 *offered = offer(t, start, READ | WRITE | OWN);
    u64 word = take_block(t, start, gap >= GAP_LATE), writer = word >> WRITER_SHIFT;
    settle(start, offered);
    if (!writer)
        count_unknown_write(t, word, start, read);
    if (!is_other(t, writer))
        return;
    if (read && !(word & t->mask))
        count_with_writer(t, RAW, writer - 1, read->start, read->end, read->site, 0, gap);
    count_with_writer(t, WAW, writer - 1, start, end, site, 0, gap);
}

// Grants what the thread may do to a block that it has taken before. Readers take no lock: one may
// have come. Nor is the lock quite sure to keep writers out: translated code may store its site
// over the bit that another thread has just set (engine::bytes).
static inline void grant_own(struct thread *t, u64 address, int whole) {
    grant(t, address, READ | OWN | (whole ? WRITE : 0));
    u64 word = __atomic_load_n(word_of(t, address), __ATOMIC_SEQ_CST);
    if ((word & ~BEGAN_UNSEEN) != t->own_word)
        take_back(grant_of(t, address), word & t->mask ? READING : NOTHING);
}

// Grants the thread its own block for writing if no byte of it is missing any more; returns whether
// it did. Neither the lock nor the word is needed: a thread that ends this ownership takes OWN
// back, and WRITE with it, before it makes bytes missing.
static inline int grant_whole(struct thread *t, u64 address) {
    u64 block = 1ull << tt_block_shift, first = address & ~(block - 1);
    u8 *at = grant_of(t, address);
    return look(at) & OWN && is_whole(first, first + block) && grant_more(address, at, WRITE, OWN);
}

// Adds bytes to a block of the thread's that others fight for; whether it is the thread's. Grants
// are taken back under the lock, so this one need not be asked for again.
static inline int add_bytes(struct thread *t, u64 start, u64 end, u32 site) {
    if (!(look(grant_of(t, start)) & OWN))
        return 0;
    u32 *lock = lock_block(t, start);
    int own = look(grant_of(t, start)) & OWN;
    if (own && note_written(start, end, STAYED, site))
        grant_own(t, start, 1);
    unlock_block(t, lock);
    return own;
}

// Writes bytes `start` to `end` of one block. With a `read`ing of the same block right before it,
// or 0, which is counted, too, if another thread has written the block: to take it once is all that
// both need. That is for a single bank, whose word says whether the thread has read the block.
static void write_part(struct thread *t, u64 start, u64 end, u32 site, const struct reading *read) {
    u64 place = place_of(start);
    note_return(t, start, 1);
    if (passes_at(t, place, start) || is_granted(t, start, end))
        return;
    if (place != NOT_SHARED) {
        if (read)
            read_shared(t, place + read->start - start, read->start, read->end, read->site);
        write_shared(t, place, start, end, site);
        return;
    }
    note_touch(t, start, look(grant_of(t, start)));
    unsigned gap = note_write(t, start);
    if (lock_free()) {
        write_in_one_step(t, start, end, site, read, gap);
        return;
    }
    if (tt_mode == DETAIL && (grant_whole(t, start) || add_bytes(t, start, end, site)))
        return;
    struct meeting m = {0}, seen = {0};
    u64 word = 0, writer = 0;
    u32 *lock = lock_block(t, start);
    int taken = !is_own(t, start), whole = tt_mode != DETAIL;
    if (taken) {
        u8 *offered = offer(t, start, READ | OWN);
        word = take_block(t, start, gap >= GAP_LATE);
        writer = word >> WRITER_SHIFT;
        settle(start, offered);
    }
    int from_other = is_other(t, writer), reads = from_other && read && !(word & t->mask);
    if (tt_mode == DETAIL) {
        if (reads)
            seen = meet(word, read->start, read->end);
        if (from_other)
            m = meet(word, start, end);
        whole = note_written(start, end, from_other ? TOOK_OVER : taken ? CAME_BACK : STAYED, site);
    }
    if (!taken || whole)
        grant_own(t, start, whole);
    unlock_block(t, lock);
    if (taken && !writer)
        count_unknown_write(t, word, start, read);
    if (reads)
        count_with_writer(t, RAW, writer - 1, read->start, read->end, read->site, &seen, gap);
    if (from_other)
        count_with_writer(t, WAW, writer - 1, start, end, site, &m, gap);
    else if (tt_mode == DETAIL && counts_event(t, 0) && word & (READERS | DEPARTED | FOREIGN) & ~t->mask) {
        count_for_path(t, site); // others have read what it has written
        note_event_on(t, start & ~(LINE - 1));
    }
}

// Thesis, Algorithm 3.1: an access pairs with each of the two most recent accessors that is another
// thread. The word holds the most recent one + 1, the word in the second shadow the one before.
// While there is one before, every access counts, so the word differs from any thread's own and no
// check passes.
#define PAIRED (1ull << 63)

static void touch_part(struct thread *t, u64 start) {
    u64 place = place_of(start);
    if (place != NOT_SHARED) {
        touch_shared(t, place);
        return;
    }
    u32 *lock = lock_block(t, start);
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
    if (first && first != t->own_word)
        take_back(grant_in(tt_grants[tt_bank_of[first - 1]][tt_slot_of[first - 1]], start), NOTHING);
    else if (!second)
        grant(t, start, READ | WRITE | OWN);
    unlock_block(t, lock);
}

// One block of an access.
static inline void access_part(struct thread *t, u64 start, u64 end, int writes, u32 site) {
    if (tt_mode == UNDIRECTED)
        touch_part(t, start);
    else if (writes)
        write_part(t, start, end, site, 0);
    else
        read_part(t, start, end, site);
}

// An access between windows: of its tracked blocks, and where it is short, the same shall pass from
// now on.
static void access_between(struct thread *t, u64 start, u64 last, int writes, u32 site) {
    if (last - start < 1ull << tt_block_shift) {
        passes(t, start);
        passes(t, last);
    }
    if (is_light(t))
        return;
    for (u64 group = tracked_group(start); group <= tracked_group(last); group++) {
        u64 first = (group << GROUP_SHIFT | tracked_in(group)) << tt_block_shift;
        u64 end = first + (1ull << tt_block_shift), from = first > start ? first : start;
        end = end <= last ? end : last + 1;
        if (from < end)
            access_part(t, from, end, writes, site);
    }
}

#ifndef MODE
// An access of a filtered trace: is in it unless it is quiet (filter.h).
static void access_filtered(struct thread *t, u64 start, u64 bytes, int writes, u32 site) {
    const u64 BLOCK = 1ull << tt_block_shift;
    u64 last = start + bytes - 1, first = start & ~(BLOCK - 1);
    int quiet = 1, held = 1;
    for (u64 a = first; quiet && a <= last; a += BLOCK)
        quiet = is_quiet(t, a, writes);
    if (!quiet)
        for (u64 a = first; a <= last; a += BLOCK)
            held &= place_of(a) == NOT_SHARED && note_hands(t, a, writes);
    if (!quiet)
        trace_filtered(t, start, bytes, writes, site, held);
    for (u64 a = start; a <= last; a = (a | (BLOCK - 1)) + 1) {
        u64 block_last = a | (BLOCK - 1);
        access_part(t, a, (block_last < last ? block_last : last) + 1, writes, site);
        if (!quiet)
            hold(t, a, held);
    }
}
#endif

// An access of the thread, block by block; its pages are counted elsewhere.
static void access_blocks(struct thread *t, u64 start, u64 bytes, int writes, u32 site) {
    // Beyond the addresses that programs have, there is no shadow: the access itself will fault.
    if (!bytes || (start | (start + bytes - 1)) >> ADDRESS_BITS)
        return;
    if (tt_mode == TRANSLATE) // system calls and strings come here all the same
        return;
    if (!observes(t)) {
        if (is_between(t))
            access_between(t, start, start + bytes - 1, writes, site);
        return;
    }
#ifndef MODE
    if (tt_mode == TRACE) {
        trace_access(t, start, bytes, writes ? TRACE_WRITE : TRACE_READ, site);
        return;
    }
    if (tt_trace_ways) {
        access_filtered(t, start, bytes, writes, site);
        return;
    }
#endif
    u64 last = start + bytes - 1;
    for (u64 a = start;;) {
        u64 block_last = a | ((1ull << tt_block_shift) - 1);
        u64 end = (block_last < last ? block_last : last) + 1;
        access_part(t, a, end, writes, site);
        if (block_last >= last)
            break;
        a = end;
    }
}

// An access of the thread.
static inline void access_range(struct thread *t, u64 start, u64 bytes, int writes, u32 site) {
    if (tt_pages)
        count_by_page(t, start, bytes, !writes, !!writes, site);
    access_blocks(t, start, bytes, writes, site);
}

static inline void read_range(struct thread *t, u64 start, u64 bytes, u32 site) {
    access_range(t, start, bytes, 0, site);
}

static inline void write_range(struct thread *t, u64 start, u64 bytes, u32 site) {
    access_range(t, start, bytes, 1, site);
}

#endif
