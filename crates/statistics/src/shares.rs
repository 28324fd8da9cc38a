//! Whether two rows of counts have the same shares, but for chance: Pearson's test of homogeneity.
//!
//! With many cells of few counts its statistic hardly has the distribution that tables assume, so
//! cells are put together until each is expected to have [`MIN_EXPECTED`] in both rows (Cochran's
//! rule).

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Least count that a cell is expected to have in each row.
const MIN_EXPECTED: f64 = 5.0;

/// The probability that rows differ as much as these or more when both are drawn from the same
/// source; 1 where there is too little to tell.
pub fn same_shares(a: &[u64], b: &[u64]) -> f64 {
    let (sum_a, sum_b): (u64, u64) = (a.iter().sum(), b.iter().sum());
    let (of_a, of_b) = (sum_a as f64, sum_b as f64);
    let smaller = of_a.min(of_b) / (of_a + of_b).max(1.0);
    let mut cells: Vec<(u64, u64)> = a.iter().copied().zip(b.iter().copied()).collect();
    // By the sum, which does not say in which row a cell has more.
    cells.sort_by_key(|&(a, b)| std::cmp::Reverse(a + b));
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (a, b) in cells.into_iter().filter(|&(a, b)| a + b > 0) {
        match joined.last_mut() {
            Some(last) if (last.0 + last.1) as f64 * smaller < MIN_EXPECTED => {
                *last = (last.0 + a, last.1 + b);
            }
            _ => joined.push((a, b)),
        }
    }
    if joined.last().is_some_and(|last| (last.0 + last.1) as f64 * smaller < MIN_EXPECTED)
        && let Some(rest) = joined.pop()
    {
        match joined.last_mut() {
            Some(last) => *last = (last.0 + rest.0, last.1 + rest.1),
            None => return 1.0,
        }
    }
    if joined.len() < 2 {
        return 1.0;
    }
    let all = of_a + of_b;
    let statistic: f64 = joined
        .iter()
        .map(|&(a, b)| {
            let cell = (a + b) as f64;
            let (in_a, in_b) = (cell * of_a / all, cell * of_b / all);
            (a as f64 - in_a).powi(2) / in_a + (b as f64 - in_b).powi(2) / in_b
        })
        .sum();
    let free = (joined.len() - 1) as f64;
    ChiSquared::new(free).map_or(1.0, |chi| chi.sf(statistic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_pass_and_others_do_not() {
        assert!(same_shares(&[50, 50, 50], &[100, 100, 100]) > 0.99);
        assert!(same_shares(&[100, 0, 50], &[0, 100, 50]) < 1e-9);
        // χ² of ((30, 20), (20, 30)) is 4, which 4.55 % exceed with one degree of freedom.
        assert!((same_shares(&[30, 20], &[20, 30]) - 0.0455).abs() < 1e-3);
    }

    #[test]
    fn few_counts_tell_nothing() {
        assert_eq!(same_shares(&[1, 0], &[0, 1]), 1.0);
        assert_eq!(same_shares(&[], &[]), 1.0);
        assert_eq!(same_shares(&[9, 9], &[0, 0]), 1.0);
    }

    #[test]
    fn rows_of_one_source_differ_as_rarely_as_promised() {
        let mut random = fastrand::Rng::with_seed(3);
        for cells in [2, 28, 500] {
            const RUNS: usize = 2000;
            let differ = (0..RUNS).filter(|_| {
                let mut drawn = |count: usize| {
                    let mut row = vec![0; cells];
                    (0..count).for_each(|_| row[random.usize(..cells)] += 1);
                    row
                };
                same_shares(&drawn(300), &drawn(150)) < 0.05
            });
            let part = differ.count() as f64 / RUNS as f64;
            assert!(part < 0.065, "{cells} cells: {part}");
        }
    }
}
