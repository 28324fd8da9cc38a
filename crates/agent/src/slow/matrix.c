// The slow path of a check where lines count whole; see usual.c.
#define MODE MATRIX
#include "check.h"

void tt_matrix_access(struct thread *t, u64 address, const struct descriptor *d) {
    access_members(t, address, d);
}
