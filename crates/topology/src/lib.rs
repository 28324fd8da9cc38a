//! Machine model: discovery by hwloc, sysfs, XML and synthetic strings; level costs.
//!
//! | file | holds |
//! | --- | --- |
//! | `model.rs` | [`Topology`]: plain data, a tree of objects with logical (L#) and OS (P#) numbers |
//! | `reading.rs` | makes one of this machine, a file or a text |
//! | `hwloc.rs` | fills the model from libhwloc: this machine, XML, synthetic strings |
//! | `memory.rs` | latency and bandwidth of memory, where the firmware gives them |
//! | `sysfs.rs`, `xml.rs` | fills it from `/sys` when hwloc finds nothing, and exports that as XML |
//! | `hierarchy.rs` | [`Hierarchy`]: the levels at which the allowed part of the tree branches |
//! | `costs.rs`, `latencies.rs` | [`Costs`]: what it costs to communicate across each of them |
//! | `measured.rs`, `clusters.rs`, `compared.rs` | [`Measured`] latencies: their file, levels in them, what the firmware says otherwise |
//! | `between_nodes.rs` | [`MeasuredMemory`]: latencies and bandwidths between nodes |
//! | `cache_sizes.rs` | [`CacheSizes`]: what the caches hold |
//! | `data_nodes.rs` | [`DataNodes`]: nodes for data, and what accesses to them cost |
//!
//! Neighbours: `placement` puts threads on a [`Hierarchy`], `binding` uses the OS numbers, the
//! recorder stores [`Topology::to_xml`] in a profile.

mod affinity;
mod between_nodes;
mod cache_sizes;
mod clusters;
mod compared;
mod costs;
mod data_nodes;
mod error;
mod hierarchy;
mod hwloc;
mod latencies;
mod measured;
mod memory;
mod model;
mod reading;
mod synthetic;
mod sysfs;
mod xml;

pub use affinity::inherited_mask;
pub use between_nodes::{MeasuredAccess, MeasuredMemory, UnmeasuredAccess};
pub use cache_sizes::CacheSizes;
pub use clusters::{LatencyLevel, latency_levels};
pub use compared::{Comparison, Disagreement, LevelLatency, compare};
pub use costs::{CostModel, Costs};
pub use data_nodes::{DataNode, DataNodes, MEMORY_FIGURES, MemoryFigure};
pub use error::{CostError, TopologyError};
pub use hierarchy::{Hierarchy, Level};
pub use latencies::{LATENCIES, Latency};
pub use measured::{
    LatencyMatrix, MEASURED_VERSION, Measured, MeasuredError, MeasuredPair, MeasuredPu, Unmeasured,
};
pub use model::{FULLY_ASSOCIATIVE, NumaNode, Object, ObjectId, ObjectKind, Pu, Source, Topology};
