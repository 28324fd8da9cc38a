//! Matrices of the literature and helpers for the tests of this crate.

use crate::Amounts;
use types::{CommMatrix, ThreadId};

/// A matrix from its rows.
pub(crate) fn matrix(rows: &[&[u64]]) -> CommMatrix {
    let mut matrix = CommMatrix::new(rows.len());
    for (from, row) in rows.iter().enumerate() {
        for (to, &count) in row.iter().enumerate() {
            matrix.add(ThreadId(from as u32), ThreadId(to as u32), count);
        }
    }
    matrix
}

/// Figure 3.3b of Diener's thesis, whose rows are printed from the last to the first.
pub(crate) fn figure_3_3b() -> CommMatrix {
    matrix(&[
        &[0, 4, 4, 2, 9],
        &[4, 0, 7, 9, 2],
        &[4, 7, 0, 2, 3],
        &[2, 9, 2, 0, 0],
        &[9, 2, 3, 0, 0],
    ])
}

/// Every two of `tasks` tasks communicate alike.
pub(crate) fn all_to_all(tasks: usize) -> Amounts {
    let pairs = (0..tasks).flat_map(|a| (a + 1..tasks).map(move |b| (a, b, 12.0)));
    Amounts::new(tasks, pairs)
}

/// Asserts that two numbers are equal but for rounding in double precision.
#[track_caller]
pub(crate) fn near(found: f64, expected: f64) {
    let error = (found - expected).abs();
    assert!(error <= 1e-11 * expected.abs().max(1.0), "{found} is not {expected}");
}
