//! The solver: threads into slots, so that threads that talk are close.
//!
//! 1. *Exact* for up to 16 slots (`exact.rs`).
//! 2. *Construct*: multilevel recursive multisection along the tree (`multilevel.rs`), started
//!    several times, what the greedy policies make, and threads in a line (`linear.rs`).
//! 3. *Refine*: swaps of threads (`refine.rs`) and of whole subtrees (`subtree.rs`).
//! 4. *Search*: kicks and repairs on the best of these (`search.rs`), under a budget of moves.
//! 5. *Order*: of the plans that cost the same, the one in natural order (`natural.rs`).
//!
//! Starts are independent of each other, so they run on several processors; which of them wins does
//! not depend on how many.

mod bisect;
mod crowding;
mod effort;
mod exact;
mod linear;
mod multilevel;
mod natural;
mod refine;
mod search;
mod subtree;

use refine::Reach;
pub(crate) use refine::State;
use subtree::Levels;
pub(crate) use subtree::shapes;

pub use effort::{Effort, UnknownEffort};

use crate::policies::{Compact, Complace, Eagermap, Input, Policy};
use crate::rng::Rng;
use crate::score::Score;
use effort::Budget;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rounds of thread swaps and subtree swaps.
const ROUNDS: usize = 6;
/// Fewest slots for which starts are given to several processors.
const WORTH_SHARING: usize = 64;

/// The best slots found, in natural order.
pub(crate) fn solve(input: &Input<'_>) -> Vec<usize> {
    natural::natural(input.tasks, input.tree, &best(input))
}

/// The best slots found.
fn best(input: &Input<'_>) -> Vec<usize> {
    if let Some(optimum) = exact::solve(input.tasks, input.tree) {
        return optimum;
    }
    let budget = input.effort.budget(input.tree.len());
    let levels = Levels::of(input.tree);
    let slots = best_start(input, &levels, budget);
    if budget.search == 0 || slots.is_empty() {
        return slots;
    }
    let mut state = State::new(input.tasks, input.tree, &slots);
    search::improve(&mut state, budget.search, &mut Rng::new(input.seed, 99));
    let searched = refined(input, &levels, state.slot, Reach::All, &mut Rng::new(input.seed, 98));
    let score = |slots: &[usize]| Score::of(input.tasks, input.tree, slots);
    if score(&searched).beats(&score(&slots)) { searched } else { slots }
}

/// A start and what became of it.
struct Start {
    number: usize,
    score: Score,
    slots: Vec<usize>,
}

/// The best of all starts, refined; those that look best most thoroughly.
fn best_start(input: &Input<'_>, levels: &Levels, budget: Budget) -> Vec<usize> {
    let mut greedy = greedy_starts(input);
    let score = |slots: &[usize]| Score::of(input.tasks, input.tree, slots);
    if budget.finalists == 0 {
        let scored = greedy.into_iter().map(|s| (score(&s), s));
        let cheapest = scored.reduce(|best, next| if next.0.beats(&best.0) { next } else { best });
        greedy = cheapest.into_iter().map(|(_, slots)| slots).collect();
    }
    let begin = |number: usize| {
        let mut rng = Rng::new(input.seed, 100 + number as u64);
        let slots = match greedy.get(number) {
            Some(slots) => slots.clone(),
            None => multilevel::construct(input.tasks, input.tree, &mut rng),
        };
        let slots = refined(input, levels, slots, Reach::Near, &mut rng);
        Start { number, score: score(&slots), slots }
    };
    let mut found = ranked(all(input, greedy.len() + budget.starts, &begin));
    // Who does not talk has no neighbours to be near to, but may be in a crowd.
    let finalists = budget.finalists.max(usize::from(!input.tree.crowded.is_empty()));
    if finalists > 0 {
        found.truncate(finalists);
        let finish = |rank: usize| {
            let Start { number, slots, .. } = &found[rank];
            let mut rng = Rng::new(input.seed, 1000 + *number as u64);
            let slots = refined(input, levels, slots.clone(), Reach::All, &mut rng);
            Start { number: *number, score: score(&slots), slots }
        };
        found = ranked(all(input, found.len(), &finish));
    }
    found.into_iter().next().map(|start| start.slots).unwrap_or_default()
}

/// The best first; of equally good ones the first.
fn ranked(mut starts: Vec<Start>) -> Vec<Start> {
    starts.sort_by(|a, b| {
        let key = |s: &Start| (s.score.unevenness, s.score.cost, s.number);
        key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal)
    });
    starts
}

/// What `start` makes of each of `count` numbers.
fn all<T: Send>(input: &Input<'_>, count: usize, start: &(impl Fn(usize) -> T + Sync)) -> Vec<T> {
    match input.jobs.min(count) {
        jobs if jobs > 1 && input.tree.len() >= WORTH_SHARING => shared(count, jobs, start),
        _ => (0..count).map(start).collect(),
    }
}

/// Results of all starts, computed by `jobs` threads.
fn shared<T: Send>(count: usize, jobs: usize, start: &(impl Fn(usize) -> T + Sync)) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                number if number < count => mine.push(start(number)),
                _ => return mine,
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let join = |w: std::thread::ScopedJoinHandle<'_, Vec<T>>| w.join().expect("no panic");
        workers.into_iter().flat_map(join).collect()
    })
}

/// The greedy policies' answers, as far as the slots allow them, and the slots in order.
fn greedy_starts(input: &Input<'_>) -> Vec<Vec<usize>> {
    let greedy = [&Compact as &dyn Policy, &Complace, &Eagermap];
    let answers = greedy.map(|policy| policy.place(input));
    let mut starts: Vec<Vec<usize>> =
        answers.iter().filter_map(|pus| input.tree.slots_for(pus, input.hierarchy)).collect();
    starts.push((0..input.tasks.len()).collect());
    starts.push(linear::construct(input.tasks, input.tree));
    starts.dedup();
    starts
}

/// Alternates swaps of threads and of subtrees until neither helps.
fn refined(
    input: &Input<'_>,
    levels: &Levels,
    mut slots: Vec<usize>,
    reach: Reach,
    rng: &mut Rng,
) -> Vec<usize> {
    for _ in 0..ROUNDS {
        let mut state = State::new(input.tasks, input.tree, &slots);
        state.descend(&rng.order(input.tasks.len()), reach);
        slots = state.slot;
        if !subtree::refine(input.tasks, input.tree, levels, &mut slots, rng) {
            break;
        }
    }
    slots
}
