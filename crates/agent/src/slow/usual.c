// The slow path of a check where sharing is told apart by line, as is usual: mode and block are
// constants here, which saves a tenth of its time. matrix.c is the same without telling sharing
// apart.
//
// Neighbours: slow.c, which calls this and holds all that is shared.
#define MODE DETAIL
#include "check.h"

void tt_usual_access(struct thread *t, u64 address, const struct descriptor *d) {
    access_members(t, address, d);
}
