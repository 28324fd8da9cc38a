//! `balanced-locality`: threads that talk close to each other, but on every level of the machine
//! about as much talk in each part (Diener, 3.3.1.7), and no memory node asked for more than its
//! share: locality with a price on load² of every part, of its talk and of its memory traffic.
//!
//! The thesis extends EagerMap: it fills groups until they talk more than the average. A price
//! finds the same compromise and can be searched. A part's load is what its threads communicate; on
//! a level of N parts, Σ load² lies between V²/N, all alike, and V², all on one. The price is set
//! so that the former costs, over all levels, as much again as the communication does under
//! `locality` alone: enough to pull apart what can be pulled apart cheaply, too little to tear
//! apart who talks much.
//!
//! Memory congestion (what DeTLoc avoids by timing, here by amount): threads are taken to use the
//! memory node of their PU, as first touch makes them. With T accesses in all, of which a node with
//! the part b of all bandwidth gets t, Σ t²/b is least, T², where every node gets as much as its
//! bandwidth is worth. The price is set so that this costs as much again as communication. Where
//! the firmware does not tell all bandwidths, they count as equal. How many accesses the caches
//! keep from memory is not known either.

use crate::policies::locality::Locality;
use crate::policies::{Input, Policy};
use crate::score::cost;
use crate::slots::{Burden, Crowded};
use crate::solver;
use topology::Hierarchy;

/// Where no thread communicates, how much it counts to spread memory traffic over the caches, too.
const CACHES: f64 = 1e-3;

pub struct BalancedLocality;

impl Policy for BalancedLocality {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let talk = total(input, Burden::Talk);
        let memory = memory(input);
        if talk == 0.0 && memory.is_none() || input.tree.depth() == 1 && memory.is_none() {
            return Locality.place(input);
        }
        let mut tree = input.tree.clone();
        let close = match talk > 0.0 {
            true => cost(input.tasks, input.tree, &solver::solve(input)),
            false => 0.0,
        };
        tree.crowded = match talk > 0.0 {
            true => levels(input, Burden::Talk, close),
            false => levels(input, Burden::Memory, CACHES),
        };
        // Where talk costs nothing, any price will do.
        let price = if close > 0.0 { close } else { 1.0 };
        tree.crowded.extend(memory.map(|shares| crowded_memory(input, &shares, price)));
        let slots = solver::solve(&Input { tree: &tree, ..*input });
        slots.iter().map(|&slot| tree.pu[slot]).collect()
    }
}

fn total(input: &Input<'_>, by: Burden) -> f64 {
    (0..input.tasks.len()).map(|task| input.tasks.burden(task, by)).sum()
}

/// The nodes of all levels but the root; all evenly loaded, they cost `price` together.
fn levels(input: &Input<'_>, by: Burden, price: f64) -> Vec<Crowded> {
    let tree = input.tree;
    let all = total(input, by);
    let share = price / (tree.depth() - 1) as f64 / (all * all);
    let crowded = |level: usize| {
        let parts = tree.parts(level);
        Crowded { group: tree.node[level].clone(), price: vec![share * parts as f64; parts], by }
    };
    (1..tree.depth()).map(crowded).collect()
}

/// The part of all bandwidth that each memory node has; `None` where there is nothing to spread, or
/// nowhere to spread it.
fn memory(input: &Input<'_>) -> Option<Vec<f64>> {
    let several = input.hierarchy.nodes.len() > 1 && total(input, Burden::Memory) > 0.0;
    several.then(|| bandwidth_shares(input.hierarchy))
}

/// The part of the bandwidth of all memory nodes that each has; equal parts unless all are known.
pub fn bandwidth_shares(hierarchy: &Hierarchy) -> Vec<f64> {
    let known: Option<Vec<u64>> = hierarchy.nodes.iter().map(|node| node.bandwidth_mib).collect();
    let known = known.filter(|all| all.iter().all(|mib| *mib > 0));
    let mib = known.unwrap_or_else(|| vec![1; hierarchy.nodes.len()]);
    let sum: f64 = mib.iter().map(|mib| *mib as f64).sum();
    mib.iter().map(|mib| *mib as f64 / sum).collect()
}

/// The memory nodes; loaded in proportion to their shares, they cost `price` together.
fn crowded_memory(input: &Input<'_>, shares: &[f64], price: f64) -> Crowded {
    let all = total(input, Burden::Memory);
    Crowded {
        group: input.tree.pu.iter().map(|&pu| input.hierarchy.node[pu]).collect(),
        price: shares.iter().map(|share| price / share / (all * all)).collect(),
        by: Burden::Memory,
    }
}
