// What traps.c loads late.
#include <stdint.h>

typedef struct {
    _Alignas(64) volatile uint64_t word[8];
} Block;

static __thread Block blocks[1024];

// Writes the first `count` blocks of the calling thread's own and returns them.
void *fill_tls(int count) {
    for (int k = 0; k < count; k++) blocks[k].word[3] = (uint64_t)k;
    return blocks;
}

void fill_block(void *block) { ((Block *)block)->word[4] = 9; }
