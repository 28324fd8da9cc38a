//! Matrices with all their cells, row by row.

use std::io;
use types::CommMatrix;

/// Calls `row` with each dense row of the matrix in turn; only one is in memory at a time, so that
/// thousands of threads need no gigabytes.
pub(super) fn for_each_row(
    matrix: &CommMatrix,
    mut row: impl FnMut(&[u64]) -> io::Result<()>,
) -> io::Result<()> {
    let mut cells = matrix.iter().peekable();
    let mut dense = vec![0; matrix.threads()];
    for from in 0..matrix.threads() {
        dense.fill(0);
        while let Some((_, to, count)) = cells.next_if(|(f, _, _)| f.index() == from) {
            dense[to.index()] = count;
        }
        row(&dense)?;
    }
    Ok(())
}
