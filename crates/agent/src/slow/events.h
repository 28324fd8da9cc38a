// Lines and code sites: events by line, both sites, other thread and kind, in chunks of the session's
// pool.
//
// Each thread has a hash table of its own, from keys to events; the table grows by moving to the next
// larger one, for which address space is reserved. It stays small enough for the caches: when a thread
// has MOST_EVENTS, or the pool has no more room, events on lines that it does not know yet are kept by
// code site alone, under line 0. One in sixteen of them takes the place of a line with few events, so
// that lines that get hot later are found, too.
#ifndef TT_EVENTS_H
#define TT_EVENTS_H
#include "cells.h"

#define FIRST_BITS 9
#define MOST_BITS 16 // so that at least half of the places stay free with room to give up some
#define MOST_EVENTS (1u << 14)
#define ADMITTED_OF 16
#define GONE 0xffffffffu
#define CANDIDATES 8

struct event {
    u64 line;
    u32 own_site, other_site;
    u16 other;
    u8 kind, pad[5];
    u64 count, own_bytes, other_bytes;
};

// An event is named by chunk * 32 + its number in it, + 1.
static inline struct event *event_at(u32 name) {
    return (struct event *)(chunk_at((name - 1) / 32) + 1) + (name - 1) % 32;
}

// A place in the table: part of the key's hash, so that a look at the event is rarely in vain, and the
// event's name; 0 = free, GONE = given up.
struct place {
    u32 tag, name;
};

// The table of n places starts n places into the reserved space, so tables of all sizes fit.
static inline struct place *places(struct thread *t) { return t->events + (1ull << t->event_bits); }

static inline int holds_event(const struct place *p) { return p->name && p->name != GONE; }

static inline u64 hash_of(const struct event *e) {
    u64 h = e->line ^ ((u64)e->own_site << 32 | e->other_site) ^ ((u64)e->other << 8 | e->kind) << 20;
    h *= 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
    return h * 0x9e3779b97f4a7c15ull >> 8;
}

static inline int same_key(const struct event *a, const struct event *b) {
    return a->line == b->line && a->own_site == b->own_site && a->other_site == b->other_site &&
           a->other == b->other && a->kind == b->kind;
}

// The place of an event with this key, or a free place for it.
static struct place *find(struct thread *t, const struct event *key) {
    struct place *table = places(t), *free = 0;
    u64 hash = hash_of(key), mask = (1ull << t->event_bits) - 1;
    u32 tag = (u32)(hash >> 32);
    for (u64 k = hash & mask;; k = (k + 1) & mask) {
        struct place *p = &table[k];
        if (!holds_event(p)) {
            free = free ? free : p;
            if (!p->name)
                return free;
        } else if (p->tag == tag && same_key(event_at(p->name), key)) {
            return p;
        }
    }
}

// Enters an event into a place that `find` has found free.
static void fill(struct thread *t, struct place *p, u32 name) {
    t->event_gone -= p->name == GONE;
    t->event_count++;
    *p = (struct place){(u32)(hash_of(event_at(name)) >> 32), name};
}

// Fills the current table from the thread's chunks.
static void fill_table(struct thread *t) {
    t->event_count = t->event_gone = 0;
    for (u32 chunk = t->event_chunk; chunk; chunk = chunk_at(chunk - 1)->previous)
        for (u32 k = 0; k < chunk_at(chunk - 1)->used; k++) {
            u32 name = (chunk - 1) * 32 + k + 1;
            fill(t, find(t, event_at(name)), name);
        }
}

// Keeps at least half of the places free.
static void make_room(struct thread *t) {
    u64 size = 1ull << t->event_bits;
    if ((t->event_count + t->event_gone) * 2ull < size)
        return;
    if (t->event_gone > t->event_count / 2 || t->event_bits == MOST_BITS) {
        struct place *table = places(t);
        for (u64 k = 0; k < size; k++)
            table[k] = (struct place){0, 0};
    } else {
        t->event_bits++;
    }
    fill_table(t);
}

// Room for a new event at the end of the thread's chunks; 0 when there is none.
static u32 append(struct thread *t) {
    if (t->event_count >= MOST_EVENTS)
        return 0;
    if (!t->event_chunk || chunk_at(t->event_chunk - 1)->used == EVENTS_PER_CHUNK) {
        u32 chunk = take_chunk(t, HOLDS_EVENTS, t->event_chunk);
        if (!chunk)
            return 0;
        t->event_chunk = chunk;
    }
    struct head *head = chunk_at(t->event_chunk - 1);
    u32 name = (t->event_chunk - 1) * 32 + head->used + 1;
    event_at(name)->count = 0;
    __atomic_store_n(&head->used, head->used + 1, __ATOMIC_RELEASE);
    return name;
}

// The next of the thread's events, round and round.
static u32 next_event(struct thread *t) {
    while (t->hand_chunk == 0 || t->hand >= chunk_at(t->hand_chunk - 1)->used) {
        u32 previous = t->hand_chunk ? chunk_at(t->hand_chunk - 1)->previous : 0;
        t->hand_chunk = previous ? previous : t->event_chunk;
        t->hand = 0;
    }
    return (t->hand_chunk - 1) * 32 + t->hand++ + 1;
}

static void unhook(struct thread *t, u32 name) {
    struct place *place = find(t, event_at(name));
    if (place->name == name) {
        place->name = GONE;
        t->event_gone++;
        t->event_count--;
    }
}

// Takes its line from the event with the fewest of a handful; returns one that is free now, or 0.
static u32 give_up_line(struct thread *t) {
    for (int tries = 0; tries < CANDIDATES && t->event_chunk; tries++) {
        u32 least = 0;
        for (int k = 0; k < CANDIDATES; k++) {
            u32 name = next_event(t);
            if (event_at(name)->line && (!least || event_at(name)->count < event_at(least)->count))
                least = name;
        }
        if (!least)
            continue;
        struct event *e = event_at(least);
        unhook(t, least);
        e->line = 0;
        e->own_bytes = e->other_bytes = 0;
        struct place *place = find(t, e);
        if (holds_event(place)) {
            event_at(place->name)->count += e->count;
            e->count = 0;
            return least;
        }
        fill(t, place, least); // the first event without a line of these sites
    }
    return 0;
}

static void add_event(struct event *e, const struct event *more) {
    e->count++;
    e->own_bytes |= more->own_bytes;
    e->other_bytes |= more->other_bytes;
}

static void insert(struct thread *t, u32 name, const struct event *key) {
    *event_at(name) = *key;
    make_room(t);
    struct place *place = find(t, key);
    if (!holds_event(place)) // else make_room has put it there already
        fill(t, place, name);
}

// Counts the event by code site alone.
static void count_without_line(struct thread *t, struct event key) {
    key.line = key.own_bytes = key.other_bytes = 0;
    struct place *place = find(t, &key);
    if (holds_event(place)) {
        event_at(place->name)->count++;
        return;
    }
    u32 name = give_up_line(t);
    if (name)
        insert(t, name, &key);
    else
        add_shared(tt_session.events_without_site, 1);
}

static void count_event(struct thread *t, const struct event *key) {
    struct place *place = find(t, key);
    if (holds_event(place)) {
        add_event(event_at(place->name), key);
        return;
    }
    u32 name = append(t);
    if (!name && t->refused++ % ADMITTED_OF == 0)
        name = give_up_line(t);
    if (name)
        insert(t, name, key);
    else
        count_without_line(t, *key);
}

#endif
