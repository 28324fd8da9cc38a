//! `locality`: threads that talk close to each other, by our solver; the default.

use crate::policies::scatter::Scatter;
use crate::policies::{Input, Policy};
use crate::solver;

pub struct Locality;

impl Policy for Locality {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let tasks = input.tasks;
        if tasks.total() == 0.0 && tasks.len() <= input.hierarchy.pus.len() {
            // No thread communicates: spread out, so that caches and memory controllers are shared
            // least.
            return Scatter.place(input);
        }
        let slots = solver::solve(input);
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}
