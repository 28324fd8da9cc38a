//! Computes the placements that the report compares.
//!
//! Chance: the expectation over all placements, what an unplaced run can look like. Before:
//! `compact`, the order in which launchers fill a machine. Where compact would make threads
//! share cores that the recommendation keeps apart, the two do not compete for the same resources,
//! and `scatter`, which spreads as an operating system does, is the reference instead. After: the
//! `locality` solver, or a plan given by the user. Neighbours: `placement` solves, `layouts` holds
//! the result.

use crate::findings::talk_matrix;
use crate::layouts::{Layout, Machine, Placement, machine_tree};
use crate::tasks::tasks;
use placement::{Plan, PolicyKind, Request, place};
use profile::Profile;
use topology::{CostModel, Costs, Topology};

/// Seed of the solver: the default of `threadtalk place`, so that both show the same placement.
const SEED: u64 = 0;
/// Most threads for which placements are computed: the solver's memory grows with their square.
const MOST_THREADS: usize = 4096;

/// Why there are no placements to show.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("the profile does not describe the machine it was recorded on; use threadtalk place")]
    NoMachine,
    #[error("the machine in the profile cannot be read: {0}")]
    Machine(#[from] topology::TopologyError),
    #[error("the costs of the machine cannot be found: {0}")]
    Costs(#[from] topology::CostError),
    #[error("placements are not computed for more than {MOST_THREADS} threads, and there are {0}")]
    TooManyThreads(usize),
    #[error("{0}")]
    Place(#[from] placement::PlaceError),
    #[error(
        "the plan is for another machine ({plan}) than the one the profile was recorded on \
         ({profile}); make one with threadtalk place PROFILE"
    )]
    OtherMachine { plan: String, profile: String },
}

/// The placements of the profile's threads on the machine it was recorded on; `None` when there is
/// nothing to place (one thread, no talk).
///
/// # Errors
/// See [`CompareError`].
pub fn compare(profile: &Profile, plan: Option<&Plan>) -> Result<Option<Placement>, CompareError> {
    let threads = profile.threads.len();
    let talk = talk_matrix(profile);
    if threads < 2 || talk.total() == 0 {
        return Ok(None);
    }
    if threads > MOST_THREADS {
        return Err(CompareError::TooManyThreads(threads));
    }
    if profile.meta.topology_xml.is_empty() {
        return Err(CompareError::NoMachine);
    }
    let topology = Topology::from_xml_str(&profile.meta.topology_xml)?;
    let machine = Machine::new(&topology);
    let costs = Costs::new(&CostModel::default(), &topology)?;
    let tasks = tasks(profile);
    let solve =
        |policy| place(&tasks, &topology, &costs, &Request { seed: SEED, ..Request::new(policy) });
    let best = solve(PolicyKind::Locality)?;
    let (compact, scatter) = (solve(PolicyKind::Compact)?, solve(PolicyKind::Scatter)?);
    let fair = compact.shared_cores <= best.shared_cores;
    let order = if fair { [&compact, &scatter, &best] } else { [&scatter, &compact, &best] };
    let mut layouts: Vec<Layout> = order
        .into_iter()
        .map(|placed| {
            let pus: Vec<_> = placed.pu_logical.iter().map(|&pu| Some(pu)).collect();
            let layout = Layout::new(placed.policy.name(), placed.cost, &pus, &machine, &talk);
            Layout { shared_cores: placed.shared_cores, ..layout }
        })
        .collect();
    if let Some(plan) = plan {
        layouts.push(plan_layout(plan, &machine, &costs, &talk)?);
    }
    Ok(Some(Placement {
        machine: topology.describe(),
        tree: machine_tree(&topology),
        pus: machine.hierarchy.pus.clone(),
        levels: machine.levels(),
        layouts,
        chance: machine.chance(&costs, &talk),
        cost_unit: costs.unit.into(),
    }))
}

fn plan_layout(
    plan: &Plan,
    machine: &Machine<'_>,
    costs: &Costs,
    talk: &types::CommMatrix,
) -> Result<Layout, CompareError> {
    if plan.machine_pus as usize != machine.topology.pus.len() {
        return Err(CompareError::OtherMachine {
            plan: plan.machine.clone(),
            profile: machine.topology.describe(),
        });
    }
    let mut pus = vec![None; talk.threads()];
    for slot in &plan.slots {
        if let Some(pu) = pus.get_mut(slot.thread as usize) {
            *pu = Some(slot.pu_logical);
        }
    }
    let name = format!("plan ({})", plan.policy);
    let layout = Layout::new(&name, 0.0, &pus, machine, talk);
    // Priced here: the plan's own figure may come from other costs or another recording.
    let cost = machine.cost(&layout, costs, talk);
    Ok(Layout { cost, shared_cores: machine.shared_cores(&layout), ..layout })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Findings;
    use crate::samples::{Sample, sample};
    use placement::Tasks;
    use types::CommKind;

    fn on(machine: &str, sample: Sample) -> Profile {
        let topology_xml = Topology::from_synthetic(machine).unwrap().to_xml().to_owned();
        Sample { topology_xml, ..sample }.profile()
    }

    fn crossing_pairs() -> Sample {
        sample(4, &[(0, 2, 100), (2, 0, 100), (1, 3, 150), (3, 1, 50), (0, 1, 4)])
    }

    #[test]
    fn pairs_come_together_and_the_verdict_says_so() {
        let profile = on("pack:2 core:2 pu:1", crossing_pairs());
        let placement = compare(&profile, None).unwrap().unwrap();
        let policies: Vec<_> = placement.layouts.iter().map(|l| l.policy.as_str()).collect();
        assert_eq!(policies, ["compact", "scatter", "locality"]);
        let far = |layout: &Layout| layout.shares.last().unwrap().events;
        assert_eq!((far(placement.before()), far(placement.after())), (400, 4));
        assert_eq!(placement.levels[0].name, "between packages");
        assert_eq!(placement.levels[0].part, [0, 0, 1, 1]);
        let details = Findings::new(&profile, Some(placement), 10).verdict.details;
        assert_eq!(details.len(), 1);
        assert_eq!(
            details[0],
            "Placed by locality, <1 % of the talk goes between packages; left to chance it would be \
             67 %, which costs 1.4 times as much."
        );
    }

    #[test]
    fn compact_is_no_reference_where_it_shares_cores() {
        let profile = on("pack:2 core:4 pu:2", crossing_pairs());
        let placement = compare(&profile, None).unwrap().unwrap();
        assert_eq!(placement.before().policy, "scatter");
        assert_eq!(placement.layouts[1].shared_cores, 2);
        assert_eq!(placement.after().shared_cores, 0);
    }

    #[test]
    fn chance_costs_what_its_shares_cost() {
        let profile = on("pack:2 core:2 pu:1", crossing_pairs());
        let topology = Topology::from_xml_str(&profile.meta.topology_xml).unwrap();
        let costs = Costs::new(&CostModel::default(), &topology).unwrap();
        let placement = compare(&profile, None).unwrap().unwrap();
        let [far, near] = costs.per_level[..] else { panic!("two levels") };
        let expected = 404.0 * (2.0 / 3.0 * far + 1.0 / 3.0 * near);
        assert!((placement.chance.cost / expected - 1.0).abs() < 1e-12);
        // The solver's own expectation, over the same slots.
        let tasks = Tasks::from(&profile.matrix(CommKind::Raw));
        let placed = place(&tasks, &topology, &costs, &Request::new(PolicyKind::Scatter)).unwrap();
        assert!((placement.chance.cost / placed.baselines.random - 1.0).abs() < 1e-12);
    }

    #[test]
    fn placement_that_cannot_matter_is_said() {
        let even: Vec<_> =
            (0..4).flat_map(|a| (0..4).filter(move |&b| a != b).map(move |b| (a, b, 10))).collect();
        let profile = on("pack:2 core:2 pu:1", sample(4, &even));
        let details = Findings::new(&profile, compare(&profile, None).unwrap(), 10).verdict.details;
        assert_eq!(
            details,
            ["Where the threads run on this machine makes no difference to what their talk costs."]
        );
    }

    #[test]
    fn a_simple_order_that_does_as_well_is_named() {
        let profile = on("pack:2 core:2 pu:1", sample(4, &[(0, 1, 100), (2, 3, 100)]));
        let details = Findings::new(&profile, compare(&profile, None).unwrap(), 10).verdict.details;
        assert!(details[0].ends_with(" times as much. Packed in order (compact) does as well."));
    }

    #[test]
    fn a_plan_is_shown_last_and_priced_here() {
        let profile = on("pack:2 core:2 pu:1", crossing_pairs());
        let topology = Topology::from_xml_str(&profile.meta.topology_xml).unwrap();
        let costs = Costs::new(&CostModel::default(), &topology).unwrap();
        let tasks = Tasks::from(&profile.matrix(CommKind::Raw));
        let placed = place(&tasks, &topology, &costs, &Request::new(PolicyKind::Scatter)).unwrap();
        let mut plan = Plan::new(&placed, &topology, &[]);
        plan.cost = 1.0;
        let placement = compare(&profile, Some(&plan)).unwrap().unwrap();
        assert_eq!(placement.after().policy, "plan (scatter)");
        assert_eq!(placement.after().cost, placement.layouts[1].cost);
        assert_eq!(placement.after().pu_logical, placement.layouts[1].pu_logical);
        plan.machine_pus = 64;
        plan.machine = "big".into();
        let error = compare(&profile, Some(&plan)).unwrap_err().to_string();
        assert!(error.starts_with("the plan is for another machine (big) than"), "{error}");
    }

    #[test]
    fn nothing_to_place_and_no_machine() {
        let quiet = on("core:2 pu:1", sample(3, &[]));
        assert!(compare(&quiet, None).unwrap().is_none());
        let nowhere = sample(2, &[(0, 1, 1)]).profile();
        assert!(matches!(compare(&nowhere, None), Err(CompareError::NoMachine)));
    }
}
