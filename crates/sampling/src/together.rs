//! Who ran at the same time: a thread waits for a line only while another one, who runs, takes it again and again.
//!
//! Problem: a clock's sample at a line that another thread has written lately weighs the time until the next sample,
//! as if the line moved all the while. Where there are more threads than processors, threads take turns, and the
//! line moves once a turn. Approach: hits wait until the writer is sampled next. If they are not between two of its
//! samples that lie as close to each other as usual, or nearly, it did not run. Then it is asked who else was sampled
//! writing the line lately, and ran; if nobody did, the hit is one event, and no time.
//!
//! What is usual is the thread's own: one that sleeps every now and then is sampled seldom, and it cannot be said
//! when in between it ran.
//!
//! Neighbours: `matching` makes the hits, of any stream; this is for those of waiting.

use crate::evidence::SHORT;
use crate::observed::{BLOCK_BYTES, Hit, Side, mask, sharing};
use access::Access;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use types::ThreadId;

/// Samples of a thread that are remembered.
const SAMPLES: usize = 64;
/// After so many samples it is looked anew what is usual.
const AGAIN: u32 = 16;
/// In a gap of more than so many usual ones the thread did not run, but for half a usual one at each end: that is what
/// samples miss of a turn on average.
const GAP: f64 = 2.5;
const END: f64 = 0.5;
/// Writes that are remembered.
const WRITES: usize = 256;

/// When a thread was sampled lately.
#[derive(Debug, Default)]
struct Recent {
    times: VecDeque<u64>,
    usual_ns: u64,
    since_look: u32,
}

impl Recent {
    fn note(&mut self, time_ns: u64, interval_ns: u64) {
        if self.times.len() >= SAMPLES {
            self.times.pop_front();
        }
        self.times.push_back(time_ns);
        self.since_look += 1;
        if self.usual_ns == 0 || self.since_look >= AGAIN {
            (self.usual_ns, self.since_look) = (self.usual(interval_ns), 0);
        }
    }

    /// The median gap between two samples; never less than the clock's interval.
    fn usual(&self, interval_ns: u64) -> u64 {
        let times = self.times.iter().zip(self.times.iter().skip(1));
        let mut gaps: Vec<u64> = times.map(|(one, next)| next - one).collect();
        gaps.sort_unstable();
        gaps.get(gaps.len() / 2).copied().unwrap_or(0).max(interval_ns)
    }

    fn gap_ns(&self, gaps: f64) -> u64 {
        (self.usual_ns as f64 * gaps) as u64
    }

    /// Whether the thread ran at that time; `None`: its next sample will tell.
    fn ran(&self, time_ns: u64, now_ns: u64) -> Option<bool> {
        let after = self.times.partition_point(|&time| time < time_ns);
        let next = self.times.get(after).copied();
        let soon = next.is_some_and(|next| next - time_ns <= self.gap_ns(END));
        let Some(last) = after.checked_sub(1).map(|before| self.times[before]) else {
            // What is no longer remembered may have been.
            return Some(soon || self.times.len() >= SAMPLES);
        };
        if soon || time_ns - last <= self.gap_ns(END) {
            return Some(true);
        }
        match next {
            Some(next) => Some(next - last <= self.gap_ns(GAP)),
            None => (now_ns.saturating_sub(last) > self.gap_ns(GAP)).then_some(false),
        }
    }
}

/// A sampled write.
#[derive(Clone, Copy, Debug)]
struct Write {
    time_ns: u64,
    block: u64,
    side: Side,
}

/// Hits that wait, and what is known of threads. Everything comes about in order of time.
#[derive(Debug)]
pub struct Together {
    interval_ns: u64,
    threads: FxHashMap<ThreadId, Recent>,
    writes: VecDeque<Write>,
    waiting: Vec<Hit>,
}

impl Together {
    /// Of threads that are sampled each `interval_ns` while they run.
    pub fn new(interval_ns: u64) -> Self {
        Self {
            interval_ns,
            threads: FxHashMap::default(),
            writes: VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// A thread was sampled, at whatever.
    pub fn runs(&mut self, thread: ThreadId, time_ns: u64) {
        self.threads.entry(thread).or_default().note(time_ns, self.interval_ns);
    }

    /// A thread has ended; what still waits for it is one event each.
    pub fn ended(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// A sampled write; of what lies across two blocks, the part in the first one.
    pub fn wrote(&mut self, thread: ThreadId, access: &Access, time_ns: u64) {
        if self.writes.len() >= WRITES {
            self.writes.pop_front();
        }
        let first = access.address % BLOCK_BYTES;
        let bytes = mask(first, u64::from(access.bytes).clamp(1, BLOCK_BYTES - first));
        let side = Side { thread, site: access.site, bytes };
        self.writes.push_back(Write { time_ns, block: access.address - first, side });
    }

    /// Takes in a hit.
    pub fn take(&mut self, hit: Hit) {
        self.waiting.push(hit);
    }

    /// Gives back the hits of which it is known by now whether their writers ran.
    pub fn settle(&mut self, now_ns: u64, mut each: impl FnMut(Hit)) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|hit| match self.ran(hit.from.thread, hit.time_ns, now_ns) {
            Some(true) => {
                each(*hit);
                false
            }
            Some(false) => {
                each(self.of_another(hit, now_ns).unwrap_or(Hit { weight: 0.0, ..*hit }));
                false
            }
            None => true,
        });
        self.waiting = waiting;
    }

    fn ran(&self, thread: ThreadId, time_ns: u64, now_ns: u64) -> Option<bool> {
        match self.threads.get(&thread) {
            Some(recent) => recent.ran(time_ns, now_ns),
            None => Some(false),
        }
    }

    /// The hit with the writer that was sampled writing the block nearest in time and ran, if there is one. For lines
    /// that are written seldom that may be a while ago, as for evidence.
    fn of_another(&self, hit: &Hit, now_ns: u64) -> Option<Hit> {
        let [from, to] = [hit.from.thread, hit.to.thread];
        let is_other = |write: &&Write| {
            write.block == hit.block && write.side.thread != from && write.side.thread != to
        };
        let ran = |write: &&Write| {
            write.time_ns.abs_diff(hit.time_ns) <= SHORT * self.interval_ns
                && self.ran(write.side.thread, hit.time_ns, now_ns) == Some(true)
        };
        let others = self.writes.iter().rev().filter(is_other).filter(ran);
        let Write { side, .. } = others.min_by_key(|write| write.time_ns.abs_diff(hit.time_ns))?;
        Some(Hit { from: *side, sharing: sharing(side, &hit.to), ..*hit })
    }

    /// Gives back all that wait: their writers ran just before.
    pub fn end(&mut self, each: impl FnMut(Hit)) {
        self.waiting.drain(..).for_each(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CommKind, Sharing};

    const MS: u64 = 1_000_000;

    fn hit(ms: u64) -> Hit {
        let side = |thread| Side { thread: ThreadId(thread), site: 1, bytes: 1 };
        let (kind, sharing) = (CommKind::Raw, Sharing::True);
        let (from, to, block, time_ns) = (side(0), side(1), 64, ms * MS);
        Hit { time_ns, block, kind, sharing, from, to, weight: 1e6, array: false }
    }

    /// Weights of hits at these times, by when they are known, if their writer is sampled at those.
    fn weights(samples: impl Iterator<Item = u64>, hits: &[u64]) -> Vec<(u64, u64, f64)> {
        let (mut together, mut told) = (Together::new(MS), Vec::new());
        let mut hits = hits.iter().copied().peekable();
        for ms in samples {
            while let Some(at) = hits.next_if(|&at| at <= ms) {
                together.take(hit(at));
                together.settle(at * MS, |hit| told.push((at, hit.time_ns / MS, hit.weight)));
            }
            together.runs(ThreadId(0), ms * MS);
            together.settle(ms * MS, |hit| told.push((ms, hit.time_ns / MS, hit.weight)));
        }
        together.end(|hit| told.push((u64::MAX, hit.time_ns / MS, hit.weight)));
        told
    }

    #[test]
    fn who_waits_while_the_writer_runs_waits_for_it() {
        let told = weights(0..50, &[20, 21, 49]);
        assert_eq!(told, [(20, 20, 1e6), (21, 21, 1e6), (49, 49, 1e6)]);
        // Sampled every 7 ms only, because it sleeps: when in between it ran is not known.
        let told = weights((0..50).map(|k| 7 * k), &[150, 200]);
        assert_eq!(told, [(150, 150, 1e6), (203, 200, 1e6)]);
    }

    #[test]
    fn who_takes_turns_with_the_writer_is_handed_the_line_once() {
        // 4 ms each.
        let turns = (0..100).filter(|ms| ms / 4 % 2 == 0);
        let told = weights(turns, &[41, 44, 45, 46, 47, 49]);
        let weights: Vec<_> = told.iter().map(|&(_, at, weight)| (at, weight)).collect();
        let once = [44, 45, 46, 47].map(|at| (at, 0.0));
        assert_eq!(weights, [&[(41, 1e6)], &once[..], &[(49, 1e6)]].concat());
    }

    #[test]
    fn if_the_writer_did_not_run_it_was_another_one_that_did() {
        let mut together = Together::new(MS);
        let (kind, site) = (access::AccessKind::Store, 9);
        let write = Access { address: 64 + 8, bytes: 8, kind, site };
        for ms in 0..60 {
            // 0 and 2 take turns of 10 ms.
            let thread = if ms / 10 % 2 == 0 { 0 } else { 2 };
            together.runs(ThreadId(thread), ms * MS);
            together.wrote(ThreadId(thread), &write, ms * MS);
        }
        let mut told = Vec::new();
        [45, 52].into_iter().for_each(|ms| together.take(hit(ms)));
        together.take(Hit { block: 128, ..hit(53) });
        together.settle(59 * MS, |hit| {
            told.push((hit.time_ns / MS, hit.from.thread.0, hit.sharing, hit.weight));
        });
        let (truly, falsely) = (Sharing::True, Sharing::False);
        assert_eq!(told, [(45, 0, truly, 1e6), (52, 2, falsely, 1e6), (53, 0, truly, 0.0)]);
    }

    #[test]
    fn what_comes_to_light_late_is_told_by_what_is_remembered() {
        let mut together = Together::new(MS);
        let samples = (0..40).chain(50..90);
        samples.for_each(|ms| together.runs(ThreadId(0), ms * MS));
        let mut told = Vec::new();
        // The first 16 are forgotten.
        [5, 30, 45, 60].into_iter().for_each(|ms| together.take(hit(ms)));
        together.settle(90 * MS, |hit| told.push((hit.time_ns / MS, hit.weight)));
        assert_eq!(told, [(5, 1e6), (30, 1e6), (45, 0.0), (60, 1e6)]);
        // Of whom nothing is known.
        together.take(Hit { from: Side { thread: ThreadId(7), ..hit(1).from }, ..hit(91) });
        together.settle(91 * MS, |hit| told.push((hit.time_ns / MS, hit.weight)));
        assert_eq!(told[4..], [(91, 0.0)]);
    }
}
