//! Swaps of whole subtrees: the nodes of a level taken as slots, what is below them as tasks.
//!
//! A swap of single threads cannot exchange two well-packed cores or sockets without passing
//! through worse states; this can. Only subtrees of the same shape are exchanged.

use super::refine::{Reach, State};
use crate::rng::Rng;
use crate::score::Score;
use crate::slots::{Crowded, Even, SlotTree};
use crate::tasks::Tasks;
use std::collections::BTreeMap;
use std::ops::Range;

/// A number for each node of a level (or each slot); nodes with equal numbers look the same below.
pub fn shapes(tree: &SlotTree, level: usize) -> Vec<usize> {
    if level == tree.depth() {
        return tree.shape.clone();
    }
    shapes_above(tree, level, &shapes(tree, level + 1))
}

/// The same for all levels from the root down, on a tree whose slots are of the given shapes.
pub fn shapes_over(tree: &SlotTree, slots: Vec<usize>) -> Vec<Vec<usize>> {
    let mut shapes = vec![slots];
    for level in (0..tree.depth()).rev() {
        shapes.push(shapes_above(tree, level, &shapes[shapes.len() - 1]));
    }
    shapes.reverse();
    shapes
}

/// The shapes of a level, from those of the one below.
fn shapes_above(tree: &SlotTree, level: usize, below: &[usize]) -> Vec<usize> {
    let children = tree.ranges(level + 1);
    let mut known: BTreeMap<&[usize], usize> = BTreeMap::new();
    let mut child = 0;
    let shape = |node: &Range<usize>| {
        let first = child;
        child += children[first..].iter().take_while(|c| c.start < node.end).count();
        let next = known.len();
        *known.entry(&below[first..child]).or_insert(next)
    };
    tree.ranges(level).iter().map(shape).collect()
}

/// The levels of a tree at which subtrees are exchanged.
pub struct Levels {
    /// From the smallest subtrees to the largest.
    levels: Vec<Level>,
}

struct Level {
    level: usize,
    /// The tree whose slots are the nodes of the level.
    tree: SlotTree,
    /// The slots below each node.
    ranges: Vec<Range<usize>>,
}

impl Levels {
    pub fn of(tree: &SlotTree) -> Self {
        let mut below = tree.shape.clone();
        let mut levels = Vec::new();
        for level in (1..tree.depth()).rev() {
            below = shapes_above(tree, level, &below);
            let ranges = tree.ranges(level);
            if ranges.len() > 2 {
                levels.push(Level { level, tree: tree_above(tree, level, &below), ranges });
            }
        }
        Self { levels }
    }
}

/// Refines by swapping subtrees at every level, the smallest first. Never makes `slots` worse;
/// tells whether it made them better.
pub fn refine(
    tasks: &Tasks,
    tree: &SlotTree,
    levels: &Levels,
    slots: &mut Vec<usize>,
    rng: &mut Rng,
) -> bool {
    let mut best = None;
    let mut improved = false;
    // What is below the nodes of the level before, and the first slot of each.
    let mut below: Option<Tasks> = None;
    let mut first = slots.clone();
    for Level { level, tree: coarse, ranges } in &levels.levels {
        let node: Vec<usize> = first.iter().map(|&slot| tree.node[*level][slot]).collect();
        let together = merged(below.as_ref().unwrap_or(tasks), &node, coarse.len());
        let start: Vec<usize> = (0..coarse.len()).collect();
        let mut state = State::new(&together, coarse, &start);
        let better = state.descend(&rng.order(coarse.len()), Reach::All);
        let mut at = start;
        if better {
            let moved: Vec<usize> = slots
                .iter()
                .map(|&slot| {
                    let node = tree.node[*level][slot];
                    ranges[state.slot[node]].start + slot - ranges[node].start
                })
                .collect();
            let before = best.unwrap_or_else(|| Score::of(tasks, tree, slots));
            let after = Score::of(tasks, tree, &moved);
            best = Some(before);
            if after.beats(&before) {
                (*slots, best, at) = (moved, Some(after), state.slot);
                improved = true;
            }
        }
        first = at.iter().map(|&node| ranges[node].start).collect();
        below = Some(together);
    }
    improved
}

/// The tree whose slots are the nodes of `level`.
fn tree_above(tree: &SlotTree, level: usize, shape: &[usize]) -> SlotTree {
    let ranges = tree.ranges(level);
    let at_nodes = |of: &Vec<usize>| ranges.iter().map(|r| of[r.start]).collect::<Vec<usize>>();
    // Nodes that span several groups are exchanged without regard to these.
    let within_one = |group: &[usize]| {
        ranges.iter().all(|r| group[r.clone()].iter().all(|g| *g == group[r.start]))
    };
    let coarse = |even: &Even| Even { group: at_nodes(&even.group), weight: even.weight };
    let crowded = |crowded: &Crowded| Crowded {
        group: at_nodes(&crowded.group),
        price: crowded.price.clone(),
        by: crowded.by,
    };
    SlotTree {
        pu: at_nodes(&tree.pu),
        node: tree.node[..level].iter().map(at_nodes).collect(),
        cost: tree.cost[..level].to_vec(),
        even: tree.even.iter().filter(|e| within_one(&e.group)).map(coarse).collect(),
        crowded: tree.crowded.iter().filter(|c| within_one(&c.group)).map(crowded).collect(),
        memory: tree.memory.min(level - 1),
        shape: shape.to_vec(),
    }
}

/// The tasks of each of `count` nodes taken as one; `node` tells the node of each.
fn merged(tasks: &Tasks, node: &[usize], count: usize) -> Tasks {
    let mut weight = vec![0.0; count * count];
    let mut load = vec![0; count];
    let mut volume = vec![0.0; count];
    let mut traffic = vec![0.0; count];
    for a in 0..tasks.len() {
        load[node[a]] += tasks.load(a);
        volume[node[a]] += tasks.volume(a);
        traffic[node[a]] += tasks.traffic(a);
        let row = &mut weight[node[a] * count..(node[a] + 1) * count];
        tasks.neighbours(a).iter().for_each(|&(b, w)| row[node[b]] += w);
    }
    Tasks::from_weights(count, weight).with_load(load).with_burdens(volume, traffic)
}
