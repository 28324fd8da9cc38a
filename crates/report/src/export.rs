//! Matrices and tables for other programs: one file per format, all writing to any `Write`.
//!
//! A matrix' rows (first index) are `from`, its columns `to`, in the meaning of `types::CommKind`;
//! undirected ones are symmetric. `analysis::MatrixKind` says which events a matrix counts,
//! `tables.rs` writes the profile's tables, `flows.rs` the flow of events, `pages.rs` the use of
//! pages. Neighbours: the `export`
//! verb chooses format and destination.

mod csv;
mod dense;
mod dot;
mod flows;
mod graphml;
mod json;
mod npy;
mod numalize;
mod objects;
mod pages;
mod rows;
mod tables;

pub use flows::flow_parquet;
pub use pages::write_numalize_pages;
pub use rows::TableFormat;
pub use tables::{ProfileTable, write_table};

use crate::grouped::{Grouped, Nodes};
use analysis::{MatrixKind, both_ways};
use std::io::{self, Write};

/// A file format for a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixFormat {
    /// Square of integers, a line per `from`, no header.
    Csv,
    /// NumPy array file, two-dimensional, little-endian unsigned 64-bit, C order.
    Npy,
    /// Directed graph, a node per thread or group, an edge per non-zero cell.
    GraphMl,
    /// The same for Graphviz.
    Dot,
    /// As numalize writes it: symmetric, the last thread's line first.
    Numalize,
    /// An object with names of the rows and columns.
    Json,
}

/// Writes a matrix of events of this kind.
///
/// # Errors
/// Those of `out`.
pub fn write_matrix(
    Grouped { by, names, matrix, .. }: &Grouped,
    kind: MatrixKind,
    format: MatrixFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let square = || if kind.directed() { matrix.clone() } else { both_ways(matrix) };
    let nodes = Nodes { by: *by, names };
    match format {
        MatrixFormat::Csv => csv::write(&square(), out),
        MatrixFormat::Npy => npy::write(&square(), out),
        MatrixFormat::GraphMl => graphml::write(matrix, &nodes, kind, out),
        MatrixFormat::Dot => dot::write(matrix, &nodes, kind, out),
        MatrixFormat::Numalize => numalize::write(matrix, out),
        MatrixFormat::Json => json::write(&square(), (*by, names), kind, out),
    }?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{sample, shared};
    use analysis::{Choice, ChoiceError};
    use profile::{CommRow, Counted, Profile};
    use types::{CommKind, ThreadId};

    fn written(
        profile: &Profile,
        kind: MatrixKind,
        slice: Option<u32>,
        format: MatrixFormat,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let choice = Choice::new(profile, kind, slice).unwrap();
        write_matrix(&Grouped::threads(profile, choice), kind, format, &mut out).unwrap();
        out
    }

    fn exported(kind: MatrixKind, format: MatrixFormat) -> Vec<u8> {
        let profile = sample(3, &[(0, 1, 9), (2, 0, 1234567)]).profile();
        written(&profile, kind, None, format)
    }

    fn csv_of(profile: &Profile, kind: MatrixKind, slice: Option<u32>) -> String {
        String::from_utf8(written(profile, kind, slice, MatrixFormat::Csv)).unwrap()
    }

    /// Pairs as the undirected mode counts them.
    fn undirected() -> Profile {
        let mut profile = sample(3, &[]).profile();
        profile.meta.parameters.counted = Counted::Undirected;
        let pair = |a, b, n| CommRow::whole(ThreadId(a), ThreadId(b), CommKind::Undirected, n);
        profile.comm = vec![pair(0, 1, 5), pair(0, 2, 7), pair(1, 2, 9)];
        profile
    }

    #[test]
    fn kinds_and_sharing_and_slices() {
        let profile = shared();
        let matrix = |kind, slice| csv_of(&profile, kind, slice);
        let falsely = "0,0,0,0,0\n0,0,1000,0,0\n0,0,0,1000,0\n0,0,0,0,1000\n0,1000,0,0,0\n";
        assert_eq!(matrix(MatrixKind::RawFalse, None), falsely);
        assert_eq!(matrix(MatrixKind::WawFalse, None), falsely.replace("1000", "100"));
        assert_eq!(matrix(MatrixKind::Waw, None), matrix(MatrixKind::WawFalse, None));
        assert_eq!(matrix(MatrixKind::WawTrue, None), "0,0,0,0,0\n".repeat(5));
        let truly = format!("0,700,0,0,0\n{}", "0,0,0,0,0\n".repeat(4));
        assert_eq!(matrix(MatrixKind::RawTrue, None), truly);
        assert_eq!(
            matrix(MatrixKind::Raw, None),
            "0,700,0,0,5\n0,0,1000,0,0\n0,0,0,1000,0\n0,0,20,0,1000\n0,1000,0,0,0\n"
        );
        assert_eq!(
            matrix(MatrixKind::Transfers, None),
            "0,700,0,0,5\n0,0,1100,0,0\n0,0,0,1100,0\n0,0,20,0,1100\n0,1100,0,0,0\n"
        );
        assert_eq!(matrix(MatrixKind::RawTrue, Some(0)), truly.replace("700", "210"));
        assert_eq!(matrix(MatrixKind::RawTrue, Some(1)), truly.replace("700", "490"));
    }

    #[test]
    fn what_a_profile_does_not_hold_is_refused() {
        let refused =
            |profile: &Profile, kind, slice| Choice::new(profile, kind, slice).unwrap_err();
        let plain = sample(3, &[(0, 1, 9)]).profile();
        assert_eq!(refused(&plain, MatrixKind::RawTrue, None), ChoiceError::NoSharing);
        assert_eq!(refused(&plain, MatrixKind::Undirected, None), ChoiceError::Directed);
        assert_eq!(
            refused(&shared(), MatrixKind::Raw, Some(2)).to_string(),
            "the profile has 2 time slices, numbered from 0; there is no slice 2"
        );
        assert_eq!(refused(&undirected(), MatrixKind::Transfers, None), ChoiceError::Undirected);
    }

    #[test]
    fn undirected_pairs_are_symmetric_and_counted_once() {
        let profile = undirected();
        let (kind, all) = (MatrixKind::of_talk(&profile), None);
        assert_eq!(csv_of(&profile, kind, all), "0,5,7\n5,0,9\n7,9,0\n");
        let text = |format| String::from_utf8(written(&profile, kind, all, format)).unwrap();
        assert_eq!(text(MatrixFormat::Numalize), "7,9,0\n5,0,9\n0,5,7\n\n");
        let dot = text(MatrixFormat::Dot);
        assert!(dot.starts_with("graph undirected {\n  // Edges: events between two threads.\n"));
        assert!(dot.contains("  T0 -- T2 [weight=78, penwidth=4.78, label=\"7\"];\n"), "{dot}");
        let graphml = text(MatrixFormat::GraphMl);
        assert!(graphml.contains("<graph id=\"undirected\" edgedefault=\"undirected\">"));
        assert_eq!(graphml.matches("<edge ").count(), 3);
    }

    #[test]
    fn csv_is_a_square_without_a_header() {
        let raw = exported(MatrixKind::Raw, MatrixFormat::Csv);
        assert_eq!(String::from_utf8(raw).unwrap(), "0,9,0\n0,0,0\n1234567,0,0\n");
        let waw = exported(MatrixKind::Waw, MatrixFormat::Csv);
        assert_eq!(String::from_utf8(waw).unwrap(), "0,4,0\n0,0,0\n617283,0,0\n");
    }

    #[test]
    fn numalize_is_symmetric_bottom_up_and_ends_with_an_empty_line() {
        let profile = sample(4, &[(0, 1, 9), (1, 0, 1), (0, 2, 4), (3, 2, 7), (3, 0, 5)]).profile();
        let out = written(&profile, MatrixKind::Raw, None, MatrixFormat::Numalize);
        assert_eq!(String::from_utf8(out).unwrap(), "5,0,7,0\n4,0,0,7\n10,0,0,0\n0,10,4,5\n\n");
    }

    #[test]
    fn npy_has_an_aligned_header_and_little_endian_cells() {
        let bytes = exported(MatrixKind::Raw, MatrixFormat::Npy);
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
        let graphml = String::from_utf8(exported(MatrixKind::Raw, MatrixFormat::GraphMl)).unwrap();
        assert!(graphml.contains("<node id=\"T1\"><data key=\"name\">app1</data></node>"));
        assert!(graphml.contains(
            "<edge source=\"T2\" target=\"T0\"><data key=\"events\">1234567</data></edge>"
        ));
        assert_eq!(graphml.matches("<edge ").count(), 2);
        let dot = String::from_utf8(exported(MatrixKind::Raw, MatrixFormat::Dot)).unwrap();
        assert_eq!(
            dot,
            "digraph raw {\n  // Edges: events from the first thread to the second.\n  \
             T0 [label=\"T0 app0\"];\n  T1 [label=\"T1 app1\"];\n  T2 [label=\"T2 app2\"];\n  \
             T0 -> T1 [weight=1, penwidth=0.50, label=\"9\"];\n  \
             T2 -> T0 [weight=100, penwidth=6.00, label=\"1234567\"];\n}\n"
        );
    }

    #[test]
    fn groups_have_names_and_a_diagonal() {
        let of_process = |name: &str, events| (name.to_owned(), events);
        let grouped = Grouped::processes(vec![of_process("0 sh", 0), of_process("1 a\"b", 7)], &[]);
        let text = |format, kind| {
            let mut out = Vec::new();
            write_matrix(&grouped, kind, format, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for kind in [MatrixKind::Raw, MatrixKind::Undirected] {
            assert_eq!(text(MatrixFormat::Csv, kind), "0,0\n0,7\n");
            assert_eq!(text(MatrixFormat::Numalize, kind), "0,7\n0,0\n\n");
            assert!(text(MatrixFormat::GraphMl, kind).contains("source=\"process1\""));
            let dot = text(MatrixFormat::Dot, kind);
            assert!(dot.contains("process1 [label=\"1 a\\\"b\"];"), "{dot}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&text(MatrixFormat::Json, MatrixKind::Raw)).unwrap();
        let expected = serde_json::json!({
            "kind": "raw", "by": "process", "names": ["0 sh", "1 a\"b"], "matrix": [[0, 0], [0, 7]]
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn names_cannot_break_the_formats() {
        let mut profile = sample(2, &[(0, 1, 1)]).profile();
        profile.threads[0].identity.name = "a\"<&>\\b\u{1}".into();
        let export =
            |format| String::from_utf8(written(&profile, MatrixKind::Raw, None, format)).unwrap();
        assert!(export(MatrixFormat::GraphMl).contains(">a\"&lt;&amp;&gt;\\b\u{fffd}<"));
        assert!(export(MatrixFormat::Dot).contains("[label=\"T0 a\\\"<&>\\\\b\u{fffd}\"]"));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let profile = sample(40, &[(0, 1, 9)]).profile();
        let mut full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let choice = Choice::new(&profile, MatrixKind::Raw, None).unwrap();
        let threads = Grouped::threads(&profile, choice);
        let error =
            write_matrix(&threads, choice.kind(), MatrixFormat::Csv, &mut full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
