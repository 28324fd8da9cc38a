//! Placing again while the program runs: few threads move, and only where it pays.
//!
//! A fresh placement of nearly the same communication may look entirely different: sockets swapped,
//! cores renumbered. So it is *relabelled* first: of all ways to exchange equal parts of the
//! machine, which change no cost, the one that leaves most threads where they are (`relabel.rs`).
//! Beside it stands what a few exchanges make of the current placement, where each thread that
//! moves pays a price. The fresh one is taken only if it gains enough and pays for its migrations.
//!
//! Pure, like [`crate::place`]; the code that moves threads of a running program calls this.

mod relabel;

use crate::place::{PlaceError, Request, check};
use crate::policies::Input;
use crate::score::Score;
use crate::slots::SlotTree;
use crate::solver::State;
use crate::tasks::Tasks;
use topology::{Costs, Hierarchy, Topology};

/// Slots up to which exchanges with all of them are looked at.
const MAX_EVERYWHERE: usize = 256;

/// When moving threads is worth it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Terms {
    /// Part of the current cost that a fresh placement must save.
    pub min_gain: f64,
    /// Price of moving a thread, as a part of what a thread's communication costs on average.
    pub migration: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { min_gain: 0.05, migration: 0.03 }
    }
}

/// Where threads should be from now on.
#[derive(Clone, PartialEq, Debug)]
pub struct Remapping {
    /// For each thread the logical number of its PU.
    pub pu_logical: Vec<u32>,
    /// The threads that move.
    pub moved: Vec<usize>,
    /// Cost of staying, and of this.
    pub cost_before: f64,
    /// Cost of this placement.
    pub cost: f64,
}

/// Places `tasks`, whose threads now run on `current` (logical numbers of PUs), again.
///
/// Threads on PUs that are not allowed any more, and threads in each other's way, are moved in any
/// case.
///
/// # Errors
/// No threads, or costs made for another machine.
///
/// # Panics
/// When `current` has not one entry per thread.
pub fn remap(
    tasks: &Tasks,
    topology: &Topology,
    costs: &Costs,
    current: &[u32],
    request: &Request,
    terms: Terms,
) -> Result<Remapping, PlaceError> {
    assert_eq!(current.len(), tasks.len(), "a PU for each thread");
    let hierarchy = Hierarchy::new(topology);
    check(tasks, &hierarchy, costs)?;
    let tree = SlotTree::new(&hierarchy, &costs.per_level, tasks.len());
    let home = homes(&tree, &hierarchy, current);
    let Request { policy, seed, effort, jobs } = *request;
    let input = Input { tasks, hierarchy: &hierarchy, tree: &tree, seed, effort, jobs };
    let fresh = policy.policy().place(&input);
    let fresh = tree.slots_for(&fresh, &hierarchy).map(|s| relabel::relabel(&tree, &home, &s));
    let stay: Option<Vec<usize>> = home.iter().copied().collect();
    let slots = match (stay.clone(), fresh) {
        (Some(stay), Some(fresh)) => better(tasks, &tree, stay, fresh, terms),
        (None, Some(fresh)) => fresh,
        (Some(stay), None) => stay,
        (None, None) => (0..tasks.len()).collect(),
    };
    let cost = |slots: &[usize]| Score::of(tasks, &tree, slots).cost;
    Ok(Remapping {
        pu_logical: slots.iter().map(|&slot| hierarchy.pus[tree.pu[slot]]).collect(),
        moved: (0..slots.len()).filter(|&task| home[task] != Some(slots[task])).collect(),
        cost_before: stay.map_or(f64::INFINITY, |stay| cost(&stay)),
        cost: cost(&slots),
    })
}

/// The slot of each thread; `None` where its PU has none left.
fn homes(tree: &SlotTree, hierarchy: &Hierarchy, current: &[u32]) -> Vec<Option<usize>> {
    let mut taken = vec![false; tree.len()];
    let home = |&pu: &u32| {
        let at = hierarchy.pus.iter().position(|&allowed| allowed == pu)?;
        let slot = (0..tree.len()).find(|&slot| !taken[slot] && tree.pu[slot] == at)?;
        taken[slot] = true;
        Some(slot)
    };
    current.iter().map(home).collect()
}

/// The fresh placement if it is worth it, else the old one with those exchanges that are.
fn better(
    tasks: &Tasks,
    tree: &SlotTree,
    stay: Vec<usize>,
    fresh: Vec<usize>,
    terms: Terms,
) -> Vec<usize> {
    let score = |slots: &[usize]| Score::of(tasks, tree, slots);
    let before = score(&stay);
    // Every pair's cost is shared by two threads.
    let price = terms.migration * 2.0 * before.cost / tasks.len() as f64;
    let moved = |slots: &[usize]| slots.iter().zip(&stay).filter(|(a, b)| a != b).count() as f64;
    let warm = exchange(tasks, tree, &stay, price);
    let (warm_score, fresh_score) = (score(&warm), score(&fresh));
    let gains = fresh_score.cost < before.cost * (1.0 - terms.min_gain)
        && fresh_score.cost + price * moved(&fresh) < warm_score.cost + price * moved(&warm);
    match fresh_score.unevenness.cmp(&warm_score.unevenness) {
        std::cmp::Ordering::Less => fresh,
        std::cmp::Ordering::Equal if gains => fresh,
        _ => warm,
    }
}

/// Exchanges that gain more than the migrations they cause cost. On large trees only slots near a
/// thread's neighbours are looked at, and its own: what else there is to gain, a fresh placement
/// finds.
fn exchange(tasks: &Tasks, tree: &SlotTree, home: &[usize], price: f64) -> Vec<usize> {
    let mut state = State::new(tasks, tree, home);
    let away = |task: usize, slot: usize| match home.get(task) {
        Some(&own) => f64::from(u8::from(own != slot)),
        None => 0.0,
    };
    let all: Vec<usize> = (0..tree.len()).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for task in 0..tasks.len() {
            let here = state.slot[task];
            let near: Vec<usize>;
            let within = match tree.len() > MAX_EVERYWHERE && !state.crowded_or_idle(here) {
                true => {
                    near = state.near(here).chain(home.get(task).copied()).collect();
                    &near
                }
                false => &all,
            };
            let total = |there: &usize| {
                let delta = state.delta(here, *there);
                let other = state.held[*there];
                let left =
                    away(task, *there) - away(task, here) + away(other, here) - away(other, *there);
                (delta.unevenness, delta.cost + price * left)
            };
            let may = |there: &usize| *there != here && state.may_swap(here, *there);
            let best = within.iter().copied().filter(may).map(|there| (total(&there), there));
            let least = best.min_by(|a, b| a.0.0.cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)));
            if let Some((gain, there)) = least.filter(|(gain, _)| *gain < (0, -state.rounding)) {
                debug_assert!(gain.0 <= 0);
                state.swap(here, there);
                changed = true;
            }
        }
    }
    state.slot
}
