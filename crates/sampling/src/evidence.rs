//! What another thread's sampled write says about an access.
//!
//! Neighbours: `matching` says why, and makes hits of it; `block` knows the writes.

use crate::block::{Block, Written};
use crate::observed::Stream;
use rustc_hash::{FxHashMap, FxHashSet};
use types::ThreadId;

/// Sampling intervals for which a write is new.
pub(crate) const SHORT: u64 = 20;
/// Sampling intervals after which a write is forgotten.
const LONG: u64 = 1000;
/// Sampling intervals within which a thread that runs is sampled for certain.
const RUNS: u64 = 2;

/// What another thread's write says about an access: that it is communication (worst first)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Evidence {
    /// that was handed over once, long ago,
    Old,
    /// if the writer turns out to go on,
    Ongoing,
    /// for certain.
    New,
}

/// Decides what is evidence.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) interval_ns: u64,
    /// When each thread was sampled last, wherever.
    pub(crate) ran: FxHashMap<ThreadId, u64>,
    /// Threads that have ended. What they wrote is handed over once at most, however soon: their stacks and
    /// blocks of memory are the next thread's, which then works there alone.
    pub(crate) gone: FxHashSet<ThreadId>,
}

impl Judge {
    /// Longest age of a new write.
    pub(crate) fn short(&self) -> u64 {
        SHORT * self.interval_ns
    }

    /// Age after which a write is forgotten.
    pub(crate) fn long(&self) -> u64 {
        LONG * self.interval_ns
    }

    /// What the last write of another thread than `thread` says about its access to the block now.
    pub(crate) fn evidence(
        &self,
        block: &Block,
        stream: Stream,
        thread: ThreadId,
        time_ns: u64,
    ) -> Option<(Evidence, (ThreadId, Written))> {
        let (writer, written) = block.last_writer_but(thread)?;
        let age = time_ns.saturating_sub(written.time_ns);
        let seen = block.seen(thread);
        let certain = stream == Stream::Transfers;
        let is_new = seen.is_none_or(|seen| seen < written.time_ns);
        let until = self.ran.get(&writer).map_or(0, |last| last + RUNS * self.interval_ns);
        let may_write_again = seen.is_some_and(|seen| until >= seen);
        let evidence = match age {
            // However seldom samples come: the line came from another cache, and nobody else is known to have had it.
            _ if certain => Evidence::New,
            _ if is_new && age <= self.long() => {
                let goes_on = age <= self.short() && !self.gone.contains(&writer);
                if goes_on { Evidence::New } else { Evidence::Old }
            }
            _ if age <= self.short() && may_write_again => Evidence::Ongoing,
            _ => return None,
        };
        Some((evidence, (writer, written)))
    }
}
