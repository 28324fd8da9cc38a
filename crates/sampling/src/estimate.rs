//! From hits to events, with an interval of confidence.
//!
//! *Units.* Hits weigh what their stream is made of ([`Stream`]); a factor makes events of that:
//! one through the time that a transfer takes for waiting, what a counter counted through what its
//! samples stand for, or 1.
//!
//! *Interval.* Hits are taken for independent and rare among many accesses, so that their number in
//! a cell has a Poisson distribution; the interval is that of the sum of their weights
//! (`statistics`). A hit that stands for itself only happened, so it is 1 in the lower end. How
//! many there were that no sample met is not known; at most all that the sample stood for, and that
//! is what it is in the upper end. That is what chance alone does. It holds neither what makes hits
//! come in clusters (a phase of strong sharing, a bias of the clock), nor how well the factor is
//! known: those make it wider.
//!
//! [`Stream`]: crate::Stream

use crate::hits::Sum;
use statistics::{Weighted, poisson};
use std::collections::HashMap;

/// Events that hits stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// At least 1.
    pub events: u64,
    /// The 95 % interval; `low` ≤ `events` ≤ `high`.
    pub low: u64,
    /// The upper end of the interval.
    pub high: u64,
}

/// Makes estimates; remembers intervals, which many cells share.
#[derive(Debug)]
pub struct Estimator {
    /// What the next hit might have weighed.
    largest: f64,
    /// The most that a hit which stands for itself only may stand for.
    sample: f64,
    known: HashMap<u64, (f64, f64)>,
}

impl Estimator {
    /// `largest`: most that a hit of the recording weighs; `sample`: what a sample stands for,
    /// which is the most that a hit can.
    pub fn new(largest: f64, sample: f64) -> Self {
        Self { largest, sample: sample.max(largest), known: HashMap::new() }
    }

    /// What `sum` stands for when a unit of weight is `factor` events.
    pub fn estimate(&mut self, sum: &Sum, factor: f64) -> Estimate {
        let weighed = sum.hits - sum.once;
        let (low, mut high) = match weighed {
            0 => (0.0, 0.0),
            _ => self.interval(sum, weighed),
        };
        let once = sum.once as f64;
        if sum.once > 0 {
            high += self.poisson(sum.once).1 * self.sample;
        }
        let whole = sum.events(factor);
        let events = whole as f64;
        Estimate {
            events: whole,
            low: (low * factor + once).floor().min(events) as u64,
            high: (high * factor).ceil().max(events) as u64,
        }
    }

    /// The interval of the sum of weights.
    fn interval(&mut self, sum: &Sum, weighed: u64) -> (f64, f64) {
        let mean = sum.weight / weighed as f64;
        if self.largest <= mean * (1.0 + 1e-9) {
            let (low, high) = self.poisson(weighed);
            return (low * mean, high * mean);
        }
        let weights = Weighted { sum: sum.weight, squares: sum.squares, largest: self.largest };
        (weights.low(), weights.high())
    }

    fn poisson(&mut self, hits: u64) -> (f64, f64) {
        *self.known.entry(hits).or_insert_with(|| poisson(hits))
    }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
