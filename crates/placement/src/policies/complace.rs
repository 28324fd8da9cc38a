//! `complace`: the greedy mapping of COMPLACE (section IV.A, Algorithm 2).
//!
//! Start with any thread on any core; then again and again take the heaviest communication edge
//! between a mapped and an unmapped thread, and put the unmapped end on the free core with the
//! heaviest hardware edge to the mapped end, that is, the closest one. "Any" is the lowest number
//! here, and so are ties. Mapped threads and cores leave their graphs. The paper leaves more
//! threads than cores open; the slots and `balance.rs` extend it.

use crate::even;
use crate::policies::{Input, Policy};
use crate::slots::SlotTree;
use crate::tasks::Tasks;

pub struct Complace;

impl Policy for Complace {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let mut slots = greedy(input.tasks, input.tree);
        even::even_out(input.tasks, input.tree, &mut slots);
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}

fn greedy(tasks: &Tasks, tree: &SlotTree) -> Vec<usize> {
    let threads = tasks.len();
    let mut slot_of: Vec<Option<usize>> = vec![None; threads];
    let mut free = vec![true; tree.len()];
    // For each unmapped thread its heaviest edge to a mapped one.
    let mut edge: Vec<Option<(f64, usize)>> = vec![None; threads];
    for _ in 0..threads {
        let pending = (0..threads).filter(|&t| slot_of[t].is_none());
        let heaviest = pending
            .clone()
            .filter_map(|t| edge[t].map(|(weight, mapped)| (weight, t, mapped)))
            .reduce(|best, next| if next.0 > best.0 { next } else { best });
        let (thread, slot) = match heaviest {
            Some((_, thread, mapped)) => {
                let start = slot_of[mapped].unwrap_or_default();
                (Some(thread), closest_free(tree, &free, start))
            }
            None => (pending.clone().next(), free.iter().position(|&f| f)),
        };
        let (Some(thread), Some(slot)) = (thread, slot) else { break };
        slot_of[thread] = Some(slot);
        free[slot] = false;
        for &(other, weight) in tasks.neighbours(thread) {
            if slot_of[other].is_none() && edge[other].is_none_or(|(best, _)| weight > best) {
                edge[other] = Some((weight, thread));
            }
        }
    }
    slot_of.into_iter().map(|slot| slot.expect("as many slots as threads")).collect()
}

fn closest_free(tree: &SlotTree, free: &[bool], start: usize) -> Option<usize> {
    (0..tree.depth()).rev().find_map(|level| {
        let nodes = &tree.node[level];
        (0..tree.len()).find(|&slot| free[slot] && nodes[slot] == nodes[start])
    })
}
