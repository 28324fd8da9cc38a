// The slow path of a check where sharing is told apart by line, in windows: usual.c with them.
//
// Neighbours: slow.c, which calls this and holds all that is shared.
#define MODE DETAIL
#include "check.h"

void tt_windowed_access(struct thread *t, u64 address, const struct descriptor *d) {
    access_members(t, address, d);
}
