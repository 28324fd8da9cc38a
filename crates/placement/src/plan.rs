//! The plan: a small versioned JSON file that says where each thread goes.

use serde::{Deserialize, Serialize};

/// Where one thread goes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanSlot {
    /// Logical thread id.
    pub thread: u32,
    /// hwloc logical index of the PU (L#).
    pub pu_logical: u32,
    /// Operating-system index of the PU (P#).
    pub pu_os: u32,
    /// Identity of the thread (see `types::ThreadIdentity`); absent for a plan made from a bare
    /// matrix, whose threads are matched by creation order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PlanIdentity>,
}

/// `types::ThreadIdentity` as it stands in a plan.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlanIdentity {
    pub start_routine: String,
    pub parent: Option<u32>,
    pub ordinal: u32,
    pub name: String,
}

/// Costs of the reference placements, in the units of [`Plan::cost`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Baselines {
    pub compact: f64,
    pub scatter: f64,
    /// Expectation over uniformly random placements, closed form.
    pub random: f64,
}

/// A placement of threads on one machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub version: u32,
    pub policy: String,
    pub seed: u64,
    /// Σ over unordered thread pairs of events × level cost.
    pub cost: f64,
    pub baselines: Baselines,
    pub slots: Vec<PlanSlot>,
    /// Description and PU count of the machine the plan is for.
    pub machine: String,
    pub machine_pus: u32,
}
