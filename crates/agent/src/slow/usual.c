// The slow path of a check in the usual case, sharing told apart by line: mode and block are constants here,
// which saves a tenth of its time.
//
// Neighbours: slow.c, which calls this and holds all that is shared.
#define USUAL
#include "check.h"

void tt_usual_access(struct thread *t, u64 address, const struct descriptor *d) {
    access_members(t, address, d);
}
