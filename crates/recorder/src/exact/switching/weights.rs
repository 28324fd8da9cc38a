//! How many events one that is counted now stands for, as a guess at that moment.
//!
//! Events by cache line and code are summed up over the whole run, in which windows follow each
//! other more or less closely. So each has a weight: the work of its period over that which counts.
//! How much the rest of the period will do is expected from what the program did lately. In the
//! end, the events of a pair of threads are scaled to what is estimated for them (`scaling`), so
//! only how weights compare matters.
//!
//! Neighbour: `switching` tells the agent.

use super::Switching;
use super::stretches::{BETWEEN, Rate, Stretch, Tracking};
use windows::{Assumed, Lengths, Phase, Step};
use wire::detail::WEIGHT_OF_ONE;

impl Switching<'_> {
    /// Computes what events stand for that are counted in this step.
    pub(super) fn weigh(&mut self, now_ns: u64, step: &Step, lengths: Lengths) {
        if step.period {
            self.period_ns = now_ns;
        }
        let [regular, late] = match (step.phase, self.scheduler.period_ends()) {
            (Phase::Counting, Some(end_ns)) => {
                let window = [lengths.whole(), lengths.counting];
                let rates = [&self.rates[BETWEEN], &self.rates[1]];
                let between = end_ns.saturating_sub(self.period_ns);
                [in_window(between, window, rates); 2]
            }
            _ => [1.0, in_stretches(&self.further, now_ns)],
        };
        self.weights = [regular, late].map(of);
    }
}

/// A weight as the agent gets it.
pub(super) fn of(weight: f64) -> u32 {
    (weight.max(1.0) * f64::from(WEIGHT_OF_ONE)) as u32
}

/// The weight of an event in the counting part of a window: the period `between` its beginning and
/// end has a window that is `whole` long and counts for a part of that, all in ns. `off` and `on`
/// are the rates of work between windows and in what counts.
pub(super) fn in_window(between: u64, [whole, counting]: [u64; 2], [off, on]: [&Rate; 2]) -> f64 {
    let Assumed { off: slow_off, on: slow_on, .. } = Assumed::default();
    let faster = off.over(on).unwrap_or(slow_on / slow_off);
    (between.saturating_sub(whole) as f64 * faster + whole as f64) / counting.max(1) as f64
}

/// The weight of a late event in these parts of a step from `now_ns` on, the first part last; 1 if
/// none counts.
pub(super) fn in_stretches(parts: &[Stretch], now_ns: u64) -> f64 {
    let until_ns = parts.first().map_or(now_ns, |last| last.until_ns);
    let begins = parts.iter().skip(1).map(|before| before.until_ns).chain([now_ns]);
    let counts = parts.iter().zip(begins).filter(|(part, _)| part.tracking == Tracking::CountsLate);
    let counted: u64 = counts.map(|(part, begin)| part.until_ns.saturating_sub(begin)).sum();
    if counted == 0 { 1.0 } else { (until_ns - now_ns) as f64 / counted as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::stretches::tracked_parts;
    use super::*;
    use windows::Spent;

    const MS: u64 = 1_000_000;

    #[test]
    fn an_event_stands_for_the_work_of_its_period() {
        let rate = |work| {
            let mut rate = Rate::default();
            rate.add(&Spent { work, wall: MS, ..Spent::default() });
            rate
        };
        let weight = in_window(100 * MS, [20 * MS, 10 * MS], [&rate(40), &rate(10)]);
        assert!((weight - 34.0).abs() < 1e-9, "{weight}");
        let unknown = in_window(100 * MS, [20 * MS, 10 * MS], [&rate(0), &rate(0)]);
        assert!((20.0..21.0).contains(&unknown), "{unknown}");
        assert_eq!(in_window(5 * MS, [20 * MS, 10 * MS], [&rate(4), &rate(1)]), 2.0, "late");
        assert_eq!([of(0.2), of(1.0), of(2.5)], [16, 16, 40]);
    }

    #[test]
    fn late_events_stand_for_the_time_around_their_stretches() {
        let parts = tracked_parts(7 * MS, 107 * MS, [4 * MS, 6 * MS]);
        assert_eq!(in_stretches(&parts, 7 * MS), 100.0 / 30.0);
        assert_eq!(in_stretches(&[], MS), 1.0);
    }
}
