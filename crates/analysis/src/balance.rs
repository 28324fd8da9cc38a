//! Balance C_B: how unequal the tasks' shares of the communication are.
//!
//! Equation 3.6 of Diener's thesis on the communication vector, taken as the **full** row sums:
//! with sums of the upper half only, as 3.4 is printed, all-to-all would not be balanced.
//! Normalising (3.5) cancels out. Neighbour: `pages` uses the same formula for 4.3 and 4.5.

use crate::Amounts;

/// C_B in percent: 0 when all tasks communicate alike, (T/2 − 1)·100 for a hub of T tasks.
pub fn balance(amounts: &Amounts) -> f64 {
    imbalance(&amounts.of_tasks())
}

/// (maximum / mean − 1)·100 %, of values of 0 or more; 0 when there are none or all are 0.
pub fn imbalance(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return 0.0;
    }
    // Divided by the maximum first, so that huge values cannot add up to infinity.
    let mean = values.iter().map(|value| value / most).sum::<f64>() / values.len() as f64;
    (1.0 / mean - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{all_to_all, figure_3_3b, near};

    #[test]
    fn figure_3_3b_is_imbalanced_by_a_third() {
        let amounts = Amounts::from(&figure_3_3b());
        // Both triangles of the figure: twice its row sums 19, 22, 16, 13, 14.
        assert_eq!(amounts.of_tasks(), [38.0, 44.0, 32.0, 26.0, 28.0]);
        // 22 against a mean of 84/5.
        assert_eq!(format!("{:.2}", balance(&amounts)), "30.95");
        near(balance(&amounts), (22.0 * 5.0 / 84.0 - 1.0) * 100.0);
    }

    #[test]
    fn all_to_all_is_balanced() {
        [2, 3, 8, 64].iter().for_each(|&tasks| near(balance(&all_to_all(tasks)), 0.0));
    }

    #[test]
    fn a_hub_is_not() {
        for tasks in [4, 8, 64] {
            let hub = Amounts::new(tasks, (1..tasks).map(|task| (0, task, 5.0)));
            near(balance(&hub), (tasks as f64 / 2.0 - 1.0) * 100.0);
        }
        near(balance(&Amounts::new(8, (1..8).map(|task| (0, task, 1.0)))), 300.0);
    }

    #[test]
    fn nothing_and_too_much() {
        assert_eq!(imbalance(&[]), 0.0);
        assert_eq!(imbalance(&[0.0, 0.0]), 0.0);
        near(imbalance(&[f64::MAX, f64::MAX]), 0.0);
    }
}
