//! What noting threads costs, and whether slices must be longer for that.

use std::time::{Duration, Instant};

/// What noting may cost: 1/`SHARE` of a processor.
pub(super) const SHARE: u32 = 100;
/// What it may cost beside that.
const SPARE: Duration = Duration::from_millis(20);
/// Slices between two decisions whether noting costs too much.
const DECIDE_AFTER: u32 = 64;

/// What noting has cost.
pub(super) struct Costs {
    start: Instant,
    all: Duration,
    /// Since the last decision.
    slices: u32,
    spent: Duration,
    since: Instant,
}

impl Costs {
    pub fn new() -> Self {
        let now = Instant::now();
        Self { start: now, all: Duration::ZERO, slices: 0, spent: Duration::ZERO, since: now }
    }

    pub fn add(&mut self, spent: Duration) {
        self.all += spent;
        self.spent += spent;
        self.slices += 1;
    }

    /// Whether slices are too short: lately, and in all. Hundreds of threads that begin or end at
    /// once do not make slices longer for the rest of the run.
    pub fn too_much(&mut self) -> bool {
        if self.slices < DECIDE_AFTER {
            return false;
        }
        let lately = self.spent * SHARE > self.since.elapsed();
        let in_all = self.all.saturating_sub(SPARE) * SHARE > self.start.elapsed();
        *self = Self { start: self.start, all: self.all, ..Self::new() };
        lately && in_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_threads_does_not_make_slices_longer_for_ever() {
        let mut costs = Costs::new();
        let mut decide = |each: Duration, slices: u32| {
            (0..slices)
                .filter(|_| {
                    costs.add(each);
                    costs.too_much()
                })
                .count()
        };
        // Too much for so short a time, though not for a run.
        assert_eq!(decide(SPARE / DECIDE_AFTER / 2, DECIDE_AFTER), 0);
        assert_eq!(decide(Duration::from_millis(100), DECIDE_AFTER - 1), 0);
        assert_eq!(decide(Duration::from_millis(100), 1), 1);
        // It cost too much once; now it costs nothing.
        assert_eq!(decide(Duration::ZERO, 10 * DECIDE_AFTER), 0);
    }
}
