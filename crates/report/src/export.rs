//! Matrices for other programs: one file per format, all writing to any `Write`.
//!
//! Rows (first index) are `from`, columns `to`, in the meaning of `types::CommKind`. Neighbours: the
//! `export` verb chooses format and destination.

mod csv;
mod dot;
mod graphml;
mod npy;
mod numalize;

use profile::Profile;
use std::io::{self, Write};
use types::{CommKind, CommMatrix};

/// A file format for a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixFormat {
    /// Square of integers, a line per `from`, no header.
    Csv,
    /// NumPy array file, two-dimensional, little-endian unsigned 64-bit, C order.
    Npy,
    /// Directed graph, a node per thread, an edge per non-zero cell.
    GraphMl,
    /// The same for Graphviz.
    Dot,
    /// As numalize writes it: symmetric, the last thread's line first.
    Numalize,
}

/// Writes the matrix of one kind of event.
///
/// # Errors
/// Those of `out`.
pub fn write_matrix(
    profile: &Profile,
    kind: CommKind,
    format: MatrixFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let matrix = profile.matrix(kind);
    let names: Vec<&str> = profile.threads.iter().map(|t| t.identity.name.as_str()).collect();
    match format {
        MatrixFormat::Csv => csv::write(&matrix, out),
        MatrixFormat::Npy => npy::write(&matrix, out),
        MatrixFormat::GraphMl => graphml::write(&matrix, &names, kind, out),
        MatrixFormat::Dot => dot::write(&matrix, &names, kind, out),
        MatrixFormat::Numalize => numalize::write(&matrix, out),
    }?;
    out.flush()
}

/// Calls `row` with each dense row of the matrix in turn; only one is in memory at a time, so that
/// thousands of threads need no gigabytes.
fn for_each_row(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample;

    fn exported(kind: CommKind, format: MatrixFormat) -> Vec<u8> {
        let profile = sample(3, &[(0, 1, 9), (2, 0, 1234567)]).profile();
        let mut out = Vec::new();
        write_matrix(&profile, kind, format, &mut out).unwrap();
        out
    }

    #[test]
    fn csv_is_a_square_without_a_header() {
        let raw = exported(CommKind::Raw, MatrixFormat::Csv);
        assert_eq!(String::from_utf8(raw).unwrap(), "0,9,0\n0,0,0\n1234567,0,0\n");
        let waw = exported(CommKind::Waw, MatrixFormat::Csv);
        assert_eq!(String::from_utf8(waw).unwrap(), "0,4,0\n0,0,0\n617283,0,0\n");
    }

    #[test]
    fn numalize_is_symmetric_bottom_up_and_ends_with_an_empty_line() {
        let profile = sample(4, &[(0, 1, 9), (1, 0, 1), (0, 2, 4), (3, 2, 7), (3, 0, 5)]).profile();
        let mut out = Vec::new();
        write_matrix(&profile, CommKind::Raw, MatrixFormat::Numalize, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "5,0,7,0\n4,0,0,7\n10,0,0,0\n0,10,4,5\n\n");
    }

    #[test]
    fn npy_has_an_aligned_header_and_little_endian_cells() {
        let bytes = exported(CommKind::Raw, MatrixFormat::Npy);
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert_eq!((10 + length) % 64, 0);
        let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
        assert_eq!(
            header.trim_end(),
            "{'descr': '<u8', 'fortran_order': False, 'shape': (3, 3), }"
        );
        assert!(header.ends_with('\n'));
        let cells: Vec<u64> = bytes[10 + length..]
            .chunks(8)
            .map(|cell| u64::from_le_bytes(cell.try_into().unwrap()))
            .collect();
        assert_eq!(cells, [0, 9, 0, 0, 0, 0, 1234567, 0, 0]);
    }

    #[test]
    fn graphml_and_dot_list_nodes_and_edges() {
        let graphml = String::from_utf8(exported(CommKind::Raw, MatrixFormat::GraphMl)).unwrap();
        assert!(graphml.contains("<node id=\"T1\"><data key=\"name\">app1</data></node>"));
        assert!(graphml.contains(
            "<edge source=\"T2\" target=\"T0\"><data key=\"events\">1234567</data></edge>"
        ));
        assert_eq!(graphml.matches("<edge ").count(), 2);
        let dot = String::from_utf8(exported(CommKind::Raw, MatrixFormat::Dot)).unwrap();
        assert_eq!(
            dot,
            "digraph raw {\n  // Edges: events from the first thread to the second.\n  \
             T0 [label=\"T0 app0\"];\n  T1 [label=\"T1 app1\"];\n  T2 [label=\"T2 app2\"];\n  \
             T0 -> T1 [weight=1, penwidth=0.50, label=\"9\"];\n  \
             T2 -> T0 [weight=100, penwidth=6.00, label=\"1234567\"];\n}\n"
        );
    }

    #[test]
    fn names_cannot_break_the_formats() {
        let mut profile = sample(2, &[(0, 1, 1)]).profile();
        profile.threads[0].identity.name = "a\"<&>\\b\u{1}".into();
        let export = |format| {
            let mut out = Vec::new();
            write_matrix(&profile, CommKind::Raw, format, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(export(MatrixFormat::GraphMl).contains(">a\"&lt;&amp;&gt;\\b\u{fffd}<"));
        assert!(export(MatrixFormat::Dot).contains("[label=\"T0 a\\\"<&>\\\\b\u{fffd}\"]"));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let profile = sample(40, &[(0, 1, 9)]).profile();
        let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error =
            write_matrix(&profile, CommKind::Raw, MatrixFormat::Csv, &mut full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
