//! The machine as the decider sees it: what communication costs between two processors, and which
//! memory is near them. Processors and nodes are the kernel's numbers (P#).

use rustc_hash::FxHashMap;
use topology::{CostError, CostModel, Costs, DataNodes, Hierarchy, Topology};

/// Why a machine cannot be placed on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum MachineError {
    #[error("none of the processors {0:?} is one of this machine")]
    NoProcessor(Vec<u32>),
    #[error(transparent)]
    Costs(#[from] CostError),
}

/// A machine, and its processors that may be used.
#[derive(Clone, Debug)]
pub struct Machine {
    topology: Topology,
    costs: Costs,
    hierarchy: Hierarchy,
    data: DataNodes,
    /// Place of each processor in the hierarchy.
    places: FxHashMap<u32, usize>,
}

impl Machine {
    /// With the processors that `topology` allows.
    ///
    /// # Errors
    /// When costs cannot be made for it.
    pub fn new(topology: Topology) -> Result<Self, MachineError> {
        let costs = Costs::new(&CostModel::Latency, &topology)?;
        let hierarchy = Hierarchy::new(&topology);
        let data = DataNodes::new(&topology, &costs);
        let places = hierarchy.os.iter().zip(0..).map(|(&os, at)| (os, at)).collect();
        Ok(Self { topology, costs, hierarchy, data, places })
    }

    /// The same machine, with only these processors.
    ///
    /// # Errors
    /// When none of them is there.
    pub fn with_allowed(&self, cpus: &[u32]) -> Result<Self, MachineError> {
        let mut topology = self.topology.clone();
        topology.pus.iter_mut().for_each(|pu| pu.allowed = cpus.contains(&pu.os));
        match topology.allowed_pus() {
            0 => Err(MachineError::NoProcessor(cpus.to_vec())),
            _ => Self::new(topology),
        }
    }

    /// The machine.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What communication costs.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Processors that may be used, kernel's numbers.
    pub fn allowed(&self) -> &[u32] {
        &self.hierarchy.os
    }

    /// Number of processors that may be used.
    pub fn processors(&self) -> usize {
        self.hierarchy.os.len()
    }

    /// What an event between tasks on two processors costs, ns. Processors that are not allowed are
    /// taken to be as far away as can be.
    pub fn cost(&self, a: u32, b: u32) -> f64 {
        let most = self.costs.per_level.first().copied().unwrap_or(0.0);
        match (self.places.get(&a), self.places.get(&b)) {
            _ if a == b => 0.0,
            (Some(&a), Some(&b)) => {
                let level = self.hierarchy.common(a, b);
                self.costs.per_level.get(level).copied().unwrap_or(0.0)
            }
            _ => most,
        }
    }

    /// The logical number of a processor, for `placement`.
    pub fn logical(&self, cpu: u32) -> Option<u32> {
        self.places.get(&cpu).map(|&at| self.hierarchy.pus[at])
    }

    /// The kernel's number of a processor by its logical one.
    pub fn os(&self, logical: u32) -> u32 {
        self.topology.pus[logical as usize].os
    }

    /// Number of nodes with memory that may be used; at least 1.
    pub fn nodes(&self) -> usize {
        self.data.len()
    }

    /// The node nearest to a processor, as an index.
    pub fn node_of(&self, cpu: u32) -> Option<usize> {
        let at = *self.places.get(&cpu)?;
        Some(self.data.nearest[self.data.home[at]])
    }

    /// The kernel's number of a node.
    pub fn node_os(&self, node: usize) -> u32 {
        self.data.nodes[node].os
    }

    /// The node with this number of the kernel's.
    pub fn node_by_os(&self, os: u32) -> Option<usize> {
        self.data.nodes.iter().position(|node| node.os == os)
    }

    /// Part of the time of a remote access that a local one saves, on average.
    pub fn remote_part(&self) -> f64 {
        let (mut local, mut remote) = ((0.0, 0.0), (0.0, 0.0));
        for (home, row) in self.data.cost.iter().enumerate() {
            for (node, cost) in row.iter().enumerate() {
                let sum = if self.data.nearest[home] == node { &mut local } else { &mut remote };
                *sum = (sum.0 + cost, sum.1 + 1.0);
            }
        }
        match remote.1 > 0.0 && remote.0 > 0.0 && local.1 > 0.0 {
            true => (1.0 - (local.0 / local.1) / (remote.0 / remote.1)).max(0.0),
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_processors_are_cheap_and_nodes_are_known() {
        let topology = Topology::from_synthetic("numa:4 core:2 pu:2").unwrap();
        let machine = Machine::new(topology).unwrap();
        assert_eq!((machine.processors(), machine.nodes()), (16, 4));
        let costs =
            [machine.cost(0, 0), machine.cost(0, 1), machine.cost(0, 2), machine.cost(0, 15)];
        assert!(costs.is_sorted() && costs[0] == 0.0 && costs[1] < costs[3], "{costs:?}");
        assert_eq!([0, 5, 15].map(|cpu| machine.node_of(cpu)), [Some(0), Some(1), Some(3)]);
        assert!(machine.remote_part() > 0.0);
        let half = machine.with_allowed(&[0, 1, 2, 3]).unwrap();
        assert_eq!((half.processors(), half.nodes(), half.node_of(5)), (4, 1, None));
        assert!(machine.with_allowed(&[99]).is_err());
    }
}
