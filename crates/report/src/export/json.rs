//! A matrix as JSON: an object with what it counts, what its rows and columns are, and its cells.

use super::dense::for_each_row;
use crate::grouped::GroupedBy;
use analysis::MatrixKind;
use serde_json::json;
use std::io::{self, Write};
use types::CommMatrix;

pub(super) fn write(
    matrix: &CommMatrix,
    (by, names): (GroupedBy, &[String]),
    kind: MatrixKind,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (kind, by, names) = (json!(kind.name()), json!(by.name()), json!(names));
    write!(out, "{{\"kind\":{kind},\"by\":{by},\"names\":{names},\"matrix\":[")?;
    let mut before = "\n";
    for_each_row(matrix, |row| {
        write!(out, "{before}{}", json!(row))?;
        before = ",\n";
        Ok(())
    })?;
    writeln!(out, "\n]}}")
}
