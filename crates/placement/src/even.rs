//! Evens out loads: moves threads off crowded cores and PUs, each to where that costs least.
//!
//! Used by every policy that does not call the solver, but `compact`, `scatter` and `os`: papers do
//! not say what to do when threads outnumber cores.

use crate::slots::SlotTree;
use crate::solver::State;
use crate::tasks::Tasks;

/// Changes `slots` until no move or swap makes the loads of the tree's groups more even.
pub fn even_out(tasks: &Tasks, tree: &SlotTree, slots: &mut Vec<usize>) {
    if tree.even.is_empty() {
        return;
    }
    let mut state = State::new(tasks, tree, slots);
    let mut changed = true;
    while changed {
        changed = false;
        for task in 0..tasks.len() {
            let here = state.slot[task];
            if let Some((there, _)) = state.best_evening(here) {
                state.swap(here, there);
                changed = true;
            }
        }
    }
    *slots = state.slot;
}
