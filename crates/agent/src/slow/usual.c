// The slow path of a check where sharing is told apart by line and a run is recorded whole. Mode
// and block are constants here, which saves a tenth of its time, and nothing asks about windows.
// windowed.c is the same with windows, matrix.c without telling sharing apart.
//
// Neighbours: slow.c, which calls this and holds all that is shared.
#define MODE DETAIL
#define WHOLE
#include "check.h"

void tt_usual_access(struct thread *t, u64 address, const struct descriptor *d) {
    access_members(t, address, d);
}
