// Events with the last writer of a block, whoever keeps what is known of the block.
//
// Neighbours: `access.h` keeps it for memory of the process's own, `shared.h` for memory that
// several processes share.
#ifndef TT_MEETING_H
#define TT_MEETING_H
#include "events.h"
#include "returns.h"

// What the last writer of a block has done to it since it took the block, as an access meets it.
struct meeting {
    u64 bytes; // written by it in the access's first line
    u32 site;
    int overlap; // whether the access touches any byte that it has written
    int unseen;  // whether it may have written others before this window
};

// The thread takes a line, or in windows one that may be another thread's; whether that follows the
// one before (types::streams).
static inline int note_stream(struct thread *t, u64 address, int reads) {
    u64 line = address & ~(LINE - 1), *last = &t->streams[address >> STREAM_PAGE_SHIFT & (STREAM_PAGES - 1)];
    u64 before = *last & ~(LINE - 1), distance = line > before ? line - before : before - line;
    int read_before = *last & 1;
    *last = line | (u64)reads;
    return distance ? distance <= STREAM_LINES * LINE : read_before && !reads;
}

// In windows: the thread comes to a block whose last writer is not known.
static inline void note_unknown_stream(struct thread *t, u64 address, int reads) {
    if (tt_tracked_notes && tt_mode == DETAIL)
        note_stream(t, address, reads);
}

// An event with the last writer of the block, about bytes `start` to `end` of it. `kind` is RAW or
// WAW; with sharing told apart, true and false follow it. One whose gap is late stands for other
// blocks, too: the recorder gives the line its own part.
static inline void count_with_writer(struct thread *t, unsigned kind, u64 writer, u64 start, u64 end,
                                     u32 site, const struct meeting *m, unsigned gap) {
    int late = gap >= GAP_LATE, reads = (kind & ~OTHER_PROCESS) == RAW;
    if (!counts_event(t, late)) {
        note_unknown_stream(t, start, reads);
        return;
    }
    if (late)
        note_late(t, start);
    *(u64 *)(t->page + PAGE_TRANSFERS) += late ? TRACKED_OF : 1;
    *(u64 *)(t->page + PAGE_FAR) += late ? TRACKED_OF : 0;
    kind += late ? LATE : 0;
    if (tt_mode != DETAIL) {
        count_cell(t, kind, writer);
        return;
    }
    if (m->overlap || !m->unseen)
        kind += m->overlap ? 1 : 2;
    int streamed = note_stream(t, start, reads);
    count_cell(t, kind + (m->overlap && m->unseen && !late ? PARTLY : 0), writer);
    count_for_path(t, site);
    struct key key = {start & ~(LINE - 1), (u64)m->site << OTHER_SITE_SHIFT | site,
                      (u64)group_at(start) << OBJECT_SHIFT | (u64)gap << GAP_SHIFT | (u64)kind << KIND_SHIFT |
                          writer};
    count_event(t, key, bytes_in_line(start, end), m->bytes, (u64)streamed);
    note_event_on(t, key.line);
}

#endif
