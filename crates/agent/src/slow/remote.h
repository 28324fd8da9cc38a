// The remote side of process_vm_readv and process_vm_writev: memory of another process.
//
// Each recorded process says in the shadow of shared memory where its own shadow is
// (wire::shared::Peer). The caller reads from there who wrote the blocks last. It cannot mark them
// as read, or take them, so each call counts as the first one since the write. What the other
// process shares lies in the common shadow, where the access is one like any other; and a process
// may as well name itself.
//
// Neighbours: `shared.rs` fills the peers, `system_calls.h` asks.
#ifndef TT_REMOTE_H
#define TT_REMOTE_H
#include "access.h"
#include "program.h"

enum { BLOCKS_AT_ONCE = 64 }; // blocks

// What is known of some blocks of the other process.
struct remote_blocks {
    u64 words[BLOCKS_AT_ONCE], written[BLOCKS_AT_ONCE];
    u32 sites[BLOCKS_AT_ONCE];
};

static inline struct peer *peer_at(u32 segment) {
    return (struct peer *)(tt_shared + PEERS_OFFSET) + segment;
}

// The recorded process with this id; the last one that had it.
static struct peer *find_peer(u32 pid) {
    u32 count = __atomic_load_n(&shared_counters()->peers, __ATOMIC_ACQUIRE);
    for (u32 segment = count < MAX_PEERS ? count : MAX_PEERS; segment-- > 0;)
        if (__atomic_load_n(&peer_at(segment)->pid, __ATOMIC_ACQUIRE) == pid)
            return peer_at(segment);
    return 0;
}

static int read_peer(const struct peer *peer, const struct piece *to, const struct piece *from, u64 count) {
    u64 wanted = 0;
    for (u64 k = 0; k < count; k++)
        wanted += to[k].bytes;
    return !is_forbidden(NO_COPY) &&
           call6(CALL_PROCESS_VM_READV, peer->pid, (u64)to, count, (u64)from, count, 0) == (long)wanted;
}

static int read_word(const struct peer *peer, void *to, u64 from, u64 bytes) {
    struct piece local = {(u64)to, bytes}, remote = {from, bytes};
    return read_peer(peer, &local, &remote, 1);
}

// The place of an address of the other process, if it shares it.
static u64 remote_place(const struct peer *peer, u64 address) {
    u32 chunk = 0, entry = 0;
    u64 page = address >> SHARED_PAGE_SHIFT;
    if (!peer->chunks || !read_word(peer, &chunk, peer->chunks + (address >> CHUNK_SHIFT) * sizeof chunk, 4))
        return NOT_SHARED;
    if (chunk == MIXED) {
        if (!read_word(peer, &entry, peer->pages + page * sizeof entry, 4))
            return NOT_SHARED;
    } else if (chunk) {
        entry = chunk + (u32)(page & ((1u << (CHUNK_SHIFT - SHARED_PAGE_SHIFT)) - 1));
    }
    if (!entry)
        return NOT_SHARED;
    return (u64)(entry - 1) << SHARED_PAGE_SHIFT | (address & ((1u << SHARED_PAGE_SHIFT) - 1));
}

// The number as a sharer of a thread of another process, which may not have one yet.
static u64 sharer_for(const struct peer *peer, u32 thread) {
    enum { KNOWN = 256 };
    static u32 known[KNOWN];
    struct shared *all = shared_counters();
    u32 segment = (u32)(peer->image >> 32), execs = (u32)peer->image;
    u32 *lately = &known[(segment * 31 + thread) % KNOWN], number = __atomic_load_n(lately, __ATOMIC_RELAXED);
    u32 count = __atomic_load_n(&all->sharers, __ATOMIC_RELAXED);
    for (u32 k = 0; k < count && k < MAX_SHARERS; k++) {
        const struct sharer *s = sharer_at(number = (number + (k > 0)) % count);
        if (__atomic_load_n(&s->known, __ATOMIC_ACQUIRE) && s->segment == segment && s->execs == execs &&
            s->thread == thread) {
            __atomic_store_n(lately, number, __ATOMIC_RELAXED);
            return number;
        }
    }
    number = count < MAX_SHARERS ? __atomic_fetch_add(&all->sharers, 1, __ATOMIC_RELAXED) : MAX_SHARERS;
    if (number >= MAX_SHARERS)
        return NOT_SHARED;
    struct sharer *new = sharer_at(number);
    new->segment = segment;
    new->execs = execs;
    new->thread = thread;
    __atomic_store_n(&new->known, 1, __ATOMIC_RELEASE);
    return number;
}

// What is known of blocks from the one at `first` on, as many as there is room for.
static int look_at_peer(const struct peer *peer, u64 first, u64 count, struct remote_blocks *blocks) {
    struct piece to[3] = {{(u64)blocks->words, count * 8}};
    struct piece from[3] = {{peer->shadow + (first >> tt_block_shift << 3), count * 8}};
    int has_bytes = tt_mode == DETAIL && tt_block_shift == LINE_SHIFT;
    if (has_bytes) {
        to[1] = (struct piece){(u64)blocks->written, count * 8};
        from[1] = (struct piece){peer->written + (first >> LINE_SHIFT << 3), count * 8};
        to[2] = (struct piece){(u64)blocks->sites, count * 4};
        from[2] = (struct piece){peer->sites + (first >> LINE_SHIFT << 2), count * 4};
    }
    return read_peer(peer, to, from, has_bytes ? 3 : 1);
}

// The kernel has read or written the other process's own memory for the thread.
static void access_private_of(struct thread *t, const struct peer *peer, u64 start, u64 end, unsigned kind,
                              u32 site) {
    struct remote_blocks blocks;
    u64 block = 1ull << tt_block_shift;
    int has_bytes = tt_mode == DETAIL && tt_block_shift == LINE_SHIFT;
    for (u64 first = start & ~(block - 1); first < end; first += BLOCKS_AT_ONCE * block) {
        u64 left = (end - first + block - 1) >> tt_block_shift,
            count = left < BLOCKS_AT_ONCE ? left : BLOCKS_AT_ONCE;
        if (!look_at_peer(peer, first, count, &blocks))
            return;
        for (u64 k = 0; k < count; k++) {
            u64 writer = blocks.words[k] >> WRITER_SHIFT, at = first + k * block;
            u64 from = at < start ? start : at, to = at + block < end ? at + block : end;
            u64 other = writer ? sharer_for(peer, (u32)writer - 1) : NOT_SHARED;
            struct meeting m = {.unseen = !has_bytes || blocks.words[k] & BEGAN_UNSEEN};
            if (has_bytes) {
                m.bytes = ~blocks.written[k];
                m.site = blocks.sites[k] & SITE;
                m.overlap = (m.bytes & bytes_in_line(from, to)) != 0;
            }
            if (other != NOT_SHARED)
                count_with_writer(t, kind + OTHER_PROCESS, other, from, to, site, &m, 0);
        }
    }
}

// The same of any memory of the process with that id.
static void access_remote(struct thread *t, u32 pid, u64 start, u64 bytes, int writes, u32 site) {
    if (!bytes || (start | (start + bytes - 1)) >> ADDRESS_BITS || !tt_shared || !observes(t) ||
        (tt_mode != DETAIL && tt_mode != MATRIX))
        return;
    const struct peer *peer = find_peer(pid);
    u32 opened = 0;
    if (!peer || !read_word(peer, &opened, peer->opened, sizeof opened) || opened != WINDOW_OF(t->phase))
        return;
    if (peer->image == tt_image) {
        access_range(t, start, bytes, writes, site);
        return;
    }
    const u64 PAGE = 1ull << SHARED_PAGE_SHIFT;
    for (u64 end = start + bytes, next; start < end; start = next) {
        u64 place = remote_place(peer, start);
        next = (start | (PAGE - 1)) + 1;
        next = next < end ? next : end;
        if (place == NOT_SHARED) {
            access_private_of(t, peer, start, next, writes ? WAW : RAW, site);
            continue;
        }
        for (u64 a = start, last; a < next; a = last) {
            last = (a | ((1ull << tt_block_shift) - 1)) + 1;
            last = last < next ? last : next;
            if (writes)
                write_shared(t, place + (a - start), a, last, site);
            else
                read_shared(t, place + (a - start), a, last, site);
        }
    }
}

#endif
