//! How many events come together, which says how uncertain sums of cells are.
//!
//! Kinds of events between two threads come and go together, so the variance of their sum is larger
//! than the sum of their variances. The same holds for different pairs of threads if a program's
//! phases differ. A profile keeps a cluster for each row and one number for how alike pairs are;
//! `profile::Sampled::of_sum` computes intervals from both.

use super::Cell;
use std::collections::BTreeMap;
use types::{CommKind, ThreadId};
use windows::{Counted, Scale};

/// Two threads, the writer first, and whether this is about transfers or about other events.
type Pair = (ThreadId, ThreadId, bool);

/// What is known of the pairs of a process.
pub(super) struct Clusters {
    /// How many events of a pair come together, whatever their kind.
    of_pair: BTreeMap<Pair, f64>,
    /// Correlation between the transfers of any two pairs, 0 to 1. It is taken to be the same for
    /// all of them, and follows from the variance of all transfers together.
    pub alike: f64,
}

fn pair_of((from, to, kind, _): &Cell) -> Pair {
    (*from, *to, matches!(kind, CommKind::Raw | CommKind::Waw))
}

impl Clusters {
    pub fn of<'a>(scale: &Scale, cells: impl Iterator<Item = (&'a Cell, &'a [Counted])>) -> Self {
        let mut pairs: BTreeMap<Pair, Vec<Counted>> = BTreeMap::new();
        for (cell, counted) in cells {
            pairs.entry(pair_of(cell)).or_default().extend(counted);
        }
        let (mut variances, mut deviations) = (0.0, 0.0);
        let (mut of_pair, mut transfers) = (BTreeMap::new(), Vec::new());
        for (pair, counted) in pairs {
            let estimate = scale.estimate(counted.iter().copied(), 0);
            of_pair.insert(pair, estimate.cluster);
            if pair.2 {
                let variance = estimate.cluster * estimate.events as f64;
                variances += variance;
                deviations += variance.sqrt();
                transfers.extend(counted);
            }
        }
        let all = scale.estimate(transfers, 0);
        let more = all.cluster * all.events as f64 - variances;
        let most = deviations * deviations - variances;
        let alike = if most > 0.0 { (more / most).clamp(0.0, 1.0) } else { 0.0 };
        Self { of_pair, alike }
    }

    /// How many events of the cell's pair come together.
    pub fn of_pair(&self, cell: &Cell) -> f64 {
        self.of_pair.get(&pair_of(cell)).copied().unwrap_or(0.0)
    }
}
