//! Traces: accesses of every thread, in one order, in a ring.
//!
//! In the mode `TRACE`, the reference recorder's, these are all accesses. A *filtered* trace
//! (`Header::trace_ways`) leaves out those that hit in a small cache and says how many they were;
//! see the agent's `slow/filter.h`.
//!
//! A thread takes the next number from `Header::trace_head` right before its access, waits until
//! the ring has room, fills the record and then sets [`Access::turn`]. The recorder follows
//! `Header::trace_tail`.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Records in the ring.
pub const RECORDS: usize = 1 << 20;
/// Bytes of the ring.
pub const BYTES: u64 = (RECORDS * size_of::<Access>()) as u64;

/// What a record says.
pub mod what {
    /// A read.
    pub const READ: u32 = 0;
    /// A write.
    pub const WRITE: u32 = 1;
    /// The memory is new (unmapped, remapped, discarded): no thread has written it.
    pub const FORGET: u32 = 2;
    /// Memory has moved: what is known of it holds where it is now. In the record, the page that it
    /// has moved to stands in the site, its upper bits in the thread.
    pub const COPY: u32 = 3;
    /// Of a filtered trace: the thread has made as many accesses more as the record's bytes say,
    /// which are not in the trace.
    pub const SKIP: u32 = 4;
    /// Of a filtered trace of a recording with windows: from here on the thread is observed, or is
    /// no longer. The record's bytes say how ([`seen`](super::seen)), its address in which window;
    /// before it, the thread has made as many accesses more as its address says above
    /// [`SKIPPED_SHIFT`](super::SKIPPED_SHIFT), which are not in the trace.
    pub const WINDOW: u32 = 5;
    /// Of a filtered trace, beside one of the others: from now on, the thread's accesses to the
    /// line need not be in the trace.
    pub const HELD: u32 = 8;
}

/// How a thread is observed: the bytes of a record [`what::WINDOW`].
pub mod seen {
    /// Its accesses are not in the trace.
    pub const NOT: u32 = 0;
    /// They are, but do not count yet.
    pub const WARM_UP: u32 = 1;
    /// They are, and count.
    pub const COUNTED: u32 = 2;
}

/// Sets of the filter of a filtered trace, in lines: as many as most innermost caches have, or part
/// of it.
pub const SETS: u32 = 64;
/// Maximum number of lines that the filter knows of each set.
pub const MAX_LINES: u32 = 12;
/// In [`Access::address`] of a filtered trace: where the number of accesses begins that the thread
/// has made since its last record and that are not in the trace.
pub const SKIPPED_SHIFT: u32 = 48;

/// In [`Access::bytes`] of a filtered trace: where the ways begin into which the cache that the
/// filter stands for takes the lines of the access, the first one lowest, [`WAY_BITS`] each and
/// plus 1. 0: that is not told, as of accesses to more than two lines.
pub const WAYS_SHIFT: u32 = 48;
/// Bits of each way above [`WAYS_SHIFT`].
pub const WAY_BITS: u32 = 4;

/// What a trace leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Accesses to the last lines of each of [`SETS`] sets pass unseen: to that many. 0: there is
    /// no filtered trace.
    pub ways: u32,
    /// Accesses to that many lines of each set are left out, at least `ways` and at most
    /// [`MAX_LINES`]. If they are more than `ways`, the filter is a cache: it sees accesses to the
    /// others, so it knows in which order they are used, and the trace says which way each line
    /// takes.
    pub lines: u32,
}

impl Filter {
    /// One that sees none of the accesses that it leaves out.
    pub fn of_ways(ways: u32) -> Self {
        Self { ways, lines: ways }
    }

    /// One that is a cache with `sets` sets of `ways` ways, if there can be one. The order in which
    /// half the lines are used is not seen.
    pub fn like_cache(sets: u64, ways: u32) -> Option<Self> {
        let can = sets == u64::from(SETS) && (2..=MAX_LINES).contains(&ways);
        can.then_some(Self { ways: ways / 2, lines: ways })
    }

    /// Whether there is a filtered trace.
    pub fn is_some(self) -> bool {
        self.ways > 0
    }

    /// Whether the trace says which way each line takes.
    pub fn is_cache(self) -> bool {
        self.lines > self.ways
    }
}

/// Bits of a thread's id in [`Access::thread_and_what`]; what the record says stands above them.
pub const THREAD_BITS: u32 = 16;
/// log2 of the pages that [`what::COPY`] numbers.
pub const PAGE_SHIFT: u32 = 12;

/// Bits of the length in [`Access::bytes`] where an access to shared memory is in one page, whose
/// number in the process stands above.
pub const SHARED_BYTES_BITS: u32 = 16;

/// One access.
#[repr(C)]
pub struct Access {
    /// Number of the access plus 1; anything else: not filled yet.
    pub turn: AtomicU64,
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Code site, as in the session's sites.
    pub site: u32,
    /// Logical thread id in the lowest [`THREAD_BITS`], one of [`what`] above.
    pub thread_and_what: AtomicU32,
}

const _: () = assert!(size_of::<Access>() == 32);
