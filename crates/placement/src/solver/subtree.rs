//! Swaps of whole subtrees: the nodes of a level taken as slots, what is below them as tasks.
//!
//! A swap of single threads cannot exchange two well-packed cores or sockets without passing
//! through worse states; this can. Only subtrees of the same shape are exchanged.

use super::refine::{Reach, State};
use crate::rng::Rng;
use crate::score::Score;
use crate::slots::{Even, SlotTree};
use crate::tasks::Tasks;
use std::collections::BTreeMap;

/// A number for each node of a level (or each slot); nodes with equal numbers look the same below.
pub fn shapes(tree: &SlotTree, level: usize) -> Vec<usize> {
    if level == tree.depth() {
        return tree.shape.clone();
    }
    let below = shapes(tree, level + 1);
    let children = tree.ranges(level + 1);
    let mut known: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    tree.ranges(level)
        .iter()
        .map(|node| {
            let inside = (0..children.len()).filter(|&c| node.contains(&children[c].start));
            let key: Vec<usize> = inside.map(|c| below[c]).collect();
            let next = known.len();
            *known.entry(key).or_insert(next)
        })
        .collect()
}

/// Refines by swapping subtrees at every level, the smallest first. Never makes `slots` worse;
/// tells whether it made them better.
pub fn refine(tasks: &Tasks, tree: &SlotTree, slots: &mut Vec<usize>, rng: &mut Rng) -> bool {
    let mut improved = false;
    for level in (1..tree.depth()).rev() {
        let coarse_tree = tree_above(tree, level);
        if coarse_tree.len() < 3 {
            continue;
        }
        let coarse_tasks = tasks_of_nodes(tasks, tree, level, slots);
        let start: Vec<usize> = (0..coarse_tree.len()).collect();
        let mut state = State::new(&coarse_tasks, &coarse_tree, &start);
        if !state.descend(&rng.order(coarse_tree.len()), Reach::All) {
            continue;
        }
        let ranges = tree.ranges(level);
        let moved: Vec<usize> = slots
            .iter()
            .map(|&slot| {
                let node = tree.node[level][slot];
                ranges[state.slot[node]].start + slot - ranges[node].start
            })
            .collect();
        if Score::of(tasks, tree, &moved).beats(&Score::of(tasks, tree, slots)) {
            *slots = moved;
            improved = true;
        }
    }
    improved
}

/// The tree whose slots are the nodes of `level`.
fn tree_above(tree: &SlotTree, level: usize) -> SlotTree {
    let ranges = tree.ranges(level);
    let at_nodes = |of: &Vec<usize>| ranges.iter().map(|r| of[r.start]).collect::<Vec<usize>>();
    let within_one = |even: &&Even| {
        ranges.iter().all(|r| even.group[r.clone()].iter().all(|g| *g == even.group[r.start]))
    };
    let coarse = |even: &Even| Even { group: at_nodes(&even.group), weight: even.weight };
    SlotTree {
        pu: at_nodes(&tree.pu),
        node: tree.node[..level].iter().map(at_nodes).collect(),
        cost: tree.cost[..level].to_vec(),
        even: tree.even.iter().filter(within_one).map(coarse).collect(),
        apart: tree.apart.iter().take(level).copied().collect(),
        memory: tree.memory.min(level - 1),
        shape: shapes(tree, level),
    }
}

/// The tasks below each node of `level` taken as one.
fn tasks_of_nodes(tasks: &Tasks, tree: &SlotTree, level: usize, slots: &[usize]) -> Tasks {
    let node: Vec<usize> = slots.iter().map(|&slot| tree.node[level][slot]).collect();
    let count = tree.ranges(level).len();
    let mut weight = vec![0.0; count * count];
    let mut load = vec![0; count];
    let mut volume = vec![0.0; count];
    for a in 0..tasks.len() {
        load[node[a]] += tasks.load(a);
        volume[node[a]] += tasks.volume(a);
        for &(b, w) in tasks.neighbours(a).iter().filter(|&&(b, _)| node[b] != node[a]) {
            weight[node[a] * count + node[b]] += w;
        }
    }
    Tasks::from_weights(count, weight).with_load(load).with_volume(volume)
}
