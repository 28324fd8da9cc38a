//! Published latencies of fetching a line that another core has just written: data, not code.
//!
//! The figures are for one generation of machines; what placement needs is their order and rough
//! ratio. `costs.rs` picks a row for every branching level.

use crate::model::ObjectKind;

/// What it costs to fetch a line from a CPU with which `shared` is the closest common object.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// The closest common object.
    pub shared: ObjectKind,
    /// The latency, ns.
    pub latency_ns: f64,
    /// NUMA distance (10 = local) at which the figure was taken; other distances scale it.
    pub at_distance: Option<f64>,
    /// Where the value is from.
    pub source: &'static str,
}

const DAVID: &str = "David, Guerraoui, Trigonakis: Everything you always wanted to know about \
                     synchronization but were afraid to ask, SOSP 2013, tables 2 and 3";

/// From the closest to the farthest.
pub const LATENCIES: [Latency; 9] = [
    // Xeon E7-8867L, 2.13 GHz: load hitting L1, 5 cycles.
    row(ObjectKind::Core, 2.3, None, DAVID),
    row(ObjectKind::Cache(1), 2.3, None, DAVID),
    row(ObjectKind::Cache(2), 20.0, None, "estimate between the rows beside it"),
    // Xeon: load of a modified line, same die, 109 cycles.
    row(ObjectKind::Cache(3), 51.0, None, DAVID),
    row(ObjectKind::Cache(4), 60.0, None, "estimate between the rows beside it"),
    // Opteron 6172, 2.1 GHz: load of a modified line, same package, other die, 161 cycles.
    row(ObjectKind::Group, 77.0, None, DAVID),
    row(ObjectKind::Die, 77.0, None, DAVID),
    // Opteron: one hop, 172 cycles; Linux's firmware tables give neighbours in a package about 12.
    row(ObjectKind::Package, 82.0, Some(12.0), DAVID),
    // Xeon: one hop, 289 cycles; ACPI's customary distance of another socket is 20.
    row(ObjectKind::Machine, 136.0, Some(20.0), DAVID),
];

const fn row(
    shared: ObjectKind,
    latency_ns: f64,
    at_distance: Option<f64>,
    source: &'static str,
) -> Latency {
    Latency { shared, latency_ns, at_distance, source }
}
