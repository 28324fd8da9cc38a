//! Mean squared error between two communication matrices: equation 3.1 of Diener's thesis.
//!
//! Both are normalised to a maximum of 100, so the shape is compared and not the amount; each cell
//! counts, directions apart. Neighbour: `difference` says which cells make it.

use types::CommMatrix;

/// What matrices are normalised to.
pub const MAXIMUM: f64 = 100.0;

/// Why two matrices cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum MseError {
    #[error("one matrix has {a} threads and the other {b}; only matrices of one size compare")]
    Sizes { a: usize, b: usize },
    #[error("the matrices are empty; nothing can be compared")]
    Empty,
}

/// The mean squared difference of the cells, from 0 to [`most`]. A matrix without any event is one
/// of zeros.
///
/// # Errors
/// Fails when the matrices differ in size.
pub fn mse(a: &CommMatrix, b: &CommMatrix) -> Result<f64, MseError> {
    let (threads, others) = (a.threads(), b.threads());
    if threads != others {
        return Err(MseError::Sizes { a: threads, b: others });
    }
    if threads == 0 {
        return Err(MseError::Empty);
    }
    let (in_a, in_b) = (normaliser(a), normaliser(b));
    // Cells of a, with b's beside them; then those that only b has.
    let first = a.iter().map(|(from, to, n)| n as f64 * in_a - b.get(from, to) as f64 * in_b);
    let second = b.iter().filter(|&(from, to, _)| a.get(from, to) == 0);
    let differences = first.chain(second.map(|(_, _, n)| n as f64 * in_b));
    Ok(differences.map(|d| d * d).sum::<f64>() / (threads as f64).powi(2))
}

/// The factor that brings the largest cell to [`MAXIMUM`]; 0 for a matrix of zeros.
pub(crate) fn normaliser(matrix: &CommMatrix) -> f64 {
    match matrix.iter().map(|(_, _, n)| n).max() {
        None | Some(0) => 0.0,
        Some(most) => MAXIMUM / most as f64,
    }
}

/// The largest possible error between matrices of this many threads: one pair communicates in the
/// one, all others alike in the other.
pub fn most(threads: usize) -> f64 {
    let n = threads as f64;
    if threads == 0 { 0.0 } else { (n * n - n) / (n * n) * MAXIMUM * MAXIMUM }
}

/// Errors below this are too small to place by: cells differ by 5 % of the largest.
const NEGLIGIBLE: f64 = 25.0;

/// Whether a pattern of communication was the same in two runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Repeats {
    /// The error between the runs' matrices.
    pub mse: f64,
    /// What it would be on average if the threads of one run were renamed by chance.
    pub by_chance: f64,
}

impl Repeats {
    /// Whether the runs are more alike than chance makes them: the error is negligible, or at most
    /// half of that by chance. A program whose pattern does not repeat has no plan (COMPLACE,
    /// section IV).
    pub fn holds(&self) -> bool {
        self.mse <= NEGLIGIBLE || self.mse <= self.by_chance / 2.0
    }
}

/// Holds the matrices of two runs against each other, both directions of a pair taken together.
///
/// # Errors
/// As [`mse`].
pub fn repeats(a: &CommMatrix, b: &CommMatrix) -> Result<Repeats, MseError> {
    let (a, b) = (symmetric(a), symmetric(b));
    let error = mse(&a, &b)?;
    let n = a.threads() as f64;
    let cells = (n * n - n).max(1.0);
    // Over all renamings a cell of a meets every cell of b equally often; the diagonal stays 0.
    let moments = |matrix: &CommMatrix| {
        let scale = normaliser(matrix);
        let values = || matrix.iter().map(|(_, _, count)| count as f64 * scale);
        (values().sum::<f64>() / cells, values().map(|v| v * v).sum::<f64>() / cells)
    };
    let ((mean_a, square_a), (mean_b, square_b)) = (moments(&a), moments(&b));
    let by_chance = (square_a + square_b - 2.0 * mean_a * mean_b) * cells / (n * n);
    Ok(Repeats { mse: error, by_chance })
}

/// Both directions of every pair, added.
fn symmetric(matrix: &CommMatrix) -> CommMatrix {
    let mut sum = CommMatrix::new(matrix.threads());
    for (from, to, count) in matrix.iter().filter(|(from, to, _)| from != to) {
        sum.add(from, to, count);
        sum.add(to, from, count);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{figure_3_3b, matrix, near};
    use types::ThreadId;

    /// One pair communicates, and all pairs but that one.
    fn opposites(threads: u32) -> (CommMatrix, CommMatrix) {
        let (mut pair, mut others) =
            (CommMatrix::new(threads as usize), CommMatrix::new(threads as usize));
        for from in 0..threads {
            for to in (0..threads).filter(|&to| to != from) {
                let of_pair = from.max(to) == 1;
                let matrix = if of_pair { &mut pair } else { &mut others };
                matrix.add(ThreadId(from), ThreadId(to), if of_pair { 3 } else { 17 });
            }
        }
        (pair, others)
    }

    #[test]
    fn the_largest_error_is_that_of_opposites() {
        for (threads, expected) in [(8, 8750.0), (64, 9843.75)] {
            let (pair, others) = opposites(threads);
            near(mse(&pair, &others).unwrap(), expected);
            near(mse(&others, &pair).unwrap(), expected);
            near(most(threads as usize), expected);
        }
        assert_eq!((most(0), most(1)), (0.0, 0.0));
    }

    #[test]
    fn multiples_do_not_differ() {
        let rows: &[&[u64]] = &[
            &[0, 40, 40, 20, 90],
            &[40, 0, 70, 90, 20],
            &[40, 70, 0, 20, 30],
            &[20, 90, 20, 0, 0],
            &[90, 20, 30, 0, 0],
        ];
        near(mse(&figure_3_3b(), &matrix(rows)).unwrap(), 0.0);
    }

    #[test]
    fn directions_are_apart() {
        // 100 against 0 in two of four cells.
        let (there, back) = (matrix(&[&[0, 1], &[0, 0]]), matrix(&[&[0, 0], &[1, 0]]));
        near(mse(&there, &back).unwrap(), 5000.0);
    }

    #[test]
    fn a_pattern_repeats_or_does_not() {
        let ring = |shift: u32| {
            let mut matrix = CommMatrix::new(8);
            (0..8).for_each(|t| matrix.add(ThreadId(t), ThreadId((t + shift) % 8), 100));
            matrix
        };
        let same = repeats(&ring(1), &ring(1)).unwrap();
        assert_eq!(same.mse, 0.0);
        assert!(same.holds() && same.by_chance > 1000.0, "{same:?}");
        // The other way round is the same pairs.
        assert!(repeats(&ring(1), &ring(7)).unwrap().holds());
        assert!(!repeats(&ring(1), &ring(3)).unwrap().holds());
        // The mean over all renamings of three threads, by hand: each pair meets each.
        let one = |a, b| {
            let mut matrix = CommMatrix::new(3);
            matrix.add(ThreadId(a), ThreadId(b), 5);
            matrix
        };
        let errors =
            [(0, 1), (0, 2), (1, 2)].map(|(a, b)| repeats(&one(0, 1), &one(a, b)).unwrap());
        near(errors.iter().map(|error| error.mse).sum::<f64>() / 3.0, errors[0].by_chance);
    }

    #[test]
    fn what_cannot_be_compared() {
        let (two, three) = (CommMatrix::new(2), CommMatrix::new(3));
        assert_eq!(mse(&two, &three), Err(MseError::Sizes { a: 2, b: 3 }));
        assert_eq!(mse(&CommMatrix::new(0), &CommMatrix::new(0)), Err(MseError::Empty));
        assert_eq!(mse(&two, &CommMatrix::new(2)), Ok(0.0));
        near(mse(&two, &matrix(&[&[0, 5], &[0, 0]])).unwrap(), 2500.0);
    }
}
