//! `locality`: our solver, the default policy.
//!
//! 1. *Construct*: recursive multisection along the tree (`multilevel.rs`), several times; and the
//!    answers of the other policies, so that it is never worse than the best of them that keeps
//!    the same constraints.
//! 2. *Refine*: swaps of threads (`refine.rs`) and of whole subtrees (`subtree.rs`) until none helps.
//! 3. *Search*: iterated local search from the best (`search.rs`); branch and bound where the problem
//!    is small (`exact.rs`).
//!
//! Everything is counted in moves, nothing in time: a seed gives the same plan everywhere.

use crate::policy::{Input, Policy, PolicyKind};
use crate::refine::State;
use crate::rng::Rng;
use crate::score::Score;
use crate::{exact, multilevel, search, subtree};

/// Rounds of thread swaps and subtree swaps.
const ROUNDS: usize = 6;
/// Passes over all threads in one round.
const PASSES: usize = 30;
/// Swaps evaluated by the search.
const SEARCH_BUDGET: usize = 2_500_000;
/// Starts by multisection: more for small problems, where they are cheap.
const MOST_STARTS: usize = 16;
const FEWEST_STARTS: usize = 4;

pub struct Locality;

impl Policy for Locality {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let tasks = input.tasks;
        if tasks.total() == 0.0 && tasks.len() <= input.hierarchy.pus.len() {
            // Nobody talks: spread out, so that caches and memory controllers are shared least.
            return PolicyKind::Scatter.policy().place(input);
        }
        let slots = solve(input);
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}

/// The best slots found.
fn solve(input: &Input<'_>) -> Vec<usize> {
    let mut best: Option<(Score, Vec<usize>)> = None;
    let mut offer = |slots: Vec<usize>| {
        let score = Score::of(input.tasks, input.tree, &slots);
        if best.as_ref().is_none_or(|(found, _)| score.beats(found)) {
            best = Some((score, slots));
        }
    };
    let starts = (1500 / input.tasks.len().max(1)).clamp(FEWEST_STARTS, MOST_STARTS);
    for (stream, start) in greedy_starts(input).into_iter().enumerate() {
        offer(refined(input, start, &mut Rng::new(input.seed, stream as u64)));
    }
    for stream in 0..starts {
        let mut rng = Rng::new(input.seed, 100 + stream as u64);
        let start = multilevel::construct(input.tasks, input.tree, &mut rng);
        offer(refined(input, start, &mut rng));
    }
    let mut slots = best.map(|(_, slots)| slots).unwrap_or_default();
    exact::improve(input.tasks, input.tree, &mut slots);
    let mut state = State::new(input.tasks, input.tree, &slots);
    search::improve(&mut state, SEARCH_BUDGET, &mut Rng::new(input.seed, 99));
    let searched = refined(input, state.slot, &mut Rng::new(input.seed, 98));
    let better = Score::of(input.tasks, input.tree, &searched).beats(&Score::of(
        input.tasks,
        input.tree,
        &slots,
    ));
    if better { searched } else { slots }
}

/// The other policies' answers, as far as the slots allow them, and the slots in order.
fn greedy_starts(input: &Input<'_>) -> Vec<Vec<usize>> {
    let others = PolicyKind::ALL.into_iter().filter(|&kind| kind != PolicyKind::Locality);
    let answers = others.map(|kind| kind.policy().place(input));
    let mut starts: Vec<Vec<usize>> =
        answers.filter_map(|pus| input.tree.slots_for(&pus, input.hierarchy)).collect();
    starts.push((0..input.tasks.len()).collect());
    starts
}

/// Alternates swaps of threads and of subtrees until neither helps.
fn refined(input: &Input<'_>, mut slots: Vec<usize>, rng: &mut Rng) -> Vec<usize> {
    for round in 0..ROUNDS {
        let mut state = State::new(input.tasks, input.tree, &slots);
        state.descend(&rng.order(input.tasks.len()), PASSES, round == 0);
        slots = state.slot;
        if !subtree::refine(input.tasks, input.tree, &mut slots, rng) {
            break;
        }
    }
    slots
}
