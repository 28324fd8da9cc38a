//! Who accesses which page: the part of a session that tells, where that was asked for.
//!
//! Each slot that a thread has takes [`SLOT_BYTES`]: what it has touched of each page
//! ([`Touched`]), and its counters ([`Counters`], which translated code increments). Both are
//! indexed by [`place`], which several pages may have in common: the page that has come first is
//! in [`Owner`], and accesses to others are counted as lost. When a page's memory goes, or a thread
//! ends, what was counted moves into records of the past ([`Past`]), in this order: all that was
//! done to a page before its end stands before it.
//!
//! Neighbours: [`session`](crate::session) says where these parts lie, the agent's `pages.rs` and
//! `slow/pages.h` write them, `recorder/exact/page_uses.rs` reads them.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// What is known by page.
pub mod known {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// Who accesses it how often.
    pub const COUNTED: u32 = 1;
    /// What lies on it; what is counted is only what slow paths see.
    pub const NAMED: u32 = 2;
}

/// log2 of the bytes of a page.
pub const PAGE_SHIFT: u32 = 12;
/// log2 of the pages that have places of their own.
pub const PLACES_BITS: u32 = 26;
/// Pages that have places of their own.
pub const PLACES: usize = 1 << PLACES_BITS;
/// Most slots for threads that are there at once.
pub const MAX_SLOTS: usize = 24 * 45;
/// Most records of the past.
pub const MAX_PAST: usize = 1 << 26;

/// Bytes of what a slot says of the lines that were touched.
pub const TOUCHED_BYTES: u64 = (PLACES * size_of::<Touched>()) as u64;
/// Bytes of a slot's counters, which come behind.
pub const COUNTERS_BYTES: u64 = (PLACES * size_of::<Counters>()) as u64;
/// Bytes of a slot.
pub const SLOT_BYTES: u64 = TOUCHED_BYTES + COUNTERS_BYTES;

/// Where the logical ids of the threads in the slots lie, from the beginning of the part: a u32 for
/// each, plus one; 0 = none.
pub const THREADS_OFFSET: u64 = 0;
/// Where the owners of places begin.
pub const OWNERS_OFFSET: u64 = (MAX_SLOTS as u64 * 4).next_multiple_of(4096);
/// Where the records of the past begin.
pub const PAST_OFFSET: u64 = OWNERS_OFFSET + (PLACES * size_of::<Owner>()) as u64;
/// Where the slots begin.
pub const SLOTS_OFFSET: u64 = PAST_OFFSET + (MAX_PAST * size_of::<Past>()) as u64;
/// Bytes of the whole part.
pub const BYTES: u64 = SLOTS_OFFSET + MAX_SLOTS as u64 * SLOT_BYTES;

/// The place of a page.
pub const fn place(page: u64) -> usize {
    page as usize % PLACES
}

/// What a thread has done to a page.
#[repr(C)]
pub struct Counters {
    /// Loads.
    pub reads: AtomicU64,
    /// Stores.
    pub writes: AtomicU64,
}

/// The lines of a page that a thread has touched, a bit for each.
#[repr(C)]
pub struct Touched {
    /// Accessed.
    pub lines: AtomicU64,
    /// Written.
    pub written: AtomicU64,
}

/// A page that has a place.
#[repr(C)]
pub struct Owner {
    /// Number of the page, plus one; 0 = none.
    pub page: AtomicU64,
    /// The thread that accessed it first, plus one; 0 while that is being written.
    pub thread: AtomicU32,
    /// Where it did so: a code site.
    pub site: AtomicU32,
    /// The [group](crate::objects::Group) of an allocated block on the page: of the first one that
    /// was accessed. 0 = none.
    pub group: AtomicU32,
    /// The thread that allocated it; `u32::MAX`: of another process.
    pub allocated_by: AtomicU32,
    /// Its address.
    pub start: AtomicU64,
    /// Its bytes.
    pub bytes: AtomicU64,
    /// How many blocks of the group came before it.
    pub ordinal: AtomicU64,
}

/// What was done to a page by a thread that has ended, or before the page went; or that it went.
/// Words, so that both kinds have the same size.
#[repr(C)]
pub struct Past {
    /// Number of the page, plus one; 0 = the record is being written.
    pub page: AtomicU64,
    /// The thread, plus one. 0: the page has gone, and what follows are the words of its [`Owner`]
    /// behind the first one.
    pub thread: AtomicU64,
    /// Reads, writes, lines touched and lines written, as in [`Counters`] and [`Touched`].
    pub what: [AtomicU64; OWNER_WORDS - 1],
}

/// Words of an [`Owner`].
pub const OWNER_WORDS: usize = size_of::<Owner>() / 8;
