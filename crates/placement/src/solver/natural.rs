//! Natural order: of all plans that differ only by exchanging equal parts of the machine, the one
//! in which each thread in turn has the lowest slot that it can have: T0 on L#0, and so on.
//!
//! The solver finds one of many plans of the same cost, often a mirrored one. Nodes of one parent
//! and one shape may be exchanged with all that is in them (see `subtree::shapes`), so in each
//! group of such nodes those with the lowest thread numbers come first.

use super::subtree::shapes_over;
use crate::score::Score;
use crate::slots::SlotTree;
use crate::tasks::Tasks;
use std::collections::BTreeMap;

/// `slots` in natural order, at the same cost.
pub fn natural(tasks: &Tasks, tree: &SlotTree, slots: &[usize]) -> Vec<usize> {
    let image = Order::new(tree, slots).image();
    let ordered: Vec<usize> = slots.iter().map(|&slot| image[slot]).collect();
    let score = |slots: &[usize]| Score::of(tasks, tree, slots);
    let (before, after) = (score(slots), score(&ordered));
    // Equal parts cost the same, or what follows from a plan's cost is wrong.
    assert!(!before.beats(&after), "the order changes the cost: {before:?} to {after:?}");
    ordered
}

struct Order<'a> {
    tree: &'a SlotTree,
    /// Per level, the slots' own last: shape and lowest thread of each node.
    shape: Vec<Vec<usize>>,
    lowest: Vec<Vec<usize>>,
}

impl<'a> Order<'a> {
    fn new(tree: &'a SlotTree, slots: &[usize]) -> Self {
        let lowest = |level: usize| {
            let mut lowest = vec![usize::MAX; tree.ranges(level).len()];
            for (thread, &slot) in slots.iter().enumerate() {
                let node = tree.node.get(level).map_or(slot, |nodes| nodes[slot]);
                lowest[node] = lowest[node].min(thread);
            }
            lowest
        };
        Self {
            tree,
            shape: shapes_over(tree, priced_shapes(tree)),
            lowest: (0..=tree.depth()).map(lowest).collect(),
        }
    }

    /// For each slot the one that it becomes.
    fn image(&self) -> Vec<usize> {
        // Where each node of a level begins after the exchanges.
        let mut begin = vec![0];
        for level in 0..self.tree.depth() {
            begin = self.below(level, &begin);
        }
        begin
    }

    /// Where the children of a level's nodes begin, if those begin at `begin`.
    fn below(&self, level: usize, begin: &[usize]) -> Vec<usize> {
        let (nodes, children) = (self.tree.ranges(level), self.tree.ranges(level + 1));
        let (shape, lowest) = (&self.shape[level + 1], &self.lowest[level + 1]);
        let mut becomes = vec![0; children.len()];
        let mut first = 0;
        for (node, &at) in nodes.iter().zip(begin) {
            let end = children.partition_point(|child| child.start < node.end);
            let mut alike: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            (first..end).for_each(|child| alike.entry(shape[child]).or_default().push(child));
            for places in alike.values() {
                let mut order = places.clone();
                order.sort_by_key(|&child| lowest[child]);
                for (&child, &place) in order.iter().zip(places) {
                    becomes[child] = at + children[place].start - node.start;
                }
            }
            first = end;
        }
        becomes
    }
}

/// Shapes of slots: only those of one shape and of the same prices for crowding look the same.
fn priced_shapes(tree: &SlotTree) -> Vec<usize> {
    let mut known = BTreeMap::new();
    let shape = |slot: usize| {
        let prices =
            tree.crowded.iter().map(|crowded| crowded.price[crowded.group[slot]].to_bits());
        let key: (usize, Vec<u64>) = (tree.shape[slot], prices.collect());
        let next = known.len();
        *known.entry(key).or_insert(next)
    };
    (0..tree.len()).map(shape).collect()
}
