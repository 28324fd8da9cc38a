//! Layouts and numbers that the agent's Rust and C parts share and that no other crate defines.
//!
//! This is their only definition: the build script includes this file, and writes `layouts.h` for
//! the slow paths (`slow/`) from it and from what `engine` and `wire` define. See
//! `build/shared.rs`. A file that includes it first defines what `variables!` makes of the slow
//! paths' variables.

#[path = "layouts/allocations.rs"]
mod allocations;

pub use allocations::*;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64};
use types::streams;
use wire::detail::EVENTS;
use wire::objects::MAX_GROUPS;
use wire::session::{Deaths, MAX_SITES, MAX_THREADS};

/// Logical ids that arrays over all threads have room for.
pub const IDS: usize = 1 << 16;
const _: () = assert!(MAX_THREADS <= IDS);

/// In a shadow word: where the last writer's id, plus one, begins.
pub const WRITER_SHIFT: u32 = 48;
/// Reader slots in a word: threads that share a bank.
pub const SLOTS: usize = 45;
/// The bit above them: threads that have ended have read.
pub const DEPARTED: u64 = 1 << SLOTS;
/// Elements for each bank in arrays over all slots.
pub const SLOT_PLACES: usize = 64;
const _: () = assert!(SLOTS <= SLOT_PLACES && SLOTS < WRITER_SHIFT as usize);
/// The largest number of banks.
pub const MAX_BANKS: usize = 24;

/// In the word of a site, above the site's number: the bit that is the block's lock.
pub const LOCKED_BIT: u32 = engine::options::SITE_BITS;
const _: () = assert!(MAX_SITES <= 1 << LOCKED_BIT);

/// log2 of the places in a region of a map of grants.
pub const REGION_SHIFT: u32 = 17;
/// Regions of a map.
pub const REGIONS: usize = (engine::grants::BYTES >> REGION_SHIFT) as usize;
/// log2 of the places in a page of a map.
pub const MAP_PAGE_SHIFT: u32 = 12;
/// Pages of a map.
pub const MAP_PAGES: usize = (engine::grants::BYTES >> MAP_PAGE_SHIFT) as usize;

/// Bytes for what filters a thread's trace.
pub const TRACE_FILTER_BYTES: u64 = 5 << 12;
/// log2 of the places that say how often lines change hands, two bytes each.
pub const HANDS_BITS: u32 = 24;

/// Runs of neighbouring places for pages: each takes a page of a thread's counters.
pub const RUNS: usize = wire::pages::PLACES / 256;

/// log2 of the places in a thread's first table of events.
pub const FIRST_EVENT_BITS: u32 = 9;
/// log2 of the places in the largest one.
pub const WIDEST_EVENT_BITS: u32 = 18;
/// log2 of the bits in the filter of lines behind it.
pub const FILTER_BITS: u32 = 16;
/// Bytes reserved for tables of events of all sizes and the filter.
pub const EVENTS_BYTES: u64 =
    (2 << WIDEST_EVENT_BITS) * size_of::<u32>() as u64 + (1 << FILTER_BITS) / 8;
/// log2 of the names in [`ThreadState::without_line`].
pub const LATELY_BITS: u32 = 4;

/// Bits of an address that tell lines apart in which small blocks begin.
pub const FOLDED_BITS: u32 = 44;
/// log2 of the places in the index of groups, and in the set of return addresses.
pub const INDEX_BITS: u32 = 21;
pub const RETURN_BITS: u32 = 21;
const _: () = assert!(MAX_GROUPS <= 1 << (INDEX_BITS - 1));
/// In the cell of a stretch: its pages lie in different files, or only some in one.
pub const VARIOUS: u32 = u32::MAX;
/// log2 of the stretches of memory that have cells.
pub const STRETCH_SHIFT: u32 = 21;
/// log2 of the bytes of zones.
pub const ZONE_SHIFTS: [u32; ZONE_SIZES] = [12, 17, 21, 30];
pub const ZONE_SIZES: usize = 4;
/// Records of blocks that a thread takes at a time.
#[allow(dead_code, reason = "C's")]
pub const RECORDS_AT_ONCE: u64 = 64;
/// Most records.
pub const MAX_RECORDS: u64 = 1 << 28;
/// Allocations under way, one inside another or without an end, that a thread notes.
pub const MAX_CALLS: usize = 4;

/// log2 of a thread's counters that choose accesses whose call path is looked at.
pub const CHOICE_BITS: u32 = 8;
/// Sites of one slow path whose call path is looked at.
pub const MAX_CHOSEN: usize = 4;

/// Chooses of the accesses at some sites the ones whose call path is looked at.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Choice {
    /// How many are passed over before the next one.
    pub left: u32,
    /// log2 of how many one stands for.
    pub shift: u32,
}

impl Choice {
    pub const NONE: Choice = Choice { left: 0, shift: 0 };
}

/// A site whose call path is to be looked at when the slow path ends.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Chosen {
    pub site: u32,
    /// For how many accesses there it stands.
    pub weight: u32,
}

impl Chosen {
    pub const NONE: Chosen = Chosen { site: 0, weight: 0 };
}

/// Lines to which a thread's return is awaited at a time, and chunks with returns that it may have.
pub const MAX_AWAITED: usize = 4;
pub const MAX_RETURN_CHUNKS: usize = 4;

/// A line to which the thread's return is awaited.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Awaited {
    /// Address of the line; 0 = none.
    pub line: u64,
    /// Instructions executed when the waiting began, and how often it has come back since then; how
    /// often of these it wrote there.
    pub since: u64,
    pub returned: u32,
    pub wrote: u32,
}

impl Awaited {
    pub const NONE: Awaited = Awaited { line: 0, since: 0, returned: 0, wrote: 0 };
}

/// System calls have lower numbers than this.
pub const SYSTEM_CALLS: usize = 512;

/// Calls of the slow paths that a filter of the program's does not allow.
pub const NO_YIELD: u8 = 1;
pub const NO_FUTEX: u8 = 2;
pub const NO_COPY: u8 = 4;
pub const NO_PROBE: u8 = 8;
pub const NO_ADVICE: u8 = 16;
pub const NO_GS: u8 = 32;

/// What the slow paths know of a thread.
#[repr(C)]
pub struct ThreadState {
    pub id: u64,
    /// Its reader slot's bit.
    pub mask: u64,
    /// The shadow word of a block that is its alone.
    pub own_word: u64,
    pub bank: u64,
    /// Address of the thread's page in the session, which %gs points to the end of.
    pub page: u64,
    /// Its map of grants, right behind the page; 0 = none.
    pub grants: u64,
    /// The map that it has taken grants from last.
    pub taken_from: u64,
    /// The same if twice running, else its own map.
    pub partner: u64,
    /// Its index of cells, by other thread and kind.
    pub cells: *mut CellPlace,
    /// Its chunks of events, its tables of events and their filter: [`EVENTS_BYTES`].
    pub events: *mut u32,
    /// Its last chunk of cells, plus one; 0 = none yet.
    pub cell_chunk: u32,
    /// How many chunks of events it has.
    pub event_chunks: u32,
    /// log2 of the places in its table of events.
    pub event_bits: u32,
    /// Places taken in the table, and places given up.
    pub event_count: u32,
    pub event_gone: u32,
    /// Where to look for events to give up.
    pub hand: u32,
    /// Events on lines that were not let in.
    pub refused: u32,
    /// Chunk of events that have not been looked up yet, plus one; 0 = none yet.
    pub waiting_chunk: u32,
    /// Whether only hot lines have events.
    pub thinned: u32,
    /// Bits that the table may have more than usual.
    pub widened: u32,
    /// Names of events without a line that were counted lately.
    pub without_line: [u32; 1 << LATELY_BITS],
    /// Hashes of the waiting events.
    pub hashes: [u64; EVENTS],
    /// The line of the last event in each of a few pages; bit 0: a read.
    pub streams: [u64; streams::PAGES],
    /// The lock of a block, or of the readings of ended threads, that it holds or is about to take.
    pub holds: *const c_void,
    /// Its thread id meanwhile: the futex by which others lend it their priority.
    pub running: u32,
    pub tid: u32,
    /// The thread's passing map, with its page right below; 0 = there are no windows.
    pub passing: u64,
    /// The map that the thread uses now: `grants` or `passing`.
    pub map: u64,
    /// The phase that it has seen last, whether it observes, and whether it counts what it
    /// observes.
    pub phase: u32,
    pub observes: u32,
    pub counts: u64,
    /// How often it has come to tracked blocks since then without observing, and to how many as the
    /// first one.
    pub visits: u64,
    pub visited: u64,
    /// Its number among the threads that access shared memory, plus one; 0 = it has not done so,
    /// [`NO_SHARER`] = there was none left.
    pub sharer: u32,
    /// How often it has locked a block of shared memory.
    pub shared_locks: u32,
    /// Records of blocks that it has taken and not used yet.
    pub next_record: u32,
    pub end_record: u32,
    /// Its calls of functions that allocate.
    pub calls_under_way: u64,
    pub calls: [Call; MAX_CALLS],
    /// Looks at its allocations that are not timed before the next one that is.
    pub untimed: u64,
    /// Chains of calls by which it has allocated: 2^[`CHAIN_BITS`].
    pub chains: *mut Chain,
    /// What is known to be there of its stack, since [`Blocks::unmappings`] was `stack_seen`.
    pub stack_from: u64,
    pub stack_end: u64,
    pub stack_seen: u64,
    /// By which it chooses call paths, what it has chosen now, and where its chance comes from.
    pub choices: [Choice; 1 << CHOICE_BITS],
    pub chosen: [Chosen; MAX_CHOSEN],
    pub chosen_count: u64,
    pub chance: u64,
    /// Lines to which its return is awaited, a bit for each by its number modulo 64, whether it has
    /// just come back to one, and chunks of returns, each plus one; 0 = none yet.
    pub awaited: [Awaited; MAX_AWAITED],
    pub awaits: u64,
    pub waits_again: u64,
    pub return_chunks: [u32; MAX_RETURN_CHUNKS],
    /// Time slice of its last event, plus one; of how many more in it returns are awaited.
    pub slice: u32,
    pub to_await: u32,
}

/// In [`ThreadState::sharer`]: there was no number left.
#[allow(dead_code, reason = "slow paths only")]
pub const NO_SHARER: u32 = u32::MAX;
/// log2 of the bytes whose pages have an entry of their own in [`tt_shared_chunks`].
pub const CHUNK_SHIFT: u32 = 21;
/// In [`tt_shared_chunks`]: the pages are not in a row.
pub const MIXED: u32 = u32::MAX;

/// Place in a thread's index of cells.
#[repr(C)]
pub struct CellPlace {
    /// Time slice of the cell, plus one; 0 = none.
    pub stamp: u32,
    /// The cell's name.
    pub cell: u32,
}

/// Where things are in the session, and how much of it may be used.
#[repr(C)]
pub struct Session {
    pub pool: u64,
    pub slice: *const AtomicU32,
    pub chunks: *mut AtomicU32,
    pub event_chunks_used: *mut AtomicU32,
    pub cell_chunks_used: *mut AtomicU32,
    pub max_chunks: u64,
    pub event_chunks: u64,
    pub cell_chunks: u64,
    pub events_without_site: *mut AtomicU64,
    pub cells_late: *mut AtomicU64,
    pub cells_lost: *mut AtomicU64,
    pub trace_head: *mut AtomicU64,
    pub trace_tail: *const AtomicU64,
    pub trace: u64,
    pub deaths: *mut Deaths,
    pub groups: u64,
    pub groups_used: *mut AtomicU32,
    pub zones: u64,
    pub zones_used: *mut AtomicU32,
    pub blocks: u64,
    pub blocks_described: *mut AtomicU32,
    pub max_blocks: u64,
    pub blocks_unknown: *mut AtomicU64,
    /// How many threads there have been.
    pub threads: *const AtomicU32,
    pub modules: *const AtomicU32,
    pub page_accesses_lost: *mut AtomicU64,
    /// Address of what tallies mean, and how many there are.
    pub meanings: u64,
    pub tallies: *const AtomicU32,
}

/// A reading of a block by a thread that has ended.
#[repr(C)]
pub struct Departed {
    pub block: u64,
    pub reader: u32,
    /// The next one with the same hash, plus one; 0 = none.
    pub next: u32,
}

/// The program's registers as the stubs save them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Frame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rax: u64,
    pub flags: u64,
}

variables! {
    /// Where to count.
    tt_session: Session,
    /// What the program has allocated.
    tt_blocks: Blocks,
    /// Zones of pages, of parts of stretches and of stretches of memory; null without room.
    tt_zones: [*mut AtomicU32; ZONE_SIZES],
    /// One of [`wire::session::mode`].
    tt_mode: u64,
    /// log2 of the block's bytes.
    tt_block_shift: u64,
    /// Banks in use; the address of the word of block 0 and the bits of an address that count in
    /// each.
    tt_banks: u64,
    tt_shadow: [u64; MAX_BANKS],
    tt_reach: [u64; MAX_BANKS],
    /// Addresses of the bytes written in line 0, and of the site of line or block 0.
    tt_written: u64,
    tt_last_sites: u64,
    /// Logical id of the thread in each slot of each bank.
    tt_slot_owner: [[u32; SLOT_PLACES]; MAX_BANKS],
    /// Bank and slot of each logical id.
    tt_bank_of: [u8; IDS],
    tt_slot_of: [u8; IDS],
    /// The map of grants of each slot.
    tt_grants: [[u64; SLOT_PLACES]; MAX_BANKS],
    /// Which slots have been granted anything in each region of the maps.
    tt_granted: [[u64; MAX_BANKS]; REGIONS],
    /// Bits of the maps' pages whose places several blocks share, and whether there are any.
    tt_folded: [u8; MAP_PAGES / 8],
    tt_any_folded: u32,
    /// What a filter of any thread does not allow: [`NO_YIELD`] and the others.
    tt_forbidden: u8,
    /// From a thread's map to its passing map; 0 = there are no windows.
    tt_to_passing: u64,
    /// Addresses of the words of the first tracked block in each bank, and of what is noted about
    /// it; 0 = no blocks are tracked.
    tt_tracked: [u64; MAX_BANKS],
    tt_tracked_notes: u64,
    /// The recording's phase, and whether what is allocated is looked at in windows only.
    tt_phase: *const AtomicU32,
    tt_unfollowed: *const AtomicU32,
    /// Counts looks at large blocks while small ones are not followed.
    tt_large_looks: *mut AtomicU64,
    /// What an event that is counted stands for, and one that is late.
    tt_weights: *const AtomicU32,
    /// Whether threads may write the base of %gs themselves.
    tt_writes_gs: u32,
    /// Address of the shadow of shared memory (`wire::shared`); 0 = the mode has none.
    tt_shared: u64,
    /// What is shared of this process's memory, from address 0 on: by chunks of 2 MiB the number
    /// of the first page plus one if all pages of the chunk are shared and follow on each other, 0
    /// = none is shared, or `MIXED`; and then by pages their number plus one, or 0. Without shared
    /// memory, neither is mapped.
    tt_shared_chunks: *mut u32,
    tt_shared_pages: *mut u32,
    /// Segment of this process from bit 32 on, and `Header::execs`.
    tt_image: u64,
    /// Number of the window for which everything has been forgotten.
    tt_opened: u32,
    /// 1: threads may have run code without checks since tracked blocks were forgotten.
    tt_was_light: u32,
    /// 1: a thread may not read the processor's clock.
    tt_clock_forbidden: u32,
    /// Ways of the filter of a trace; 0 = there is none. Lines that it knows of each set. Addresses
    /// of the filter of the thread with id 0, and of what is known of how often lines change hands.
    tt_trace_ways: u64,
    tt_trace_lines: u64,
    tt_trace_filters: u64,
    tt_hands: u64,
    /// 1: accesses are counted by page.
    tt_pages: u32,
    /// Address of the owners of the places for pages.
    tt_page_owners: u64,
    /// Bits of the runs in which any thread has touched a page.
    tt_touched_runs: [u64; RUNS / 64],
    /// Readings of threads that have ended, mapped with the first one, and how many there is room
    /// for.
    tt_departed: *mut Departed,
    tt_departed_most: u64,
}
