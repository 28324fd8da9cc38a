//! A placement for each phase of a program (thesis 5.4), where that is predicted to be cheaper.
//!
//! Given are the kinds of phases, each with its communication, and their order in the run. Kinds
//! that share a placement are a group. With at most [`MAX_PHASES`] kinds there are 15 ways to group
//! them at most, and all are priced: what each group communicates under its own placement, and what
//! moving costs at each change. A group counts only if its beginning can be recognised. Neighbours:
//! `remap.rs` keeps threads where they are, `phase_plan.rs` is the result.

use crate::phase_plan::{MAX_PHASES, PlanMark, PlanPhase, PlanPhases, PlanPu};
use crate::place::{PlaceError, Placement, Request, place};
use crate::plan::WORTH_A_PLAN;
use crate::remap::{Terms, remap};
use crate::solver::Effort;
use crate::tasks::Tasks;
use std::collections::BTreeMap;
use topology::{Costs, DataNodes, ObjectKind, Topology};

/// What the kernel needs to move a thread, ns: an estimate.
const MOVE_NS: f64 = 20_000.0;
/// Private cache that a moved thread fills again, where the machine does not tell, bytes.
const PRIVATE_BYTES: f64 = 524_288.0;
/// Threads from which on the solver only makes its fast tries: there are up to 15 groups.
const MANY: usize = 256;

/// What is known of a run's phases.
pub struct PhaseInput<'a> {
    /// The communication of each kind.
    pub kinds: &'a [Tasks],
    /// The kind of each phase in turn, no two neighbours alike.
    pub order: &'a [usize],
    /// What marks the beginning of phases of these kinds, after any of the others.
    pub mark: &'a dyn Fn(&[usize]) -> Option<PlanMark>,
}

/// Whether one placement is enough.
#[derive(Clone, PartialEq, Debug)]
pub enum Phased {
    /// It is.
    One,
    /// Several would save this part, 0 to 1, but where they begin cannot be recognised.
    Unmarked(f64),
    /// Several are cheaper.
    Several(PlanPhases),
}

/// Finds placements by phase that are cheaper than `one`, the best for the whole run.
///
/// # Errors
/// As [`place`].
pub fn place_by_phase(
    input: &PhaseInput<'_>,
    one: &Placement,
    topology: &Topology,
    costs: &Costs,
    request: &Request,
) -> Result<Phased, PlaceError> {
    let kinds = input.kinds.len();
    if !(2..=MAX_PHASES).contains(&kinds) || one.pu_logical.is_empty() {
        return Ok(Phased::One);
    }
    let effort = if input.kinds[0].len() > MANY { Effort::Fast } else { request.effort };
    let request = Request { effort, ..*request };
    let mut placed: BTreeMap<Vec<usize>, Placement> = BTreeMap::new();
    let worth = WORTH_A_PLAN * one.cost;
    let (mut best, mut unmarked): (Option<PlanPhases>, f64) = (None, 0.0);
    for groups in partitions(kinds).into_iter().filter(|groups| groups.len() > 1) {
        for group in &groups {
            if !placed.contains_key(group) {
                let placement = place(&sum(input.kinds, group), topology, costs, &request)?;
                placed.insert(group.clone(), placement);
            }
        }
        let least: f64 = groups.iter().map(|group| placed[group].cost).sum();
        let to_beat = best.as_ref().map_or(one.cost - worth, |best| best.cost);
        if least >= to_beat {
            continue;
        }
        let found = by_groups(input, &groups, &placed, (topology, costs), &request)?;
        let found = PlanPhases { one: one.cost, ..found };
        let again = |at: usize| at > 0 || found.switches >= 2;
        if found.cost >= to_beat {
        } else if (0..groups.len()).all(|at| !again(at) || found.phases[at].begins.is_some()) {
            best = Some(found);
        } else {
            unmarked = unmarked.max(1.0 - found.cost / one.cost);
        }
    }
    Ok(match best {
        Some(found) => Phased::Several(found),
        None if unmarked > 0.0 => Phased::Unmarked(unmarked),
        None => Phased::One,
    })
}

/// Placements of these groups, the first one's first, with as few threads moved as possible.
fn by_groups(
    input: &PhaseInput<'_>,
    groups: &[Vec<usize>],
    placed: &BTreeMap<Vec<usize>, Placement>,
    (topology, costs): (&Topology, &Costs),
    request: &Request,
) -> Result<PlanPhases, PlaceError> {
    let group_of = |kind: usize| groups.iter().position(|group| group.contains(&kind)).unwrap_or(0);
    let first = &placed[&groups[0]];
    let all: f64 = input.kinds.iter().map(Tasks::total).sum::<f64>().max(1.0);
    let mut phases = Vec::new();
    for group in groups {
        let tasks = sum(input.kinds, group);
        let (cost, logical) = match phases.is_empty() {
            true => (first.cost, first.pu_logical.clone()),
            false => {
                let free = Terms { min_gain: 0.0, migration: 0.0 };
                let found = remap(&tasks, topology, costs, &first.pu_logical, request, free)?;
                (found.cost, found.pu_logical)
            }
        };
        let pu = |&pu_logical: &u32| PlanPu {
            pu_logical,
            pu_os: topology.pus.get(pu_logical as usize).map_or(0, |pu| pu.os),
        };
        let pus = logical.iter().map(pu).collect();
        phases.push(PlanPhase {
            part: tasks.total() / all,
            cost,
            begins: (input.mark)(group),
            pus,
        });
    }
    let price = price_of_moving(topology, costs);
    let mut order: Vec<usize> = input.order.iter().map(|&kind| group_of(kind)).collect();
    order.dedup();
    let moved = |pair: &[usize]| {
        let (from, to) = (&phases[pair[0]].pus, &phases[pair[1]].pus);
        from.iter().zip(to).filter(|(a, b)| a != b).count() as f64 * price
    };
    let moving: f64 = order.windows(2).map(moved).sum();
    let cost = phases.iter().map(|phase| phase.cost).sum::<f64>() + moving;
    Ok(PlanPhases { one: 0.0, cost, moving, switches: order.len() - 1, phases })
}

/// What moving a thread costs, in the unit of `costs`: the kernel's work, and its private cache
/// from as far as it gets.
fn price_of_moving(topology: &Topology, costs: &Costs) -> f64 {
    let nodes = DataNodes::new(topology, costs);
    let known = topology.objects.iter().filter(|object| object.kind == ObjectKind::Cache(2));
    let bytes = known.map(|cache| cache.cache_bytes).filter(|&bytes| bytes > 0).max();
    let lines = bytes.map_or(PRIVATE_BYTES, |bytes| bytes as f64) / 64.0;
    let farthest = costs.per_level.iter().copied().fold(0.0, f64::max);
    MOVE_NS * nodes.per_ns + lines * farthest
}

/// The communication of several kinds together.
fn sum(kinds: &[Tasks], group: &[usize]) -> Tasks {
    let threads = kinds[0].len();
    let mut weight = vec![0.0; threads * threads];
    for &kind in group {
        for a in 0..threads {
            kinds[kind].neighbours(a).iter().for_each(|(b, w)| weight[a * threads + b] += w);
        }
    }
    let load = (0..threads).map(|task| kinds[0].load(task)).collect();
    Tasks::from_weights(threads, weight).with_load(load)
}

/// All ways to put the numbers below `count` into groups; the first group has 0.
fn partitions(count: usize) -> Vec<Vec<Vec<usize>>> {
    let mut all: Vec<Vec<Vec<usize>>> = vec![Vec::new()];
    for number in 0..count {
        let mut longer = Vec::new();
        for groups in all {
            for at in 0..groups.len() {
                let mut with = groups.clone();
                with[at].push(number);
                longer.push(with);
            }
            let mut with = groups;
            with.push(vec![number]);
            longer.push(with);
        }
        all = longer;
    }
    all
}
