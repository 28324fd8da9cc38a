//! Measured latencies and bandwidths between NUMA nodes: a part of the file of measured latencies.
//!
//! Neighbours: the crate `latency` measures them, `measured.rs` has the rest of the file,
//! `data_nodes.rs` makes costs of them.

use crate::model::Topology;
use serde::{Deserialize, Serialize};

/// What was measured from the processors of a node to the memory of a node.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MeasuredAccess {
    /// The kernel's number of the node whose processors read.
    pub from_os: u32,
    /// The kernel's number of the node whose memory is read.
    pub to_os: u32,
    /// Time of a read that waits for the one before, ns: median over batches.
    pub latency_ns: f64,
    /// First and third quartile over the batches, ns.
    pub quartiles_ns: [f64; 2],
    /// Bytes per ns (GB/s) that one thread on each core of the node reads together: median over
    /// rounds.
    pub bandwidth: f64,
}

/// Two nodes between which nothing could be measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnmeasuredAccess {
    /// The kernel's number of the node with the processors.
    pub from_os: u32,
    /// The kernel's number of the node with the memory.
    pub to_os: u32,
    /// The reason.
    pub why: String,
}

/// Latencies and bandwidths between the nodes of a machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MeasuredMemory {
    /// Bytes that were read of each node.
    pub bytes: u64,
    /// What was measured, by processors, then by memory.
    pub accesses: Vec<MeasuredAccess>,
    /// What could not be measured.
    pub unmeasured: Vec<UnmeasuredAccess>,
}

impl MeasuredMemory {
    /// From the processors of one node to the memory of another, by the kernel's numbers.
    pub fn between(&self, from_os: u32, to_os: u32) -> Option<&MeasuredAccess> {
        self.accesses.iter().find(|access| (access.from_os, access.to_os) == (from_os, to_os))
    }

    /// The machine's NUMA factor (Diener's thesis, equation 2.1): the largest latency from a node
    /// to another over the latency on that node; `None` where no such pair was measured.
    pub fn numa_factor(&self) -> Option<f64> {
        let factor = |access: &MeasuredAccess| {
            let local = self.between(access.from_os, access.from_os)?.latency_ns;
            (access.from_os != access.to_os && local > 0.0).then(|| access.latency_ns / local)
        };
        self.accesses.iter().filter_map(factor).max_by(f64::total_cmp)
    }

    /// Whether all nodes are nodes of this machine.
    pub fn is_of(&self, topology: &Topology) -> bool {
        let known = |os: u32| topology.numa_nodes.iter().any(|node| node.os == os);
        self.accesses.iter().all(|access| known(access.from_os) && known(access.to_os))
    }

    /// What is wrong with it, as a phrase.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (at, access) in self.accesses.iter().enumerate() {
            let MeasuredAccess { from_os, to_os, latency_ns, bandwidth, .. } = *access;
            let between = format!("from node P#{from_os} to node P#{to_os}");
            if ![latency_ns, bandwidth].iter().all(|value| value.is_finite() && *value > 0.0) {
                return Err(format!("latency and bandwidth {between} are not a time and a rate"));
            }
            let before = &self.accesses[..at];
            if before.iter().any(|other| (other.from_os, other.to_os) == (from_os, to_os)) {
                return Err(format!("it has two latencies {between}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(from_os: u32, to_os: u32, latency_ns: f64) -> MeasuredAccess {
        MeasuredAccess {
            from_os,
            to_os,
            latency_ns,
            quartiles_ns: [latency_ns; 2],
            bandwidth: 10.0,
        }
    }

    #[test]
    fn the_factor_is_the_largest_remote_latency_over_the_local_one() {
        let accesses =
            vec![access(0, 0, 80.0), access(0, 2, 120.0), access(2, 0, 130.0), access(2, 2, 100.0)];
        let mut memory = MeasuredMemory { bytes: 1, accesses, unmeasured: Vec::new() };
        assert_eq!((memory.numa_factor(), memory.check()), (Some(1.5), Ok(())));
        memory.accesses.remove(0);
        assert_eq!(memory.numa_factor(), Some(1.3));
        memory.accesses.truncate(1);
        assert_eq!(memory.numa_factor(), None);
    }

    #[test]
    fn rows_that_cannot_be_are_refused() {
        let of = |accesses: Vec<MeasuredAccess>| {
            MeasuredMemory { accesses, ..MeasuredMemory::default() }.check().unwrap_err()
        };
        let twice = of(vec![access(0, 1, 80.0), access(0, 1, 90.0)]);
        assert_eq!(twice, "it has two latencies from node P#0 to node P#1");
        assert!(of(vec![access(0, 1, f64::NAN)]).contains("are not a time and a rate"));
    }
}
