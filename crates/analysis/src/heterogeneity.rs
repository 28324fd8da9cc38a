//! Heterogeneity C_H, and how unevenly pairs communicate.
//!
//! C_H is equation 3.3 of Diener's thesis: the matrix normalised to a maximum of 100 (3.2), the
//! mean over the tasks of the variance of the upper triangle's rows, and of its columns; the
//! smaller of the two. Rows and columns are whole: the zeros below the diagonal are values like
//! others, and the variance is the population's. That makes C_H depend on the number of tasks and
//! on their order, and all-to-all does not come out as 0 but as about 1,667. [`unevenness`] does
//! not have these faults. Neighbours: `phases` watches C_H over time, `suitability` judges by
//! unevenness.

use crate::Amounts;

/// C_H, from 0 (no communication) up; at most 2,500.
pub fn heterogeneity(amounts: &Amounts) -> f64 {
    let most = amounts.pairs().iter().map(|pair| pair.2).fold(0.0, f64::max);
    if most <= 0.0 {
        return 0.0;
    }
    let tasks = amounts.tasks();
    let mut rows = vec![Sums::default(); tasks];
    let mut columns = rows.clone();
    for &(a, b, amount) in amounts.pairs() {
        let normal = amount / most * 100.0;
        rows[a].add(normal);
        columns[b].add(normal);
    }
    let mean =
        |sums: &[Sums]| sums.iter().map(|sum| sum.variance(tasks)).sum::<f64>() / tasks as f64;
    mean(&rows).min(mean(&columns))
}

/// How unevenly the pairs of tasks communicate: 0 when all do so alike, towards 1 the fewer pairs
/// carry it all. 1 − (Σx)² / (P·Σx²) over all P pairs: the share of pairs that might as well be
/// silent. `None` without communication or with fewer than two pairs.
pub fn unevenness(amounts: &Amounts) -> Option<f64> {
    let possible = amounts.tasks() as f64 * (amounts.tasks() as f64 - 1.0) / 2.0;
    if amounts.pairs().is_empty() || possible < 2.0 {
        return None;
    }
    Some((1.0 - evenness(amounts.pairs().iter().map(|pair| pair.2), possible)).clamp(0.0, 1.0))
}

/// (Σx)² / (n·Σx²): 1 for n equal values, 1/n when only one of n is not 0; 0 when all are.
pub(crate) fn evenness(values: impl Iterator<Item = f64>, n: f64) -> f64 {
    let (sum, squares) = values.fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    if squares > 0.0 && n > 0.0 { sum * sum / (n * squares) } else { 0.0 }
}

#[derive(Clone, Copy, Default)]
struct Sums {
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.squares += value * value;
    }

    /// Population variance of `count` values, of which those that were not added are 0.
    fn variance(self, count: usize) -> f64 {
        let mean = self.sum / count as f64;
        (self.squares / count as f64 - mean * mean).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{all_to_all, figure_3_3b, near};

    #[test]
    fn figure_3_3b_by_its_rows() {
        let value = heterogeneity(&Amounts::from(&figure_3_3b()));
        assert_eq!(format!("{value:.2}"), "602.47");
        // Its columns give 807.90.
        near(value, 602.469_135_802_469);
    }

    #[test]
    fn a_single_pair_of_eight() {
        // One row has one 100 among eight values: variance 100²·(1/8 − 1/64), over 8 rows.
        near(heterogeneity(&Amounts::new(8, [(2, 5, 7.0)])), 136.718_75);
        near(unevenness(&Amounts::new(8, [(2, 5, 7.0)])).unwrap(), 27.0 / 28.0);
    }

    #[test]
    fn all_to_all_is_even_but_not_by_the_thesis() {
        near(unevenness(&all_to_all(8)).unwrap(), 0.0);
        // Row i has 7 − i of 8 values: Σ k/8·(1 − k/8)·100² / 8 for k = 0..7.
        near(heterogeneity(&all_to_all(8)), 1640.625);
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(heterogeneity(&Amounts::new(0, [])), 0.0);
        assert_eq!(heterogeneity(&Amounts::new(5, [])), 0.0);
        assert_eq!(unevenness(&Amounts::new(5, [])), None);
        assert_eq!(unevenness(&Amounts::new(2, [(0, 1, 3.0)])), None);
    }

    #[test]
    fn huge_counts_do_not_overflow() {
        let amounts = Amounts::new(3, [(0, 1, 1.8e19), (1, 2, 1.8e19)]);
        assert!(heterogeneity(&amounts).is_finite());
    }
}
