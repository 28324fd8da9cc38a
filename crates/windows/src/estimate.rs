//! From counts to events with a 95 % interval, for a cell, a line, or any sum of them.
//!
//! *Spread.* Periods are independent, because each window lies at a random place of its period.
//! There is one window in each, so their variance is taken from the differences between neighbours
//! (Wolter, Introduction to Variance Estimation, chapter 8): what differs from period to period in
//! earnest only makes it larger. What differs because the window caught more or less work is no
//! spread, since events are scaled by work: it is taken off first. With few periods the variance
//! itself is uncertain, which Student's distribution allows for.
//!
//! *Few events.* The interval is that of a Poisson number of *clusters*, as large as variance over
//! estimate (`statistics::Weighted`; Fay and Feuer, 1997). Events that come singly give that of
//! Garwood: one event stands for 0.03 to 5.6 times what it is scaled to. Events that come a
//! thousand at a time are as few as their clusters. Many clusters give the usual ±1.96 standard
//! deviations. A cell's variance is never less than that of single events, because a few that came
//! regularly prove no clockwork.
//!
//! *A sample of lines.* Events whose last write came before the window are seen on a sample of
//! cache lines only. Each stands for those of as many lines as one of the sample does. The sample
//! is the same in all windows, so the differences between periods do not show what its choice adds
//! to the variance: that is as if a line's events were one.
//!
//! *Sums* are computed from the counts of all their cells, period by period; intervals of cells do
//! not add up.

use crate::Clock;
use crate::Scale;
use statistics::{Weighted, median, poisson};
use std::collections::BTreeMap;
use types::ThreadId;

/// Events counted in one window between two threads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counted {
    /// Index of the window among those of the scale.
    pub window: usize,
    /// Who wrote.
    pub from: ThreadId,
    /// Who caused the event.
    pub to: ThreadId,
    /// How many.
    pub count: u64,
    /// Which part of the window's events these are.
    pub part: Part,
}

/// Which part of a window's events was looked at.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Part {
    /// Those of all cache lines.
    #[default]
    Whole,
    /// Those of a random sample of cache lines, which is the same in all windows.
    Lines {
        /// How many events of all lines in the window one of them stands for: one of how many lines
        /// is in the sample, if they were counted for as much work as others.
        of: f64,
        /// Events that a line of the sample had in all windows, in the mean of those that had any:
        /// they were all counted, or none of them would have been.
        together: u64,
    },
}

impl Part {
    /// How many events of its window one counted event stands for, and its part of their variance.
    fn weights(self) -> (f64, f64) {
        match self {
            Self::Whole => (1.0, 1.0),
            Self::Lines { of, together } => (of, of * of * together.max(1) as f64),
        }
    }
}

/// Events that counts stand for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Those of parts that were recorded whole included, as in both ends of the interval.
    pub events: u64,
    /// Lower end of the 95 % interval: `low` ≤ `events` ≤ `high`.
    pub low: u64,
    /// Its upper end.
    pub high: u64,
    /// Events that were really counted.
    pub counted: u64,
    /// Estimated events that come together, for [`unseen`]; 0 if windows counted none.
    pub cluster: f64,
}

/// Sums that an estimate is made of.
#[derive(Default)]
struct Sums {
    counted: u64,
    /// Scaled events by stratum, and all.
    scaled: Vec<f64>,
    events: f64,
    /// If the slower or the faster of both threads set the pace, or both in a crowd.
    least: f64,
    most: f64,
    /// Variance if events came singly.
    single: f64,
    /// Events for each unit of work: of all threads, and of calibrated ones.
    of_all: f64,
    of_thread: BTreeMap<ThreadId, f64>,
}

impl Scale {
    /// What counts stand for, together with `exact` events of parts that were recorded whole.
    /// Counts of windows that were set aside are left out. Counts that are nothing give an estimate
    /// without an upper end worth the name: see [`unseen`].
    pub fn estimate(&self, counted: impl IntoIterator<Item = Counted>, exact: u64) -> Estimate {
        let sums = self.sums(counted);
        let all_counted = sums.counted + exact;
        if sums.counted == 0 {
            let (events, high) = (exact, exact + unseen(self, &mut []));
            return Estimate { events, low: exact, high, counted: exact, cluster: 0.0 };
        }
        let rest = 1.0 - self.counted_share;
        let squares = (self.spread(&sums) * self.widening).max(sums.single) * rest;
        let cluster = (squares / sums.events).max(f64::MIN_POSITIVE);
        let weighted = Weighted { sum: sums.events, squares, largest: cluster };
        let (mut low, mut high) = (sums.events, sums.events);
        if squares > 0.0 {
            (low, high) = (weighted.low(), weighted.high());
        }
        low *= sums.least / sums.events;
        high *= sums.most / sums.events;
        if let Clock::CpuTime { slower } = self.clock {
            high *= slower.max(1.0);
        }
        let events = (sums.events.round() as u64 + exact).max(all_counted);
        Estimate {
            events,
            low: (low.floor() as u64 + exact).clamp(all_counted, events),
            high: (high.ceil() as u64 + exact).max(events),
            counted: all_counted,
            cluster,
        }
    }

    fn sums(&self, counted: impl IntoIterator<Item = Counted>) -> Sums {
        let mut sums = Sums { scaled: vec![0.0; self.strata()], ..Sums::default() };
        for cell in counted {
            let Some(at) = self.stratum(cell.window).filter(|_| cell.count > 0) else { continue };
            let factor = self.strata[at as usize].factor;
            let paces = [cell.from, cell.to].map(|id| self.thread(id).map_or(1.0, |t| t.pace));
            let pace = (paces[0] + paces[1]) / 2.0;
            let (weight, variance) = cell.part.weights();
            let (single, count) = (cell.count as f64 * variance, cell.count as f64 * weight);
            let scaled = count * factor * pace;
            sums.counted += cell.count;
            sums.scaled[at as usize] += scaled;
            sums.events += scaled;
            let crowd = paces[0] * paces[1];
            sums.least += count * factor * paces[0].min(paces[1]).min(crowd);
            sums.most += count * factor * paces[0].max(paces[1]).max(crowd);
            sums.single += single * (factor * pace).powi(2);
            for (id, of_pace) in [cell.from, cell.to].into_iter().zip(paces) {
                // The part of the estimate that follows this thread's scaled work.
                let part = count * factor * of_pace / 2.0;
                match self.thread(id) {
                    Some(thread) => *sums.of_thread.entry(id).or_default() += part / thread.sum,
                    None => sums.of_all += part / self.work,
                }
            }
        }
        sums
    }

    /// Variance of the sum, from the differences between neighbouring strata.
    fn spread(&self, sums: &Sums) -> f64 {
        let mut left = sums.scaled.clone();
        for (left, stratum) in left.iter_mut().zip(&self.strata) {
            *left -= sums.of_all * stratum.factor * stratum.counted;
        }
        for (id, rate) in &sums.of_thread {
            for (at, work) in self.thread(*id).map_or(&[][..], |thread| &thread.scaled) {
                left[*at as usize] -= rate * work;
            }
        }
        let differences: f64 = left.windows(2).map(|two| (two[1] - two[0]).powi(2)).sum();
        let strata = self.strata() as f64;
        differences * strata / (2.0 * (strata - 1.0))
    }
}

/// The most events, with 97.5 % confidence, of a cell of which no window saw any, if its events
/// come together as those of other cells do: `clusters` are [`Estimate::cluster`] of these. Without
/// others, events come singly.
pub fn unseen(scale: &Scale, clusters: &mut [f64]) -> u64 {
    let cluster = median(clusters).unwrap_or(0.0).max(scale.largest_factor());
    (poisson(0).1 * cluster).ceil() as u64
}

/// What a window saw of transfers that it may have missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unwritten {
    /// Index of the window among those of the scale.
    pub window: usize,
    /// First reads and writes of lines whose last writer is not known, with those that they stand
    /// for. Each may be a transfer that was missed, and all that were missed are among them.
    pub accesses: u64,
}

/// The most transfers that windows have missed, with 97.5 % confidence. One line of `of` was looked
/// at. `factors` scale the accesses of each window where there is no scale.
pub fn missed(scale: Option<&Scale>, factors: &[f64], seen: &[Unwritten], of: u64) -> f64 {
    let most = seen.iter().map(|seen| seen.accesses).max().unwrap_or(0);
    let all: u64 = seen.iter().map(|seen| seen.accesses).sum();
    if all == 0 {
        return 0.0;
    }
    // Windows look at the same lines, so there are at least as many as in one of them.
    let together = all.div_ceil(most);
    let Some(scale) = scale else {
        let clusters = all.div_ceil(of).div_ceil(together);
        let stands_for = |seen: &Unwritten| seen.accesses as f64 * factors[seen.window];
        let scaled: f64 = seen.iter().map(stands_for).sum();
        return scaled * poisson(clusters).1 / clusters as f64;
    };
    let part = Part::Lines { of: of as f64, together };
    let counted = seen.iter().map(|seen| Counted {
        window: seen.window,
        from: NOBODY,
        to: NOBODY,
        count: seen.accesses.div_ceil(of),
        part,
    });
    let accesses = scale.estimate(counted, 0);
    if accesses.counted == 0 { 0.0 } else { accesses.high as f64 }
}

/// No thread: what it does follows the work of all.
const NOBODY: ThreadId = ThreadId(u32::MAX);

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
