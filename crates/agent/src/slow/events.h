// Lines and code sites: events by line, both sites, other thread and kind, in chunks of the
// session's pool.
//
// Each thread has a hash table of its own, from keys to events; the table grows by moving to the
// next larger one, for which address space is reserved. Once the innermost cache cannot hold the
// table, events wait in a chunk of their own until it is full, while what they need of the table is
// fetched. The recorder sums up entries with equal keys, so whatever waits when the process ends is
// counted, too.
//
// The table stays small enough for the caches: when a thread has MAX_EVENTS, or the pool has no
// more room, events on lines that it does not know yet are kept by code site alone, under line 0.
// One in ADMITTED_OF takes the place of a line with few events, so that lines that get hot later
// are found, too. The largest table has a filter of lines in front of it, which fits the innermost
// cache: programs that communicate all over their memory would push their data and shadow out of
// the caches with looks at the table that find nothing.
//
// Of such programs most lines are alike: none of those kept says much, and counting them costs more
// than all others, since their events lie all over the caches. So a thread is *thinned*, once, when
// as many of its looks have found nothing as it has events. The hottest lines stay, the others are
// summed up by code site. From then on, so few are admitted that what counts them stays near
// (`thin`). Sums by code site get more room as they need it, up to 66,560 events in all, because a
// site that is left out is missing altogether: virtual machines and encoders have that many. Pairs
// of sites beyond are summed up by the thread's own site and the object, then by the site alone: of
// those there are as many as there is code, and no more.
#ifndef TT_EVENTS_H
#define TT_EVENTS_H
#include "choice.h"

#define MAX_BITS 16           // so that at least half of the places stay free with room to give up some
#define MAX_EVENTS (1u << 14) // a quarter of the places; so are FEW_EVENTS of a thinned thread's
#define MORE_WITHOUT_LINE (1u << 10) // events by code site alone that may come on top
#define MORE_BY_ONE_SITE (12u << 10) // events by the thread's own site alone that may come on top of those
#define FEW_BITS 13                  // of a thread that has been thinned, until more of its code communicates
#define FEW_EVENTS (1u << 11)
#define ADMITTED_OF 64
#define CANDIDATES 8
#define MANY_CHUNKS 16 // of events: with more, they wait
#define AHEAD 4        // events that come between the fetching of a place and that of its event

// What is told apart: in whole words, which the processor can pass on and compare at once.
struct key {
    u64 line;
    u64 sites; // the thread's own in the low half
    u64 who;   // the other thread, then the kind, the gap and the object, each from its shift on
};

struct event {
    struct key key;
    u64 count, weight, own_bytes, other_bytes, streamed;
};

// What an event that is counted now stands for, and one that is late.
SHARED const u32 *tt_weights;

// The recorder takes the words of a key apart.
#define SAME_PLACE(word, field) (offsetof(struct event, word) == offsetof(struct event_fields, field))
#define SHIFT_IN(word, field) (8 * (offsetof(struct event_fields, field) - offsetof(struct event, word)))
#define OTHER_SITE_SHIFT SHIFT_IN(key.sites, other_site)
#define KIND_SHIFT SHIFT_IN(key.who, kind)
#define GAP_SHIFT SHIFT_IN(key.who, gap)
#define OBJECT_SHIFT SHIFT_IN(key.who, object)
_Static_assert(SAME_PLACE(key.line, line) && SAME_PLACE(key.sites, own_site) && SAME_PLACE(key.who, other) &&
                   SAME_PLACE(count, count) && SAME_PLACE(weight, weight) &&
                   SAME_PLACE(own_bytes, own_bytes) && SAME_PLACE(other_bytes, other_bytes) &&
                   SAME_PLACE(streamed, streamed) && sizeof(struct event) == sizeof(struct event_fields),
               "as in Rust");
_Static_assert(OTHER_SITE_SHIFT == 32, "a half for each site");

static inline u64 weight_of(struct key key) {
    int is_late = (key.who >> KIND_SHIFT & LATE) != 0;
    return __atomic_load_n(&tt_weights[is_late], __ATOMIC_RELAXED);
}

// Adds what `more` has counted.
static inline void add_to(struct event *e, const struct event *more) {
    e->count += more->count;
    e->weight += more->weight;
    e->streamed += more->streamed;
}

static inline u32 max_bits(const struct thread *t) { return (t->thinned ? FEW_BITS : MAX_BITS) + t->widened; }
static inline u32 max_events(const struct thread *t) { return t->thinned ? FEW_EVENTS : MAX_EVENTS; }

// The thread's chunks of events; their names fit NAME_BITS.
static inline u32 *event_chunks(const struct thread *t) { return t->events; }

// Names of events in a chunk.
#define EVENT_NAMES 32
_Static_assert(EVENTS_PER_CHUNK <= EVENT_NAMES, "a name for each event");

// An event is named by chunk * EVENT_NAMES + its number in it, the chunks being those of the thread
// in the order in which it took them.
static inline struct event *event_at(const struct thread *t, u32 name) {
    return (struct event *)(chunk_at(event_chunks(t)[name / EVENT_NAMES]) + 1) + name % EVENT_NAMES;
}

// Places in the table are in groups of a cache line. A place holds the event's name + 1 and part of
// the key's hash, so that a look at the event rarely finds another key; 0 = free, GONE = given up.
#define NAME_BITS 18
#define NAME ((1u << NAME_BITS) - 1)
#define GONE NAME
_Static_assert(((1u << WIDEST_BITS) / 4 + MORE_WITHOUT_LINE + MORE_BY_ONE_SITE) / EVENTS_PER_CHUNK *
                           EVENT_NAMES +
                       EVENT_NAMES <
                   NAME,
               "all names fit");
#define NONE (~0u)
#define GROUP (LINE / sizeof(u32))

// The table of n places starts n places into the reserved space, so tables of all sizes fit. Below
// it is the list of the thread's chunks, which is shorter.
static inline u32 *places(const struct thread *t) { return t->events + (1ull << t->event_bits); }

// Bits that are set for lines of events that are, or were, in a table of the thread's largest size.
static inline u64 *filter_word(const struct thread *t, u64 line, u64 *bit) {
    u64 number = (line >> LINE_SHIFT) * 0x9e3779b97f4a7c15ull >> (64 - FILTER_BITS);
    *bit = 1ull << number % 64;
    return (u64 *)(t->events + (2ull << WIDEST_BITS)) + number / 64;
}

static inline int is_unknown_line(const struct thread *t, u64 line) {
    u64 bit;
    return t->event_count >= max_events(t) && t->event_bits == max_bits(t) &&
           !(*filter_word(t, line, &bit) & bit);
}

static inline int holds_event(u32 place) { return place && place != GONE; }

static inline u32 name_in(u32 place) { return (place & NAME) - 1; }

static inline u64 mixed(u64 x) {
    x *= 0x9e3779b97f4a7c15ull;
    return x ^ x >> 32;
}

// Of the whole key: lines that are hot have many events, with many threads and sites.
static inline u64 hash_of(struct key key) {
    u64 who = key.who * 0xff51afd7ed558ccdull, sites = key.sites * 0xc2b2ae3d27d4eb4full;
    return mixed(mixed(key.line ^ sites ^ sites >> 29) + who);
}

// Bits of the tag in their place; the lowest of them also say where in its group a search starts.
static inline u32 tag_of(u64 hash) { return (u32)(hash >> 32) & ~NAME; }

static inline u32 *group_of(const struct thread *t, u64 hash) {
    u64 groups = (1ull << t->event_bits) / GROUP;
    return places(t) + (hash & (groups - 1)) * GROUP;
}

static inline int is_same(struct key a, struct key b) {
    return !((a.line ^ b.line) | (a.sites ^ b.sites) | (a.who ^ b.who));
}

// The place of an event with this key, which has this hash, or a free place for it.
static inline u32 *find_hashed(const struct thread *t, const struct key *key, u64 hash) {
    u32 *table = places(t), *free = 0;
    u64 group = group_of(t, hash) - table, mask = (1ull << t->event_bits) - 1;
    u32 tag = tag_of(hash);
    for (;; group = (group + GROUP) & mask)
        for (u32 k = 0; k < GROUP; k++) {
            u32 *p = &table[group + ((tag >> NAME_BITS) + k) % GROUP];
            if (!holds_event(*p)) {
                free = free ? free : p;
                if (!*p)
                    return free;
            } else if ((*p & ~NAME) == tag && is_same(event_at(t, name_in(*p))->key, *key)) {
                return p;
            }
        }
}

static u32 *find(const struct thread *t, struct key key) { return find_hashed(t, &key, hash_of(key)); }

// Enters an event into a place that `find` has found free.
static void fill(struct thread *t, u32 *p, u32 name) {
    struct key key = event_at(t, name)->key;
    t->event_gone -= *p == GONE;
    t->event_count++;
    *p = tag_of(hash_of(key)) | (name + 1);
    if (t->event_bits == max_bits(t)) {
        u64 bit, *word = filter_word(t, key.line, &bit);
        *word |= bit;
    }
}

// Fills the current table from the thread's chunks.
static void fill_table(struct thread *t) {
    t->event_count = t->event_gone = 0;
    for (u32 chunk = 0; chunk < t->event_chunks; chunk++)
        for (u32 k = 0; k < chunk_at(event_chunks(t)[chunk])->used; k++)
            fill(t, find(t, event_at(t, chunk * EVENT_NAMES + k)->key), chunk * EVENT_NAMES + k);
}

static void empty_table(struct thread *t) {
    u32 *table = places(t);
    for (u64 k = 0; k < 1ull << t->event_bits; k++)
        table[k] = 0;
    u64 none, *filter = filter_word(t, 0, &none);
    for (u64 k = 0; k < (1u << FILTER_BITS) / 64; k++)
        filter[k] = 0;
    t->event_count = t->event_gone = 0;
}

// Keeps three quarters of the places free, so that most searches end where they begin; of the
// largest table, a half.
static void make_room(struct thread *t) {
    u64 size = 1ull << t->event_bits;
    u64 used = t->event_count + t->event_gone;
    int largest = t->event_bits == max_bits(t);
    if (used * 4 < size || (largest && used * 2 < size))
        return;
    if (t->event_gone > t->event_count / 2 || largest)
        empty_table(t);
    else
        t->event_bits++;
    fill_table(t);
}

// Room for a new event at the end of the thread's chunks; NONE when there is none, or when the
// thread has `most` events.
static u32 append(struct thread *t, u32 most) {
    if (t->event_count >= most)
        return NONE;
    u32 *chunks = event_chunks(t), last = t->event_chunks - 1;
    if (!t->event_chunks || chunk_at(chunks[last])->used == EVENTS_PER_CHUNK) {
        u32 chunk = take_chunk(t, HOLDS_EVENTS);
        if (!chunk)
            return NONE;
        last = t->event_chunks++;
        chunks[last] = chunk - 1;
    }
    struct head *head = chunk_at(chunks[last]);
    u32 name = last * EVENT_NAMES + head->used;
    event_at(t, name)->count = 0;
    __atomic_store_n(&head->used, head->used + 1, __ATOMIC_RELEASE);
    return name;
}

// One of the thread's events, of which there are some; in the long run each comes as often. Those
// that come one after the other lie far apart: events that began together are alike, and the
// hottest of a program's beginning must not compete with each other alone.
static u32 next_event(struct thread *t) {
    u32 spread = ++t->hand * 0x9e3779b1u;
    u32 chunk = (u32)((u64)spread * t->event_chunks >> 32);
    u32 used = chunk_at(event_chunks(t)[chunk])->used;
    return chunk * EVENT_NAMES + (u32)((u64)(spread << 16 | spread >> 16) * used >> 32);
}

static void unhook(struct thread *t, u32 name) {
    u32 *place = find(t, event_at(t, name)->key);
    if (holds_event(*place) && name_in(*place) == name) {
        *place = GONE;
        t->event_gone++;
        t->event_count--;
    }
}

// What an event belongs to stays known when its line is given up.
static inline void forget_line(struct key *key) {
    if (key->line && !(key->who >> OBJECT_SHIFT))
        key->who |= (u64)zone_of(key->line) << OBJECT_SHIFT;
    key->line = 0;
}

// Takes its line from the event with the fewest of a handful; returns one that is free now, or
// NONE.
static u32 give_up_line(struct thread *t) {
    for (int tries = 0; tries < CANDIDATES && t->event_chunks; tries++) {
        u32 least = NONE;
        for (int k = 0; k < CANDIDATES; k++) {
            u32 name = next_event(t);
            const struct event *e = event_at(t, name);
            if (e->key.line && (least == NONE || e->count < event_at(t, least)->count))
                least = name;
        }
        if (least == NONE)
            continue;
        struct event *e = event_at(t, least);
        unhook(t, least);
        forget_line(&e->key);
        e->own_bytes = e->other_bytes = 0;
        u32 *place = find(t, e->key);
        if (holds_event(*place)) {
            add_to(event_at(t, name_in(*place)), e);
            e->count = 0;
            return least;
        }
        fill(t, place, least); // the first event without a line of these sites
    }
    return NONE;
}

static void insert(struct thread *t, u32 name, const struct event *e) {
    *event_at(t, name) = *e;
    make_room(t);
    u32 *place = find(t, e->key);
    if (!holds_event(*place)) // else make_room has put it there already
        fill(t, place, name);
}

// Room for an event by code site alone. Some more of these than of others: to give up a line may
// take as much room as it makes.
static u32 append_without_line(struct thread *t) {
    u32 most = (1u << max_bits(t)) / 4;
    if (t->event_count >= most + MORE_WITHOUT_LINE && max_bits(t) < WIDEST_BITS) {
        t->widened++;
        most *= 2;
    }
    return append(t, most + MORE_WITHOUT_LINE);
}

// Room for an event by the thread's own site: a quarter of it for those by the object, too, the
// rest for those by the site alone.
static u32 append_by_one_site(struct thread *t, int with_object) {
    u32 room = with_object ? MORE_BY_ONE_SITE / 4 : MORE_BY_ONE_SITE;
    return append(t, (1u << WIDEST_BITS) / 4 + MORE_WITHOUT_LINE + room);
}

// Counts an event whose key holds no line, if it is known; whether it is. There are few of these,
// hence it is mostly one that was counted lately.
static int count_known_without_line(struct thread *t, struct key key, u64 streamed) {
    struct event one = {.key = key, .count = 1, .weight = weight_of(key), .streamed = streamed};
    u32 *lately = &t->without_line[(key.sites * 0x9e3779b97f4a7c15ull + key.who * 0xc2b2ae3d27d4eb4full) >>
                                   (64 - LATELY_BITS)];
    if (t->event_chunks && is_same(event_at(t, *lately)->key, key)) {
        add_to(event_at(t, *lately), &one);
        return 1;
    }
    u32 *place = find(t, key);
    if (!holds_event(*place))
        return 0;
    *lately = name_in(*place);
    add_to(event_at(t, *lately), &one);
    return 1;
}

// What stands for all objects of the same type as this one: blocks, or zones.
static inline u32 any_other(u64 who) { return who >> OBJECT_SHIFT < FIRST_ZONE ? OTHERS : FIRST_ZONE; }

// Counts the event by code site alone.
static void count_without_line(struct thread *t, struct key key, u64 streamed) {
    forget_line(&key);
    if (count_known_without_line(t, key, streamed))
        return;
    u32 name = append_without_line(t);
    if (name == NONE)
        name = give_up_line(t);
    for (u32 part = 1; name == NONE && part <= 2; part++) {
        key.sites &= ~0u; // its own
        key.who &= ~(0xffull << GAP_SHIFT);
        if (part == 2)
            key.who = (key.who & ((1ull << OBJECT_SHIFT) - 1)) | (u64)any_other(key.who) << OBJECT_SHIFT;
        if (count_known_without_line(t, key, streamed))
            return;
        name = append_by_one_site(t, part == 1);
    }
    struct event e = {.key = key, .count = 1, .weight = weight_of(key), .streamed = streamed};
    if (name != NONE)
        insert(t, name, &e);
    else
        add_shared(tt_session.events_without_site, 1);
}

// The count from which on at most half of what a thinned thread may have is as frequent; a power of
// two.
static u64 count_of_hot(const struct thread *t) {
    u32 with[64] = {0}; // events by the number of bits in their counts
    for (u32 chunk = 0; chunk < t->event_chunks; chunk++)
        for (u32 k = 0; k < chunk_at(event_chunks(t)[chunk])->used; k++) {
            const struct event *e = event_at(t, chunk * EVENT_NAMES + k);
            if (e->key.line && e->count)
                with[63 - __builtin_clzll(e->count)]++;
        }
    u32 bits = 64, events = 0;
    while (bits > 0 && events + with[bits - 1] <= FEW_EVENTS / 2)
        events += with[--bits];
    return bits < 64 ? 1ull << bits : ~0ull;
}

// Takes their lines from all events that are less frequent; those that are the same then become
// one. Moves the events that remain to the first places of the first chunks, and enters them into
// the table. Counts are moved in two steps: a reader in between finds one of them twice. What an
// event leaves behind has a count of 0.
static void merge_rare(struct thread *t, u64 least) {
    u32 all = t->event_chunks, next = 0;
    empty_table(t);
    for (u32 chunk = 0; chunk < all; chunk++)
        for (u32 k = 0; k < chunk_at(event_chunks(t)[chunk])->used; k++) {
            struct event *e = event_at(t, chunk * EVENT_NAMES + k);
            if (e->count < least) {
                forget_line(&e->key);
                e->own_bytes = e->other_bytes = 0;
            }
            u32 *place = find(t, e->key);
            if (holds_event(*place)) {
                add_to(event_at(t, name_in(*place)), e);
                e->count = 0;
                continue;
            }
            u32 name = next / EVENTS_PER_CHUNK * EVENT_NAMES + next % EVENTS_PER_CHUNK;
            next++;
            struct event *to = event_at(t, name);
            if (to != e) {
                *to = *e;
                e->count = 0;
            }
            fill(t, place, name);
        }
    t->event_chunks = (next + EVENTS_PER_CHUNK - 1) / EVENTS_PER_CHUNK;
    if (next % EVENTS_PER_CHUNK)
        __atomic_store_n(&chunk_at(event_chunks(t)[t->event_chunks - 1])->used, next % EVENTS_PER_CHUNK,
                         __ATOMIC_RELEASE);
}

// Too many lines for the table are alike. Where many pieces of code are involved, there may still
// be more events than a thinned thread may have: then the lines that were given up make room for
// others, that is all.
static void thin(struct thread *t) {
    merge_rare(t, count_of_hot(t));
    t->hand = 0;
    for (int k = 0; k < 1 << LATELY_BITS; k++)
        t->without_line[k] = 0;
    if (t->event_count > FEW_EVENTS / 4 * 3)
        return;
    t->thinned = 1;
    t->widened = 0;
    t->event_bits = FEW_BITS;
    empty_table(t);
    fill_table(t);
}

static void count_new_event(struct thread *t, const struct event *one) {
    struct key key = one->key;
    u32 name = append(t, max_events(t));
    if (name == NONE && t->refused == MAX_EVENTS && t->event_count >= MAX_EVENTS) {
        t->refused++;
        thin(t);
        name = append(t, max_events(t));
    }
    if (name == NONE && t->refused++ % ADMITTED_OF == 0)
        name = give_up_line(t);
    if (name == NONE) {
        count_without_line(t, key, one->streamed);
        return;
    }
    insert(t, name, one);
    if (key.who >> OBJECT_SHIFT && one->own_bytes)
        describe_block(key.line + (u64)__builtin_ctzll(one->own_bytes));
}

static inline void count_known(struct thread *t, const struct event *one, u64 hash) {
    u32 *place = find_hashed(t, &one->key, hash);
    if (!holds_event(*place)) {
        count_new_event(t, one);
        return;
    }
    struct event *e = event_at(t, name_in(*place));
    add_to(e, one);
    e->own_bytes |= one->own_bytes;
    e->other_bytes |= one->other_bytes;
}

// Fetches the event that is most likely the one with this hash, whose place is in the cache.
static inline void fetch_event(const struct thread *t, u64 hash) {
    u32 tag = tag_of(hash), place = group_of(t, hash)[(tag >> NAME_BITS) % GROUP];
    if (holds_event(place) && (place & ~NAME) == tag) {
        struct event *e = event_at(t, name_in(place));
        fetch_to_change(e);
    }
}

// Counts the waiting events, of which the last few have not been fetched yet. Each leaves the chunk
// before it is counted, so that the recorder never finds it twice.
static void count_waiting(struct thread *t, struct head *waiting) {
    const struct event *events = (const struct event *)(waiting + 1);
    for (u32 k = EVENTS_PER_CHUNK - AHEAD; k < EVENTS_PER_CHUNK; k++)
        fetch_event(t, t->hashes[k]);
    for (u32 k = EVENTS_PER_CHUNK; k-- > 0;) {
        struct event e = events[k];
        __atomic_store_n(&waiting->used, k, __ATOMIC_RELEASE);
        count_known(t, &e, t->hashes[k]);
    }
}

// Where the thread's events wait until there are enough of them; 0 = they need not, or cannot.
static struct head *waiting_room(struct thread *t) {
    if (t->event_chunks < MANY_CHUNKS)
        return 0;
    if (!t->waiting_chunk)
        t->waiting_chunk = take_chunk(t, HOLDS_EVENTS);
    return t->waiting_chunk ? chunk_at(t->waiting_chunk - 1) : 0;
}

// An event waits. Its place is fetched while the program runs on, and what the place says when a
// few more have come.
static inline void wait_for_more(struct thread *t, struct head *waiting, const struct event *e, u64 hash) {
    u32 used = waiting->used;
    ((struct event *)(waiting + 1))[used] = *e;
    t->hashes[used] = hash;
    __atomic_store_n(&waiting->used, used + 1, __ATOMIC_RELEASE);
    fetch_to_change(group_of(t, hash));
    if (used >= AHEAD)
        fetch_event(t, t->hashes[used - AHEAD]);
    if (used + 1 == EVENTS_PER_CHUNK)
        count_waiting(t, waiting);
}

// Bytes that the thread has accessed, and that the other thread had written, in the event's line.
static inline void count_event(struct thread *t, struct key key, u64 own_bytes, u64 other_bytes,
                               u64 streamed) {
    struct event e = {key, 1, weight_of(key), own_bytes, other_bytes, streamed};
    if (is_unknown_line(t, key.line)) {
        count_new_event(t, &e);
        return;
    }
    struct head *waiting = waiting_room(t);
    if (waiting)
        wait_for_more(t, waiting, &e, hash_of(key));
    else
        count_known(t, &e, hash_of(key));
}

#endif
