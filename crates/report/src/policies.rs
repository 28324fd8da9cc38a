//! What every policy's placement costs, side by side: is the recommended one worth it, and how far
//! is it from what no placement undercuts?
//!
//! Bounded: policies that take long for many threads are left out, and said to be. Placements that
//! make threads share cores that need not be shared come last, since they compete for more than
//! talk and may even undercut the bound. Neighbours: `placement` computes placements and the bound,
//! `compare` calls this, `text/placement.rs` and the page show it.

use crate::layouts::Layout;
use placement::{Placement as Placed, PolicyKind};
use serde::Serialize;
use ts_rs::TS;

/// Most threads for which policies are computed that run the solver on another problem: a second or
/// so for each.
const MAX_FOR_SOLVER: usize = 256;
/// Most threads for which policies are computed that nothing else in the report needs.
const MAX_FOR_ANY: usize = 1024;

/// The policies compared.
#[derive(Clone, Debug, Serialize, TS)]
pub struct Policies {
    /// By cost, those that share more cores than they need to last.
    pub list: Vec<PolicyCost>,
    /// In the unit of [`Layout::cost`]: what no placement undercuts that shares no core needlessly.
    pub lower_bound: f64,
    /// Policies that were not computed.
    pub left_out: Vec<LeftOut>,
}

/// A policy's placement in numbers.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct PolicyCost {
    /// Its name; of a plan as in [`Layout::policy`].
    pub policy: String,
    /// In the unit of [`Layout::cost`].
    pub cost: f64,
    /// Cost over that of the first in the list; `None` when that is 0.
    pub to_best: Option<f64>,
    /// Cost over the lower bound; `None` when that is 0.
    pub to_bound: Option<f64>,
    /// Threads on another PU than in the layout "before"; `None` where nothing is bound.
    pub moved: Option<usize>,
    /// Cores that hold more than one thread.
    pub shared_cores: usize,
    /// Whether another policy's placement shares fewer cores.
    pub shares_needlessly: bool,
    /// Whether this is the placement "after".
    pub chosen: bool,
}

/// A policy that was not computed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, TS)]
pub struct LeftOut {
    /// Its name.
    pub policy: String,
    /// Why it was not computed.
    pub reason: String,
}

/// The policies that are computed for that many threads, and those that are not.
pub(crate) fn computed(threads: usize) -> (Vec<PolicyKind>, Vec<LeftOut>) {
    let most = |kind| match kind {
        PolicyKind::Locality | PolicyKind::Compact | PolicyKind::Scatter | PolicyKind::Os => {
            usize::MAX
        }
        PolicyKind::Distance | PolicyKind::BalancedLocality => MAX_FOR_SOLVER,
        _ => MAX_FOR_ANY,
    };
    let (kept, slow): (Vec<PolicyKind>, Vec<PolicyKind>) =
        PolicyKind::ALL.iter().partition(|&&kind| threads <= most(kind));
    let left_out = |kind: PolicyKind| LeftOut {
        policy: kind.name().into(),
        reason: format!(
            "takes long for {threads} threads; threadtalk place --policy {} computes it",
            kind.name()
        ),
    };
    (kept, slow.into_iter().map(left_out).collect())
}

impl Policies {
    /// The comparison of `placed`, and of a plan's layout, with the layout `before` and the bound.
    pub(crate) fn new(
        placed: &[Placed],
        plan: Option<&Layout>,
        before: &Layout,
        lower_bound: f64,
        left_out: Vec<LeftOut>,
    ) -> Self {
        let mut list: Vec<PolicyCost> =
            placed.iter().map(|placed| row(placed, before, plan.is_none())).collect();
        list.extend(plan.map(|plan| PolicyCost {
            moved: Some(moved(&plan.pu_logical, before)),
            shared_cores: plan.shared_cores,
            ..empty(&plan.policy, plan.cost, true)
        }));
        let bound = list.iter().filter(|row| row.moved.is_some());
        let fewest = bound.map(|row| row.shared_cores).min().unwrap_or(0);
        for row in &mut list {
            row.shares_needlessly = row.shared_cores > fewest;
        }
        list.sort_by(|a, b| {
            let key = |row: &PolicyCost| (row.shares_needlessly, row.cost);
            let ((a_shares, a_cost), (b_shares, b_cost)) = (key(a), key(b));
            // The chosen one is named first among equals; the sort is stable.
            let costs = a_cost.total_cmp(&b_cost).then(b.chosen.cmp(&a.chosen));
            a_shares.cmp(&b_shares).then(costs)
        });
        let best = list.first().map_or(0.0, |row| row.cost);
        let ratio = |cost: f64, of: f64| (of > 0.0).then(|| cost / of);
        for row in &mut list {
            row.to_best = ratio(row.cost, best);
            row.to_bound = ratio(row.cost, lower_bound);
        }
        Self { list, lower_bound, left_out }
    }
}

fn row(placed: &Placed, before: &Layout, no_plan: bool) -> PolicyCost {
    let pus: Vec<_> = placed.pu_logical.iter().map(|&pu| Some(pu)).collect();
    PolicyCost {
        moved: (!pus.is_empty()).then(|| moved(&pus, before)),
        shared_cores: placed.shared_cores,
        ..empty(placed.policy.name(), placed.cost, no_plan && placed.policy == PolicyKind::Locality)
    }
}

fn empty(policy: &str, cost: f64, chosen: bool) -> PolicyCost {
    PolicyCost {
        policy: policy.into(),
        cost,
        to_best: None,
        to_bound: None,
        moved: None,
        shared_cores: 0,
        shares_needlessly: false,
        chosen,
    }
}

fn moved(pus: &[Option<u32>], before: &Layout) -> usize {
    pus.iter().zip(&before.pu_logical).filter(|(now, then)| now != then).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_left_out_and_named() {
        let (kept, left_out) = computed(MAX_FOR_SOLVER);
        assert_eq!((kept.len(), left_out.len()), (PolicyKind::ALL.len(), 0));
        let names = |left_out: Vec<LeftOut>| -> Vec<String> {
            left_out.into_iter().map(|left_out| left_out.policy).collect()
        };
        let (_, left_out) = computed(MAX_FOR_SOLVER + 1);
        assert_eq!(
            left_out[0].reason,
            "takes long for 257 threads; threadtalk place --policy distance computes it"
        );
        assert_eq!(names(left_out), ["distance", "balanced-locality"]);
        let (kept, _) = computed(MAX_FOR_ANY + 1);
        let kept: Vec<_> = kept.into_iter().map(PolicyKind::name).collect();
        assert_eq!(kept, ["compact", "scatter", "locality", "os"]);
    }
}
