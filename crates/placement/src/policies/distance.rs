//! `distance`: threads that talk far from each other (Diener, 3.3.1.5): the solver on the inverted
//! matrix, every pair's weight taken from the largest.
//!
//! For programs whose threads need the caches for themselves more than they gain from sharing them,
//! and to see how much placement matters at all.

use crate::policies::{Input, Policy};
use crate::solver;

pub struct Distance;

impl Policy for Distance {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let inverted = input.tasks.inverted();
        let slots = solver::solve(&Input { tasks: &inverted, ..*input });
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}
