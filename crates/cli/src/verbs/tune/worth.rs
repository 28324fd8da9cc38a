//! Whether a placement promises anything at all: only then a program is timed and bound.
//!
//! Two things are asked. Does communication take a noticeable part of the run? And do placements
//! differ in what it costs: is the best one, or at least the bound below all of them, well below
//! what is to be expected of the operating system's? A homogeneous matrix and a machine whose CPUs
//! are all equally far apart answer the latter with no. Neighbours: `plans.rs` computes the plans.

use placement::{Plan, WORTH_A_PLAN};
use profile::Profile;
use serde_json::{Value, json};
use topology::{Costs, Topology};
use types::numbers::grouped;

/// Lines that threads take from each other, for each access, below which that is too little to be
/// noticed: at 100 ns for such a line and 0.3 ns for an access, 0.3 % of the time.
const NOTICEABLE: f64 = 1e-5;

/// Why no placement helps, and the numbers behind it.
#[derive(Debug)]
pub struct NotWorth {
    pub reason: String,
    pub numbers: Value,
}

/// Why none of the plans can help; `None` when the first one, the best prediction, promises
/// something.
pub fn not_worth(
    profile: &Profile,
    plan: &Plan,
    machine: &Topology,
    costs: &Costs,
) -> Option<NotWorth> {
    let reason = hardly_talk(profile).or_else(|| all_the_same(plan, profile.threads.len()))?;
    let totals = &profile.meta.totals;
    let numbers = json!({
        "lines_taken": totals.raw + totals.waw,
        "accesses": totals.loads + totals.stores,
        "expected_cost": plan.baselines.os,
        "plan_cost": plan.cost,
        "lower_bound": plan.lower_bound,
        "cost_unit": costs.unit,
    });
    // Nothing is known here of pages, which matter to programs that do not talk, too.
    let pages = match machine.numa_nodes.len() {
        0 | 1 => "",
        _ => ", as far as communication goes (where its pages lie was not recorded)",
    };
    Some(NotWorth { reason: format!("{reason}{pages}"), numbers })
}

/// That communication takes no noticeable part of the run. Where its threads hardly ran at the same
/// time, that is not known.
pub fn hardly_talk(profile: &Profile) -> Option<String> {
    let totals = &profile.meta.totals;
    let (taken, accesses) = (totals.raw + totals.waw, totals.loads + totals.stores);
    let quiet = accesses > 0 && (taken as f64) < NOTICEABLE * accesses as f64;
    (quiet && report::ran_apart(profile).is_none()).then(|| {
        format!(
            "the threads hardly communicate: in {} loads and stores they took {} cache lines from each \
             other",
            grouped(accesses),
            grouped(taken)
        )
    })
}

fn all_the_same(plan: &Plan, threads: usize) -> Option<String> {
    // Of a run whose pattern changes, all together may look the same everywhere.
    if plan.phases.is_some() {
        return None;
    }
    let (chance, bound) = (plan.baselines.os, plan.lower_bound.unwrap_or(0.0));
    // Both are sums of the same numbers in another order.
    if chance - bound <= 1e-9 * chance {
        return Some(format!("all placements of its {threads} threads cost the same"));
    }
    let saved = |cost: f64| (1.0 - cost / chance) * 100.0;
    if saved(bound) < WORTH_A_PLAN * 100.0 {
        return Some(format!(
            "no placement saves more than {:.1} % of what its communication costs on average",
            saved(bound)
        ));
    }
    (saved(plan.cost) < WORTH_A_PLAN * 100.0).then(|| {
        format!(
            "the best placement found saves {:.1} % of what its communication costs on average \
             ({:.1} % is the most that any could)",
            saved(plan.cost).max(0.0),
            saved(bound)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::{PolicyKind, Request, Tasks, lower_bound, place};
    use topology::CostModel;
    use types::{CommMatrix, ThreadId};

    fn plan(machine: &str, threads: u32, events: impl Fn(u32, u32) -> u64) -> Plan {
        let machine = Topology::from_synthetic(machine).unwrap();
        let costs = Costs::new(&CostModel::Latency, &machine).unwrap();
        let mut matrix = CommMatrix::new(threads as usize);
        for a in 0..threads {
            (0..threads)
                .filter(|&b| b != a)
                .for_each(|b| matrix.add(ThreadId(a), ThreadId(b), events(a, b)));
        }
        let tasks = Tasks::from(&matrix);
        let placed = place(&tasks, &machine, &costs, &Request::new(PolicyKind::Locality)).unwrap();
        let bound = lower_bound(&tasks, &machine, &costs).unwrap();
        Plan { lower_bound: Some(bound), ..Plan::new(&placed, &machine, &[]) }
    }

    #[test]
    fn equal_talk_and_equal_cpus_are_not_worth_a_plan() {
        let said = |plan: Plan, threads| all_the_same(&plan, threads).unwrap_or_default();
        assert_eq!(
            said(plan("core:4 pu:1", 3, |a, b| u64::from(a * 3 + b)), 3),
            "all placements of its 3 threads cost the same"
        );
        let even = said(plan("pack:2 core:8 pu:1", 16, |_, _| 100), 16);
        assert_eq!(even, "all placements of its 16 threads cost the same");
        let noisy = plan("pack:2 core:8 pu:1", 16, |a, b| 1000 + u64::from((a * 7 + b * 5) % 11));
        assert!(said(noisy, 16).contains("placement saves"));
        let chain = plan("pack:2 core:8 pu:1", 16, |a, b| u64::from(a.abs_diff(b) == 1));
        assert_eq!(all_the_same(&chain, 16), None);
    }
}
