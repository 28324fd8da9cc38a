//! Comma-separated: what `threadtalk place` reads, and spreadsheets, and numpy.loadtxt.

use super::dense::for_each_row;
use std::io::{self, Write};
use types::CommMatrix;

pub(super) fn write(matrix: &CommMatrix, out: &mut dyn Write) -> io::Result<()> {
    let mut text = String::new();
    for_each_row(matrix, |row| {
        line(row, &mut text);
        out.write_all(text.as_bytes())
    })
}

/// Replaces `text` by one line of `row`.
pub(super) fn line(row: &[u64], text: &mut String) {
    text.clear();
    for (index, count) in row.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&count.to_string());
    }
    text.push('\n');
}
