//! `place --verify simulate`: the plan beside other policies, simulated on the profile's trace.

use super::plans::Wanted;
use super::{OnMachine, results, source::Source, text};
use placement::{Plan, PolicyKind};
use simulation::{Machine, Options};
use std::path::Path;
use topology::Topology;

/// What the plan is compared with.
const BESIDE: &[PolicyKind] = &[
    PolicyKind::Compact,
    PolicyKind::Scatter,
    PolicyKind::Locality,
    PolicyKind::BalancedLocality,
    PolicyKind::LoadBalance,
    PolicyKind::Distance,
];

/// Simulates the threads of a plan, and policies, on `topology`; the table, for people. The trace
/// is that of the process whose profile is at `input`.
pub fn verify(input: &Path, topology: Topology, name: &str, plan: Plan) -> anyhow::Result<String> {
    let machine = Machine::new(&topology, name)?;
    let mut source = Source::of_profile(input)?;
    let wanted = Wanted::beside("this plan", plan, BESIDE);
    let machines = vec![OnMachine { topology, machine }];
    let results = results(&mut source, machines, &wanted, Options::default())?;
    Ok(text::text(&results))
}
