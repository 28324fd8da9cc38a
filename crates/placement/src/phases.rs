//! A placement for each phase of a program (thesis 5.4), where that is predicted to be cheaper.
//!
//! Given are the kinds of phases, each with its communication, and their order in the run. Kinds that
//! share a placement are a group. With at most [`MAX_PHASES`] kinds there are 15 ways to group them at
//! most, and all are priced: what each group communicates under its own placement, and what moving
//! costs at each change. A group counts only if its beginning can be recognised. Neighbours:
//! `remap.rs` keeps threads where they are, `plan.rs` holds the result.

use crate::place::{PlaceError, Placement, Request, place};
use crate::plan::{Plan, WORTH_A_PLAN};
use crate::remap::{Terms, remap};
use crate::solver::Effort;
use crate::tasks::Tasks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use topology::{Costs, DataNodes, ObjectKind, Topology};

/// Placements of a plan at most. Each but one in force takes one of the four debug registers of
/// x86-64 by which `run` recognises the next one.
pub const MAX_PHASES: usize = 4;
/// Version of plans with several placements.
pub const PLAN_WITH_PHASES: u32 = 4;
/// What the kernel needs to move a thread, ns: an estimate.
const MOVE_NS: f64 = 20_000.0;
/// Private cache that a moved thread fills again, where the machine does not tell, bytes.
const PRIVATE_BYTES: f64 = 524_288.0;
/// Threads from which on the solver only makes its fast tries: there are up to 15 groups.
const MANY: usize = 256;

/// An instruction that threads execute in one phase and in no other.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PlanMark {
    /// Name of its file, without folders.
    pub module: String,
    /// Its offset in that file, bytes.
    pub offset: u64,
    /// Its function; empty if not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// Source file and line; empty if not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub line: String,
}

impl std::fmt::Display for PlanMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.function.is_empty() {
            write!(f, "{} ", self.function)?;
        }
        match self.line.is_empty() {
            true => write!(f, "({}+{:#x})", self.module, self.offset),
            false => write!(f, "at {}", self.line),
        }
    }
}

/// Where one thread is in a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanPu {
    /// hwloc logical index (L#).
    pub pu_logical: u32,
    /// Operating-system index (P#).
    pub pu_os: u32,
}

/// One placement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanPhase {
    /// Its part of the recorded events, 0 to 1.
    pub part: f64,
    /// What its communication costs.
    pub cost: f64,
    /// Where it begins; absent for a first one that never comes again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins: Option<PlanMark>,
    /// In the order of the plan's slots.
    pub pus: Vec<PlanPu>,
}

/// The placements of a plan with several. The first is in force from the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlanPhases {
    /// What all phases cost with the best single placement.
    pub one: f64,
    /// What they cost so, moving included.
    pub cost: f64,
    /// What moving costs.
    pub moving: f64,
    /// Changes in the recorded run.
    pub switches: usize,
    /// Two or more.
    pub phases: Vec<PlanPhase>,
}

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

/// What moving a thread costs, in the unit of `costs`: the kernel's work, and its private cache from
/// as far as it gets.
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

impl Plan {
    /// The plan with a placement for each phase; its slots are those of the first.
    pub fn with_phases(mut self, found: PlanPhases) -> Self {
        for (slot, pu) in self.slots.iter_mut().zip(&found.phases[0].pus) {
            (slot.pu_logical, slot.pu_os) = (pu.pu_logical, pu.pu_os);
        }
        Self { version: PLAN_WITH_PHASES, cost: found.cost, phases: Some(found), ..self }
    }

    /// The plan as it is in its phase of this number.
    pub fn in_phase(&self, number: usize) -> Self {
        let mut plan = self.clone();
        let phase = self.phases.as_ref().and_then(|found| found.phases.get(number));
        for (slot, pu) in plan.slots.iter_mut().zip(phase.iter().flat_map(|phase| &phase.pus)) {
            (slot.pu_logical, slot.pu_os) = (pu.pu_logical, pu.pu_os);
        }
        plan
    }

    pub(crate) fn check_phases(&self) -> Result<(), String> {
        let Some(found) = &self.phases else { return Ok(()) };
        let count = found.phases.len();
        if !(2..=MAX_PHASES).contains(&count) {
            return Err(format!("it has {count} phases; 2 to {MAX_PHASES} work"));
        }
        if !self.apps.is_empty() {
            return Err("it has phases beside several applications".into());
        }
        for (number, phase) in found.phases.iter().enumerate() {
            if phase.pus.len() != self.slots.len() {
                return Err(format!("its phase {number} places another number of threads"));
            }
            if number > 0 && phase.begins.is_none() {
                return Err(format!("it does not say where its phase {number} begins"));
            }
            self.check_slots(&self.in_phase(number).slots)
                .map_err(|why| format!("phase {number}: {why}"))?;
        }
        Ok(())
    }
}
