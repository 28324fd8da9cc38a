//! `place --verify simulate`: the plan beside other policies, simulated on the profile's trace.

use super::plans::Wanted;
use super::{OnMachine, Scenario, results, source::Source, text};
use placement::{Plan, PolicyKind};
use simulation::{Machine, Options};
use std::path::Path;
use topology::Topology;
use types::numbers::percent;

/// Part of the time from which on it is said that a policy takes less.
const NOTABLE: f64 = 0.02;

/// What the plan is compared with.
const BESIDE: &[PolicyKind] = &[
    PolicyKind::Compact,
    PolicyKind::Scatter,
    PolicyKind::Locality,
    PolicyKind::BalancedLocality,
    PolicyKind::LoadBalance,
    PolicyKind::Distance,
];

/// The trace on which plans are simulated.
pub struct Verifier(Source);

impl Verifier {
    /// That of the process whose profile is at `input`.
    ///
    /// # Errors
    /// Fails when the profile has no trace, or it cannot be read.
    pub fn open(input: &Path) -> anyhow::Result<Self> {
        Source::of_profile(input).map(Self)
    }

    /// Simulates the threads of a plan, and policies, on `topology`; the table, for people.
    ///
    /// # Errors
    /// Fails when the trace cannot be simulated there.
    pub fn verify(mut self, topology: Topology, name: &str, plan: Plan) -> anyhow::Result<String> {
        let machine = Machine::new(&topology, name)?;
        let wanted = Wanted::beside("this plan", plan, BESIDE);
        let machines = vec![OnMachine { topology, machine }];
        let results = results(&mut self.0, machines, &wanted, Options::default())?;
        Ok(format!("{}\n{}\n", text::text(&results), verdict(&results.scenarios)))
    }
}

/// How the plan does in the simulation, which is the first of these.
fn verdict(scenarios: &[Scenario]) -> String {
    let time = |scenario: &Scenario| scenario.outcome.total.time_ns;
    let Some((plan, others)) = scenarios.split_first() else { return String::new() };
    let best = others.iter().min_by(|a, b| time(a).total_cmp(&time(b)));
    let less = best.map_or(0.0, |best| 1.0 - time(best) / time(plan).max(f64::MIN_POSITIVE));
    match best {
        Some(best) if less >= NOTABLE => format!(
            "In the simulation, '{}' takes {} less time than this plan: place with --policy {}, or measure both \
             with 'threadtalk tune'.",
            best.threads,
            percent(less),
            best.threads
        ),
        _ => format!(
            "In the simulation, none of these policies takes at least {} less time than this plan.",
            percent(NOTABLE)
        ),
    }
}
