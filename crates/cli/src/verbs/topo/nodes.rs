//! The part of `threadtalk topo` about NUMA nodes: how far they are from each other, by the
//! firmware and as measured.
//!
//! Neighbours: `topo` shows the nodes themselves, `measure` measures.

use serde_json::{Value, json};
use std::fmt::Write as _;
use topology::{MeasuredAccess, MeasuredMemory, Topology};

/// The distances as a matrix, for people; empty where the machine has fewer than two nodes.
pub fn text(machine: &Topology) -> String {
    let nodes = machine.numa_nodes.len();
    if nodes < 2 {
        return String::new();
    }
    if machine.numa_distances.is_empty() {
        return "distances     between NUMA nodes are not known\n".into();
    }
    let names: Vec<String> =
        machine.numa_nodes.iter().map(|node| format!("L#{}", node.logical)).collect();
    let cell = |from: usize, to: usize| machine.numa_distances[from * nodes + to].to_string();
    let heading = "distances of NUMA nodes, by the firmware (10: local)\n";
    heading.to_owned() + &matrix(&names, cell)
}

/// What was measured between nodes, for people.
pub fn measured_text(memory: Option<&MeasuredMemory>) -> String {
    let Some(memory) = memory else {
        return "\nThere is only one memory node, so there is nothing to measure between nodes.\n"
            .into();
    };
    let mut out = String::new();
    if !memory.accesses.is_empty() {
        let _ = writeln!(out, "\nmeasured latency of memory, ns: reads that wait for each other,");
        let _ = writeln!(
            out,
            "from the processors of the node on the left to the memory of the one above"
        );
        out.push_str(&accesses(memory, |access| format!("{:.0}", access.latency_ns)));
        let _ = writeln!(
            out,
            "\nmeasured bandwidth, GB/s: one reading thread on each core of the node on the left"
        );
        out.push_str(&accesses(memory, |access| format!("{:.1}", access.bandwidth)));
    }
    if let Some(factor) = memory.numa_factor() {
        let _ = writeln!(
            out,
            "\nNUMA factor: {factor:.2} (the largest remote latency over the local one)"
        );
    }
    for missing in &memory.unmeasured {
        let (from, to, why) = (missing.from_os, missing.to_os, &missing.why);
        let _ = writeln!(out, "from node P#{from} to node P#{to} nothing could be measured: {why}");
    }
    out
}

/// A number for each pair of nodes.
fn accesses(memory: &MeasuredMemory, number: impl Fn(&MeasuredAccess) -> String) -> String {
    let mut nodes: Vec<u32> =
        memory.accesses.iter().flat_map(|access| [access.from_os, access.to_os]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let names: Vec<String> = nodes.iter().map(|node| format!("P#{node}")).collect();
    matrix(&names, |from, to| memory.between(nodes[from], nodes[to]).map_or("?".into(), &number))
}

/// A square matrix with a name for each row and column, indented by two.
pub fn matrix(names: &[String], cell: impl Fn(usize, usize) -> String) -> String {
    let cells: Vec<Vec<String>> =
        (0..names.len()).map(|a| (0..names.len()).map(|b| cell(a, b)).collect()).collect();
    let longest = cells.iter().flatten().chain(names).map(String::len).max().unwrap_or(0);
    let mut out = String::new();
    let mut row = |name: &str, row: &[String]| {
        let cells: String = row.iter().map(|cell| format!(" {cell:>longest$}")).collect();
        let _ = writeln!(out, "  {name:>longest$}{cells}");
    };
    row("", names);
    names.iter().zip(&cells).for_each(|(name, cells)| row(name, cells));
    out
}

/// The distances, row by row in the order of the nodes; null where they are not known.
pub fn json(machine: &Topology) -> Value {
    match machine.numa_nodes.len() {
        0 => Value::Null,
        _ if machine.numa_distances.is_empty() => Value::Null,
        nodes => json!(machine.numa_distances.chunks(nodes).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_a_matrix_and_one_node_has_none() {
        let access = |from_os, to_os, latency_ns| MeasuredAccess {
            from_os,
            to_os,
            latency_ns,
            quartiles_ns: [latency_ns; 2],
            bandwidth: 12.34,
        };
        let accesses = vec![access(0, 0, 80.4), access(0, 3, 120.6), access(3, 0, 130.0)];
        let why = "it went away".to_owned();
        let unmeasured = vec![topology::UnmeasuredAccess { from_os: 3, to_os: 3, why }];
        let text = measured_text(Some(&MeasuredMemory { bytes: 1, accesses, unmeasured }));
        for part in [
            "      P#0 P#3\n  P#0  80 121\n  P#3 130   ?\n",
            "  P#0 12.3 12.3\n",
            "NUMA factor: 1.50",
            "from node P#3 to node P#3 nothing could be measured: it went away\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(measured_text(None).contains("only one memory node"));
    }

    #[test]
    fn distances_are_a_matrix_where_they_are_known() {
        let mut machine = Topology::from_synthetic("pack:2 [numa] core:2 pu:1").unwrap();
        machine.numa_distances = vec![10, 120, 21, 10];
        let expected = "distances of NUMA nodes, by the firmware (10: local)\n      L#0 L#1\n  L#0  10 120\n  \
                        L#1  21  10\n";
        assert_eq!(text(&machine), expected);
        assert_eq!(json(&machine), json!([[10, 120], [21, 10]]));
        machine.numa_distances.clear();
        assert_eq!(text(&machine), "distances     between NUMA nodes are not known\n");
        assert_eq!(json(&machine), Value::Null);
        let one = Topology::from_synthetic("core:2 pu:1").unwrap();
        assert_eq!(text(&one), "");
    }
}
