//! How many times as long as alone a run may take: the same always, or more at its beginning.
//!
//! A run of a second needs more than a long one, because estimates take a number of windows and not
//! a part of the time. The *usual* budget therefore gives the beginning of each run twice its time.
//!
//! Neighbour: `dial.rs` asks what was given so far, and what is given now.

use crate::Costs;
use crate::constants::{BEGINNING, USUALLY, USUALLY_AT_FIRST};
use crate::cost::Cost;

/// What a run may lose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Budget {
    /// Times as long as alone, at the beginning and then.
    times: [f64; 2],
    /// The beginning: wall-clock time alone, ns.
    beginning: f64,
}

/// What may be lost of one sort of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Given {
    budget: Budget,
    /// The beginning in this sort of time, ns alone.
    beginning: f64,
    /// Times as long as alone, for what the program does now.
    pub now: f64,
}

impl Budget {
    pub const fn times(times: f64) -> Self {
        Self { times: [times; 2], beginning: 0.0 }
    }

    pub const USUAL: Self =
        Self { times: [USUALLY_AT_FIRST, USUALLY], beginning: BEGINNING as f64 };

    /// Times as long as alone, for what a program does after so much wall-clock time alone.
    fn after(&self, alone: f64) -> f64 {
        self.times[usize::from(alone >= self.beginning)]
    }

    /// The least times as long as alone that a run may take.
    pub fn least(&self) -> f64 {
        self.times[1]
    }

    /// What it gives of processor time, and of wall-clock time.
    pub fn of(&self, costs: &Costs) -> [Given; 2] {
        let now = self.after(costs.wall.alone);
        // Programs that sleep, and those that have just begun, run less than one thread at once.
        let at_once = (costs.cpu.alone / costs.wall.alone.max(1.0)).max(1.0);
        let of = |beginning: f64| Given { budget: *self, beginning, now };
        [of(self.beginning * at_once), of(self.beginning)]
    }
}

impl Given {
    /// What a run may lose that takes so long alone, ns.
    pub fn in_all(&self, alone: f64) -> f64 {
        let first = alone.min(self.beginning);
        let [at_first, then] = self.budget.times;
        (at_first - 1.0) * first + (then - 1.0) * (alone - first)
    }

    /// Times as long as alone that the run so far may take.
    pub fn so_far(&self, cost: &Cost) -> f64 {
        1.0 + self.in_all(cost.alone) / cost.alone.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: f64 = 1e9;

    fn costs(wall: f64, at_once: f64) -> Costs {
        let cost = |alone| Cost { off: 1.0, on: 2.0, alone, lost: 0.0 };
        Costs { cpu: cost(wall * at_once), wall: cost(wall), tracking: None }
    }

    #[test]
    fn a_plain_budget_gives_the_same_always() {
        let budget = Budget::times(1.5);
        for wall in [0.0, SECOND, 100.0 * SECOND] {
            let [cpu, of_wall] = budget.of(&costs(wall, 2.0));
            assert_eq!((cpu.now, of_wall.now), (1.5, 1.5));
            assert_eq!((cpu.in_all(wall), of_wall.in_all(wall)), (0.5 * wall, 0.5 * wall));
        }
    }

    #[test]
    fn the_usual_budget_gives_more_at_the_beginning() {
        let beginning = BEGINNING as f64;
        let [cpu, wall] = Budget::USUAL.of(&costs(beginning / 2.0, 3.0));
        assert_eq!((cpu.now, wall.now), (USUALLY_AT_FIRST, USUALLY_AT_FIRST));
        // Each of three threads has its beginning.
        assert_eq!(cpu.in_all(3.0 * beginning), (USUALLY_AT_FIRST - 1.0) * 3.0 * beginning);
        let long = costs(10.0 * beginning, 3.0);
        let [cpu, wall] = Budget::USUAL.of(&long);
        assert_eq!((cpu.now, wall.now), (USUALLY, USUALLY));
        let times = (USUALLY_AT_FIRST + 9.0 * USUALLY) / 10.0;
        assert!((wall.so_far(&long.wall) - times).abs() < 1e-9);
        assert!((cpu.so_far(&long.cpu) - times).abs() < 1e-9);
        // Before anything has run.
        assert_eq!(Budget::USUAL.of(&costs(0.0, 0.0))[0].in_all(0.5 * beginning), 0.5 * beginning);
    }
}
