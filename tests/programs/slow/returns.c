// The tables of return addresses when there are more of them than places. The slow paths are
// compiled into this program.
#include <slow.c>
#include <stdio.h>

enum { PLACES = 1 << RETURN_BITS, ADDRESSES = 3 * PLACES };

static u64 returns[PLACES];
static struct rule rules[PLACES];

static u64 address_of(u64 k) { return 0x400000 + 5 * k; }
static u64 word_of_rule(u64 k) { return k << 1 | 1; }

int main(void) {
    tt_blocks.returns = returns, tt_blocks.rules = rules;
    u64 not_added = 0, wrong = 0, kept = 0;
    for (u64 k = 0; k < ADDRESSES; k++) {
        tt_add_return(address_of(k));
        tt_set_rule(address_of(k), word_of_rule(k));
        not_added += !returns_to_known(address_of(k)) || rule_of(address_of(k)) != word_of_rule(k);
    }
    for (u64 k = 0; k < ADDRESSES; k++) {
        u64 word = rule_of(address_of(k));
        wrong += word && word != word_of_rule(k);
        kept += word != 0;
        tt_set_rule(address_of(k), 0);
        wrong += rule_of(address_of(k)) != 0;
    }
    printf("not added %llu, wrong %llu, kept %llu of %d\n", (unsigned long long)not_added,
           (unsigned long long)wrong, (unsigned long long)kept, PLACES);
    return not_added || wrong || kept < PLACES / 10 * 9;
}
