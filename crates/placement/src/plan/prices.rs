//! What a plan says of its own costs: those of the reference placements, and where communication
//! meets.

use serde::{Deserialize, Serialize};

/// Costs of the reference placements, in the units of [`Plan::cost`](super::Plan::cost).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Baselines {
    /// Neighbouring threads on neighbouring PUs.
    pub compact: f64,
    /// Neighbouring threads as far from each other as possible.
    pub scatter: f64,
    /// Expectation over random placements that leave no PU idle while another has two threads,
    /// closed form.
    pub random: f64,
    /// The same over those that use every core before any core is shared, as schedulers do. 0 in
    /// plans made before this was computed.
    #[serde(default)]
    pub os: f64,
}

/// How much of the communication meets at one level of the machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanLevel {
    /// What the level separates: `between packages`, `between SMT siblings`, `on one PU`, …
    pub level: String,
    /// The closest object that those who meet here still share: `core`, `L3`, `package`, `machine`,
    /// …
    pub within: String,
    /// Cost of one event.
    pub cost: f64,
    /// Expected share of all events, 0 to 1, when threads are left to chance (see
    /// [`Baselines::os`]).
    pub before: f64,
    /// Predicted share under the plan.
    pub after: f64,
}
