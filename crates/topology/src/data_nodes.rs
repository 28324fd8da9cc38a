//! What accesses to memory cost: from the processors of each NUMA node to the memory of each.
//!
//! What was measured is used where the costs hold it for all nodes; else the firmware's latencies
//! and bandwidths where it gives them, else its distances, else published figures
//! ([`MEMORY_FIGURES`]). Neighbours: `costs.rs` prices communication, `memory.rs` reads what the
//! firmware says, `placement` puts data on these nodes.

use crate::between_nodes::MeasuredMemory;
use crate::costs::{CostModel, Costs};
use crate::hierarchy::Hierarchy;
use crate::model::{ObjectKind, Topology};

/// A figure that stands in where the firmware is silent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryFigure {
    /// What it is.
    pub what: &'static str,
    /// Its value, in the unit that `what` names.
    pub value: f64,
    /// Where the value is from.
    pub source: &'static str,
}

const MOLKA: &str = "Molka, Hackenberg, Schöne, Nagel: Cache coherence protocol and memory \
                     performance of the Intel Haswell-EP architecture, ICPP 2015 (rounded)";
const DIENER: &str = "Diener's thesis, table 2.3: NUMA factor of the Xeon machine, one hop";

/// All figures that stand in.
pub const MEMORY_FIGURES: [MemoryFigure; 5] = [
    MemoryFigure { what: "latency of local memory, ns", value: 96.0, source: MOLKA },
    MemoryFigure { what: "bandwidth of a node, bytes/ns", value: 60.0, source: MOLKA },
    MemoryFigure { what: "latency at distance 20 over local (2.1)", value: 1.5, source: DIENER },
    MemoryFigure {
        what: "distance of another package, where no distances are given",
        value: 20.0,
        source: "ACPI's customary value",
    },
    MemoryFigure {
        what: "distance of another node in the package, where no distances are given",
        value: 12.0,
        source: "Linux's firmware tables, customary value",
    },
];

const LOCAL_NS: f64 = MEMORY_FIGURES[0].value;
const BYTES_PER_NS: f64 = MEMORY_FIGURES[1].value;
const FACTOR_AT_20: f64 = MEMORY_FIGURES[2].value;
const OTHER_PACKAGE: f64 = MEMORY_FIGURES[3].value;
const SAME_PACKAGE: f64 = MEMORY_FIGURES[4].value;
/// Distances beyond this are taken for it; firmware uses 255 for "unreachable".
const MAX_DISTANCE: f64 = 60.0;

/// A node that data can be put on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DataNode {
    /// Logical number (L#).
    pub logical: u32,
    /// The kernel's number (P#).
    pub os: u32,
    /// Its bandwidth, bytes per ns.
    pub bandwidth: f64,
}

/// The nodes that data can be put on, and what accesses to them cost.
#[derive(Clone, PartialEq, Debug)]
pub struct DataNodes {
    /// Never empty: a machine that names none counts as one node.
    pub nodes: Vec<DataNode>,
    /// For each allowed PU, as in [`Hierarchy::pus`], the row of [`DataNodes::cost`].
    pub home: Vec<usize>,
    /// Cost of an access: `cost[home][node]`, in the unit of the communication costs.
    pub cost: Vec<Vec<f64>>,
    /// For each home the node on which its threads' first touch puts a page.
    pub nearest: Vec<usize>,
    /// What a nanosecond costs, in that unit.
    pub per_ns: f64,
    /// Bytes of each outermost shared cache.
    pub caches: Vec<u64>,
    /// For each allowed PU its outermost shared cache, if it has one.
    pub cache: Vec<Option<usize>>,
    /// What a reader should know about nodes that were left out; sentences.
    pub notes: Vec<String>,
}

impl DataNodes {
    /// Of the allowed part of `topology`, in the unit of `costs`, which are its own.
    pub fn new(topology: &Topology, costs: &Costs) -> Self {
        let hierarchy = Hierarchy::new(topology);
        let index = |logical: u32| {
            topology.numa_nodes.iter().position(|node| node.logical == logical).unwrap_or(0)
        };
        let homes: Vec<usize> = hierarchy.nodes.iter().map(|node| index(node.logical)).collect();
        let (targets, mut notes) = targets(topology, &homes);
        let measured = measured(topology, costs, &homes, &targets, &mut notes);
        let per_ns = per_ns(topology, costs);
        let (caches, cache) = caches(topology, &hierarchy);
        let nodes: Vec<DataNode> =
            targets.iter().map(|&at| data_node(topology, measured, at)).collect();
        if nodes.is_empty() {
            let node = DataNode { logical: 0, os: 0, bandwidth: BYTES_PER_NS };
            let home = vec![0; hierarchy.pus.len()];
            let cost = vec![vec![LOCAL_NS * per_ns]];
            let (nodes, nearest) = (vec![node], vec![0]);
            return Self { nodes, home, cost, nearest, per_ns, caches, cache, notes };
        }
        let row = |&home: &usize| -> Vec<f64> {
            targets.iter().map(|&to| latency_ns(topology, measured, home, to) * per_ns).collect()
        };
        let cost: Vec<Vec<f64>> = homes.iter().map(row).collect();
        let nearest = homes.iter().zip(&cost).map(|(home, row)| {
            let own = targets.iter().position(|target| target == home);
            own.unwrap_or_else(|| {
                (0..row.len()).min_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0)
            })
        });
        let nearest = nearest.collect();
        Self { nodes, home: hierarchy.node, cost, nearest, per_ns, caches, cache, notes }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: a machine has at least one node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The bandwidth of all nodes, bytes per ns.
    pub fn bandwidth(&self) -> f64 {
        self.nodes.iter().map(|node| node.bandwidth).sum()
    }
}

/// The nodes that have memory and allowed processors, and sentences about the others.
fn targets(topology: &Topology, homes: &[usize]) -> (Vec<usize>, Vec<String>) {
    let nodes = &topology.numa_nodes;
    let sized = nodes.iter().any(|node| node.bytes > 0);
    let has_memory = |at: usize| !sized || nodes[at].bytes > 0;
    let targets: Vec<usize> = homes.iter().copied().filter(|&at| has_memory(at)).collect();
    let mut notes = Vec::new();
    let mut say = |which: Vec<usize>, has: &str, so: &str| {
        if !which.is_empty() {
            let names: Vec<String> =
                which.iter().map(|&at| format!("L#{}", nodes[at].logical)).collect();
            let (word, verb) = if names.len() == 1 { ("node", "has") } else { ("nodes", "have") };
            notes.push(format!("NUMA {word} {} {verb} {has}: {so}.", names.join(", ")));
        }
    };
    let without: Vec<usize> = homes.iter().copied().filter(|&at| !has_memory(at)).collect();
    say(without, "no memory", "its threads' pages go to the nearest node that has");
    let others = (0..nodes.len()).filter(|at| !homes.contains(at) && has_memory(*at)).collect();
    let reason = "no processors that may be used, or faster memory beside it";
    say(others, reason, "no data is put there");
    if targets.is_empty() {
        notes.push("The machine names no NUMA node with memory; it counts as one node.".into());
    }
    (targets, notes)
}

/// What was measured, if it holds all that is needed: measured and published latencies do not
/// compare.
fn measured<'c>(
    topology: &Topology,
    costs: &'c Costs,
    homes: &[usize],
    targets: &[usize],
    notes: &mut Vec<String>,
) -> Option<&'c MeasuredMemory> {
    let memory = costs.memory.as_ref()?;
    let os = |at: usize| topology.numa_nodes[at].os;
    let has = |from: usize, to: usize| memory.between(os(from), os(to)).is_some();
    let all = homes.iter().all(|&from| targets.iter().all(|&to| has(from, to)));
    if !all {
        notes.push(
            "Not all latencies between the NUMA nodes were measured, so that none of them are used."
                .into(),
        );
    }
    Some(memory).filter(|_| all)
}

fn data_node(topology: &Topology, measured: Option<&MeasuredMemory>, at: usize) -> DataNode {
    let node = &topology.numa_nodes[at];
    if let Some(own) = measured.and_then(|memory| memory.between(node.os, node.os)) {
        return DataNode { logical: node.logical, os: node.os, bandwidth: own.bandwidth };
    }
    // Only figures that are known for all nodes compare.
    let known = topology.numa_nodes.iter().all(|node| node.bandwidth_mib.is_some());
    let given = node.bandwidth_mib.filter(|mib| known && *mib > 0);
    let bandwidth = given.map_or(BYTES_PER_NS, |mib| (mib << 20) as f64 / 1e9);
    DataNode { logical: node.logical, os: node.os, bandwidth }
}

fn latency_ns(
    topology: &Topology,
    measured: Option<&MeasuredMemory>,
    from: usize,
    to: usize,
) -> f64 {
    let os = |at: usize| topology.numa_nodes[at].os;
    if let Some(access) = measured.and_then(|memory| memory.between(os(from), os(to))) {
        return access.latency_ns;
    }
    let at = from * topology.numa_nodes.len() + to;
    let given = topology.numa_latencies.get(at).copied().filter(|ns| *ns > 0);
    if let Some(ns) = given {
        return ns as f64;
    }
    let local = topology.numa_nodes[to].latency_ns.map_or(LOCAL_NS, |ns| ns as f64);
    let distance = topology.numa_distances.get(at).map(|&distance| distance as f64);
    let distance = distance.unwrap_or_else(|| customary_distance(topology, from, to));
    let beyond = (distance.clamp(10.0, MAX_DISTANCE) - 10.0) / 10.0;
    local * (1.0 + (FACTOR_AT_20 - 1.0) * beyond)
}

fn customary_distance(topology: &Topology, from: usize, to: usize) -> f64 {
    if from == to {
        return 10.0;
    }
    let (a, b) = (package_of(topology, from), package_of(topology, to));
    if a.is_some() && a == b { SAME_PACKAGE } else { OTHER_PACKAGE }
}

/// The package that a node's processors are in; `None` where they are in several.
fn package_of(topology: &Topology, node: usize) -> Option<u32> {
    let at = topology.objects.iter().find(|object| object.numa.contains(&node))?;
    let package = |pu| topology.ancestor(pu, ObjectKind::Package).map(|id| id.0);
    let first = package(at.first_pu)?;
    let last = package(at.first_pu + at.pus.max(1) - 1)?;
    (first == last).then_some(first)
}

/// What a nanosecond costs: costs without a unit are brought to nanoseconds by the farthest level.
fn per_ns(topology: &Topology, costs: &Costs) -> f64 {
    if costs.unit == "ns" {
        return 1.0;
    }
    let usual = Costs::new(&CostModel::Latency, topology).map(|usual| usual.per_level);
    let farthest = usual.unwrap_or_default().first().copied().filter(|ns| *ns > 0.0);
    let given = costs.per_level.first().copied().filter(|cost| *cost > 0.0);
    given.zip(farthest).map_or(1.0, |(cost, ns)| cost / ns)
}

/// The outermost data caches that several cores share.
fn caches(topology: &Topology, hierarchy: &Hierarchy) -> (Vec<u64>, Vec<Option<usize>>) {
    let mut bytes: Vec<u64> = Vec::new();
    let mut known: Vec<u32> = Vec::new();
    let of = |pu: u32| {
        let mut at = topology.pus[pu as usize].object;
        let mut found = None;
        loop {
            let object = topology.object(at);
            let core = topology.ancestor(pu, ObjectKind::Core);
            let shared = core.is_none_or(|core| topology.object(core).pus < object.pus);
            if matches!(object.kind, ObjectKind::Cache(_)) && shared && object.cache_bytes > 0 {
                found = Some((at.0, object.cache_bytes));
            }
            match object.parent {
                Some(parent) => at = parent,
                None => return found,
            }
        }
    };
    let cache = hierarchy.pus.iter().map(|&pu| {
        let (id, size) = of(pu)?;
        Some(known.iter().position(|other| *other == id).unwrap_or_else(|| {
            known.push(id);
            bytes.push(size);
            known.len() - 1
        }))
    });
    let cache = cache.collect();
    (bytes, cache)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::between_nodes::MeasuredAccess;

    fn nodes(topology: &Topology, costs: &str) -> DataNodes {
        let costs = Costs::new(&costs.parse::<CostModel>().unwrap(), topology).unwrap();
        DataNodes::new(topology, &costs)
    }

    #[test]
    fn packages_are_farther_than_nodes_of_one() {
        let spec = "pack:2 group:2 numa:1(memory=1GiB) l3:1(size=1MiB) core:2 pu:1";
        let topology = Topology::from_synthetic(spec).unwrap();
        let found = nodes(&topology, "latency");
        assert_eq!(found.len(), 4);
        let row = &found.cost[0];
        assert!(row[0] < row[1] && row[1] < row[2] && row[2] == row[3], "{row:?}");
        assert_eq!((row[0], row[2]), (96.0, 144.0));
        assert_eq!(found.nearest, [0, 1, 2, 3]);
        assert_eq!(found.caches, [1 << 20; 4]);
        assert_eq!(found.cache[3], Some(1));
        assert!(found.notes.is_empty());
        // Ten times the cost of the farthest level is ten times the cost of a nanosecond.
        let decades = nodes(&topology, "1360,1,1");
        assert_eq!(decades.cost[0][0], 960.0);
    }

    #[test]
    fn a_node_without_memory_uses_its_neighbour_s() {
        let spec = "pack:2 group:2 numa:1(memory=1GiB) core:2 pu:1";
        let mut topology = Topology::from_synthetic(spec).unwrap();
        topology.numa_nodes[1].bytes = 0;
        let found = nodes(&topology, "latency");
        assert_eq!(found.nodes.iter().map(|n| n.logical).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(found.nearest, [0, 0, 1, 2]);
        assert!(found.notes[0].starts_with("NUMA node L#1 has no memory"), "{:?}", found.notes);
    }

    #[test]
    fn nodes_without_processors_take_no_data() {
        let topology = Topology::from_synthetic("pack:2 [numa] [numa] core:2 pu:1").unwrap();
        let found = nodes(&topology, "latency");
        assert_eq!(found.nodes.iter().map(|n| n.logical).collect::<Vec<_>>(), [0, 2]);
        assert!(found.notes[0].contains("no data is put there"), "{:?}", found.notes);
        let mut topology = Topology::from_synthetic("core:2 pu:1").unwrap();
        topology.numa_nodes.clear();
        topology.objects.iter_mut().for_each(|object| object.numa.clear());
        let found = nodes(&topology, "latency");
        assert_eq!((found.len(), found.home), (1, vec![0, 0]));
        assert!(found.notes[0].contains("counts as one node"), "{:?}", found.notes);
    }

    #[test]
    fn the_firmware_s_latencies_come_first() {
        let mut topology = Topology::from_synthetic("pack:2 numa:1 core:2 pu:1").unwrap();
        topology.numa_latencies = vec![80, 130, 130, 0];
        topology.numa_distances = vec![10, 21, 21, 10];
        let found = nodes(&topology, "latency");
        assert_eq!(found.cost, [[80.0, 130.0], [130.0, 96.0]]);
        topology.numa_latencies.clear();
        topology.numa_distances = vec![10, 30, 30, 10];
        assert_eq!(nodes(&topology, "latency").cost[0], [96.0, 192.0]);
    }

    #[test]
    fn what_was_measured_comes_before_the_firmware_if_it_is_all() {
        let mut topology = Topology::from_synthetic("pack:2 numa:1 core:2 pu:1").unwrap();
        topology.numa_latencies = vec![80, 130, 130, 80];
        let mut costs = Costs::new(&CostModel::Latency, &topology).unwrap();
        let access = |from_os, to_os, latency_ns, bandwidth| MeasuredAccess {
            from_os,
            to_os,
            latency_ns,
            quartiles_ns: [latency_ns; 2],
            bandwidth,
        };
        let accesses = vec![
            access(0, 0, 90.0, 20.0),
            access(0, 1, 200.0, 8.0),
            access(1, 0, 210.0, 9.0),
            access(1, 1, 95.0, 25.0),
        ];
        costs.memory = Some(MeasuredMemory { bytes: 1, accesses, unmeasured: Vec::new() });
        let found = DataNodes::new(&topology, &costs);
        assert_eq!(found.cost, [[90.0, 200.0], [210.0, 95.0]]);
        assert_eq!((found.nodes[0].bandwidth, found.nodes[1].bandwidth), (20.0, 25.0));
        assert!(found.notes.is_empty(), "{:?}", found.notes);
        costs.memory.as_mut().unwrap().accesses.pop();
        let found = DataNodes::new(&topology, &costs);
        assert_eq!(found.cost, [[80.0, 130.0], [130.0, 80.0]]);
        assert!(found.notes[0].starts_with("Not all latencies"), "{:?}", found.notes);
    }
}
