//! What the library that follows allocations tells the recorder while a program is sampled: which
//! blocks of the heap there are, from when to when, and which place in the program allocated them.
//!
//! Layout of the memfd, all offsets constant:
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | [`Header`], one page |
//! | [`segment_offset`]`(k)` | segment k, one for each process, and each program that it executes |
//!
//! A segment is a [`Segment`], then [`GROUPS`] × [`Group`] and [`RECORDS`] × [`Record`].
//!
//! The records are a queue of many writers and one reader (Vyukov's bounded one): position p is
//! record p mod [`RECORDS`], and filled when its `turn` is p + 1. The reader says in
//! [`Segment::head`] how far it has come. Records that begin a block leave the second half of the
//! queue to those that end one, and the second quarter to blocks that are followed in any case.
//! Where even these find no room, [`Segment::ends_lost`] counts them, and the reader believes
//! nothing that it knew before.
//!
//! Neighbours: crate `blocks` writes, `recorder` reads; [`objects`](crate::objects) describes
//! groups.

use crate::objects::Group;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// First eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TTBLOCK\0");
/// Changes with every change of this layout.
pub const VERSION: u32 = 1;
/// Environment variable that tells the library where the memory is: a path to open.
pub const ENV: &str = "THREADTALK_BLOCKS";
/// Added where otherwise an odd number of variables would be taken out again: see
/// `injected::environment`.
pub const EVEN: &str = "THREADTALK_BLOCKS_EVEN";

/// Page size assumed by the layout, bytes.
pub const PAGE: u64 = 4096;
/// Most segments.
pub const SEGMENTS: usize = 1024;
/// Groups of a segment, with the unused number 0 and [`OTHERS`](crate::objects::OTHERS).
pub const GROUPS: usize = 1 << 15;
/// Records of a segment's queue; a power of two.
pub const RECORDS: usize = 1 << 17;

/// Where a segment's groups begin, from its start, bytes.
pub const GROUPS_OFFSET: u64 = PAGE;
/// Where a segment's records begin, from its start, bytes.
pub const RECORDS_OFFSET: u64 =
    GROUPS_OFFSET + (GROUPS as u64 * size_of::<Group>() as u64).next_multiple_of(PAGE);
/// Bytes of a segment.
pub const SEGMENT_BYTES: u64 =
    RECORDS_OFFSET + (RECORDS as u64 * size_of::<Record>() as u64).next_multiple_of(PAGE);
/// Bytes of the memfd.
pub const BYTES: u64 = segment_offset(SEGMENTS);

/// Where segment `k` begins.
pub const fn segment_offset(k: usize) -> u64 {
    PAGE + k as u64 * SEGMENT_BYTES
}

/// First page: written by the recorder but for its last field.
#[repr(C, align(4096))]
pub struct Header {
    /// Marks the memory.
    pub magic: AtomicU64,
    /// Version of the layout.
    pub version: AtomicU32,
    /// 1: processes that are forked, or started, are followed, too.
    pub follow: AtomicU32,
    /// 1: nothing is to be followed any more.
    pub stop: AtomicU32,
    /// Segments taken so far; may exceed [`SEGMENTS`], by processes that found none.
    pub taken: AtomicU32,
}

/// [`Segment::state`].
pub mod state {
    /// No process has come.
    pub const EMPTY: u32 = 0;
    /// The library follows the process's allocations.
    pub const FOLLOWING: u32 = 1;
    /// The program has an allocator of its own, which is not followed.
    pub const OWN_ALLOCATOR: u32 = 2;
}

/// What is known of a process as a whole.
#[repr(C, align(4096))]
pub struct Segment {
    /// One of [`state`].
    pub state: AtomicU32,
    /// Process id.
    pub pid: AtomicU32,
    /// Process that forked it, or itself when it has executed another program.
    pub parent: AtomicU32,
    /// Groups so far.
    pub groups: AtomicU32,
    /// When the library was loaded or the process forked; CLOCK_MONOTONIC, ns.
    pub began_ns: AtomicU64,
    /// Blocks that were not followed because there were so many at once.
    pub skipped: AtomicU64,
    /// Blocks that were not followed because there was no room.
    pub lost: AtomicU64,
    /// Ends of blocks for which there was no room.
    pub ends_lost: AtomicU64,
    _gap: [AtomicU64; 2],
    /// Next position of the queue to be written.
    pub tail: AtomicU64,
    _pad: [AtomicU64; 7],
    /// Next position to be read, by the recorder.
    pub head: AtomicU64,
}

/// [`Record::what`].
pub mod what {
    /// A block begins.
    pub const BEGINS: u32 = 0;
    /// It ends.
    pub const ENDS: u32 = 1;
    /// It ends because `realloc` takes it to where the thread's next [`MOVED`] says.
    pub const LEAVES: u32 = 2;
    /// `realloc` has moved the thread's block here. 0 bytes: it stayed as it was.
    pub const MOVED: u32 = 3;
}

/// A block begins or ends.
#[repr(C)]
pub struct Record {
    /// See the head of this module.
    pub turn: AtomicU64,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: AtomicU64,
    /// Address of the block.
    pub start: AtomicU64,
    /// Its bytes.
    pub bytes: AtomicU64,
    /// How many blocks of the group came before it.
    pub ordinal: AtomicU64,
    /// One of [`what`], and from bit 8 on the number of the group.
    pub what: AtomicU32,
    /// Kernel id of the thread.
    pub tid: AtomicU32,
}

const _: () = assert!(size_of::<Header>() as u64 == PAGE);
const _: () = assert!(size_of::<Segment>() as u64 == PAGE);
const _: () = assert!(size_of::<Record>() == 48);
const _: () = assert!(GROUPS < 1 << 24);
const _: () = assert!(RECORDS.is_power_of_two());
