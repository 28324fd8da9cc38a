//! Comma-separated: what `threadtalk place` reads, and spreadsheets, and numpy.loadtxt.

use super::for_each_row;
use std::io::{self, Write};
use types::CommMatrix;

pub(super) fn write(matrix: &CommMatrix, out: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    for_each_row(matrix, |row| {
        line.clear();
        for (index, count) in row.iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            line.push_str(&count.to_string());
        }
        line.push('\n');
        out.write_all(line.as_bytes())
    })
}
