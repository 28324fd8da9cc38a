//! The time between windows as the program's own work tells it.
//!
//! Windows lie at random places of their periods. By a clock, they would come more often than their
//! part to what the program does slowly, such as waiting at barriers, and an estimate by work takes
//! each window to be one of all work: of a solver whose last rows take a hundredth of the work and
//! a tenth of the time, up to twice as many events were told. So the time that the schedule knows
//! goes by as work is done, at the rate of lately. It goes at least a fourth and at most four times
//! as fast as the clock, so that a program that does something else is soon seen.
//!
//! Neighbour: `switching` asks what time it is.

use super::stretches::{MIN_STRETCH_NS, Rate};
use windows::Spent;

/// How many times faster or slower than the clock it goes at most.
const MAX_TIMES: f64 = 4.0;

/// What time it is.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    /// By work, and by the clock, ns.
    pub now_ns: u64,
    clock_ns: u64,
    /// The rate of work at which it goes as fast as the clock.
    usual: Rate,
}

impl Progress {
    /// A slice is over, which ended at `clock_ns`. `None`: its time is that of the clock.
    pub fn go(&mut self, clock_ns: u64, slice: Option<&Spent>) {
        let before = std::mem::replace(&mut self.clock_ns, clock_ns);
        let gone = |slice: &Spent| {
            let times = match self.usual.over(&self.usual) {
                Some(_) => Rate::of(slice).over(&self.usual).unwrap_or(0.0),
                None => 1.0,
            };
            (slice.wall as f64 * times.clamp(1.0 / MAX_TIMES, MAX_TIMES)) as u64
        };
        self.now_ns = match slice {
            Some(slice) if clock_ns >= before => self.now_ns + gone(slice),
            _ => (self.now_ns + clock_ns).saturating_sub(before),
        };
    }

    /// A period begins: from now on, at this rate of work, time goes as fast as the clock.
    pub fn begin(&mut self, usual: Rate) {
        self.usual = usual;
    }

    /// Whether it is `until_ns`, or will be before another look at it would be worth it.
    pub fn is(&self, until_ns: u64) -> bool {
        until_ns.saturating_sub(self.now_ns) < MIN_STRETCH_NS
    }

    /// When to look whether it is `until_ns`, by the clock. By work, that is before it is expected,
    /// as work may go faster, if more than `exact_ns` are left, which do not matter.
    pub fn look(&self, until_ns: u64, exact_ns: u64) -> u64 {
        let left = until_ns.saturating_sub(self.now_ns);
        self.clock_ns.saturating_add(if left > exact_ns { left / 2 } else { left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn spent(work: u64, ms: u64) -> Spent {
        Spent { work, wall: ms * MS, ..Spent::default() }
    }

    fn at_rate(work: u64) -> Progress {
        let mut progress = Progress::default();
        progress.begin(Rate::of(&spent(work, 1)));
        progress
    }

    #[test]
    fn time_goes_by_as_work_is_done() {
        let mut progress = at_rate(100);
        progress.go(10 * MS, Some(&spent(1000, 10)));
        assert_eq!(progress.now_ns, 10 * MS);
        progress.go(20 * MS, Some(&spent(500, 10)));
        assert_eq!(progress.now_ns, 15 * MS);
        progress.go(30 * MS, Some(&spent(2000, 10)));
        assert_eq!(progress.now_ns, 35 * MS);
        progress.go(40 * MS, None);
        assert_eq!(progress.now_ns, 45 * MS);
    }

    #[test]
    fn it_never_stands_still_nor_flies() {
        let mut progress = at_rate(100);
        progress.go(40 * MS, Some(&spent(0, 40)));
        assert_eq!(progress.now_ns, 10 * MS);
        progress.go(50 * MS, Some(&spent(1_000_000, 10)));
        assert_eq!(progress.now_ns, 50 * MS);
    }

    #[test]
    fn without_a_rate_it_is_the_clocks() {
        let mut progress = Progress::default();
        progress.go(10 * MS, Some(&spent(1000, 10)));
        assert_eq!(progress.now_ns, 10 * MS);
    }

    #[test]
    fn a_clock_that_goes_back_takes_it_along() {
        let mut progress = at_rate(100);
        progress.go(50 * MS, None);
        progress.go(20 * MS, Some(&spent(0, 0)));
        assert_eq!(progress.now_ns, 20 * MS);
    }

    #[test]
    fn looks_come_closer_to_the_end() {
        let progress = at_rate(100);
        assert_eq!(progress.look(80 * MS, 20 * MS), 40 * MS);
        assert_eq!(progress.look(20 * MS, 20 * MS), 20 * MS);
        assert!(progress.is(MS / 4) && !progress.is(MS));
    }
}
