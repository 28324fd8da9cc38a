//! What the slow paths share with Rust, under the names that they have in C.

use crate::blocks;
use crate::header::{Header, InC, Structure, constants, in_c, structure};
use crate::layouts::{
    self, Awaited, CellPlace, Choice, Chosen, Departed, Frame, Session, ThreadState,
};
use crate::note::TrackedNote;
use engine::access::Repeat;
use engine::elements::{self, Kind, Mask};
use engine::{control, descriptor, grants, options};
use std::mem::offset_of;
use types::streams;
use wire::detail::{self, Cell, ChunkHead, Event, Returns, gap, holds, kind};
use wire::objects;
use wire::pages;
use wire::session::{self, Deaths, mode};
use wire::shared::{self, Block, FarReaders, Peer, Shared, Sharer};
use wire::trace::{self, seen, what};
use wire::windows::{FIRST_WINDOW, phase};

in_c! {
    CellPlace: "struct slot",
    Choice: "struct choice",
    Chosen: "struct chosen",
    Awaited: "struct awaited",
    Deaths: "struct deaths",
    Departed: "struct departed",
    Session: "struct session",
}

/// The whole header.
pub fn header() -> String {
    let mut header = Header::default();
    let h = &mut header;
    for line in [
        "// Written by the build script from Rust's definitions; see build/shared.rs.",
        "#ifndef TT_LAYOUTS_H",
        "#define TT_LAYOUTS_H",
        "#include <stddef.h>",
        "#include <stdint.h>",
    ] {
        h.line(line);
    }
    shadow(h);
    counting(h);
    translated_code(h);
    thread_page(h);
    windows(h);
    pages(h);
    shared_memory(h);
    calls(h);
    blocks::groups(h);
    blocks::blocks(h);
    blocks::allocations(h);
    returns(h);
    threads(h);
    frame(h);
    layouts::declare_variables(h);
    h.line("#endif");
    header.into_text()
}

fn shadow(h: &mut Header) {
    constants!(
        h,
        TRANSLATE = mode::TRANSLATE,
        MATRIX = mode::MATRIX,
        DETAIL = mode::DETAIL,
        UNDIRECTED = mode::UNDIRECTED,
        TRACE = mode::TRACE,
        ADDRESS_BITS = options::ADDRESS_BITS,
        LINE_SHIFT = options::LINE_SHIFT,
        WRITER_SHIFT = layouts::WRITER_SHIFT,
        DEPARTED = layouts::DEPARTED,
        MAX_BANKS = layouts::MAX_BANKS,
        SLOT_PLACES = layouts::SLOT_PLACES,
        IDS = layouts::IDS,
        LOCKED_BIT = layouts::LOCKED_BIT,
    );
    constants!(
        h,
        READ = grants::READ,
        WRITE = grants::WRITE,
        READ_PAIR = grants::READ_PAIR,
        WRITE_PAIR = grants::WRITE_PAIR,
        OWN = grants::OWN,
        READ_ASIDE = grants::READ_ASIDE,
        WRITE_ASIDE = grants::WRITE_ASIDE,
        OWN_ASIDE = grants::OWN_ASIDE,
        REGION_SHIFT = layouts::REGION_SHIFT,
        REGIONS = layouts::REGIONS,
        MAP_PAGE_SHIFT = layouts::MAP_PAGE_SHIFT,
        MAP_PAGES = layouts::MAP_PAGES,
        MAP_BYTES = grants::BYTES,
        TRACKED_OF = wire::windows::TRACKED_OF,
    );
    structure!(h, "tracked_note" = TrackedNote { written, visits, when, seen });
    structure!(h, "departed" = Departed { block, reader, next });
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn counting(h: &mut Header) {
    constants!(
        h,
        CHUNK_BYTES = detail::CHUNK_BYTES,
        CELLS_PER_CHUNK = detail::CELLS,
        EVENTS_PER_CHUNK = detail::EVENTS,
        HOLDS_CELLS = holds::CELLS,
        HOLDS_EVENTS = holds::EVENTS,
        RAW = kind::RAW,
        RAW_TRUE = kind::RAW_TRUE,
        RAW_FALSE = kind::RAW_FALSE,
        WAW = kind::WAW,
        WAW_TRUE = kind::WAW_TRUE,
        WAW_FALSE = kind::WAW_FALSE,
        INVALIDATION = kind::INVALIDATION,
        UNDIRECTED_PAIR = kind::UNDIRECTED,
        LATE = kind::LATE,
        PARTLY = kind::PARTLY,
        KINDS = kind::COUNT,
        OTHER_PROCESS = kind::OTHER_PROCESS,
        GAP_UNKNOWN = gap::UNKNOWN,
        GAP_FIRST = gap::FIRST,
        GAP_LAST = gap::LAST,
        GAP_LATE = gap::LATE,
        GAP_END_0 = gap::ENDS[0],
        GAP_END_1 = gap::ENDS[1],
        GAP_END_2 = gap::ENDS[2],
        GAP_UNIT_SHIFT = gap::UNIT_SHIFT,
        KNOWN_BACK = gap::KNOWN_BACK,
        STREAM_PAGES = streams::PAGES,
        STREAM_PAGE_SHIFT = streams::PAGE_SHIFT,
        STREAM_LINES = streams::LINES,
        WIDEST_BITS = layouts::WIDEST_EVENT_BITS,
        FILTER_BITS = layouts::FILTER_BITS,
        LATELY_BITS = layouts::LATELY_BITS,
        MAX_DEATHS = session::MAX_DEATHS,
        DEATH_PID_SHIFT = session::DEATH_PID_SHIFT,
    );
    structure!(h, "head" = ChunkHead { thread, holds, used, _reserved });
    structure!(h, "cell" = Cell { slice, other, kind, _pad, count });
    structure!(h, "slot" = CellPlace { stamp, cell });
    structure!(
        h,
        "event_fields" = Event {
            line,
            own_site,
            other_site,
            other,
            kind,
            gap,
            object,
            count,
            weight,
            own_bytes,
            other_bytes,
            streamed
        }
    );
    structure!(h, "deaths" = Deaths { count, each });
    structure!(
        h,
        "session" = Session {
            pool,
            slice,
            chunks,
            event_chunks_used,
            cell_chunks_used,
            max_chunks,
            event_chunks,
            cell_chunks,
            events_without_site,
            cells_late,
            cells_lost,
            trace_head,
            trace_tail,
            trace,
            deaths,
            groups,
            groups_used,
            zones,
            zones_used,
            blocks,
            blocks_described,
            max_blocks,
            blocks_unknown,
            threads,
            modules,
            page_accesses_lost,
            meanings,
            tallies,
        }
    );
    constants!(
        h,
        TRACE_RECORDS = trace::RECORDS as u64,
        TRACE_THREAD_BITS = trace::THREAD_BITS,
        TRACE_PAGE_SHIFT = trace::PAGE_SHIFT,
        TRACE_READ = what::READ,
        TRACE_WRITE = what::WRITE,
        TRACE_FORGET = what::FORGET,
        TRACE_COPY = what::COPY,
        TRACE_SKIP = what::SKIP,
        TRACE_WINDOW = what::WINDOW,
        SEEN_NOT = seen::NOT,
        SEEN_WARM_UP = seen::WARM_UP,
        SEEN_COUNTED = seen::COUNTED,
        TRACE_HELD = what::HELD,
        TRACE_SETS = trace::SETS,
        TRACE_MAX_LINES = trace::MAX_LINES,
        TRACE_SKIPPED_SHIFT = trace::SKIPPED_SHIFT,
        TRACE_WAYS_SHIFT = trace::WAYS_SHIFT,
        TRACE_WAY_BITS = trace::WAY_BITS,
        TRACE_FILTER_BYTES = layouts::TRACE_FILTER_BYTES,
        HANDS_BITS = layouts::HANDS_BITS,
    );
    structure!(h, "record" = trace::Access { turn, address, bytes, site, thread_and_what });
}

fn translated_code(h: &mut Header) {
    structure!(h, "member" = descriptor::Record { delta, bytes, reads, writes, site });
    structure!(
        h,
        "elements" = elements::Record {
            mark,
            kind,
            bytes,
            count,
            stored,
            access,
            mask,
            index_bytes,
            scale,
            site,
        }
    );
    constants!(
        h,
        ELEMENTS = elements::MARK,
        READS = elements::READS,
        WRITES = elements::WRITES,
        ADDRESS32 = elements::ADDRESS32,
        AREA_HEADER = elements::AREA_HEADER as u64,
        MASKED = Kind::Masked as u8,
        PACKED = Kind::Packed as u8,
        INDEXED = Kind::Indexed as u8,
        BIT_STRING = Kind::BitString as u8,
        TABLE = Kind::Table as u8,
        WHOLE_LINE = Kind::Line as u8,
        TILE = Kind::Tile as u8,
        XSAVE = Kind::Xsave as u8,
        XSAVEOPT = Kind::Xsaveopt as u8,
        XSAVEC = Kind::Xsavec as u8,
        XRSTOR = Kind::Xrstor as u8,
        ALL = Mask::All as u8,
        BITS = Mask::Bits as u8,
        SIGNS = Mask::Signs as u8,
        REP_ELEMENT = Repeat::ELEMENT,
        REP_READS_RSI = Repeat::READS_RSI,
        REP_WRITES_RDI = Repeat::WRITES_RDI,
        REP_SCANS = Repeat::SCANS,
        REP_COMPARES = Repeat::COMPARES,
        REP_WHILE_DIFFERENT = Repeat::WHILE_DIFFERENT,
    );
}

fn thread_page(h: &mut Header) {
    constants!(
        h,
        THREAD_PAGE_BYTES = -control::PAGE,
        PAGE_LOADS = offset_of!(session::ThreadPage, loads),
        PAGE_STORES = offset_of!(session::ThreadPage, stores),
        PAGE_UNKNOWN = offset_of!(session::ThreadPage, unknown),
        PAGE_TRANSFERS = offset_of!(session::ThreadPage, transfers),
        PAGE_FAR = offset_of!(session::ThreadPage, far),
        PAGE_EVENTS = offset_of!(session::ThreadPage, events),
        PAGE_LATE_BLOCKS = offset_of!(session::ThreadPage, late_blocks),
        PAGE_TOUCHED = offset_of!(session::ThreadPage, footprint.touched),
        PAGE_WINDOWS = offset_of!(session::ThreadPage, footprint.windows),
        HOOK_PARTS = objects::HOOK_PARTS,
        UNFOLLOWED_SMALL = objects::unfollowed::SMALL,
        UNFOLLOWED_LARGE = objects::unfollowed::LARGE,
        UNFOLLOWED_FREED = objects::unfollowed::FREED,
        TIMED_HOOKS = objects::TIMED_HOOKS,
        PAGE_HOOKS = offset_of!(session::ThreadPage, allocating.hooks),
        PAGE_HOOK_TICKS = offset_of!(session::ThreadPage, allocating.hook_ticks),
        CONTROL_APP_RSP = control::APP_RSP - control::PAGE,
        CONTROL_SITE = control::SITE - control::PAGE,
        CONTROL_THREAD = control::THREAD - control::PAGE,
        CONTROL_INDICES = control::INDICES - control::PAGE,
        CONTROL_SELECTED = control::SELECTED - control::PAGE,
    );
}

fn windows(h: &mut Header) {
    constants!(
        h,
        PHASE_BITS = phase::BITS,
        PHASE_OFF = phase::OFF,
        PHASE_COUNT = phase::COUNT,
        PHASE_LIGHT = phase::LIGHT,
        PHASE_LATE = phase::LATE,
        FIRST_WINDOW = FIRST_WINDOW,
    );
}

fn pages(h: &mut Header) {
    let below = -i64::from(engine::pages::COUNTERS) as u64;
    constants!(
        h,
        PAGE_SHIFT = pages::PAGE_SHIFT,
        PLACES_BITS = pages::PLACES_BITS,
        RUNS = layouts::RUNS,
        COUNTERS_BELOW = below,
        TOUCHED_BELOW = below + pages::TOUCHED_BYTES,
        RUNS_BELOW = below + pages::TOUCHED_BYTES + layouts::RUNS as u64 / 8,
    );
    structure!(h, "page_counters" = pages::Counters { reads, writes });
    structure!(h, "page_touched" = pages::Touched { lines, written });
    structure!(
        h,
        "page_owner" =
            pages::Owner { page, thread, site, group, allocated_by, start, bytes, ordinal }
    );
}

fn shared_memory(h: &mut Header) {
    constants!(
        h,
        NO_SHARER = layouts::NO_SHARER,
        CHUNK_SHIFT = layouts::CHUNK_SHIFT,
        MIXED = layouts::MIXED,
        SHARERS_OFFSET = shared::SHARERS_OFFSET,
        MAX_SHARERS = shared::MAX_SHARERS,
        PEERS_OFFSET = shared::PEERS_OFFSET,
        MAX_PEERS = session::MAX_SEGMENTS,
        NEAR_SHARERS = shared::NEAR_SHARERS,
        FAR_OFFSET = shared::FAR_OFFSET,
        FAR_PLACES = shared::FAR_PLACES,
        FAR_BANK_BITS = shared::FAR_BANK_BITS,
        BLOCKS_OFFSET = shared::BLOCKS_OFFSET,
        WRITTEN_OFFSET = shared::WRITTEN_OFFSET,
        SHARED_TRACE_OFFSET = shared::TRACE_OFFSET,
        SHARED_TRACE_BASE = shared::TRACE_BASE,
        SHARED_BYTES_BITS = trace::SHARED_BYTES_BITS,
        SHARED_BEGAN_UNSEEN = shared::BEGAN_UNSEEN,
    );
    structure!(
        h,
        "shared" = Shared {
            sharers,
            peers,
            anonymous,
            extents_refused,
            reads_forgotten,
            trace_head,
            trace_tail,
        }
    );
    structure!(
        h,
        "peer" = Peer { image, pid, _pad, shadow, written, sites, chunks, pages, opened }
    );
    structure!(h, "sharer" = Sharer { segment, execs, thread, known });
    structure!(h, "shared_block" = Block { lock, window, readers, writer, far, site, written });
    structure!(h, "far_readers" = FarReaders { key, readers });
}

fn calls(h: &mut Header) {
    constants!(
        h,
        SYSTEM_CALLS = layouts::SYSTEM_CALLS,
        NO_YIELD = layouts::NO_YIELD,
        NO_FUTEX = layouts::NO_FUTEX,
        NO_COPY = layouts::NO_COPY,
        NO_ADVICE = layouts::NO_ADVICE,
        NO_GS = layouts::NO_GS,
        NO_PROBE = layouts::NO_PROBE,
    );
}

fn returns(h: &mut Header) {
    constants!(
        h,
        RETURNS_PER_CHUNK = detail::RETURNS,
        HOLDS_RETURNS = holds::RETURNS,
        TALLIES_BYTES = session::TALLIES_BYTES,
        PAGE_INSTRUCTIONS = offset_of!(session::ThreadPage, instructions),
        MAX_AWAITED = layouts::MAX_AWAITED,
        MAX_RETURN_CHUNKS = layouts::MAX_RETURN_CHUNKS,
    );
    structure!(h, "returns" = Returns { line, returns, writes, instructions });
    structure!(h, "awaited" = Awaited { line, since, returned, wrote });
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn threads(h: &mut Header) {
    constants!(h, CHOICE_BITS = layouts::CHOICE_BITS, MAX_CHOSEN = layouts::MAX_CHOSEN);
    structure!(h, "choice" = Choice { left, shift });
    structure!(h, "chosen" = Chosen { site, weight });
    structure!(
        h,
        "thread" = ThreadState {
            id,
            mask,
            own_word,
            bank,
            page,
            grants,
            taken_from,
            partner,
            cells,
            events,
            cell_chunk,
            event_chunks,
            event_bits,
            event_count,
            event_gone,
            hand,
            refused,
            waiting_chunk,
            thinned,
            widened,
            without_line,
            hashes,
            streams,
            holds,
            running,
            tid,
            passing,
            map,
            phase,
            observes,
            counts,
            visits,
            visited,
            sharer,
            shared_locks,
            next_record,
            end_record,
            calls_under_way,
            calls,
            untimed,
            chains,
            stack_from,
            stack_end,
            stack_seen,
            choices,
            chosen,
            chosen_count,
            chance,
            awaited,
            awaits,
            waits_again,
            return_chunks,
            slice,
            to_await,
        }
    );
}

fn frame(h: &mut Header) {
    structure!(
        h,
        "frame" = Frame {
            r15,
            r14,
            r13,
            r12,
            r11,
            r10,
            r9,
            r8,
            rdi,
            rsi,
            rbp,
            rbx,
            rdx,
            rcx,
            rax,
            flags,
        }
    );
}
