//! A machine, programs and views of them: event streams whose truth is known.
//!
//! [`machine`] runs [`program`]s, threads on fewer processors, and records every access. [`view`]
//! counts what is communicated, in the whole stream and in windows of it, where everything is
//! forgotten when one opens.

#![allow(dead_code, reason = "each test uses its part")]

pub mod machine;
pub mod program;
pub mod view;

use machine::Trace;
use types::CommKind;
use view::{Plan, Truth, View};
use windows::{Clock, Counted, Estimate, Random};

pub const MILLISECOND: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MILLISECOND;

/// What windows over one stream said about cells, over several placements.
#[derive(Default)]
pub struct Score {
    pub placements: f64,
    /// Sum of the volumes over the truth, and of the squares.
    volume: f64,
    squares: f64,
    /// Cells, and those that their interval holds; placements whose volume its interval holds.
    pub cells: usize,
    pub held: usize,
    pub volume_held: usize,
    /// Sum of correlations of pairs.
    correlation: f64,
    /// Relative errors of cells, and of their intervals half the width.
    pub errors: Vec<f64>,
    pub widths: Vec<f64>,
}

impl Score {
    pub fn volume(&self) -> f64 {
        self.volume / self.placements
    }

    pub fn volume_spread(&self) -> f64 {
        (self.squares / self.placements - self.volume().powi(2)).max(0.0).sqrt()
    }

    pub fn coverage(&self) -> f64 {
        self.held as f64 / self.cells as f64
    }

    pub fn correlation(&self) -> f64 {
        self.correlation / self.placements
    }

    pub fn median_error(&mut self) -> f64 {
        statistics::median(&mut self.errors).unwrap()
    }

    pub fn median_width(&mut self) -> f64 {
        statistics::median(&mut self.widths).unwrap()
    }

    /// One placement of windows.
    pub fn add(&mut self, view: &View, truth: &Truth, kind: CommKind) {
        let scale = view.scale(Clock::Instructions).unwrap();
        let threads = truth.threads;
        let (mut all, mut found, mut wanted) = (Vec::<Counted>::new(), Vec::new(), Vec::new());
        let mut unknown = Vec::new();
        let mut clusters = Vec::new();
        for from in 0..threads {
            for to in (0..threads).filter(|to| *to != from) {
                let counted = view.cell(kind, from, to);
                let estimate = scale.estimate(counted.iter().copied(), 0);
                let real = truth.cell(kind, from, to);
                all.extend(counted);
                found.push(estimate.events as f64);
                wanted.push(real as f64);
                if real == 0 {
                    assert_eq!(estimate.counted, 0, "what did not happen was counted");
                } else if estimate.counted == 0 {
                    unknown.push(real);
                } else {
                    clusters.push(estimate.cluster);
                    self.judge(&estimate, real);
                }
            }
        }
        // A cell that no window saw has an upper bound.
        let most = windows::unseen(&scale, &mut clusters);
        self.cells += unknown.len();
        self.held += unknown.iter().filter(|real| **real <= most).count();
        let volume = scale.estimate(all, 0);
        let real = truth.volume(kind);
        self.volume_held += usize::from(volume.low <= real && real <= volume.high);
        self.volume += volume.events as f64 / real as f64;
        self.squares += (volume.events as f64 / real as f64).powi(2);
        self.correlation += correlation(&found, &wanted);
        self.placements += 1.0;
    }

    fn judge(&mut self, estimate: &Estimate, real: u64) {
        self.cells += 1;
        self.held += usize::from(estimate.low <= real && real <= estimate.high);
        self.errors.push((estimate.events as f64 / real as f64 - 1.0).abs());
        self.widths.push((estimate.high - estimate.low) as f64 / 2.0 / real as f64);
    }
}

/// Pearson's.
pub fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum = |x: &[f64], mx: f64, y: &[f64], my: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum()
    };
    let (aa, bb) = (sum(a, mean_a, a, mean_a), sum(b, mean_b, b, mean_b));
    sum(a, mean_a, b, mean_b) / (aa * bb).sqrt().max(f64::MIN_POSITIVE)
}

/// Scores windows of these lengths at a duty, over `seeds` placements.
pub fn score(
    trace: &Trace,
    truth: &Truth,
    plan: impl Fn(&mut Random) -> Plan,
    seeds: u64,
) -> Score {
    score_of(trace, truth, plan, seeds, CommKind::Raw)
}

pub fn score_of(
    trace: &Trace,
    truth: &Truth,
    plan: impl Fn(&mut Random) -> Plan,
    seeds: u64,
    kind: CommKind,
) -> Score {
    let mut score = Score::default();
    for seed in 0..seeds {
        let view = View::of(trace, plan(&mut Random::new(seed)));
        score.add(&view, truth, kind);
    }
    score
}
