//! The levels at which the allowed part of a machine branches, from the root down.
//!
//! A level of the tree counts only when it splits CPUs that the level above keeps together: on a
//! machine with one NUMA node and one L3 per package, package, node and L3 are one step. Branches
//! that skip a level (a core without L3) are parts of their own there. `placement` works on this,
//! `costs.rs` gives every step its price.

use crate::model::{NumaNode, Object, ObjectKind, Topology};

/// One step down the tree: CPUs together above it, apart below it.
#[derive(Clone, PartialEq, Debug)]
pub struct Level {
    /// What lies side by side here, for people: `packages`, `NUMA nodes`, `cores`, `PUs`.
    pub between: &'static str,
    /// The closest kind of object that CPUs split here still have in common.
    pub shared: ObjectKind,
    /// For each allowed PU, in the order of [`Hierarchy::pus`], the number of its part, ascending
    /// from 0.
    pub part: Vec<u32>,
}

/// The allowed PUs and how they lie together.
#[derive(Clone, PartialEq, Debug)]
pub struct Hierarchy {
    /// Logical numbers of the allowed PUs, ascending.
    pub pus: Vec<u32>,
    /// For each of them, its OS number.
    pub os: Vec<u32>,
    /// For each of them, the number of its core, ascending from 0.
    pub core: Vec<u32>,
    /// For each of them, where in [`Hierarchy::nodes`] the memory is that its threads get by
    /// default.
    pub node: Vec<usize>,
    /// The memory nodes of the allowed PUs. Of several nodes that are local to the same PUs (fast
    /// and large memory), the first; empty when the machine names none.
    pub nodes: Vec<NumaNode>,
    /// From the root down; empty when only one PU is allowed.
    pub levels: Vec<Level>,
}

impl Hierarchy {
    /// The branching levels of what is allowed in `topology`.
    pub fn new(topology: &Topology) -> Self {
        let allowed: Vec<_> = topology.pus.iter().filter(|pu| pu.allowed).collect();
        let pus: Vec<u32> = allowed.iter().map(|pu| pu.logical).collect();
        let os = allowed.iter().map(|pu| pu.os).collect();
        let core_id = |&pu: &u32| {
            let core = topology.ancestor(pu, ObjectKind::Core);
            core.unwrap_or(topology.pus[pu as usize].object).0
        };
        let core = renumber(pus.iter().map(core_id));
        let levels = branching_levels(topology, &pus);
        let (node, nodes) = memory(topology, &pus);
        Self { pus, os, core, node, nodes, levels }
    }

    /// Number of cores with an allowed PU.
    pub fn cores(&self) -> usize {
        self.core.last().map_or(0, |&last| last as usize + 1)
    }

    /// `between packages, between cores, between PUs`.
    pub fn names(&self) -> String {
        let names: Vec<String> =
            self.levels.iter().map(|level| format!("between {}", level.between)).collect();
        names.join(", ")
    }

    /// How many levels two allowed PUs (indexes into [`Hierarchy::pus`]) have in common; the index
    /// of the level that splits them, or the number of levels for a PU and itself.
    pub fn common(&self, a: usize, b: usize) -> usize {
        let split = self.levels.iter().position(|level| level.part[a] != level.part[b]);
        split.unwrap_or(self.levels.len())
    }
}

/// Numbers the distinct ids from 0 in the order in which they come.
fn renumber(ids: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seen: Vec<u32> = Vec::new();
    ids.map(|id| {
        // Parts are contiguous, so that looking at the last one is enough.
        if seen.last() != Some(&id) {
            seen.push(id);
        }
        seen.len() as u32 - 1
    })
    .collect()
}

/// For each PU its memory node, and the nodes. PUs without one count to the first.
fn memory(topology: &Topology, pus: &[u32]) -> (Vec<usize>, Vec<NumaNode>) {
    let mut used: Vec<usize> = Vec::new();
    let mut node = Vec::new();
    for &pu in pus {
        let mut at = Some(topology.pus[pu as usize].object);
        while at.is_some_and(|id| topology.object(id).numa.is_empty()) {
            at = at.and_then(|id| topology.object(id).parent);
        }
        let own = at.and_then(|id| topology.object(id).numa.iter().copied().min());
        let known = own.map(|own| {
            used.iter().position(|&other| other == own).unwrap_or_else(|| {
                used.push(own);
                used.len() - 1
            })
        });
        node.push(known.unwrap_or(0));
    }
    (node, used.iter().map(|&index| topology.numa_nodes[index].clone()).collect())
}

fn branching_levels(topology: &Topology, pus: &[u32]) -> Vec<Level> {
    let depth = topology.objects.iter().map(|o| o.depth).max().unwrap_or(0);
    let mut levels: Vec<Level> = Vec::new();
    let mut above: Vec<u32> = vec![0; pus.len()];
    let mut shared = ObjectKind::Machine;
    for depth in 0..=depth {
        let owners: Vec<u32> = pus.iter().map(|&pu| owner(topology, pu, depth)).collect();
        let part = renumber(owners.iter().copied());
        let kinds = || owners.iter().map(|&id| &topology.objects[id as usize]);
        if part != above {
            let between = name(kinds());
            levels.push(Level { between, shared, part: part.clone() });
            above = part;
        } else if let Some(level) = levels.last_mut() {
            level.between = better_name(level.between, name(kinds()));
        }
        // Where branches skip the level, the outermost kind is what all of them share.
        shared = kinds().min_by_key(|o| o.depth).map_or(ObjectKind::Machine, |o| o.kind);
    }
    levels
}

/// The ancestor of a PU at `depth`; where the branch skips it, the next one below.
fn owner(topology: &Topology, pu: u32, depth: u32) -> u32 {
    let mut at = topology.pus[pu as usize].object;
    while let Some(parent) = topology.object(at).parent {
        if topology.object(parent).depth < depth {
            break;
        }
        at = parent;
    }
    at.0
}

/// Names from the most to the least telling.
const NAMES: [&str; 11] =
    ["packages", "NUMA nodes", "dies", "L5s", "L4s", "L3s", "cores", "PUs", "L2s", "groups", "L1s"];

fn name<'a>(mut objects: impl Iterator<Item = &'a Object>) -> &'static str {
    let Some(first) = objects.next() else { return "PUs" };
    match first.kind {
        ObjectKind::Machine => "machines",
        ObjectKind::Package => "packages",
        ObjectKind::Die => "dies",
        _ if !first.numa.is_empty() => "NUMA nodes",
        ObjectKind::Group => "groups",
        ObjectKind::Cache(level) => ["L1s", "L1s", "L2s", "L3s", "L4s", "L5s"][level as usize],
        ObjectKind::Core => "cores",
        ObjectKind::Pu => "PUs",
    }
}

fn better_name(a: &'static str, b: &'static str) -> &'static str {
    let rank = |name| NAMES.iter().position(|n| *n == name).unwrap_or(NAMES.len());
    if rank(b) < rank(a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(spec: &str) -> (Vec<usize>, Vec<u32>) {
        let hierarchy = Hierarchy::new(&Topology::from_synthetic(spec).unwrap());
        (hierarchy.node, hierarchy.nodes.iter().map(|node| node.logical).collect())
    }

    #[test]
    fn every_pu_has_the_memory_around_it() {
        assert_eq!(nodes("pack:2 numa:2 pu:2"), (vec![0, 0, 1, 1, 2, 2, 3, 3], vec![0, 1, 2, 3]));
        assert_eq!(nodes("core:2 pu:2"), (vec![0; 4], vec![0]));
        // Two kinds of memory beside the same PUs: the first is what threads get.
        assert_eq!(nodes("pack:2 [numa] [numa] pu:2"), (vec![0, 0, 1, 1], vec![0, 2]));
    }

    #[test]
    fn only_memory_of_allowed_pus_counts() {
        let mut topology = Topology::from_synthetic("numa:3 pu:2").unwrap();
        topology.pus.iter_mut().take(3).for_each(|pu| pu.allowed = false);
        let hierarchy = Hierarchy::new(&topology);
        assert_eq!(hierarchy.node, [0, 1, 1]);
        assert_eq!(hierarchy.nodes.iter().map(|n| n.logical).collect::<Vec<_>>(), [1, 2]);
    }
}
