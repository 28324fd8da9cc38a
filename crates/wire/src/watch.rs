//! What the watching library is told, and what it reports: communication that it saw with the
//! processor's debug registers, in memory that the recorder owns.
//!
//! Layout of the memfd, all offsets constant:
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | [`Header`], one page |
//! | [`segment_offset`]`(k)` | segment k, one for each program that a process executes |
//!
//! A segment is a [`Segment`], then [`RECORDS`] × [`Record`]. A process takes the next segment when
//! it is loaded, forked or has executed another program, and leaves the one it had.
//!
//! The records are a queue of many writers and one reader (Vyukov's bounded one). Position p is
//! record p mod [`RECORDS`] in lap p / [`RECORDS`]. A record is free for lap l when its `turn` is
//! 2·l and filled when that is 2·l + 1; the reader then sets it to 2·(l + 1). What finds no room is
//! counted in [`Segment::lost`]. A writer that ends between taking a position and filling it (its
//! process has executed another program) leaves one that is never filled: a reader skips it when
//! the segment is over.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// First eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TTWATCH\0");
/// Changes with every change of this layout. 1: first version; 2: what switches of threads cost,
/// and samples after which nothing was watched because of that.
pub const VERSION: u32 = 2;
/// Environment variable that tells the library where the memory is: a path to open.
pub const ENV: &str = "THREADTALK_WATCH";
/// Added where otherwise an odd number of variables would be taken out again: see
/// `injected::environment`.
pub const EVEN: &str = "THREADTALK_WATCH_EVEN";

/// Page size assumed by the layout, bytes.
pub const PAGE: u64 = 4096;
/// Bytes of a line: what is published, watched and reported.
pub const LINE: u64 = 64;
/// Most segments.
pub const SEGMENTS: usize = 64;
/// Records of a segment's queue; a power of two.
pub const RECORDS: usize = 1 << 13;
/// Lines that are published at once (ComDetective, 4.5.1): a prime number.
pub const BOARD: usize = 127;
/// Debug registers of x86.
pub const REGISTERS: usize = 4;

/// Bytes of a segment.
pub const SEGMENT_BYTES: u64 = size_of::<Segment>() as u64 + (RECORDS * size_of::<Record>()) as u64;
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
    /// `perf_event_attr.type` and `config` of the event that is sampled in each thread.
    pub event_type: AtomicU32,
    /// `perf_event_attr.config` of the sampled event.
    pub event_config: AtomicU64,
    /// Events (of a clock: nanoseconds) from sample to sample.
    pub period: AtomicU64,
    /// Debug registers to use at most, 0 to [`REGISTERS`].
    pub registers: AtomicU32,
    /// What is watched, [`mode`].
    pub mode: AtomicU32,
    /// 1: processes that are forked, or started, are watched, too.
    pub follow: AtomicU32,
    /// Segments taken so far; may exceed [`SEGMENTS`], by processes that found none.
    pub taken: AtomicU32,
    /// 1: nothing is to be watched any more; threads stop at their next sample.
    pub stop: AtomicU32,
    /// What it costs that a thread gets a processor and loses it again while it is sampled, ns; 0:
    /// not known.
    pub switch_ns: AtomicU32,
}

/// [`Header::mode`].
pub mod mode {
    /// Eight-byte pieces of the published line, chosen at random: true and false sharing.
    pub const PIECES: u32 = 0;
    /// The published bytes themselves: true sharing only, but any of it.
    pub const PUBLISHED: u32 = 1;
}

/// [`Segment::state`].
pub mod state {
    /// No process has come.
    pub const EMPTY: u32 = 0;
    /// The library watches the process's threads.
    pub const WATCHING: u32 = 1;
    /// The library is of another version than the recorder and does nothing.
    pub const VERSION_MISMATCH: u32 = 2;
    /// It does nothing any more; [`super::Segment::reason`] says why.
    pub const STEPPED_BACK: u32 = 3;
}

/// Why a process is not watched.
pub mod reason {
    /// It is watched.
    pub const NONE: u32 = 0;
    /// The program handles SIGTRAP itself.
    pub const OWN_HANDLER: u32 = 1;
    /// The kernel has no synchronous signals from events (before Linux 5.13).
    pub const NO_SIGTRAP: u32 = 2;
    /// The event was refused; [`super::Segment::error`] has the errno.
    pub const EVENT_REFUSED: u32 = 3;
    /// The program is written in Go, whose runtime takes SIGTRAP by itself.
    pub const GO: u32 = 4;
    /// The program has forbidden itself system calls.
    pub const SECCOMP: u32 = 5;
    /// The recorder has said so.
    pub const STOPPED: u32 = 6;
    /// It runs with more rights than who started it, or is otherwise protected.
    pub const PROTECTED: u32 = 7;
    /// The program is allowed so little address space that what watching needs of it could be
    /// missing.
    pub const NO_ROOM: u32 = 8;
}

/// One published store.
#[repr(C, align(64))]
pub struct Published {
    /// Even: at rest; odd: being written. 0: never written.
    pub version: AtomicU64,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: AtomicU64,
    /// Address of the first byte.
    pub address: AtomicU64,
    /// Bytes stored.
    pub bytes: AtomicU32,
    /// Kernel id of the thread that stored.
    pub tid: AtomicU32,
    /// Address of the instruction.
    pub site: AtomicU64,
}

/// What a process reports, and its bulletin board.
#[repr(C, align(4096))]
pub struct Segment {
    /// One of [`state`].
    pub state: AtomicU32,
    /// One of [`reason`].
    pub reason: AtomicU32,
    /// errno that belongs to the reason.
    pub error: AtomicU32,
    /// Process id.
    pub pid: AtomicU32,
    /// Process that forked it, or itself when it has executed another program.
    pub parent: AtomicU32,
    /// 1: the segment's process has gone on to another segment (exec).
    pub left: AtomicU32,
    /// CLOCK_MONOTONIC, ns.
    pub began_ns: AtomicI64,

    /// Threads that were ever watched, and those that could not be.
    pub threads: AtomicU64,
    /// Threads that could not be watched.
    pub unwatched: AtomicU64,
    /// errno of the last thread that could not be watched.
    pub unwatched_error: AtomicU32,
    /// Fewest debug registers that a thread which wanted some got; `u32::MAX`: none has wanted any.
    pub fewest_registers: AtomicU32,

    /// Samples, and what became of them.
    pub samples: AtomicU64,
    /// With an access.
    pub decoded: AtomicU64,
    /// Came late, because the thread had blocked the signal: not looked at.
    pub late: AtomicU64,
    /// Came when all places to work at were taken: not looked at.
    pub skipped: AtomicU64,
    /// Stores published.
    pub published: AtomicU64,
    /// Accesses to what another thread has published.
    pub matches: AtomicU64,
    /// Times that lines were watched, and accesses that trapped.
    pub armed: AtomicU64,
    /// Accesses that trapped.
    pub trapped: AtomicU64,
    /// Traps of a line that was not watched any more.
    pub stale: AtomicU64,
    /// Records that found no room.
    pub lost: AtomicU64,
    /// Nanoseconds in the handlers, without what the kernel needs around them.
    pub handler_ns: AtomicU64,
    /// Samples after which fewer debug registers, or none, were armed than there are, because the
    /// thread is switched too often.
    pub spared: AtomicU64,
    _gap: [AtomicU64; 6],
    /// Next position of the queue.
    pub tail: AtomicU64,
    _pad: [AtomicU64; 7],
    /// The bulletin board.
    pub board: [Published; BOARD],
}

/// How a record came about.
pub mod how {
    /// A sampled access to what another thread had published.
    pub const MATCH: u32 = 0;
    /// A watched access.
    pub const TRAP: u32 = 1;
}

/// [`Record::kind`].
pub mod kind {
    /// A load.
    pub const LOAD: u32 = 0;
    /// A store.
    pub const STORE: u32 = 1;
    /// Both: a store that also loads.
    pub const UPDATE: u32 = 2;
}

/// `from` has stored to a line that `to` has accessed afterwards.
#[repr(C, align(128))]
pub struct Record {
    /// See the head of this module.
    pub turn: AtomicU64,
    /// When `to` accessed, and when `from` had stored; CLOCK_MONOTONIC, ns.
    pub time_ns: AtomicU64,
    /// When `from` had stored; CLOCK_MONOTONIC, ns.
    pub from_ns: AtomicU64,
    /// Address of the line.
    pub line: AtomicU64,
    /// Addresses of the instructions; 0: not known.
    pub to_site: AtomicU64,
    /// Address of `from`'s instruction; 0: not known.
    pub from_site: AtomicU64,
    /// Bytes of the line, bit i = byte i. Of `to` after a trap whose instruction could not be read
    /// back: the bytes that were watched.
    pub to_bytes: AtomicU64,
    /// Bytes of the line that `from` stored, bit i = byte i.
    pub from_bytes: AtomicU64,
    /// Of `to`'s sample, or the sample that armed.
    pub period: AtomicU64,
    /// Kernel ids of the threads.
    pub to: AtomicU32,
    /// Kernel id of the thread that stored.
    pub from: AtomicU32,
    /// What `to` did, [`kind`].
    pub kind: AtomicU32,
    /// [`how`].
    pub how: AtomicU32,
    /// Debug registers that watched, and bytes that each watched; 0 for a match.
    pub registers: AtomicU32,
    /// Bytes that each debug register watched; 0 for a match.
    pub length: AtomicU32,
    /// [`mode`] in which it was watched.
    pub mode: AtomicU32,
    /// 1: the instruction was read back, so `to_bytes`, `to_site` and `kind` are exact.
    pub exact: AtomicU32,
}

const _: () = assert!(size_of::<Header>() as u64 == PAGE);
const _: () = assert!((size_of::<Segment>() as u64).is_multiple_of(PAGE));
const _: () = assert!(SEGMENT_BYTES.is_multiple_of(PAGE));
const _: () = assert!(size_of::<Record>() == 128);
const _: () = assert!(size_of::<Published>() == 64);
const _: () = assert!(RECORDS.is_power_of_two());
