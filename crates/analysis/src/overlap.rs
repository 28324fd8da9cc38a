//! How much threads ran at the same time.
//!
//! Where threads that communicate share too few processors, how often they do so depends on how the
//! system switches between them, and not on the program alone: one that polls a line while the
//! other does not run sees no change. Known is how long each thread ran and waited for a processor
//! in a stretch of time, and on which PUs, but not exactly when. Two threads *wanted* to run at the
//! same time at least for as long as their times together (running and waiting) exceed the stretch.
//! They *did* for as long as their running times exceed it; beyond that, if they were on different
//! PUs, for the part of the time wanted in which both had their turn, were turns independent.
//!
//! A thread that blocks until the other one is done wants nothing, so that programs that take turns
//! by themselves are not mistaken for such that lack processors. Neighbours: `profile::RunningRow`
//! has the times, `report` tells it.

use profile::{Profile, RunningRow};
use std::collections::BTreeMap;
use types::{CommMatrix, ThreadId};

/// Least length of a stretch, ns: waits for a processor are known when they are over.
const STRETCH_NS: u64 = 100_000_000;
/// Below this part of the time in which threads could run at once, counts depend on how the system
/// switches between them.
pub const MIN_AT_ONCE: f64 = 0.1;
/// Part of the time in which threads must want to run at once, for that to matter.
pub const MIN_WANTED: f64 = 0.2;

/// Times in which two threads or more wanted to run at once, and did, seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Together {
    /// Wanted to.
    pub wanted: f64,
    /// Ran.
    pub ran: f64,
}

impl Together {
    /// Part of the time wanted in which they ran, 0 to 1; `None` if they never wanted to.
    pub fn share(&self) -> Option<f64> {
        (self.wanted > 0.0).then(|| (self.ran / self.wanted).clamp(0.0, 1.0))
    }

    fn add(&mut self, wanted: f64, ran: f64) {
        self.wanted += wanted;
        self.ran += ran.min(wanted);
    }
}

/// How much the threads that communicate ran at the same time.
#[derive(Clone, PartialEq, Debug)]
pub struct Overlap {
    /// At least two of all that communicate.
    pub all: Together,
    /// Time in which any of them ran or waited for a processor, seconds.
    pub seconds: f64,
    /// The pairs asked for, in their order.
    pub pairs: Vec<Together>,
}

impl Overlap {
    /// Of the time in which at least two threads of a profile could run at once, the part in which
    /// two did; `None` where that is not known, or where they hardly wanted to.
    pub fn of_all(profile: &Profile) -> Option<f64> {
        let threads = profile.threads.len();
        let mut all = CommMatrix::new(threads);
        for thread in 1..threads as u32 {
            all.add(ThreadId(0), ThreadId(thread), 1);
        }
        let found = Self::of(profile, &all, &[])?;
        let wanted = found.all.wanted >= MIN_WANTED * found.seconds && found.seconds > 0.0;
        found.all.share().filter(|_| wanted)
    }

    /// Of the threads in `talk`, and of each pair in `pairs`; `None` where it is not known where
    /// threads ran.
    pub fn of(
        profile: &Profile,
        talk: &CommMatrix,
        pairs: &[(ThreadId, ThreadId)],
    ) -> Option<Self> {
        if profile.running.is_empty() {
            return None;
        }
        let mut talks = vec![false; profile.threads.len()];
        for (from, to, _) in talk.iter() {
            (talks[from.index()], talks[to.index()]) = (true, true);
        }
        let mut found = Self {
            all: Together::default(),
            seconds: 0.0,
            pairs: vec![Together::default(); pairs.len()],
        };
        for stretch in stretches(profile, &talks) {
            stretch.add_to(&mut found, pairs);
        }
        Some(found)
    }
}

/// A thread's times in a stretch, seconds.
#[derive(Clone, Debug, Default)]
struct Times {
    ran: f64,
    waited: f64,
    /// Running and waiting times by PU.
    by_pu: BTreeMap<u32, (f64, f64)>,
}

impl Times {
    fn wanted(&self, length: f64) -> f64 {
        (self.ran + self.waited).min(length)
    }

    /// The part of the time in which it ran, of that in which it ran or waited for a processor.
    fn turn(&self, length: f64) -> f64 {
        ratio(self.ran, self.wanted(length))
    }
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { (a / b).min(1.0) } else { 0.0 }
}

/// Time slices that are looked at together.
struct Stretch {
    length: f64,
    threads: BTreeMap<ThreadId, Times>,
}

/// Stretches in which threads ran that communicate.
fn stretches(profile: &Profile, talks: &[bool]) -> Vec<Stretch> {
    let mut rows = profile.running.iter().peekable();
    let (mut found, mut threads) = (Vec::new(), BTreeMap::new());
    let mut start = profile.slices.first().map_or(0, |slice| slice.start_ns);
    for (number, slice) in profile.slices.iter().enumerate() {
        while let Some(row) = rows.next_if(|row| row.slice as usize <= number) {
            if talks.get(row.thread.index()) == Some(&true) {
                add(&mut threads, row);
            }
        }
        let length = slice.end_ns.saturating_sub(start);
        if length >= STRETCH_NS || number + 1 == profile.slices.len() {
            found.push(Stretch::new(length as f64 / 1e9, std::mem::take(&mut threads)));
            start = slice.end_ns;
        }
    }
    found.retain(|stretch| !stretch.threads.is_empty());
    found
}

fn add(threads: &mut BTreeMap<ThreadId, Times>, row: &RunningRow) {
    let (ran, waited) = (row.cpu_ns as f64 / 1e9, row.waited_ns as f64 / 1e9);
    let times = threads.entry(row.thread).or_default();
    times.ran += ran;
    times.waited += waited;
    let on = times.by_pu.entry(row.pu).or_default();
    (on.0, on.1) = (on.0 + ran, on.1 + waited);
}

impl Stretch {
    /// Where looks are rarer than stretches, one takes as long as what was seen in it.
    fn new(length: f64, threads: BTreeMap<ThreadId, Times>) -> Self {
        let longest = threads.values().map(|times| times.ran).fold(0.0, f64::max);
        Self { length: length.max(longest), threads }
    }

    fn add_to(&self, found: &mut Overlap, pairs: &[(ThreadId, ThreadId)]) {
        let wanted: Vec<f64> = self.threads.values().map(|t| t.wanted(self.length)).collect();
        found.seconds += wanted.iter().sum::<f64>().min(self.length);
        found.all.add(two_at_once(&wanted, self.length), self.ran_at_once());
        for ((a, b), together) in pairs.iter().zip(&mut found.pairs) {
            if let (Some(a), Some(b)) = (self.threads.get(a), self.threads.get(b)) {
                let (wanted, ran) = self.pair(a, b);
                together.add(wanted, ran);
            }
        }
    }

    fn pair(&self, a: &Times, b: &Times) -> (f64, f64) {
        let length = self.length;
        let wanted = two_at_once(&[a.wanted(length), b.wanted(length)], length);
        let surely = two_at_once(&[a.ran, b.ran], length);
        let same: f64 = a
            .by_pu
            .iter()
            .filter_map(|(pu, on)| Some(ratio(on.0, a.ran) * ratio(b.by_pu.get(pu)?.0, b.ran)))
            .sum();
        let likely = wanted * a.turn(length) * b.turn(length) * (1.0 - same).max(0.0);
        (wanted, surely.max(likely))
    }

    /// How long at least two of the threads ran: each PU runs one of its own at a time.
    fn ran_at_once(&self) -> f64 {
        let mut pus: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for (&pu, on) in self.threads.values().flat_map(|times| &times.by_pu) {
            let sum = pus.entry(pu).or_default();
            (sum.0, sum.1) = (sum.0 + on.0, sum.1 + on.1);
        }
        let busy: Vec<f64> = pus.values().map(|(ran, _)| ran.min(self.length)).collect();
        let surely = two_at_once(&busy, self.length);
        // None of them, or one alone.
        let turns = pus.values().map(|(ran, waited)| ratio(*ran, (ran + waited).min(self.length)));
        let (none, one) = turns.fold((1.0, 0.0), |(none, one), turn| {
            (none * (1.0 - turn), one * (1.0 - turn) + none * turn)
        });
        let wanted: Vec<f64> = self.threads.values().map(|t| t.wanted(self.length)).collect();
        let likely = two_at_once(&wanted, self.length) * (1.0 - none - one).max(0.0);
        // While two PUs are busy, one of them is not the busiest.
        let busiest = busy.iter().copied().fold(0.0, f64::max);
        surely.max(likely.min(busy.iter().sum::<f64>() - busiest))
    }
}

/// For how long at least two go on at once, whenever each does: `times` in a stretch of `length`.
fn two_at_once(times: &[f64], length: f64) -> f64 {
    if times.len() < 2 {
        return 0.0;
    }
    let (mut first, mut second) = (0.0, 0.0);
    for &time in times {
        if time > first {
            (first, second) = (time, first);
        } else if time > second {
            second = time;
        }
    }
    let all = (times.iter().sum::<f64>() - length) / (times.len() - 1) as f64;
    (first + second - length).max(all).clamp(0.0, length)
}

#[cfg(test)]
#[path = "overlap_tests.rs"]
mod tests;
