//! How much each two tasks communicate: the symmetric matrix that the metrics are defined on.
//!
//! The thesis treats communication as undirected (3.1.4), so events of both directions are added
//! up. Sparse: thousands of time slices of a thousand threads must be gone through. Neighbours: the
//! files of the metrics and of `pattern/` take it; [`CommMatrix`] has the directions.

use types::CommMatrix;

/// Undirected amounts between `tasks` tasks; finite, above 0, no pair twice.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Amounts {
    tasks: usize,
    /// (lower task, higher task, events), by task.
    pairs: Vec<(usize, usize, f64)>,
}

impl Amounts {
    /// The amounts of these pairs, in any order and direction; equal pairs are added up, a task
    /// with itself and amounts that are not above 0 are left out.
    pub fn new(tasks: usize, cells: impl IntoIterator<Item = (usize, usize, f64)>) -> Self {
        let mut pairs: Vec<(usize, usize, f64)> = cells
            .into_iter()
            .filter(|&(a, b, amount)| a != b && amount > 0.0 && amount.is_finite())
            .map(|(a, b, amount)| (a.min(b), a.max(b), amount))
            .collect();
        pairs.sort_by_key(|&(a, b, _)| (a, b));
        pairs.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        let tasks = pairs.iter().map(|&(_, b, _)| b + 1).fold(tasks, usize::max);
        Self { tasks, pairs }
    }

    /// Number of tasks, those that do not communicate included.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// The pairs that communicate: (lower task, higher task, events), ordered.
    pub fn pairs(&self) -> &[(usize, usize, f64)] {
        &self.pairs
    }

    /// Sum over all pairs, each event once.
    pub fn total(&self) -> f64 {
        self.pairs.iter().map(|pair| pair.2).sum()
    }

    /// The communication vector: what each task has with all others (full row sums).
    pub fn of_tasks(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.tasks];
        for &(a, b, amount) in &self.pairs {
            sums[a] += amount;
            sums[b] += amount;
        }
        sums
    }

    /// Those between the tasks of `kept`, numbered anew in its order.
    pub fn between(&self, kept: &[usize]) -> Self {
        let mut place = vec![None; self.tasks];
        kept.iter().enumerate().for_each(|(new, &old)| place[old] = Some(new));
        let cell = |&(a, b, amount): &(usize, usize, f64)| Some((place[a]?, place[b]?, amount));
        Self::new(kept.len(), self.pairs.iter().filter_map(cell))
    }
}

impl From<&CommMatrix> for Amounts {
    fn from(matrix: &CommMatrix) -> Self {
        let cells = matrix.iter().map(|(from, to, n)| (from.index(), to.index(), n as f64));
        Self::new(matrix.threads(), cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_added_up_and_what_is_no_amount_is_left_out() {
        let cells = [(2, 0, 3.0), (0, 2, 4.0), (1, 1, 9.0), (0, 1, -1.0), (0, 1, f64::NAN)];
        let amounts = Amounts::new(4, cells);
        assert_eq!(amounts.pairs(), [(0, 2, 7.0)]);
        assert_eq!(amounts.of_tasks(), [7.0, 0.0, 7.0, 0.0]);
        assert_eq!(amounts.total(), 7.0);
    }

    #[test]
    fn a_part_is_numbered_anew() {
        let all = Amounts::new(4, [(0, 1, 1.0), (1, 3, 2.0), (2, 3, 4.0)]);
        assert_eq!(all.between(&[3, 1]).pairs(), [(0, 1, 2.0)]);
        assert_eq!(all.between(&[3, 1]).tasks(), 2);
    }
}
