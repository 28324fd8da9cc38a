//! Iterated local search: kick a good placement, repair it locally, keep it if it is not worse.
//!
//! Kicks are a short chain of swaps, the exchange of two small subtrees or the move of a few
//! friends. Only tasks near the kick are looked at again, and a kick that does not pay is undone.
//! The budget counts slots looked at, never time, so that a seed gives the same plan on every
//! machine.

use super::refine::{Delta, EMPTY, Reach, State};
use crate::rng::Rng;

/// Neighbours of a moved task that are looked at again.
const NEAR: usize = 6;
/// Most repairs after one kick.
const REPAIRS: usize = 200;
/// Largest subtree that is exchanged as a whole, slots.
const LARGEST_EXCHANGE: usize = 16;

/// Most friends that a task takes along.
const FRIENDS: usize = 3;

/// What a kick counts itself, so that those which change nothing come to an end, too.
const KICK: usize = 16;

/// Improves `state` by looking at about `budget` slots; it never ends worse than it began.
pub fn improve(state: &mut State<'_>, budget: usize, rng: &mut Rng) {
    let slots = state.tree.len();
    let queued = vec![false; slots];
    let mut search = Search { log: Vec::new(), queue: Vec::new(), queued, spent: 0 };
    let ranges: Vec<_> = (0..=state.tree.depth()).map(|level| state.tree.ranges(level)).collect();
    while search.spent < budget && slots > 2 {
        let mut change = Delta { unevenness: 0, cost: 0.0 };
        let level = 1 + rng.below(state.tree.depth());
        let nodes = &ranges[level];
        let (x, y) = (&nodes[rng.below(nodes.len())], &nodes[rng.below(nodes.len())]);
        if x.len() == y.len() && x.len() > 1 && x.len() <= LARGEST_EXCHANGE {
            for (a, b) in x.clone().zip(y.clone()).filter(|(a, b)| a != b) {
                search.swap(state, a, b, &mut change);
            }
        } else if !state.tree.crowded.is_empty() && rng.below(2) == 0 {
            search.move_together(state, rng, &mut change);
        } else {
            let a = rng.below(slots);
            for _ in 0..2 + rng.below(3) {
                let b = rng.below(slots);
                if a != b && state.may_swap(a, b) {
                    search.swap(state, a, b, &mut change);
                }
            }
        }
        search.spent += KICK;
        search.repair(state, &mut change);
        if change.unevenness > 0 || change.unevenness == 0 && change.cost > state.rounding {
            search.log.iter().rev().for_each(|&(a, b)| state.swap(a, b));
        }
        search.log.clear();
    }
}

struct Search {
    /// Swaps since the kick, to undo them.
    log: Vec<(usize, usize)>,
    /// Tasks to look at again.
    queue: Vec<usize>,
    queued: Vec<bool>,
    /// Slots looked at and neighbours of swapped tasks told, so far.
    spent: usize,
}

impl Search {
    fn swap(&mut self, state: &mut State<'_>, a: usize, b: usize, change: &mut Delta) {
        let delta = state.delta(a, b);
        change.unevenness += delta.unevenness;
        change.cost += delta.cost;
        // Swapping and swapping back each tell all neighbours.
        let told = |slot: usize| match state.held[slot] {
            EMPTY => 0,
            task => state.tasks.neighbours(task).len(),
        };
        self.spent += 2 * (1 + told(a) + told(b));
        state.swap(a, b);
        self.log.push((a, b));
        self.look_at(state.held[a]);
        self.look_at(state.held[b]);
    }

    /// Takes a task and those it talks to most elsewhere. Where crowds have a price, friends may
    /// have to leave together: a task that goes alone comes back.
    fn move_together(&mut self, state: &mut State<'_>, rng: &mut Rng, change: &mut Delta) {
        let slots = state.tree.len();
        let (from, to) = (rng.below(slots), rng.below(slots));
        let task = state.held[from];
        if task == EMPTY {
            return;
        }
        let friends = state.tasks.neighbours(task).iter().take(1 + rng.below(FRIENDS));
        let group: Vec<usize> = std::iter::once(task).chain(friends.map(|e| e.0)).collect();
        for (task, b) in group.into_iter().zip(to..slots) {
            let a = state.slot[task];
            if a != b && state.may_swap(a, b) {
                self.swap(state, a, b, change);
            }
        }
    }

    fn look_at(&mut self, task: usize) {
        if task != EMPTY && !self.queued[task] {
            self.queued[task] = true;
            self.queue.push(task);
        }
    }

    /// Best swaps of the tasks near the kick.
    fn repair(&mut self, state: &mut State<'_>, change: &mut Delta) {
        let mut left = REPAIRS;
        while let Some(task) = self.queue.pop() {
            self.queued[task] = false;
            if left == 0 {
                continue;
            }
            left -= 1;
            self.spent += state.looks(task);
            let here = state.slot[task];
            let Some((there, _)) = state.best_swap(here, Reach::Near) else { continue };
            self.swap(state, here, there, change);
            for &(near, _) in state.tasks.neighbours(task).iter().take(NEAR) {
                self.look_at(near);
            }
        }
    }
}
