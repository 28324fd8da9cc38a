//! The plans that are worth trying for a profile, and when there cannot be any. Neighbour:
//! `worth.rs` looks at what they promise.
//!
//! Where pages were recorded and a joint plan puts some of them elsewhere than first touch would,
//! it is tried whole, with its threads alone, and with its data alone.

use crate::verbs::place::phases;
use analysis::{Choice, MatrixKind};
use placement::{
    DataPolicy, DataUse, JointRequest, Phased, Placement, Plan, PlanData, PolicyKind, Request,
    lower_bound, place, place_at, plan_jointly,
};
use profile::Profile;
use report::RunPhases;
use topology::{Costs, DataNodes, Topology};
use types::ThreadIdentity;

/// Tried when the user names no policy, best prediction first.
const DEFAULT_POLICIES: [PolicyKind; 3] =
    [PolicyKind::Locality, PolicyKind::Compact, PolicyKind::Scatter];

/// Why placement cannot matter for this program here; `None` when it may.
pub fn why_not(profile: &Profile, machine: &Topology) -> Option<String> {
    if machine.allowed_pus() < 2 {
        return Some("only one CPU may be used here".into());
    }
    if profile.threads.len() < 2 {
        return Some("the program has a single thread".into());
    }
    if profile.meta.totals.raw == 0 && profile.meta.totals.waw == 0 {
        return Some("no thread reads or overwrites what another one wrote".into());
    }
    None
}

/// Whether too little was observed to say that placement cannot matter: no thread was seen to
/// communicate with another.
pub fn saw_too_little(profile: &Profile, machine: &Topology) -> bool {
    let windows = profile.meta.windows.as_ref();
    machine.allowed_pus() > 1
        && profile.threads.len() > 1
        && (windows.is_some_and(|windows| !windows.would_show()) || profile.may_hide().is_some())
        && profile.meta.totals.raw == 0
        && profile.meta.totals.waw == 0
}

/// One plan per policy, without repeating the same placement; at least one. Where a placement for
/// each phase is predicted to be cheaper than one for all, that comes first.
pub fn candidates(
    profile: &Profile,
    machine: &Topology,
    costs: &Costs,
    policy: Option<PolicyKind>,
) -> anyhow::Result<Vec<Plan>> {
    let tasks = report::tasks(profile, Choice::of_talk(profile));
    let identities: Vec<ThreadIdentity> =
        profile.threads.iter().map(|t| t.identity.clone()).collect();
    let policies = match &policy {
        Some(one) => std::slice::from_ref(one),
        None => &DEFAULT_POLICIES,
    };
    let bound = lower_bound(&tasks, machine, costs)?;
    let mut plans: Vec<Plan> = Vec::new();
    for policy in policies {
        let placement = place(&tasks, machine, costs, &Request::new(*policy))?;
        let events = MatrixKind::of_talk(profile).words(profile.meta.parameters.block_bytes);
        let plan = Plan::new(&placement, machine, &identities);
        let plan = Plan { lower_bound: Some(bound), events, ..plan };
        if plans.iter().all(|known| known.slots != plan.slots) {
            if *policy == PolicyKind::Locality {
                plans.extend(by_phase(profile, &plan, &placement, (machine, costs))?);
            }
            plans.push(plan);
        }
    }
    Ok(plans)
}

/// The plan with a placement for each phase, if that is cheaper.
fn by_phase(
    profile: &Profile,
    plan: &Plan,
    placement: &Placement,
    machine: (&Topology, &Costs),
) -> anyhow::Result<Option<Plan>> {
    let choice = Choice::of_talk(profile);
    let Some(found) = RunPhases::of(profile, choice) else { return Ok(None) };
    let request = Request::new(PolicyKind::Locality);
    Ok(match phases::by_phase(&found, placement, machine, &request)? {
        Phased::Several(phases) => Some(plan.clone().with_phases(phases)),
        Phased::One | Phased::Unmarked(_) => None,
    })
}

/// Whether it can matter where data lies.
pub fn has_several_nodes(machine: &Topology, costs: &Costs) -> bool {
    DataNodes::new(machine, costs).len() > 1
}

/// The joint plan whole, its threads alone and its data alone; none where pages were not recorded,
/// or its data stays where it is touched first.
pub fn with_data(
    profile: &Profile,
    machine: &Topology,
    costs: &Costs,
    policy: Option<PolicyKind>,
) -> anyhow::Result<Vec<Plan>> {
    let Some(usage) = report::data_use(profile).map(DataUse::joined) else { return Ok(Vec::new()) };
    let tasks = report::tasks(profile, Choice::of_talk(profile));
    let request = Request::new(policy.unwrap_or_default());
    let Request { seed, effort, jobs, .. } = request;
    let wanted = JointRequest { policy, data: DataPolicy::Auto, seed, effort, jobs };
    let joint = plan_jointly(&tasks, &usage, machine, costs, &wanted)?;
    let data = PlanData::new(&joint, &usage, machine, costs);
    if data.stays() {
        return Ok(Vec::new());
    }
    let identities: Vec<ThreadIdentity> =
        profile.threads.iter().map(|t| t.identity.clone()).collect();
    let placement = place_at(&tasks, machine, costs, &request, &joint.pu_logical)?;
    let events = MatrixKind::of_talk(profile).words(profile.meta.parameters.block_bytes);
    let policy = policy.map_or("joint", PolicyKind::name).to_owned();
    let threads = Plan { events, policy, ..Plan::new(&placement, machine, &identities) };
    let unbound =
        Plan { policy: PolicyKind::Os.name().into(), slots: Vec::new(), ..threads.clone() };
    Ok(vec![threads.clone().with_data(data.clone()), threads, unbound.with_data(data)])
}

/// What a plan does, in a word or two.
pub fn words(plan: &Plan) -> String {
    match (plan.slots.is_empty(), plan.data.is_some()) {
        _ if plan.phases.is_some() => format!("{} by phase", plan.policy),
        (true, true) => "data only".into(),
        (false, true) => "threads and data".into(),
        _ if plan.policy == "joint" => "threads only".into(),
        _ => plan.policy.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Mode, Windows, sample};

    fn windows(observed: f64, too_short: bool) -> Windows {
        Windows {
            asked: "2x".into(),
            windows: 2,
            too_short,
            observed,
            whole: 0.0,
            warm_up_ns: 2_000_000,
            missed: 0.0,
            alike: 0.0,
            false_share: None,
        }
    }

    /// Two threads in which windows saw no event, or these.
    fn seen(windows: Windows, events: &[(u32, u32, u64)]) -> Profile {
        let mut profile = sample::profile(sample::threads(2), sample::raw(events));
        (profile.meta.mode, profile.meta.windows) = (Mode::Windows, Some(windows));
        profile
    }

    /// Few windows that saw nothing do not show that there was nothing; all of a run, or enough
    /// windows, do.
    #[test]
    fn what_was_not_observed_may_have_communicated() {
        let machine = Topology::from_synthetic("pack:1 core:2 pu:1").unwrap();
        let too_little = |profile: &Profile| saw_too_little(profile, &machine);
        assert!(too_little(&seen(windows(0.1, true), &[])));
        assert!(!too_little(&seen(windows(0.1, false), &[])));
        let forgot = Windows { missed: 1e6, ..windows(0.1, false) };
        assert!(too_little(&seen(forgot.clone(), &[])) && !too_little(&seen(forgot, &[(0, 1, 5)])));
        assert!(!too_little(&seen(windows(1.0, true), &[])));
        assert!(!too_little(&seen(windows(0.1, true), &[(0, 1, 5)])));
        let exact = sample::profile(sample::threads(2), Vec::new());
        assert!(!too_little(&exact) && why_not(&exact, &machine).is_some());
        let one = Topology::from_synthetic("pack:1 core:1 pu:1").unwrap();
        assert!(!saw_too_little(&seen(windows(0.1, true), &[]), &one));
    }
}
