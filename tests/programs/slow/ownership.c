// What slow paths grant to a thread that believes a block to be its own, in each state in which
// another thread may have left the block meanwhile. The slow paths are compiled into this program;
// there is one line of the cache of memory, with its neighbours, and two threads that are only
// described.
#include <slow.c>
#include <stdio.h>
#include <stdlib.h>

enum { ADDRESS = 5 * 64 };

static u64 words[64], missing[64];
static u32 sites[64];
static u8 maps[2][4096] __attribute__((aligned(64)));
static struct thread threads[2];
static int failures;

static void expect(const char *what, u64 found, u64 expected) {
    if (found == expected) return;
    printf("%s: %#llx instead of %#llx\n", what, (unsigned long long)found, (unsigned long long)expected);
    failures++;
}

static void set_up(void) {
    tt_mode = DETAIL, tt_banks = 1, tt_block_shift = LINE_SHIFT;
    tt_shadow[0] = (u64)words, tt_reach[0] = (1ull << ADDRESS_BITS) - 1;
    tt_written = (u64)missing, tt_last_sites = (u64)sites;
    for (u64 k = 0; k < 2; k++) {
        u64 mask = 1ull << k;
        threads[k] = (struct thread){.id = k, .mask = mask, .own_word = (k + 1) << WRITER_SHIFT | mask};
        threads[k].grants = threads[k].map = tt_grants[0][k] = (u64)maps[k];
        tt_slot_owner[0][k] = (u32)k, tt_slot_of[k] = (u8)k;
    }
}

// The first thread's grant, after it was granted a block whose word is this.
static u8 granted_with(u64 word) {
    u8 *at = grant_of(&threads[0], ADDRESS);
    *word_of(&threads[0], ADDRESS) = word, *at = NOTHING;
    grant_own(&threads[0], ADDRESS, 1);
    return *at;
}

// Of two threads that hold a block's lock at once, the one that has lost the block.
static void test_what_the_word_says(void) {
    u64 own = threads[0].own_word, others = threads[1].own_word;
    expect("its own", granted_with(own), READ | WRITE | OWN);
    expect("read by another", granted_with(own | threads[1].mask), READ);
    expect("another's", granted_with(others), NOTHING);
    expect("another's that it has read", granted_with(others | threads[0].mask), READ);
}

static void test_whole_blocks(void) {
    u8 *at = grant_of(&threads[0], ADDRESS);
    at[-1] = READ | WRITE, at[1] = READ | WRITE | READ_PAIR, *at = READ | OWN | READ_PAIR;
    *written_in_line(ADDRESS) = 1ull << 63;
    expect("a byte is missing", (u64)grant_whole(&threads[0], ADDRESS), 0);
    expect("granted while a byte is missing", *at, READ | OWN | READ_PAIR);
    *written_in_line(ADDRESS) = 0;
    expect("whole", (u64)grant_whole(&threads[0], ADDRESS), 1);
    expect("granted when whole", *at, READ | WRITE | OWN | READ_PAIR | WRITE_PAIR);
    expect("the pair above", at[1], READ | WRITE | READ_PAIR | WRITE_PAIR);
    expect("the block below", at[-1], READ | WRITE);
    *at = READ;
    expect("taken back before", (u64)grant_whole(&threads[0], ADDRESS), 0);
    expect("taken back meanwhile", (u64)grant_more(ADDRESS, at, WRITE, OWN), 0);
    expect("what was left", *at, READ);
}

int main(void) {
    set_up();
    test_what_the_word_says();
    test_whole_blocks();
    return failures != 0;
}
