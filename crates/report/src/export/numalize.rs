//! The form in which numalize (Diener, thesis 2015, section 2.3) writes communication matrices, so
//! that what was written for its files (`mkCommMatrix.R`, `mse.R` and the like) works with ours.
//!
//! Symmetric: a cell holds the events in both directions. Bottom-up: the first line belongs to the
//! last thread, as the thesis' figures have it; columns go up from thread 0. An empty line ends the
//! file.

use std::io::{self, Write};
use types::CommMatrix;

pub(super) fn write(matrix: &CommMatrix, out: &mut dyn Write) -> io::Result<()> {
    let threads = matrix.threads();
    // Each row's cells of both directions; sparse, so that thousands of threads need no gigabytes.
    let mut rows: Vec<Vec<(usize, u64)>> = vec![vec![]; threads];
    for (from, to, count) in matrix.iter() {
        rows[from.index()].push((to.index(), count));
        if from != to {
            rows[to.index()].push((from.index(), count));
        }
    }
    let mut dense = vec![0_u64; threads];
    let mut line = String::new();
    for row in rows.iter().rev() {
        dense.fill(0);
        for &(column, count) in row {
            dense[column] = dense[column].saturating_add(count);
        }
        super::csv::line(&dense, &mut line);
        out.write_all(line.as_bytes())?;
    }
    out.write_all(b"\n")
}
