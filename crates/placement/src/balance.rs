//! Evens out loads: moves threads off crowded cores and PUs, cheapest move first.
//!
//! Used on the greedy policies, whose papers do not say what to do when threads outnumber cores.

use crate::refine::{Delta, State};
use crate::slots::SlotTree;
use crate::tasks::Tasks;

/// Changes `slots` until no move or swap makes the loads of the tree's groups more even.
pub fn even_out(tasks: &Tasks, tree: &SlotTree, slots: &mut Vec<usize>) {
    if tree.even.is_empty() {
        return;
    }
    let mut state = State::new(tasks, tree, slots);
    while let Some((a, b)) = best_move(&state) {
        state.swap(a, b);
    }
    *slots = state.slot;
}

/// Of the moves that even out most, the one that costs least.
fn best_move(state: &State<'_>) -> Option<(usize, usize)> {
    let mut best: Option<(Delta, usize, usize)> = None;
    for &a in &state.slot {
        for b in (0..state.tree.len()).filter(|&b| b != a && state.may_swap(a, b)) {
            let delta = state.delta(a, b);
            let better = best.as_ref().is_none_or(|(found, _, _)| delta.beats(found));
            if delta.unevenness < 0 && better {
                best = Some((delta, a, b));
            }
        }
    }
    best.map(|(_, a, b)| (a, b))
}
