//! `eagermap`: the greedy bottom-up grouping of EagerMap (Cruz, Diener, Pilla, Navaux: An efficient
//! algorithm for communication-based task mapping, PDP 2015), the mapping of Diener's thesis.
//!
//! At each level, from the slots up: groups as large as the nodes of that level are filled one after
//! another, starting with the lowest free member and adding the one that communicates most with
//! the group so far. Groups become the members of the next level. Free slots take part as threads
//! that talk to nobody. On machines whose nodes differ in size, a group only goes where it fits.

use crate::balance;
use crate::policy::{Input, Policy};
use crate::slots::SlotTree;
use crate::subtree::shapes;
use crate::tasks::Tasks;

pub struct Eagermap;

impl Policy for Eagermap {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let mut slots = grouped(input.tasks, input.tree);
        balance::even_out(input.tasks, input.tree, &mut slots);
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}

/// Threads (numbers beyond the last thread are free slots) that go to one node.
struct Group {
    members: Vec<usize>,
    shape: usize,
}

fn grouped(tasks: &Tasks, tree: &SlotTree) -> Vec<usize> {
    let slots = tree.len();
    let mut groups: Vec<Group> =
        (0..slots).map(|member| Group { members: vec![member], shape: 0 }).collect();
    let mut weight = vec![0.0; slots * slots];
    for a in 0..tasks.len() {
        for &(b, w) in tasks.neighbours(a) {
            weight[a * slots + b] = w;
        }
    }
    for level in (0..tree.depth()).rev() {
        let parts = select(tree, level, &groups, &weight);
        (groups, weight) = merge(groups, &weight, &parts, &shapes(tree, level));
    }
    let mut slot_of = vec![0; tasks.len()];
    for (slot, &member) in groups[0].members.iter().enumerate() {
        if member < tasks.len() {
            slot_of[member] = slot;
        }
    }
    slot_of
}

/// Which groups go together into each node of `level`, in the order of the node's children.
fn select(tree: &SlotTree, level: usize, groups: &[Group], weight: &[f64]) -> Vec<Vec<usize>> {
    let count = groups.len();
    let child_shapes = shapes(tree, level + 1);
    let children = tree.ranges(level + 1);
    let mut chosen = vec![false; count];
    tree.ranges(level)
        .iter()
        .map(|node| {
            let mut talk = vec![0.0; count];
            let mut part: Vec<usize> = Vec::new();
            let inside = (0..children.len()).filter(|&c| node.contains(&children[c].start));
            for child in inside {
                let fits = |&g: &usize| !chosen[g] && groups[g].shape == child_shapes[child];
                let heavier = |best: usize, g: usize| if talk[g] > talk[best] { g } else { best };
                let next = (0..count).filter(fits).reduce(heavier);
                let next = next.expect("as many groups of each shape as nodes");
                chosen[next] = true;
                part.push(next);
                (0..count).for_each(|g| talk[g] += weight[next * count + g]);
            }
            part
        })
        .collect()
}

fn merge(
    groups: Vec<Group>,
    weight: &[f64],
    parts: &[Vec<usize>],
    shape: &[usize],
) -> (Vec<Group>, Vec<f64>) {
    let (old, new) = (groups.len(), parts.len());
    let mut part_of = vec![0; old];
    for (part, members) in parts.iter().enumerate() {
        members.iter().for_each(|&g| part_of[g] = part);
    }
    let mut merged = vec![0.0; new * new];
    for a in 0..old {
        for b in (0..old).filter(|&b| part_of[a] != part_of[b]) {
            merged[part_of[a] * new + part_of[b]] += weight[a * old + b];
        }
    }
    let groups = parts
        .iter()
        .zip(shape)
        .map(|(part, &shape)| Group {
            members: part.iter().flat_map(|&g| groups[g].members.iter().copied()).collect(),
            shape,
        })
        .collect();
    (groups, merged)
}
