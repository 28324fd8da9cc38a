//! From hits to events, with an interval of confidence.
//!
//! *Units.* Hits weigh what their stream is made of ([`Stream`]); a factor makes events of that: one
//! through the time that a transfer takes for waiting, what a counter counted through what its samples
//! stand for, or 1.
//!
//! *Interval.* Hits are taken for independent and rare among many accesses, so that their number in a
//! cell has a Poisson distribution; then the sum of their weights has the 95 % interval of Fay and Feuer
//! (Statistics in Medicine 16, 1997, 791–801), which for equal weights is the exact one of Garwood (1936).
//! That is what chance alone does. It holds neither what makes hits come in clusters (a phase of strong
//! sharing, a bias of the clock), nor how well the factor is known: those make it wider.
//!
//! [`Stream`]: crate::Stream

use crate::tally::Sum;
use statrs::distribution::{Continuous, ContinuousCDF, Gamma};
use std::collections::HashMap;

/// Outside of the interval, on each side.
const TAIL: f64 = 0.025;

/// Events that hits stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// At least 1.
    pub events: u64,
    /// The 95 % interval; `low` ≤ `events` ≤ `high`.
    pub low: u64,
    pub high: u64,
}

/// Makes estimates; remembers intervals, which many cells share.
#[derive(Debug)]
pub struct Estimator {
    /// What the next hit might have weighed.
    largest: f64,
    garwood: HashMap<u64, (f64, f64)>,
}

impl Estimator {
    /// `largest`: most that a hit of the recording weighs.
    pub fn new(largest: f64) -> Self {
        Self { largest, garwood: HashMap::new() }
    }

    /// What `sum` stands for when a unit of weight is `factor` events.
    pub fn estimate(&mut self, sum: &Sum, factor: f64) -> Estimate {
        let weighed = sum.hits - sum.once;
        let (low, high) = match weighed {
            0 => (0.0, 0.0),
            _ => self.interval(sum, weighed),
        };
        let once = sum.once as f64;
        let whole = sum.events(factor);
        let events = whole as f64;
        Estimate {
            events: whole,
            low: (low * factor + once).floor().min(events) as u64,
            high: (high * factor + once).ceil().max(events) as u64,
        }
    }

    /// The interval of the sum of weights.
    fn interval(&mut self, sum: &Sum, weighed: u64) -> (f64, f64) {
        let (Sum { weight, squares, .. }, largest) = (*sum, self.largest);
        let mean = weight / weighed as f64;
        if largest <= mean * (1.0 + 1e-9) {
            let (low, high) = *self.garwood.entry(weighed).or_insert_with(|| garwood(weighed));
            return (low * mean, high * mean);
        }
        let low = quantile(weight * weight / squares, weight / squares, TAIL);
        let (mean, variance) = (weight + largest, squares + largest * largest);
        (low, quantile(mean * mean / variance, mean / variance, 1.0 - TAIL))
    }
}

/// The exact interval of the mean of a Poisson distribution of which `hits` were drawn, at least 1.
fn garwood(hits: u64) -> (f64, f64) {
    let hits = hits as f64;
    (quantile(hits, 1.0, TAIL), quantile(hits + 1.0, 1.0, 1.0 - TAIL))
}

/// Quantile of the gamma distribution with this shape and rate.
fn quantile(shape: f64, rate: f64, part: f64) -> f64 {
    // Wide enough that the normal distribution does, and the series of the other takes long.
    const LARGE: f64 = 1e5;
    if shape > LARGE {
        let z = if part < 0.5 { -1.959_963_985 } else { 1.959_963_985 };
        return (shape + z * shape.sqrt()) / rate;
    }
    // In units of the rate, and its last steps taken here: the library's density overflows, or is not a number,
    // for some shapes from 50 to 160.
    let Ok(gamma) = Gamma::new(shape, 1.0) else { return shape / rate };
    let step = |x: f64| x - (gamma.cdf(x) - part) / gamma.ln_pdf(x).exp();
    step(step(gamma.inverse_cdf(part))) / rate
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
