//! What goes into detectors and what comes out.

use access::Access;
use types::{CommKind, Evidence, Sharing, ThreadId};

/// Bytes of the blocks in which sampling finds communication: the lines of a profile.
pub const BLOCK_BYTES: u64 = 64;

/// What the samples of a stream stand for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stream {
    /// Time: a clock's samples, which come at accesses the more, the longer these wait. A hit's
    /// weight is in nanoseconds of waiting.
    Waiting,
    /// Accesses, each as likely as any other: events of memory operations, PEBS, SPE. A hit's
    /// weight is in accesses, as in ComDetective.
    Accesses,
    /// Lines that came from another core's cache: each sample is itself a transfer to its thread,
    /// and a hit's weight is in transfers.
    Transfers,
    /// Accesses that are known to be none of these: they say who writes, and are no hits.
    Context,
}

/// One sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Observed<'a> {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    /// The sampled thread.
    pub thread: ThreadId,
    /// What the thread has just accessed or is about to, at least one, the likeliest first: it has
    /// made all of them, but the sample stands for one.
    pub accesses: &'a [Access],
    /// What the sample stands for, in units of its source: events, or nanoseconds.
    pub period: u64,
}

/// One side of a hit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Side {
    /// The thread.
    pub thread: ThreadId,
    /// Address of the instruction.
    pub site: u64,
    /// Bytes of the block, bit i = byte i; 0: not known.
    pub bytes: u64,
}

/// Communication that was seen once: `from` wrote a memory block, `to` accessed it afterwards.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hit {
    /// When `to`'s access was sampled or trapped.
    pub time_ns: u64,
    /// Address of the block.
    pub block: u64,
    /// RAW or WAW; an access that reads and writes is a hit of each.
    pub kind: CommKind,
    /// True or false sharing.
    pub sharing: Sharing,
    /// The write.
    pub from: Side,
    /// The access that followed.
    pub to: Side,
    /// What the hit stands for before calibration, in units of the source. 0: for itself only, one
    /// event that has certainly happened.
    pub weight: f64,
    /// A read of an array's block: `from` writes all around it. What was waited for it says little,
    /// since a thread that reads one block after the other has the next ones prefetched meanwhile.
    pub array: bool,
    /// Inferred: no thread was sampled writing the block lately; `from` writes around it, so that
    /// its bytes and the sharing are not known. What part of such hits is communication is known
    /// the better, the more there are ([`Matcher::part`](crate::Matcher::part)).
    pub evidence: Evidence,
    /// What lies there, by a number of the caller's; 0: not known, as detectors leave it.
    pub object: u32,
}

/// True where the bytes of both sides overlap.
pub(crate) fn sharing(from: &Side, to: &Side) -> Sharing {
    if from.bytes & to.bytes != 0 { Sharing::True } else { Sharing::False }
}

/// `count` bits from bit `first` on.
pub(crate) fn mask(first: u64, count: u64) -> u64 {
    let bits = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    bits << first
}
