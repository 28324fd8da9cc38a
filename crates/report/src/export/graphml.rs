//! GraphML, as networkx, igraph, Gephi and yEd read it.

use crate::grouped::Nodes;
use analysis::MatrixKind;
use std::io::{self, Write};
use types::CommMatrix;

pub(super) fn write(
    matrix: &CommMatrix,
    nodes: &Nodes<'_>,
    kind: MatrixKind,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">")?;
    writeln!(
        out,
        "  <key id=\"name\" for=\"node\" attr.name=\"name\" attr.type=\"string\"/>\n  \
         <key id=\"events\" for=\"edge\" attr.name=\"events\" attr.type=\"long\"/>\n  \
         <graph id=\"{}\" edgedefault=\"{}\">",
        kind.name(),
        if kind.directed() { "directed" } else { "undirected" }
    )?;
    for (id, name) in nodes.all() {
        let name = escape(name);
        writeln!(out, "    <node id=\"{id}\"><data key=\"name\">{name}</data></node>")?;
    }
    for (from, to, count) in matrix.iter() {
        let (from, to) = (nodes.id(from), nodes.id(to));
        writeln!(
            out,
            "    <edge source=\"{from}\" target=\"{to}\"><data key=\"events\">{count}</data></edge>"
        )?;
    }
    writeln!(out, "  </graph>\n</graphml>")
}

/// Text for XML; control characters, which XML cannot hold, become U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
