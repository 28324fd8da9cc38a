//! Relabelling: the same placement by cost, with as many threads as possible where they are.
//!
//! Nodes of one parent and one shape may be exchanged with all that is in them: such symmetries
//! change no cost. Which exchange keeps most threads is found bottom-up: for each node of the new
//! placement and each node of the old one that it could become, the best assignment of its
//! children, by the Hungarian method. Nodes that have no thread in common are worth nothing to each
//! other and are not looked into.

use crate::slots::SlotTree;
use crate::solver::shapes;
use pathfinding::matrix::Matrix;
use pathfinding::prelude::kuhn_munkres;
use std::collections::BTreeMap;

/// Worth of a thread that stays in its slot, and of one that stays below its node at any level:
/// where threads must move, a short way is better than a long one.
const SAME_SLOT: i64 = 1 << 20;
const SAME_NODE: i64 = 1;
/// Of children that differ in shape.
const IMPOSSIBLE: i64 = -(1 << 50);

/// `new`, relabelled to agree with `old` as much as possible.
pub fn relabel(tree: &SlotTree, old: &[Option<usize>], new: &[usize]) -> Vec<usize> {
    let relabelling = Relabelling::new(tree, old, new);
    let mut image = vec![0; tree.len()];
    relabelling.apply(0, 0, 0, &mut image);
    new.iter().map(|&slot| image[slot]).collect()
}

struct Relabelling {
    /// Per level, the slots' own last: shape of each node, and its children as numbers of nodes.
    shape: Vec<Vec<usize>>,
    children: Vec<Vec<std::ops::Range<usize>>>,
    /// Per level, threads that are below a node in the new placement and below another in the old.
    common: Vec<BTreeMap<(usize, usize), i64>>,
}

impl Relabelling {
    fn new(tree: &SlotTree, old: &[Option<usize>], new: &[usize]) -> Self {
        let depth = tree.depth();
        let node = |level: usize, slot: usize| tree.node.get(level).map_or(slot, |n| n[slot]);
        let common = (0..=depth).map(|level| {
            let mut count = BTreeMap::new();
            for (&new, old) in new.iter().zip(old) {
                if let Some(old) = *old {
                    *count.entry((node(level, new), node(level, old))).or_insert(0) += 1;
                }
            }
            count
        });
        let children = (0..depth).map(|level| {
            let below = tree.ranges(level + 1);
            let inside = |range: &std::ops::Range<usize>| {
                let first = below.partition_point(|r| r.start < range.start);
                first..below.partition_point(|r| r.start < range.end)
            };
            tree.ranges(level).iter().map(inside).collect()
        });
        Self {
            shape: (0..=depth).map(|level| shapes(tree, level)).collect(),
            children: children.collect(),
            common: common.collect(),
        }
    }

    /// The gain if node `from` becomes node `to`, and which child then becomes which.
    fn best(&self, level: usize, from: usize, to: usize) -> (i64, Vec<usize>) {
        let (ours, theirs) = (&self.children[level][from], &self.children[level][to]);
        let worth = |(i, j): (usize, usize)| {
            let (a, b) = (ours.start + i, theirs.start + j);
            match self.shape[level + 1][a] == self.shape[level + 1][b] {
                true => self.worth(level + 1, a, b),
                false => IMPOSSIBLE,
            }
        };
        let weights = Matrix::from_fn(ours.len(), theirs.len(), worth);
        let (sum, assigned) = kuhn_munkres(&weights);
        (sum, assigned.into_iter().map(|j| theirs.start + j).collect())
    }

    fn worth(&self, level: usize, from: usize, to: usize) -> i64 {
        let Some(threads) = self.common[level].get(&(from, to)) else { return 0 };
        match self.children.get(level) {
            None => threads * SAME_SLOT,
            Some(_) => threads * SAME_NODE + self.best(level, from, to).0,
        }
    }

    /// Notes for each slot below `from` which slot it becomes when `from` becomes `to`.
    fn apply(&self, level: usize, from: usize, to: usize, image: &mut [usize]) {
        if level == self.children.len() {
            image[from] = to;
            return;
        }
        let (_, assigned) = self.best(level, from, to);
        for (child, becomes) in self.children[level][from].clone().zip(assigned) {
            self.apply(level + 1, child, becomes, image);
        }
    }
}
