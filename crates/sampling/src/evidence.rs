//! What another thread's sampled write says about an access.
//!
//! *Age.* A write is old once its thread has run for longer without being seen writing the block
//! again than it usually does. That is counted in the thread's own samples: while others have its
//! processor, it cannot write, so its last write gets no older. Were it time that counted, or one
//! age for all, blocks that are written seldom would lose more of their hits than others where
//! threads take turns. Only a clock's samples come by the time that a thread runs; of other events'
//! samples it is time that counts.
//!
//! Neighbours: `matching` says why, and makes hits of it; `block` knows the writes, `history` who
//! ran.

use crate::block::{Block, Slot, Written};
use crate::constants::{CERTAIN_WITHIN, FORGOTTEN_AFTER, NEW_WITHIN, TIMES_USUAL};
use crate::history::Histories;
use crate::observed::Stream;
use rustc_hash::FxHashSet;
use types::ThreadId;

/// What another thread's write says about an access: that it is communication (worst first)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Recency {
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
    pub(crate) histories: Histories,
    /// Threads that have ended. What they wrote is handed over once at most, however soon: their
    /// stacks and blocks of memory are the next thread's, which then works there alone.
    pub(crate) gone: FxHashSet<ThreadId>,
}

impl Judge {
    /// Most of a thread's samples for which its write is new.
    pub(crate) fn short(&self, slot: Option<&Slot>) -> u64 {
        NEW_WITHIN.max(slot.map_or(0, |slot| (TIMES_USUAL * slot.usual) as u64))
    }

    /// The same in time.
    fn short_ns(&self) -> u64 {
        NEW_WITHIN * self.interval_ns
    }

    /// Age after which a write is forgotten.
    pub(crate) fn long(&self) -> u64 {
        FORGOTTEN_AFTER * self.interval_ns
    }

    /// What the last write of another thread than `thread` says about its access to the block now.
    pub(crate) fn evidence(
        &self,
        block: &Block,
        stream: Stream,
        thread: ThreadId,
        time_ns: u64,
    ) -> Option<(Recency, (ThreadId, Written))> {
        let (writer, written) = block.last_writer_but(thread)?;
        let certain = stream == Stream::Transfers;
        let seen = block.of(thread).map(|slot| slot.seen_ns);
        let is_new = seen.is_none_or(|seen| seen < written.time_ns);
        let is_known = time_ns.saturating_sub(written.time_ns) <= self.long();
        let goes_on = !self.gone.contains(&writer)
            && match stream {
                Stream::Waiting => {
                    let age = self.histories.since(writer, written.time_ns);
                    age <= self.short(block.of(writer))
                }
                _ => {
                    let lately = time_ns.saturating_sub(written.time_ns) <= self.short_ns();
                    lately && (is_new || self.may_have_run_since(writer, seen))
                }
            };
        let evidence = match is_new {
            // However seldom samples come: the line came from another cache, and no other thread is
            // known to have had it.
            _ if certain => Recency::New,
            _ if !is_known => return None,
            true if goes_on => Recency::New,
            true => Recency::Old,
            false if goes_on => Recency::Ongoing,
            false => return None,
        };
        Some((evidence, (writer, written)))
    }

    fn may_have_run_since(&self, thread: ThreadId, time_ns: Option<u64>) -> bool {
        let until =
            self.histories.last(thread).map_or(0, |last| last + CERTAIN_WITHIN * self.interval_ns);
        time_ns.is_some_and(|time_ns| until >= time_ns)
    }

    /// Whether a thread that writes the block now, and did so before as `slot` says, did all the
    /// while since another one's access at `time_ns`, after a write at `since_ns`: it ran then, and
    /// has written as usual.
    pub(crate) fn went_on(
        &self,
        stream: Stream,
        writer: ThreadId,
        slot: Option<&Slot>,
        [since_ns, time_ns, now_ns]: [u64; 3],
    ) -> bool {
        if stream != Stream::Waiting {
            return now_ns.saturating_sub(since_ns) <= self.short_ns();
        }
        let before = slot.and_then(|slot| slot.write).map_or(since_ns, |write| write.time_ns);
        before <= time_ns
            && self.histories.since(writer, before) <= self.short(slot)
            && self.histories.ran(writer, time_ns, now_ns) == Some(true)
    }

    /// Whether a thread wrote the block at that time, as far as its last write there tells.
    pub(crate) fn wrote_about(&self, slot: &Slot, time_ns: u64) -> bool {
        let Some(write) = slot.write.filter(|_| !self.gone.contains(&slot.thread)) else {
            return false;
        };
        let [write, at] =
            [write.time_ns, time_ns].map(|time_ns| self.histories.since(slot.thread, time_ns));
        write.abs_diff(at) <= self.short(Some(slot))
    }
}
