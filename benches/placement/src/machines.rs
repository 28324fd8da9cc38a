//! The machines that are placed on: those of `tests/machines/`, and small ones, with the default
//! costs.

use anyhow::{Context, Result};
use std::path::Path;
use topology::{CostModel, Costs, Topology};

/// Two sockets of 14 cores, four of 8, two of 64 in 16 L3s, two of 80 without SMT, two of 56 in
/// four NUMA nodes each.
pub const NAMES: [&str; 5] =
    ["broadwell-2s", "nehalem-ex-4s", "epyc-7763-nps4", "altra-2s", "sapphire-rapids-snc4"];

/// Machines of at most 16 slots for [`SMALL_THREADS`], which are solved exactly.
const SMALL: [&str; 3] = ["pack:2 core:8 pu:1", "pack:2 l3:2 core:4 pu:1", "pack:1 core:8 pu:2"];
/// How many threads are placed on these.
pub const SMALL_THREADS: usize = 16;

/// A machine and what communication costs on it.
pub struct Machine {
    pub name: &'static str,
    pub topology: Topology,
    pub costs: Costs,
}

/// The small machines.
pub fn small() -> Result<Vec<Machine>> {
    let machine = |name| {
        let topology = Topology::from_spec(name)?;
        let costs = Costs::new(&CostModel::Latency, &topology)?;
        Ok(Machine { name, topology, costs })
    };
    SMALL.into_iter().map(machine).collect()
}

/// The five machines.
pub fn all() -> Result<Vec<Machine>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines");
    NAMES
        .into_iter()
        .map(|name| {
            let path = folder.join(format!("{name}.synthetic"));
            let topology = Topology::from_spec(&path.to_string_lossy())
                .with_context(|| format!("cannot read {}", path.display()))?;
            let costs = Costs::new(&CostModel::Latency, &topology)?;
            Ok(Machine { name, topology, costs })
        })
        .collect()
}
