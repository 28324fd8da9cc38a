//! Graphviz: `dot -Tsvg`, or `neato` for many threads. Width and weight grow with the events.

use crate::grouped::{GroupedBy, Nodes};
use analysis::MatrixKind;
use std::io::{self, Write};
use types::CommMatrix;

/// Line width of the strongest and the weakest edge, points.
const WIDTHS: (f64, f64) = (6.0, 0.5);

pub(super) fn write(
    matrix: &CommMatrix,
    nodes: &Nodes<'_>,
    kind: MatrixKind,
    out: &mut dyn Write,
) -> io::Result<()> {
    let most = matrix.iter().map(|(_, _, count)| count).max().unwrap_or(1) as f64;
    // A name with a hyphen would have to be quoted.
    let name = kind.name().replace('-', "_");
    let (graph, edge, meaning) = match kind.directed() {
        false => ("graph", "--", "between two threads"),
        true => ("digraph", "->", "from the first thread to the second"),
    };
    let what = if kind.is_shared() { "bytes" } else { "events" };
    writeln!(out, "{graph} {name} {{\n  // Edges: {what} {meaning}.")?;
    for (id, name) in nodes.all() {
        // Names of threads need not differ.
        let number = if nodes.by == GroupedBy::Thread { format!("{id} ") } else { String::new() };
        writeln!(out, "  {id} [label=\"{number}{}\"];", escape(name))?;
    }
    for (from, to, count) in matrix.iter() {
        let (from, to) = (nodes.id(from), nodes.id(to));
        let relative = count as f64 / most;
        let width = WIDTHS.1 + (WIDTHS.0 - WIDTHS.1) * relative;
        // Graphviz wants whole weights of at least 1.
        let weight = (relative * 100.0).round().max(1.0);
        writeln!(
            out,
            "  {from} {edge} {to} [weight={weight}, penwidth={width:.2}, label=\"{count}\"];"
        )?;
    }
    writeln!(out, "}}")
}

/// Text for a quoted string; control characters become U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
