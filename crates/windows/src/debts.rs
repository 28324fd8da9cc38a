//! What a budget has left for the windows that come, in one sort of time.
//!
//! Pure. Neighbour: `dial.rs` asks for both sorts.

use crate::budget::Given;
use crate::constants::{FOR_LONG_GAPS, OVERDRAFT, SHORT_RUN, SPENDING};
use crate::cost::Cost;

/// What the program does alone until a run is no longer short.
pub(crate) fn rest(cost: &Cost) -> f64 {
    (SHORT_RUN as f64 - cost.alone).max(0.0)
}

/// What may still be lost: what the budget gives for the time alone so far, or for a short run at
/// the least, less what was lost and what the rest of that short run will lose.
pub(crate) fn saved(cost: &Cost, given: Given) -> f64 {
    let rest = rest(cost);
    given.in_all(cost.alone + rest) - cost.lost - (cost.off - 1.0) * rest
}

/// Time between windows that pays for a window which takes `time`, in the same sort of time. What
/// it gives for windows is what tracking leaves ([`FOR_LONG_GAPS`]), even if the time between
/// windows has cost more than that so far. What was saved is spent little by little ([`SPENDING`]).
/// `missing`: windows that a short run is to get still.
pub(crate) fn between(cost: &Cost, given: Given, time: f64, missing: usize) -> f64 {
    let work = time / cost.on;
    let (saved, rest) = (saved(cost, given), rest(cost));
    if rest > 0.0 {
        let each = time - cost.off * work;
        let overdraft = if missing > 0 { OVERDRAFT * SHORT_RUN as f64 } else { 0.0 };
        // Those that are missing, or as many as can be paid for.
        let number = ((saved + overdraft) / each).min((missing as f64).max(saved / each));
        if number >= 1.0 {
            return (rest / number - work).max(0.0) * cost.off;
        }
    }
    let (each, most) = (work * (cost.on - given.now), given.now - 1.0);
    let gain = (given.now - cost.off).max((1.0 - FOR_LONG_GAPS) * most);
    let paid = (each - saved) / gain;
    paid.max(each / (SPENDING * most)).max(0.0) * cost.off
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::cost::Costs;

    const MS: f64 = 1e6;

    /// Between windows of 20 ms, of which each takes 16 ms that a budget of 2 does not give, after
    /// a second alone of which so much was lost.
    fn gap(lost: f64, off: f64) -> f64 {
        let cost = Cost { off, on: 10.0, alone: 1000.0 * MS, lost };
        let costs = Costs { cpu: cost, wall: cost, tracking: None };
        let [given, _] = Budget::times(2.0).of(&costs);
        between(&cost, given, 20.0 * MS, 0)
    }

    #[test]
    fn windows_do_not_follow_each_other_at_once_while_savings_last() {
        assert!((gap(1000.0 * MS, 1.0) - 16.0 * MS).abs() < 1.0, "nothing is owed");
        assert!((gap(0.0, 1.0) - 8.0 * MS).abs() < 1.0);
        assert!(gap(1500.0 * MS, 1.0) > 500.0 * MS, "debts");
    }

    #[test]
    fn there_are_windows_where_the_time_between_them_has_cost_too_much() {
        assert!((gap(1000.0 * MS, 2.5) - 16.0 * MS / 0.2 * 2.5).abs() < 1.0);
        assert!((gap(0.0, 2.5) - 8.0 * MS * 2.5).abs() < 1.0);
    }
}
