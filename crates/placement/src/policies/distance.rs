//! `distance`: threads that talk far from each other (Diener, 3.3.1.5), the opposite of `locality`:
//! the solver on inverted costs, every level's taken from the highest.
//!
//! The thesis inverts the matrix instead, every pair's weight taken from the largest. Where threads
//! fill all cores that is the same. Where cores stay free it is not: threads that do not talk would
//! then be pulled together, and most of all threads with them.
//!
//! For programs whose threads need the caches for themselves more than they gain from sharing them,
//! and to see how much placement matters at all.

use crate::policies::locality::Locality;
use crate::policies::{Input, Policy};
use crate::slots::SlotTree;
use crate::solver;

pub struct Distance;

impl Policy for Distance {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        if input.tasks.total() == 0.0 {
            return Locality.place(input);
        }
        let highest = input.tree.cost.iter().copied().fold(0.0, f64::max);
        let cost = input.tree.cost.iter().map(|cost| highest - cost).collect();
        let tree = SlotTree { cost, ..input.tree.clone() };
        let slots = solver::solve(&Input { tree: &tree, ..*input });
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}
