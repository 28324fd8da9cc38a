//! When threads were sampled lately: whether one ran at a time, and how long it has run since
//! another.
//!
//! A thread is sampled after so much time that it has run, so the time that it has run is counted
//! in its own samples ([`Histories::since`]), however often others had its processor meanwhile. It
//! ran at a time between two of its samples that lie as close to each other as usual, or nearly.
//! What is usual is the thread's own: one that sleeps every now and then is sampled seldom, and it
//! cannot be said when in between it ran.
//!
//! Neighbours: `evidence` asks how old a write is, `together` who ran when a thread waited.

use crate::constants::{AGAIN, HALF_GAP, USUAL_GAPS, USUAL_OF};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use types::ThreadId;

/// Samples of a thread that are remembered.
const SAMPLES: usize = 256;

/// When each thread was sampled lately. Everything comes about in order of time.
#[derive(Debug)]
pub(crate) struct Histories {
    interval_ns: u64,
    threads: FxHashMap<ThreadId, History>,
    /// The last sample, and the last of another thread.
    latest: [Option<(ThreadId, u64)>; 2],
}

impl Histories {
    /// Of threads that are sampled each `interval_ns` while they run.
    pub(crate) fn new(interval_ns: u64) -> Self {
        Self { interval_ns, threads: FxHashMap::default(), latest: [None; 2] }
    }

    /// A thread was sampled, at whatever.
    pub(crate) fn note(&mut self, thread: ThreadId, time_ns: u64) {
        let [last, other] = self.latest;
        let other = last.filter(|&(last, _)| last != thread).or(other);
        self.latest = [Some((thread, time_ns)), other];
        let runs = |(_, last_ns)| time_ns.saturating_sub(last_ns) <= self.interval_ns;
        let in_company = other.is_some_and(runs);
        self.threads.entry(thread).or_default().note(time_ns, self.interval_ns, in_company);
    }

    /// A thread has ended.
    pub(crate) fn forget(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// Whether a thread ran at that time, by what is known now; `None`: its next sample will tell.
    pub(crate) fn ran(&self, thread: ThreadId, time_ns: u64, now_ns: u64) -> Option<bool> {
        match self.threads.get(&thread) {
            Some(history) => history.ran(time_ns, now_ns),
            None => Some(false),
        }
    }

    /// How often a thread was sampled after that time, `u64::MAX` if that is no longer known.
    pub(crate) fn since(&self, thread: ThreadId, time_ns: u64) -> u64 {
        self.threads.get(&thread).map_or(u64::MAX, |history| history.since(time_ns))
    }

    /// When a thread was sampled last.
    pub(crate) fn last(&self, thread: ThreadId) -> Option<u64> {
        self.threads.get(&thread).and_then(|history| history.times.back().copied())
    }

    /// How often a thread has been sampled in company: while another one ran, by its last sample.
    pub(crate) fn in_company(&self, thread: ThreadId) -> u64 {
        self.threads.get(&thread).map_or(0, |history| history.in_company)
    }
}

/// When a thread was sampled lately.
#[derive(Debug, Default)]
struct History {
    times: VecDeque<u64>,
    in_company: u64,
    usual_ns: u64,
    since_look: u32,
}

impl History {
    fn note(&mut self, time_ns: u64, interval_ns: u64, in_company: bool) {
        // One that is looked at twice has run no longer.
        if self.times.back().is_some_and(|&last| last >= time_ns) {
            return;
        }
        if self.times.len() >= SAMPLES {
            self.times.pop_front();
        }
        self.times.push_back(time_ns);
        self.in_company += u64::from(in_company);
        self.since_look += 1;
        if self.usual_ns == 0 || self.since_look >= AGAIN {
            (self.usual_ns, self.since_look) = (self.usual(interval_ns), 0);
        }
    }

    /// The clock's interval if the thread keeps its processor for that long now and then, else the
    /// median gap between two samples.
    fn usual(&self, interval_ns: u64) -> u64 {
        let latest = self.times.iter().skip(self.times.len().saturating_sub(USUAL_OF));
        let mut gaps: Vec<u64> =
            latest.clone().zip(latest.skip(1)).map(|(one, next)| next - one).collect();
        gaps.sort_unstable();
        let at = |part: usize| gaps.get(gaps.len() * part / 8).copied().unwrap_or(0);
        let turns = at(1) as f64 <= USUAL_GAPS * interval_ns as f64;
        if turns { interval_ns } else { at(4) }
    }

    fn gap_ns(&self, gaps: f64) -> u64 {
        (self.usual_ns as f64 * gaps) as u64
    }

    fn ran(&self, time_ns: u64, now_ns: u64) -> Option<bool> {
        let after = self.times.partition_point(|&time| time < time_ns);
        let next = self.times.get(after).copied();
        let soon = next.is_some_and(|next| next - time_ns <= self.gap_ns(HALF_GAP));
        let Some(last) = after.checked_sub(1).map(|before| self.times[before]) else {
            // What is no longer remembered may have been.
            return Some(soon || self.is_full());
        };
        if soon || time_ns - last <= self.gap_ns(HALF_GAP) {
            return Some(true);
        }
        match next {
            Some(next) => Some(next - last <= self.gap_ns(USUAL_GAPS)),
            None => {
                // It may be seen to have come back just now.
                let is_over = now_ns.saturating_sub(last) > self.gap_ns(USUAL_GAPS)
                    && now_ns.saturating_sub(time_ns) > self.gap_ns(HALF_GAP);
                is_over.then_some(false)
            }
        }
    }

    fn since(&self, time_ns: u64) -> u64 {
        match self.times.partition_point(|&time| time <= time_ns) {
            0 if self.is_full() => u64::MAX,
            before => (self.times.len() - before) as u64,
        }
    }

    fn is_full(&self) -> bool {
        self.times.len() >= SAMPLES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_time_that_a_thread_has_run_is_counted_in_its_samples() {
        let mut histories = Histories::new(MS);
        let one = ThreadId(1);
        // Turns of 5 ms out of 20.
        (0..2000).filter(|ms| ms % 20 < 5).for_each(|ms| histories.note(one, ms * MS));
        assert_eq!((histories.since(one, 1984 * MS), histories.in_company(one)), (0, 0));
        assert_eq!(histories.since(one, 1900 * MS), 24);
        assert_eq!(histories.since(one, 0), u64::MAX);
        assert_eq!(histories.since(ThreadId(2), 0), u64::MAX);
        let ran = |ms| histories.ran(one, ms * MS, 2000 * MS);
        assert_eq!([1902, 1910, 1984, 1995].map(ran), [true, false, true, false].map(Some));
        histories.forget(one);
        assert_eq!(histories.ran(one, 1902 * MS, 2000 * MS), Some(false));
    }
    #[test]
    fn threads_are_in_company_while_others_run() {
        let mut histories = Histories::new(MS);
        for ms in 0..1000 {
            histories.note(ThreadId(1), ms * MS);
            // Half of the time.
            if ms % 20 < 10 {
                histories.note(ThreadId(2), ms * MS + MS / 2);
            }
        }
        assert_eq!([1, 2].map(|thread| histories.in_company(ThreadId(thread))), [500, 500]);
    }
}
