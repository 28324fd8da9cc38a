//! The machine and the placements compared on it, ready to be drawn.
//!
//! A [`Layout`] is one placement: where each thread is, what it is predicted to cost, and how much
//! of the talk meets at which level. Neighbours: `placement` computes them and the shares, the page
//! draws [`MachineNode`] as nested boxes (COMPROF, figure 5).

use crate::policies::Policies;
use crate::ran::Ran;
use placement::{LevelShare, Tasks, level_name, level_shares, shares_by_chance};
use serde::Serialize;
use topology::{CacheSizes, Costs, Hierarchy, Object, ObjectId, ObjectKind, Topology};
use ts_rs::TS;
use types::{CommMatrix, ThreadId};

/// A machine with placements on it.
#[derive(Clone, Debug, Serialize, TS)]
pub struct Placement {
    /// One line about the machine.
    pub machine: String,
    /// Whether this is another machine than the one the profile was recorded on.
    pub elsewhere: bool,
    /// The machine, from its root.
    pub tree: MachineNode,
    /// Logical numbers of the PUs that may be used, ascending.
    pub pus: Vec<u32>,
    /// The levels at which the machine branches, from the whole machine down.
    pub levels: Vec<MachineLevel>,
    /// For each of them what one event costs there, in [`Placement::cost_unit`].
    pub level_costs: Vec<f64>,
    /// The first is what launchers do ("before"), the last the recommendation ("after").
    pub layouts: Vec<Layout>,
    /// What to expect when the threads are not placed.
    pub chance: Chance,
    /// What was seen while the program was recorded; `None` where that is not known, or elsewhere.
    pub ran: Option<Ran>,
    /// Policies compared.
    pub policies: Policies,
    /// Unit of one event's cost, `ns`, or empty.
    pub cost_unit: String,
    /// Whether the costs were measured on the machine.
    #[serde(skip)]
    #[ts(skip)]
    pub costs_measured: bool,
    /// What the caches hold, where that is known.
    #[serde(skip)]
    #[ts(skip)]
    pub caches: Option<CacheSizes>,
}

/// Expectation over the ways to put the threads on the machine that leave no core idle while
/// another has two.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Chance {
    /// In the unit of [`Layout::cost`].
    pub cost: f64,
    /// Nearest level first.
    pub shares: Vec<LevelShare>,
}

/// A level at which the machine branches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, TS)]
pub struct MachineLevel {
    /// What it separates, `between packages`.
    pub name: String,
    /// For each of [`Placement::pus`] the number of its part.
    pub part: Vec<u32>,
}

impl Placement {
    /// The placement that the recommendation is drawn beside.
    pub fn before(&self) -> &Layout {
        &self.layouts[0]
    }

    /// The recommendation.
    pub fn after(&self) -> &Layout {
        &self.layouts[self.layouts.len() - 1]
    }
}

/// The machine that layouts are on.
pub(crate) struct Machine<'a> {
    pub topology: &'a Topology,
    pub hierarchy: Hierarchy,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(topology: &'a Topology) -> Self {
        Self { topology, hierarchy: Hierarchy::new(topology) }
    }

    /// The levels, from the whole machine down.
    pub(crate) fn levels(&self) -> Vec<MachineLevel> {
        let levels = self.hierarchy.levels.iter();
        levels.map(|l| MachineLevel { name: level_name(l), part: l.part.clone() }).collect()
    }

    /// Predicted cost of a layout: Σ events × cost of the level between the threads.
    pub(crate) fn cost(&self, layout: &Layout, costs: &Costs, talk: &CommMatrix) -> f64 {
        let index = |thread: ThreadId| self.index(layout.pu_logical[thread.index()]);
        let price = |from, to| -> Option<f64> {
            let level = self.hierarchy.common(index(from)?, index(to)?);
            // Threads on one PU share its cache.
            Some(costs.per_level.get(level).copied().unwrap_or(0.0))
        };
        talk.iter().map(|(from, to, n)| n as f64 * price(from, to).unwrap_or(0.0)).sum()
    }

    /// What to expect of threads that are not placed.
    pub(crate) fn chance(&self, costs: &Costs, tasks: &Tasks) -> Chance {
        let shares = shares_by_chance(&self.hierarchy, tasks);
        // Shares go from the nearest level out, costs from the machine down; on one PU costs
        // nothing.
        let priced = shares.iter().rev().zip(&costs.per_level);
        let cost = priced.map(|(share, cost)| share.share * tasks.total() * cost).sum();
        Chance { cost, shares }
    }

    /// Cores that hold more than one thread.
    pub(crate) fn shared_cores(&self, layout: &Layout) -> usize {
        let mut count = vec![0_usize; self.hierarchy.cores()];
        let used = layout.pu_logical.iter().filter_map(|&pu| self.index(pu));
        used.for_each(|pu| count[self.hierarchy.core[pu] as usize] += 1);
        count.into_iter().filter(|&threads| threads > 1).count()
    }

    /// Index into [`Hierarchy::pus`] of a PU given by logical number, if it may be used.
    fn index(&self, pu: Option<u32>) -> Option<usize> {
        self.hierarchy.pus.binary_search(&pu?).ok()
    }
}

/// One placement of the threads.
#[derive(Clone, Debug, Serialize, TS)]
pub struct Layout {
    /// Name of the policy, or of the plan's policy.
    pub policy: String,
    /// Predicted: Σ over thread pairs of events × level cost.
    pub cost: f64,
    /// Cores that hold more than one thread.
    pub shared_cores: usize,
    /// Per thread: logical number of its PU; `None` when a plan does not place it.
    pub pu_logical: Vec<Option<u32>>,
    /// Per thread: the PU's operating-system number.
    pub pu_os: Vec<Option<u32>>,
    /// Per thread: the place in words.
    pub place: Vec<String>,
    /// Talk by the level at which its threads meet, nearest first.
    pub shares: Vec<LevelShare>,
}

impl Layout {
    /// A layout of threads on PUs given by logical number; a PU that the machine does not have or
    /// does not allow counts as no place.
    pub(crate) fn new(
        policy: &str,
        cost: f64,
        pus: &[Option<u32>],
        machine: &Machine<'_>,
        talk: &CommMatrix,
    ) -> Self {
        let hierarchy = &machine.hierarchy;
        let events = talk.iter().map(|(from, to, n)| (from.index(), to.index(), n));
        let index: Vec<Option<usize>> = pus.iter().map(|&pu| machine.index(pu)).collect();
        let pu_logical: Vec<_> = index.iter().map(|i| Some(hierarchy.pus[(*i)?])).collect();
        Self {
            policy: policy.into(),
            cost,
            shared_cores: 0,
            pu_os: index.iter().map(|i| Some(hierarchy.os[(*i)?])).collect(),
            place: pu_logical
                .iter()
                .map(|pu| pu.map_or_else(String::new, |pu| machine.topology.place_of(pu)))
                .collect(),
            shares: level_shares(hierarchy, events, &index),
            pu_logical,
        }
    }
}

/// An object of the machine, drawn as a box with its children in it.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct MachineNode {
    /// `machine`, `package`, `L3`, `core`, `PU`, …
    pub kind: String,
    /// What stands in the box, `package 0 · NUMA node 0`.
    pub label: String,
    /// For a PU: its logical number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub pu: Option<u32>,
    /// Whether threads may run there.
    pub allowed: bool,
    /// Objects in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[ts(optional, as = "Option<Vec<MachineNode>>")]
    pub children: Vec<MachineNode>,
}

/// The tree of boxes of a machine.
pub(crate) fn machine_tree(topology: &Topology) -> MachineNode {
    node(topology, ObjectId(0))
}

fn node(topology: &Topology, id: ObjectId) -> MachineNode {
    let object = topology.object(id);
    let children: Vec<_> = object.children.iter().map(|&child| node(topology, child)).collect();
    let pu = topology.pus.iter().find(|pu| pu.object == id);
    MachineNode {
        kind: object.kind.to_string(),
        label: label(topology, object),
        pu: pu.map(|pu| pu.logical),
        allowed: pu.map_or_else(|| children.iter().any(|child| child.allowed), |pu| pu.allowed),
        children,
    }
}

fn label(topology: &Topology, object: &Object) -> String {
    let own = match object.kind {
        ObjectKind::Machine | ObjectKind::Group => String::new(),
        ObjectKind::Cache(_) if object.cache_bytes > 0 => {
            format!("{} {}", object.kind, bytes(object.cache_bytes))
        }
        ObjectKind::Cache(_) => object.kind.to_string(),
        ObjectKind::Pu => format!("P#{}", object.os.unwrap_or(object.logical)),
        kind => format!("{kind} {}", object.logical),
    };
    let several = topology.numa_nodes.len() > 1;
    let nodes = object.numa.iter().filter(|_| several);
    let nodes = nodes.map(|&n| format!("NUMA node {}", topology.numa_nodes[n].logical));
    let parts: Vec<_> = [own].into_iter().filter(|own| !own.is_empty()).chain(nodes).collect();
    parts.join(" · ")
}

fn bytes(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b >= 1 << 20 => format!("{:.1} MiB", b as f64 / f64::from(1 << 20)),
        b if b >= 1 << 10 => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_labels_people_read() {
        let text = "pack:2 numa:1 l3:1(size=32MiB) core:1 l2:1(size=256KiB) pu:1";
        let tree = machine_tree(&Topology::from_synthetic(text).unwrap());
        let mut labels = Vec::new();
        let mut at = Some(&tree);
        while let Some(node) = at {
            labels.push((node.kind.as_str(), node.label.as_str(), node.pu));
            at = node.children.last();
        }
        assert_eq!(
            labels,
            [
                ("machine", "", None),
                ("package", "package 1 · NUMA node 1", None),
                ("L3", "L3 32 MiB", None),
                ("L2", "L2 256 KiB", None),
                ("core", "core 1", None),
                ("PU", "P#1", Some(1)),
            ]
        );
        assert!(tree.allowed);
    }

    #[test]
    fn a_layout_names_places_and_shares() {
        let machine = Topology::from_synthetic("pack:2 core:1 pu:2").unwrap();
        let mut talk = CommMatrix::new(3);
        talk.add(ThreadId(0), ThreadId(1), 6);
        talk.add(ThreadId(1), ThreadId(2), 4);
        let machine = Machine::new(&machine);
        let layout = Layout::new("x", 1.0, &[Some(0), Some(3), Some(9)], &machine, &talk);
        assert_eq!(layout.pu_os, [Some(0), Some(3), None]);
        let far = layout.shares.last().unwrap();
        assert_eq!((far.level.as_str(), far.share), ("between packages", 1.0));
        assert_eq!(layout.place[2], "");
    }
}
