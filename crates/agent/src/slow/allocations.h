// What the program allocates and frees: translated code comes here where an allocation function
// begins, and where a call of one returns to.
//
// A call is noted with its stack pointer when it begins, and looked for by it when code is reached
// to which such calls return. The outermost call counts: operator new calls malloc. A call may also
// end without returning (longjmp, exceptions, cancelled threads). So what is noted is believed only
// as long as its return address still lies where it was, and forgotten as soon as the stack has
// shrunk beyond it.
//
// Blocks are forgotten when the function that frees them begins: afterwards another thread may have
// them. realloc is the exception; its block ends when it returns, unless that is another by then.
//
// Who called is found by rules for each return address on the way up (`frames.rs`), never by
// looking for what may be a return address. A thread keeps its last chains of calls with the words
// of the stack that led from one to the next: where these are as they were, so is the chain.
//
// Neighbours: `objects.h` keeps the blocks, `lives.h` counts what is freed, `blocks/functions.rs`
// knows the functions, `stubs.rs` calls tt_hook.
#ifndef TT_ALLOCATIONS_H
#define TT_ALLOCATIONS_H
#include "lives.h"
#include "pages.h"
#include "program.h"
#include "repeat.h"

// A call inside another has used no more of the stack than this.
#define NEAR (64ull << 10)

struct saved {
    u64 r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax;
};

// Whether the page with a word of the stack is there; notes it together with its neighbours.
COLD static int see_stack(struct thread *t, u64 address, u64 seen) {
    u64 page = address & ~(PAGE_BYTES - 1), word;
    if (is_forbidden(NO_PROBE))
        return tt_take((u8 *)&word, address, sizeof word) == sizeof word;
    if (!is_readable(page))
        return 0;
    int known = t->stack_seen == seen;
    if (!known || page > t->stack_end || page + PAGE_BYTES < t->stack_from) {
        t->stack_from = page;
        t->stack_end = page + PAGE_BYTES;
    } else if (page < t->stack_from) {
        t->stack_from = page;
    } else {
        t->stack_end = page + PAGE_BYTES;
    }
    t->stack_seen = seen;
    return 1;
}

// A word of the thread's stack. Where that ends, what is taken for a frame may be none: a program
// that has no handler would die of the fault.
static inline struct peeked peek_stack(struct thread *t, u64 address) {
    u64 seen = __atomic_load_n(&tt_blocks.unmappings, __ATOMIC_RELAXED);
    int known = t->stack_seen == seen && address - t->stack_from < t->stack_end - t->stack_from;
    if (address & 7 || (!known && !see_stack(t, address, seen)))
        return (struct peeked){0, 1};
    return (struct peeked){*(const u64 *)address, 0};
}

static inline u64 times(u64 a, u64 b) {
    u64 product;
    return __builtin_mul_overflow(a, b, &product) ? 0 : product;
}

static inline u64 hash_of_return(u64 address) {
    return address * 0x9e3779b97f4a7c15ull >> (64 - RETURN_BITS);
}

#define RETURN_MASK ((1u << RETURN_BITS) - 1)
// Places of an address in each of the two tables. Where all are taken, a new one replaces the
// first: what is not found is asked for again, so nothing is lost but time.
#define RETURN_PLACES 16
// No return address: its rule changes.
#define CHANGES 1ull

// Whether the host is told when code there is entered.
static int returns_to_known(u64 address) {
    u64 hash = hash_of_return(address);
    for (u64 n = 0; n < RETURN_PLACES; n++) {
        u64 there = __atomic_load_n(&tt_blocks.returns[(hash + n) & RETURN_MASK], __ATOMIC_RELAXED);
        if (there == address || !there)
            return there != 0;
    }
    return 0;
}

// From now on the host is told when code there is entered. Under the engine's lock.
void tt_add_return(u64 address) {
    u64 hash = hash_of_return(address), *to = &tt_blocks.returns[hash];
    for (u64 n = 0; n < RETURN_PLACES; n++) {
        u64 *at = &tt_blocks.returns[(hash + n) & RETURN_MASK];
        if (!*at || *at == address) {
            to = at;
            break;
        }
    }
    __atomic_store_n(to, address, __ATOMIC_RELEASE);
}

// The word of the rule for code that calls return to; 0 = not known.
static u64 rule_of(u64 address) {
    u64 hash = hash_of_return(address);
    for (u64 n = 0; n < RETURN_PLACES; n++) {
        const struct rule *there = &tt_blocks.rules[(hash + n) & RETURN_MASK];
        u64 known = __atomic_load_n(&there->address, __ATOMIC_ACQUIRE);
        if (!known)
            return 0;
        if (known != address)
            continue;
        u64 word = __atomic_load_n(&there->word, __ATOMIC_ACQUIRE);
        return __atomic_load_n(&there->address, __ATOMIC_RELAXED) == address ? word : 0;
    }
    return 0;
}

// Sets the rule, or 0, so that it is asked for again. Under the engine's lock.
void tt_set_rule(u64 address, u64 word) {
    u64 hash = hash_of_return(address);
    struct rule *to = 0;
    for (u64 n = 0; n < RETURN_PLACES && !to; n++) {
        struct rule *at = &tt_blocks.rules[(hash + n) & RETURN_MASK];
        if (!at->address || at->address == address)
            to = at;
    }
    if (!to && !word)
        return;
    if (!to)
        to = &tt_blocks.rules[hash];
    // Readers look at the address before and after.
    __atomic_store_n(&to->address, CHANGES, __ATOMIC_RELAXED);
    __atomic_store_n(&to->word, word, __ATOMIC_RELEASE);
    __atomic_store_n(&to->address, address, __ATOMIC_RELEASE);
}

// Frames are short enough for their words to lie less than 4 GiB above the call.
static void tell(struct chain *chain, const struct call *c, u64 address, u64 value, u32 is_stack) {
    chain->told[chain->count++] =
        (struct told){(u32)(address - c->stack), is_stack, is_stack ? value - c->stack : value};
}

// Walks the stack up from a call, by rules; each frame must end above the last. Notes which words
// of it led on. Returns an address whose rule is not known yet, or 0.
static u64 walk(struct thread *t, struct call *c, struct chain *chain) {
    const u64 LONGEST = 64ull << 20;
    u64 stack = c->stack + 8, rbp = c->frame_pointer, rbp_at = 0;
    chain->count = 0;
    chain->by_frame_pointer = 0;
    for (int k = 1; k < FRAMES; k++) {
        u64 rule = rule_of(c->frames[k - 1]);
        if (!(rule & LEADS_ON))
            return rule ? 0 : c->frames[k - 1];
        u64 base = rule & BY_RBP ? rbp : stack;
        u64 end = base + (u64)(int64_t)(int32_t)rule;
        if (rule & BY_RBP && !rbp_at)
            chain->by_frame_pointer = 1;
        else if (rule & BY_RBP)
            tell(chain, c, rbp_at, rbp, 1);
        if (rule & ALIGNED) {
            struct peeked p = peek_stack(t, end);
            if (p.failed)
                return 0;
            tell(chain, c, end, p.value, 1);
            end = p.value;
        }
        if (end - stack < 8 || end - stack > LONGEST || end & 7)
            return 0;
        struct peeked back = peek_stack(t, end - 8);
        int16_t saved = (int16_t)(rule >> RBP_SHIFT);
        if (saved || rule & ALIGNED) {
            rbp_at = rule & ALIGNED ? base : end + (u64)(int64_t)saved;
            struct peeked p = peek_stack(t, rbp_at);
            back.failed |= p.failed;
            rbp = p.value;
        }
        if (back.failed || !back.value)
            return 0;
        tell(chain, c, end - 8, back.value, 0);
        c->frames[k] = back.value;
        stack = end;
    }
    return 0;
}

static u32 digits_of(u64 bytes) { return 64 - (u32)__builtin_clzll(bytes | 1); }

// Where the call's chain is kept. Chains that end in one function mostly differ in the depth of the
// stack.
static struct chain *chain_of(struct thread *t, const struct call *c) {
    u64 hash = (c->frames[0] ^ digits_of(c->bytes) ^ c->stack << 8) * 0x9e3779b97f4a7c15ull;
    return &t->chains[hash >> (64 - CHAIN_BITS)];
}

// Whether the call has come by this chain, for a block of the same group.
static int is_chain(struct thread *t, const struct chain *chain, const struct call *c) {
    if (chain->back != c->frames[0] || chain->code_gone != tt_blocks.code_gone ||
        chain->digits != digits_of(c->bytes) || chain->by != c->by ||
        (chain->by_frame_pointer && c->frame_pointer - c->stack != chain->frame_pointer))
        return 0;
    for (u32 k = 0; k < chain->count; k++) {
        const struct told *told = &chain->told[k];
        struct peeked p = peek_stack(t, c->stack + told->above);
        if (p.failed || p.value - (told->is_stack ? c->stack : 0) != told->value)
            return 0;
    }
    return 1;
}

// Finds the group of the block that the call allocates. Returns an address whose rule must be known
// first, or 0.
static u64 find_callers(struct thread *t, struct call *c) {
    struct chain *chain = chain_of(t, c);
    chain->back = 0;
    for (int k = 1; k < FRAMES; k++)
        c->frames[k] = 0;
    u64 unknown = walk(t, c, chain);
    if (unknown)
        return unknown;
    c->new_group = find_group(c->frames, c->by, digits_of(c->bytes), 0);
    chain->code_gone = tt_blocks.code_gone;
    chain->digits = digits_of(c->bytes);
    chain->by = c->by;
    chain->group = (u32)c->new_group;
    chain->frame_pointer = c->frame_pointer - c->stack;
    chain->back = returns_to_known(c->frames[0]) ? c->frames[0] : 0;
    return 0;
}

// Whether the call, which began further up, is still under way.
static int is_under_way(struct thread *t, const struct call *c, u64 stack) {
    if (c->stack - stack > NEAR)
        return 0;
    struct peeked p = peek_stack(t, c->stack);
    return !p.failed && p.value == c->frames[0];
}

// How many bytes a call asks for.
static inline u64 bytes_asked(u32 how, const struct saved *r) {
    if (how == TAKES_BYTES)
        return r->rdi;
    if (how == TAKES_PRODUCT)
        return times(r->rdi, r->rsi);
    if (how == TAKES_BYTES_SECOND || how == REALLOCATES)
        return r->rsi;
    if (how == REALLOCATES_PRODUCT)
        return times(r->rsi, r->rdx);
    return how == TAKES_BYTES_THIRD ? r->rdx : 0;
}

// A function that allocates begins. Returns whether something is not known that leads back from it.
static u64 begin_call(struct thread *t, u64 what, const struct saved *r, u64 stack, u64 rbp) {
    while (t->calls_under_way && t->calls[t->calls_under_way - 1].stack <= stack)
        t->calls_under_way--;
    if (t->calls_under_way && is_under_way(t, &t->calls[t->calls_under_way - 1], stack))
        return 0;
    if (t->calls_under_way == MAX_CALLS)
        t->calls_under_way = 0;
    struct call *c = &t->calls[t->calls_under_way];
    u32 how = what & 0xff;
    // Word by word: to clear all of it takes longer than the rest.
    c->stack = stack;
    c->how = how;
    c->by = (u32)(what >> 8);
    c->frames[0] = *(const u64 *)stack;
    c->frame_pointer = rbp;
    c->new_group = c->old = 0;
    c->record = 0;
    c->bytes = bytes_asked(how, r);
    if (how == REALLOCATES || how == REALLOCATES_PRODUCT || how == TAKES_BYTES_THIRD)
        c->old = r->rdi;
    struct known k;
    if ((how == REALLOCATES || how == REALLOCATES_PRODUCT) && c->old && block_from(c->old, &k)) {
        c->record = k.record;
        c->version = k.version;
        c->group = k.group;
        c->ordinal = k.ordinal;
        c->born = k.thread == ~0u ? born_now() : k.born;
    }
    t->calls_under_way++;
    struct chain *chain = chain_of(t, c);
    if (is_chain(t, chain, c)) {
        c->new_group = chain->group;
        return 0;
    }
    u64 unknown = find_callers(t, c);
    return unknown || !returns_to_known(c->frames[0]);
}

// The return address of the thread's last call if its return is not told of yet, else 0; and an
// address further up whose rule is not known, or 0.
u64 tt_unknown_return(const struct thread *t) {
    const struct call *c = &t->calls[t->calls_under_way - 1];
    return returns_to_known(c->frames[0]) ? 0 : c->frames[0];
}
u64 tt_unknown_rule(struct thread *t) { return find_callers(t, &t->calls[t->calls_under_way - 1]); }

// A block that was there keeps what is known of it, but for its size.
static void keep_identity(struct thread *t, const struct call *c, const struct known *before,
                          struct known *k) {
    const struct group *old = group_named(c->group);
    k->group = c->group;
    k->ordinal = c->ordinal;
    k->born = (u32)c->born;
    if (c->group != OTHERS && old->digits != digits_of(k->bytes)) {
        count_freed(t, before);
        k->group = find_group(old->frames, old->by, digits_of(k->bytes), old);
        k->ordinal = count_often(t, k->group, k->bytes);
    }
}

static void end_call(struct thread *t, const struct call *c, u64 result) {
    if (c->how == TAKES_BYTES_THIRD) {
        struct peeked p = tt_peek(c->old, 8);
        result = (u32)result || p.failed ? 0 : p.value;
    }
    struct known before = {
        .record = c->record, .version = c->version, .group = c->group, .born = (u32)c->born};
    int ended = c->record && (result || !c->bytes) && end_block(&before);
    if (ended && !result)
        count_freed(t, &before);
    if (!result)
        return;
    struct known k = {.start = result, .bytes = c->bytes ? c->bytes : 1, .thread = (u32)t->id};
    if (c->record) {
        keep_identity(t, c, &before, &k);
    } else {
        k.born = born_now();
        k.group = c->new_group ? (u32)c->new_group : find_group(c->frames, c->by, digits_of(k.bytes), 0);
        k.ordinal = count_often(t, k.group, k.bytes);
        if (k.group == OTHERS)
            add_shared(tt_session.blocks_unknown, 1);
    }
    add_block(t, &k);
    if (tt_pages && (c->how == TAKES_PRODUCT || c->how == REALLOCATES || c->how == REALLOCATES_PRODUCT))
        note_filled(&k);
}

// Code is reached to which calls return: with this stack pointer, if one does.
static void returned(struct thread *t, u64 result, u64 stack) {
    while (t->calls_under_way && t->calls[t->calls_under_way - 1].stack + 8 < stack)
        t->calls_under_way--;
    if (!t->calls_under_way || t->calls[t->calls_under_way - 1].stack + 8 != stack)
        return;
    end_call(t, &t->calls[--t->calls_under_way], result);
}

static void end_block_from(struct thread *t, u64 start) {
    struct known k;
    // What was allocated before a fork is the parent's.
    if (start && block_from(start, &k) && end_block(&k) && k.thread != ~0u)
        count_freed(t, &k);
}

// What is not to be looked at now: UNFOLLOWED_….
static inline u32 unfollowed_now(void) {
    u32 unfollowed = __atomic_load_n(tt_unfollowed, __ATOMIC_RELAXED);
    if (__builtin_expect(!unfollowed, 1))
        return 0;
    u32 phase = PHASE_OF(__atomic_load_n(tt_phase, __ATOMIC_RELAXED));
    int between = phase == PHASE_OFF || phase == PHASE_LIGHT || phase == PHASE_LATE;
    return between ? unfollowed : 0;
}

// Whether a call that allocates is looked at.
static inline int allocation_counts(u32 unfollowed, u32 how, const struct saved *r) {
    if (!unfollowed)
        return 1;
    int large = bytes_asked(how, r) >= 1ull << LARGE_SHIFT;
    return !(unfollowed & (large ? UNFOLLOWED_LARGE : UNFOLLOWED_SMALL));
}

// Whether a call that ends the block at `start` is looked at.
static inline int freeing_counts(u32 unfollowed, u64 start) {
    return !(unfollowed & UNFOLLOWED_FREED) || (!(unfollowed & UNFOLLOWED_LARGE) && may_be_large(start));
}

// Whether this look is timed.
static inline int is_timed(struct thread *t) {
    if (__builtin_expect(t->untimed != 0, 1)) {
        t->untimed--;
        return 0;
    }
    t->untimed = TIMED_HOOKS - 1;
    return has_clock();
}

// Counts the time of a timed look, and of those like it. Where the thread was interrupted, only a
// part of that is its own.
COLD static void count_time(struct thread *t, u64 began) {
    const u64 LONGEST = 1 << 14;
    u64 ticks = __builtin_ia32_rdtsc() - began;
    *(u64 *)(t->page + PAGE_HOOK_TICKS) += TIMED_HOOKS * (ticks < LONGEST ? ticks : LONGEST);
}

// Translated code has come to what `blocks` wanted to be told of, or native code to a door. Returns
// whether that must make something known about the thread's last call.
u64 tt_hook(struct thread *t, u64 what, const struct saved *r, u64 rbp) {
    u64 stack = *(const u64 *)(t->page + CONTROL_APP_RSP);
    u32 how = what & 0xff, unfollowed = unfollowed_now();
    int returns = what == RETURNED, frees = how == FREES;
    int moves = how == REALLOCATES || how == REALLOCATES_PRODUCT;
    int begins = !returns && !frees && allocation_counts(unfollowed, how, r);
    int ends = !returns && !begins && (frees || moves) && freeing_counts(unfollowed, r->rdi);
    int looks = begins || ends || (returns && t->calls_under_way);
    u64 began = looks && is_timed(t) ? __builtin_ia32_rdtsc() : 0, unknown = 0;
    *(u64 *)(t->page + PAGE_HOOKS) += looks ? HOOK_PARTS : 1;
    if (unfollowed && looks && (!ends || may_be_large(r->rdi)))
        add_shared(tt_large_looks, 1);
    if (begins)
        unknown = begin_call(t, what, r, stack, rbp);
    else if (ends)
        end_block_from(t, r->rdi);
    else if (returns)
        returned(t, r->rax, stack);
    if (__builtin_expect(began != 0, 0))
        count_time(t, began);
    return unknown;
}

#endif
