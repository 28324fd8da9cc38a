//! `balanced-locality`: threads that talk close to each other, but on every level of the machine about
//! as much talk in each part (Diener, 3.3.1.7): locality with a price on load² of every node.
//!
//! The thesis extends EagerMap: it fills groups until they talk more than the average. A price finds
//! the same compromise and can be searched. A node's load is what its threads communicate; on a level
//! of N nodes, Σ load² lies between V²/N, all alike, and V², all on one. The price is set so that the
//! former costs, over all levels, as much again as the communication does under `locality` alone:
//! enough to pull apart what can be pulled apart cheaply, too little to tear apart who talks much.

use crate::policies::{Input, Policy, PolicyKind};
use crate::score::cost;
use crate::solver;

pub struct BalancedLocality;

impl Policy for BalancedLocality {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let volume: f64 = (0..input.tasks.len()).map(|t| input.tasks.volume(t)).sum();
        let levels = input.tree.depth() - 1;
        if volume == 0.0 || levels == 0 {
            return PolicyKind::Locality.policy().place(input);
        }
        let close = cost(input.tasks, input.tree, &solver::solve(input));
        let mut tree = input.tree.clone();
        let share = close / levels as f64 / (volume * volume);
        let price = |level: usize| if level == 0 { 0.0 } else { share * tree.parts(level) as f64 };
        tree.apart = (0..=levels).map(price).collect();
        let slots = solver::solve(&Input { tree: &tree, ..*input });
        slots.iter().map(|&slot| tree.pu[slot]).collect()
    }
}
