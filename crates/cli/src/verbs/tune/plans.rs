//! The plans that are worth trying for a profile, and when there cannot be any. Neighbour:
//! `worth.rs` looks at what they promise.

use analysis::{Choice, MatrixKind};
use placement::{Plan, PolicyKind, Request, lower_bound, place};
use profile::Profile;
use topology::{Costs, Topology};
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

/// One plan per policy, without repeating the same placement; at least one.
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
            plans.push(plan);
        }
    }
    Ok(plans)
}
