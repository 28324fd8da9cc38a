//! Computes the placements that the report compares.
//!
//! Chance: the expectation over even placements, what an unplaced run can look like. Before:
//! `compact`, the order in which launchers fill a machine. Where compact would make threads
//! share cores that the recommendation keeps apart, the two do not compete for the same resources,
//! and `scatter`, which spreads as an operating system does, is the reference instead. After: the
//! `locality` solver, or a plan given by the user. All other policies are compared by their costs.
//! Neighbours: `placement` solves, `layouts` and `policies` hold the result.

use crate::layouts::{Layout, Machine, Placement, machine_tree};
use crate::policies::{self, Policies};
use crate::ran::Ran;
use crate::talk::talk_matrix;
use crate::tasks::tasks;
use analysis::Choice;
use placement::{Plan, PolicyKind, Request, lower_bound, place};
use profile::Profile;
use std::borrow::Cow;
use topology::{CacheSizes, CostModel, Costs, Topology};

/// Seed of the solver: the default of `threadtalk place`, so that both show the same placement.
const SEED: u64 = 0;
/// Most threads for which placements are computed: the solver's memory grows with their square.
const MAX_THREADS: usize = 4096;

/// Why there are no placements to show.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CompareError {
    #[error("the profile does not describe the machine it was recorded on; name one with --on")]
    NoMachine,
    #[error("the machine in the profile cannot be read: {0}")]
    Machine(#[from] topology::TopologyError),
    #[error("the costs of the machine cannot be found: {0}")]
    Costs(#[from] topology::CostError),
    #[error("placements are not computed for more than {MAX_THREADS} threads, and there are {0}")]
    TooManyThreads(usize),
    #[error("{0}")]
    Place(#[from] placement::PlaceError),
    #[error(
        "the plan is for another machine ({plan}) than the one that placements are shown on \
         ({shown}); make one with threadtalk place PROFILE, or name the plan's machine with --on"
    )]
    OtherMachine { plan: String, shown: String },
}

/// What placements are computed for, beside the profile.
#[derive(Clone, Debug, Default)]
pub struct Setting<'a> {
    /// Shown as the recommended placement.
    pub plan: Option<&'a Plan>,
    /// Machine to place on; `None` is the one that the profile was recorded on.
    pub machine: Option<&'a Topology>,
    /// Where the costs of levels come from.
    pub costs: CostModel,
}

/// The placements of the profile's threads on a machine; `None` when there is nothing to place (one
/// thread, no talk).
///
/// # Errors
/// See [`CompareError`].
pub fn compare(
    profile: &Profile,
    setting: &Setting<'_>,
) -> Result<Option<Placement>, CompareError> {
    let threads = profile.threads.len();
    let talk = talk_matrix(profile);
    if threads < 2 || talk.total() == 0 {
        return Ok(None);
    }
    if threads > MAX_THREADS {
        return Err(CompareError::TooManyThreads(threads));
    }
    let topology = machine_of(profile, setting)?;
    let machine = Machine::new(&topology);
    let costs = Costs::new(&setting.costs, &topology)?;
    let tasks = tasks(profile, Choice::of_talk(profile));
    let (kinds, left_out) = policies::computed(threads);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let solve = |policy: &PolicyKind| {
        place(&tasks, &topology, &costs, &Request { seed: SEED, jobs, ..Request::new(*policy) })
    };
    let placed = kinds.iter().map(solve).collect::<Result<Vec<_>, _>>()?;
    let by = |kind| placed.iter().find(|p| p.policy == kind).expect("always computed");
    let best = by(PolicyKind::Locality);
    let (compact, scatter) = (by(PolicyKind::Compact), by(PolicyKind::Scatter));
    let fair = compact.shared_cores <= best.shared_cores;
    let order = if fair { [compact, scatter, best] } else { [scatter, compact, best] };
    let mut layouts: Vec<Layout> = order
        .into_iter()
        .map(|placed| {
            let pus: Vec<_> = placed.pu_logical.iter().map(|&pu| Some(pu)).collect();
            let layout = Layout::new(placed.policy.name(), placed.cost, &pus, &machine, &talk);
            Layout { shared_cores: placed.shared_cores, ..layout }
        })
        .collect();
    let plan = setting.plan.map(|plan| plan_layout(plan, &machine, &costs, &talk)).transpose()?;
    let bound = lower_bound(&tasks, &topology, &costs)?;
    let policies = Policies::new(&placed, plan.as_ref(), &layouts[0], bound, left_out);
    layouts.extend(plan);
    Ok(Some(Placement {
        machine: topology.describe(),
        elsewhere: setting.machine.is_some(),
        tree: machine_tree(&topology),
        pus: machine.hierarchy.pus.clone(),
        levels: machine.levels(),
        level_costs: costs.per_level.clone(),
        layouts,
        chance: machine.chance(&costs, &tasks),
        ran: match setting.machine {
            Some(_) => None,
            None => Ran::of(profile, &machine, &costs),
        },
        policies,
        cost_unit: costs.unit.into(),
        costs_measured: costs.is_measured(),
        caches: CacheSizes::of(&topology),
    }))
}

/// The machine that placements are shown on.
fn machine_of<'a>(
    profile: &Profile,
    setting: &Setting<'a>,
) -> Result<Cow<'a, Topology>, CompareError> {
    match setting.machine {
        Some(machine) => Ok(Cow::Borrowed(machine)),
        None if profile.meta.topology_xml.is_empty() => Err(CompareError::NoMachine),
        None => Ok(Cow::Owned(Topology::from_xml_str(&profile.meta.topology_xml)?)),
    }
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
            shown: machine.topology.describe(),
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
        let placement = compare(&profile, &Setting::default()).unwrap().unwrap();
        let policies: Vec<_> = placement.layouts.iter().map(|l| l.policy.as_str()).collect();
        assert_eq!(policies, ["compact", "scatter", "locality"]);
        let far = |layout: &Layout| layout.shares.last().unwrap().events;
        // 400 and 4 reads, and half as many overwrites.
        assert_eq!((far(placement.before()), far(placement.after())), (600, 6));
        assert_eq!(placement.levels[0].name, "between packages");
        assert_eq!(placement.levels[0].part, [0, 0, 1, 1]);
        let details = Findings::new(&profile, Some(placement), 10).verdict.details;
        assert_eq!(details.len(), 1);
        assert_eq!(
            details[0],
            "Placed by locality, <1 % of the communication goes between packages; left to chance it would be \
             67 %, which costs 1.4 times as much."
        );
    }

    #[test]
    fn compact_is_no_reference_where_it_shares_cores() {
        let profile = on("pack:2 core:4 pu:2", crossing_pairs());
        let placement = compare(&profile, &Setting::default()).unwrap().unwrap();
        assert_eq!(placement.before().policy, "scatter");
        assert_eq!(placement.layouts[1].shared_cores, 2);
        assert_eq!(placement.after().shared_cores, 0);
    }

    #[test]
    fn chance_costs_what_its_shares_cost() {
        let profile = on("pack:2 core:2 pu:1", crossing_pairs());
        let topology = Topology::from_xml_str(&profile.meta.topology_xml).unwrap();
        let costs = Costs::new(&CostModel::default(), &topology).unwrap();
        let placement = compare(&profile, &Setting::default()).unwrap().unwrap();
        let [far, near] = costs.per_level[..] else { panic!("two levels") };
        let expected = 606.0 * (2.0 / 3.0 * far + 1.0 / 3.0 * near);
        assert!((placement.chance.cost / expected - 1.0).abs() < 1e-12);
        // The solver's own expectation, over the same slots.
        let tasks = Tasks::from(&talk_matrix(&profile));
        let placed = place(&tasks, &topology, &costs, &Request::new(PolicyKind::Scatter)).unwrap();
        assert!((placement.chance.cost / placed.baselines.random - 1.0).abs() < 1e-12);
    }

    #[test]
    fn placement_that_cannot_matter_is_said() {
        let even: Vec<_> =
            (0..4).flat_map(|a| (0..4).filter(move |&b| a != b).map(move |b| (a, b, 10))).collect();
        let profile = on("pack:2 core:2 pu:1", sample(4, &even));
        let details = Findings::new(&profile, compare(&profile, &Setting::default()).unwrap(), 10)
            .verdict
            .details;
        assert_eq!(
            details,
            [
                "Where the threads run on this machine makes no difference to what their communication costs."
            ]
        );
    }

    #[test]
    fn a_small_difference_is_told_in_percent() {
        let pairs = (0..4).flat_map(|a| (0..4).filter(move |&b| a != b).map(move |b| (a, b)));
        let uneven: Vec<_> =
            pairs.map(|(a, b)| (a, b, if a % 2 == b % 2 { 180 } else { 100 })).collect();
        let profile = on("pack:2 core:2 pu:1", sample(4, &uneven));
        let details = Findings::new(&profile, compare(&profile, &Setting::default()).unwrap(), 10)
            .verdict
            .details;
        assert!(details[0].ends_with("which costs 7 % more."), "{}", details[0]);
    }

    #[test]
    fn a_simple_order_that_does_as_well_is_named() {
        let profile = on("pack:2 core:2 pu:1", sample(4, &[(0, 1, 100), (2, 3, 100)]));
        let details = Findings::new(&profile, compare(&profile, &Setting::default()).unwrap(), 10)
            .verdict
            .details;
        assert!(details[0].ends_with(" times as much. Packed in order (compact) does as well."));
    }

    #[test]
    fn a_plan_is_shown_last_and_priced_here() {
        let profile = on("pack:2 core:2 pu:1", crossing_pairs());
        let topology = Topology::from_xml_str(&profile.meta.topology_xml).unwrap();
        let costs = Costs::new(&CostModel::default(), &topology).unwrap();
        let tasks = Tasks::from(&talk_matrix(&profile));
        let placed = place(&tasks, &topology, &costs, &Request::new(PolicyKind::Scatter)).unwrap();
        let mut plan = Plan::new(&placed, &topology, &[]);
        plan.cost = 1.0;
        let placement = compare(&profile, &Setting { plan: Some(&plan), ..Setting::default() })
            .unwrap()
            .unwrap();
        assert_eq!(placement.after().policy, "plan (scatter)");
        assert_eq!(placement.after().cost, placement.layouts[1].cost);
        assert_eq!(placement.after().pu_logical, placement.layouts[1].pu_logical);
        plan.machine_pus = 64;
        plan.machine = "big".into();
        let error = compare(&profile, &Setting { plan: Some(&plan), ..Setting::default() })
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("the plan is for another machine (big) than"), "{error}");
    }

    #[test]
    fn policies_are_compared_by_cost_with_those_that_share_cores_last() {
        // Two pairs and costs of 100 between packages, 10 between cores, 1 between siblings.
        let profile = on("pack:2 core:4 pu:2", crossing_pairs());
        let costs = CostModel::Explicit(vec![100.0, 10.0, 1.0]);
        let setting = Setting { costs, ..Setting::default() };
        let placement = compare(&profile, &setting).unwrap().unwrap();
        assert_eq!(placement.level_costs, [100.0, 10.0, 1.0]);
        let Policies { list, lower_bound, left_out } = &placement.policies;
        assert!(left_out.is_empty());
        assert_eq!(list.len(), PolicyKind::ALL.len());
        // All four threads into one package, a core each.
        let best = &list[0];
        assert_eq!((best.policy.as_str(), best.chosen), ("locality", true));
        assert_eq!((best.cost, best.to_best), (6060.0, Some(1.0)));
        assert_eq!((*lower_bound, best.to_bound), (6060.0, Some(1.0)));
        assert_eq!(list.iter().filter(|row| row.chosen).count(), 1);
        let find = |name: &str| list.iter().find(|row| row.policy == name).unwrap();
        // Threads 0 and 1, 2 and 3 side by side on a core.
        let compact = find("compact");
        assert_eq!((compact.shared_cores, compact.shares_needlessly), (2, true));
        assert_eq!(compact.cost, 6.0 * 1.0 + 600.0 * 10.0);
        assert!(list.last().unwrap().shares_needlessly);
        assert_eq!(find("scatter").moved, Some(0));
        let os = find("os");
        assert_eq!(os.moved, None);
        assert!((os.cost / placement.chance.cost - 1.0).abs() < 1e-12);
        let fair = list.iter().filter(|row| !row.shares_needlessly);
        assert!(fair.clone().is_sorted_by(|a, b| a.cost <= b.cost));
        assert!(fair.clone().all(|row| row.cost >= *lower_bound), "{list:?}");
    }

    #[test]
    fn another_machine_can_be_shown() {
        let profile = on("core:2 pu:1", crossing_pairs());
        assert!(!compare(&profile, &Setting::default()).unwrap().unwrap().elsewhere);
        let server = Topology::from_synthetic("pack:2 l3:2 core:4 pu:1").unwrap();
        let setting = Setting { machine: Some(&server), ..Setting::default() };
        let placement = compare(&profile, &setting).unwrap().unwrap();
        assert!(placement.elsewhere);
        assert_eq!((placement.machine, placement.pus.len()), (server.describe(), 16));
        // A profile that does not know its machine can be placed on one that is named.
        let nowhere = sample(2, &[(0, 1, 1)]).profile();
        assert!(compare(&nowhere, &setting).unwrap().is_some());
        // Costs for another machine are refused.
        let setting = Setting { costs: CostModel::Explicit(vec![1.0]), ..setting };
        assert!(matches!(compare(&profile, &setting), Err(CompareError::Costs(_))));
    }

    #[test]
    fn nothing_to_place_and_no_machine() {
        let quiet = on("core:2 pu:1", sample(3, &[]));
        assert!(compare(&quiet, &Setting::default()).unwrap().is_none());
        let nowhere = sample(2, &[(0, 1, 1)]).profile();
        assert!(matches!(compare(&nowhere, &Setting::default()), Err(CompareError::NoMachine)));
    }
}
