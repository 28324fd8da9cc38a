//! What the firmware says about memory (ACPI's HMAT), as hwloc's memory attributes: latency and
//! bandwidth of each NUMA node as seen from the processors of each.
//!
//! Many machines say nothing, or only how near processors fare (Linux passes on no more).
//! Neighbours: `hwloc.rs` calls this, `costs.rs` prefers the latencies to the firmware's rough
//! distances.

use crate::model::Topology;
use hwlocality::memory::attribute::{Initiator, MemoryAttribute};
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Fills in what is known; anything unforeseen in the bindings means that nothing is.
pub fn add(topology: &mut Topology, loaded: &hwlocality::Topology) {
    let read = |attribute: &MemoryAttribute<'_>| {
        catch_unwind(AssertUnwindSafe(|| values(attribute, loaded, topology.numa_nodes.len())))
    };
    let latencies = read(&MemoryAttribute::latency(loaded)).unwrap_or_default();
    let bandwidths = read(&MemoryAttribute::bandwidth(loaded)).unwrap_or_default();
    let nodes = topology.numa_nodes.len();
    for (index, node) in topology.numa_nodes.iter_mut().enumerate() {
        let own = |values: &[u64]| values.get(index * nodes + index).copied().filter(|v| *v > 0);
        node.latency_ns = own(&latencies);
        node.bandwidth_mib = own(&bandwidths);
    }
    topology.numa_latencies = latencies;
}

/// Values by (initiator, target) node, row-major by logical number; 0 where unknown. Empty when
/// nothing is known.
fn values(
    attribute: &MemoryAttribute<'_>,
    loaded: &hwlocality::Topology,
    nodes: usize,
) -> Vec<u64> {
    let objects: Vec<&TopologyObject> = loaded.objects_with_type(ObjectType::NUMANode).collect();
    let mut values = vec![0; nodes * nodes];
    for (row, from) in objects.iter().enumerate() {
        // Nodes without processors see nothing.
        let Some(cpus) = from.cpuset().filter(|cpus| !cpus.is_empty()) else { continue };
        for (column, to) in objects.iter().enumerate() {
            let value = attribute.value(Some(Initiator::CpuSet(cpus.into())), to);
            values[row * nodes + column] = value.ok().flatten().unwrap_or(0);
        }
    }
    if values.iter().all(|value| *value == 0) { Vec::new() } else { values }
}
