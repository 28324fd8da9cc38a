//! What it costs to communicate across each branching level of a machine.
//!
//! Four models: published latencies (default), measured ones, COMPLACE's decades, and numbers given
//! by the user.
//! Placement minimises Σ events · cost, so every model is brought into that form.

use crate::between_nodes::MeasuredMemory;
use crate::compared::measured_costs;
use crate::error::CostError;
use crate::hierarchy::{Hierarchy, Level};
use crate::latencies::LATENCIES;
use crate::measured::Measured;
use crate::model::{ObjectKind, Topology};
use std::path::Path;
use std::str::FromStr;

/// Largest factor by which a NUMA distance may stretch or shrink a latency: firmware tables are
/// rough, and some are nonsense.
const MAX_STRETCH: f64 = 3.0;

/// How costs are chosen.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum CostModel {
    /// Latencies in ns ([`LATENCIES`]), scaled with the firmware's NUMA distances where known.
    #[default]
    Latency,
    /// COMPLACE's weights, each cache level a tenth of the one before.
    ///
    /// The paper (section IV.A) gives hardware edges the weight 10000 for a shared L1, 1000 for a
    /// shared L2 and so on, and maps the heaviest communication edge to the heaviest hardware edge:
    /// only the order of the weights matters there. As a cost to minimise we take 10000 / weight:
    /// L1 1, L2 10, L3 100, no common cache 1000, another package 10000.
    Complace,
    /// One cost per branching level, from the root of the tree down.
    Explicit(Vec<f64>),
    /// Latencies in ns as measured on this very machine.
    Measured(Measured),
}

/// What stands before the name of a file of measured latencies.
const MEASURED: &str = "measured:";
/// Name of measured costs.
const OF_MEASURED: &str = "measured";

impl CostModel {
    /// The models that have a name; besides them there are measured latencies and numbers.
    pub const NAMES: [&str; 2] = ["latency", "complace"];
}

impl FromStr for CostModel {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        match text.trim() {
            "latency" => Ok(CostModel::Latency),
            "complace" => Ok(CostModel::Complace),
            measured if measured.starts_with(MEASURED) => {
                let read = Measured::read(Path::new(&measured[MEASURED.len()..]));
                read.map(Self::Measured).map_err(|error| CostError::Measured(error.to_string()))
            }
            numbers => {
                numbers.split(',').map(parse_cost).collect::<Result<_, _>>().map(Self::Explicit)
            }
        }
    }
}

fn parse_cost(part: &str) -> Result<f64, CostError> {
    let cost = part.trim().parse::<f64>().ok().filter(|c| c.is_finite() && *c >= 0.0);
    cost.ok_or_else(|| CostError::Number { part: part.trim().into() })
}

/// Costs of one machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// One per branching level of the [`Hierarchy`], from the root down. Two threads on the same PU
    /// cost nothing: the line stays in that PU's own cache.
    pub per_level: Vec<f64>,
    /// `latency`, `measured`, `complace` or the numbers given.
    pub name: String,
    /// `ns`, or empty for costs without a unit.
    pub unit: &'static str,
    /// What was measured between the machine's memory nodes.
    pub memory: Option<MeasuredMemory>,
}

impl Costs {
    /// Whether they were measured on the machine.
    pub fn is_measured(&self) -> bool {
        self.name == OF_MEASURED
    }

    /// The costs of `model` for the allowed part of `topology`.
    ///
    /// # Errors
    /// When explicit costs are not exactly one per branching level, or measured ones are of another
    /// machine.
    pub fn new(model: &CostModel, topology: &Topology) -> Result<Self, CostError> {
        let hierarchy = Hierarchy::new(topology);
        let levels = &hierarchy.levels;
        match model {
            CostModel::Latency => {
                let per_level = never_cheaper_outside(latencies(&hierarchy, topology));
                Ok(Self { per_level, name: "latency".into(), unit: "ns", memory: None })
            }
            CostModel::Measured(measured) => {
                let usual = never_cheaper_outside(latencies(&hierarchy, topology));
                let found = measured_costs(measured, topology, &usual)?;
                let per_level = never_cheaper_outside(found);
                let memory = measured.memory.clone().filter(|memory| memory.is_of(topology));
                Ok(Self { per_level, name: OF_MEASURED.into(), unit: "ns", memory })
            }
            CostModel::Complace => {
                let per_level = levels.iter().map(|level| decade(level.shared)).collect();
                Ok(Self { per_level, name: "complace".into(), unit: "", memory: None })
            }
            CostModel::Explicit(costs) if costs.len() == levels.len() => {
                let name: Vec<String> = costs.iter().map(f64::to_string).collect();
                let (per_level, name) = (costs.clone(), name.join(","));
                Ok(Self { per_level, name, unit: "", memory: None })
            }
            CostModel::Explicit(costs) => Err(CostError::Count {
                given: costs.len(),
                needed: levels.len(),
                levels: hierarchy.names(),
            }),
        }
    }
}

fn decade(shared: ObjectKind) -> f64 {
    match shared {
        ObjectKind::Pu | ObjectKind::Core | ObjectKind::Cache(0 | 1) => 1.0,
        ObjectKind::Cache(2) => 10.0,
        ObjectKind::Cache(_) => 100.0,
        ObjectKind::Group | ObjectKind::Die | ObjectKind::Package => 1000.0,
        ObjectKind::Machine => 10000.0,
    }
}

fn latencies(hierarchy: &Hierarchy, topology: &Topology) -> Vec<f64> {
    hierarchy.levels.iter().map(|level| latency_ns(level, hierarchy, topology)).collect()
}

fn latency_ns(level: &Level, hierarchy: &Hierarchy, topology: &Topology) -> f64 {
    let row = LATENCIES.iter().find(|row| row.shared == level.shared);
    let row = row.unwrap_or(&LATENCIES[LATENCIES.len() - 1]);
    let distance = row.at_distance.zip(mean_distance(level, hierarchy, topology));
    let stretch = distance.map_or(1.0, |(at, found)| found / at);
    row.latency_ns * stretch.clamp(1.0 / MAX_STRETCH, MAX_STRETCH)
}

/// Mean NUMA distance between CPUs that `level` splits and the levels above do not.
fn mean_distance(level: &Level, hierarchy: &Hierarchy, topology: &Topology) -> Option<f64> {
    let at = hierarchy.levels.iter().position(|l| l == level)?;
    let node: Vec<Option<usize>> = hierarchy.pus.iter().map(|&pu| node_of(topology, pu)).collect();
    let (mut sum, mut pairs) = (0.0, 0.0);
    let firsts: Vec<usize> =
        (0..node.len()).filter(|&i| i == 0 || node[i] != node[i - 1]).collect();
    for &a in &firsts {
        for &b in firsts.iter().filter(|&&b| b != a && hierarchy.common(a, b) == at) {
            let (Some(from), Some(to)) = (node[a], node[b]) else { continue };
            if let Some(distance) = distance(topology, from, to).filter(|_| from != to) {
                sum += distance;
                pairs += 1.0;
            }
        }
    }
    (pairs > 0.0 && sum > 0.0).then(|| sum / pairs)
}

/// Distance from the processors of a node to another's memory, 10 being local: by the firmware's
/// latencies where it gives both, else as it gives distances.
fn distance(topology: &Topology, from: usize, to: usize) -> Option<f64> {
    let at = from * topology.numa_nodes.len() + to;
    let own = from * topology.numa_nodes.len() + from;
    let latency = |at: usize| topology.numa_latencies.get(at).copied().filter(|ns| *ns > 0);
    if let (Some(local), Some(remote)) = (latency(own), latency(at)) {
        return Some(10.0 * remote as f64 / local as f64);
    }
    topology.numa_distances.get(at).map(|distance| *distance as f64)
}

/// The first NUMA node at or above a PU.
fn node_of(topology: &Topology, pu: u32) -> Option<usize> {
    let mut at = Some(topology.pus[pu as usize].object);
    while let Some(id) = at {
        if let Some(&node) = topology.object(id).numa.first() {
            return Some(node);
        }
        at = topology.object(id).parent;
    }
    None
}

/// Farther must not be cheaper: a level costs at least what those below it cost.
fn never_cheaper_outside(mut costs: Vec<f64>) -> Vec<f64> {
    for level in (1..costs.len()).rev() {
        costs[level - 1] = costs[level - 1].max(costs[level]);
    }
    costs
}
