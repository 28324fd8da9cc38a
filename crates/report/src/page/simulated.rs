//! Simulated placements as a page: what `threadtalk simulate --html` writes.
//!
//! The caller fills in the numbers; here they get their types, which the page's TypeScript is
//! generated from, and are put into the template. Neighbour: `web/src/view/simulation.ts` draws.

use serde::Serialize;
use ts_rs::TS;

/// Everything that the page shows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, TS)]
pub struct SimulationPage {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Accesses that were simulated.
    pub accesses: u64,
    /// Number of threads.
    pub threads: u32,
    /// Sentences that hold for all.
    pub notes: Vec<String>,
    /// Each machine with its plans.
    pub machines: Vec<SimulatedMachine>,
}

/// A machine under all plans.
#[derive(Clone, PartialEq, Debug, Default, Serialize, TS)]
pub struct SimulatedMachine {
    /// How the user has named it.
    pub name: String,
    /// What it consists of.
    pub description: String,
    /// Logical numbers (L#) of its memory nodes.
    pub nodes: Vec<u32>,
    /// `ring`, `full` or `mesh`; empty for one node.
    pub network: String,
    /// Plans side by side.
    pub plans: Vec<SimulatedPlan>,
    /// Time in which nothing was executed, by place in the code; the longest first.
    pub code: Vec<SimulatedStall>,
    /// The same by object.
    pub data: Vec<SimulatedStall>,
}

/// A value with half the width of its interval at 95 %.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, TS)]
pub struct SimulatedValue {
    /// The value.
    pub value: f64,
    /// `None` where one interleaving was simulated.
    pub half: Option<f64>,
}

/// What a plan came to.
#[derive(Clone, PartialEq, Debug, Default, Serialize, TS)]
pub struct SimulatedPlan {
    /// What places threads.
    pub threads: String,
    /// What places pages.
    pub data: String,
    /// Simulated time of the longest thread, ns.
    pub time_ns: SimulatedValue,
    /// Energy, J.
    pub joules: SimulatedValue,
    /// Where accesses were served, from the innermost cache to memory of other nodes.
    pub served: Vec<SimulatedServed>,
    /// Part of the time in which each node's controller was busy, 0 to 1.
    pub controllers: Vec<f64>,
    /// Links between nodes.
    pub links: Vec<SimulatedLink>,
}

/// A place that served accesses.
#[derive(Clone, PartialEq, Debug, Default, Serialize, TS)]
pub struct SimulatedServed {
    /// `L1`, `other caches`, `local memory`, `remote memory`.
    pub place: String,
    /// Part of the accesses, 0 to 1.
    pub share: f64,
}

/// A link, one way.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, TS)]
pub struct SimulatedLink {
    /// Index of the node that it leaves.
    pub from: u32,
    /// Index of the node that it leads to.
    pub to: u32,
    /// Part of the time in which it was busy, 0 to 1.
    pub busy: f64,
}

/// Time in which threads executed nothing, for what a place in the code accesses, or an object.
#[derive(Clone, PartialEq, Debug, Default, Serialize, TS)]
pub struct SimulatedStall {
    /// Its name.
    pub name: String,
    /// Under each plan, ns.
    pub ns: Vec<f64>,
}

/// The whole page.
pub fn simulation_page(simulated: &SimulationPage) -> String {
    /// What tells this page from that of a profile.
    #[derive(Serialize)]
    struct Data<'a> {
        simulation: &'a SimulationPage,
    }
    let data = serde_json::to_string(&Data { simulation: simulated })
        .expect("numbers are finite, and keys are strings");
    super::filled(&data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_can_close_the_data() {
        let command = vec!["</script>".into()];
        let page = simulation_page(&SimulationPage { command, ..SimulationPage::default() });
        assert!(page.contains("{\"simulation\":{\"command\":[\"\\u003c/script>\"]"));
    }
}
