//! Recursive multisection along the tree: a first placement that is good on the large scale.
//!
//! At every node the threads are divided among its children by repeated bisection (`bisect.rs`),
//! each child getting what fits, or what is its even share where loads must be even. Refinement
//! (`refine.rs`) then works on the small scale.

use super::bisect::{Bounds, Graph, bisect};
use crate::rng::Rng;
use crate::slots::SlotTree;
use crate::tasks::Tasks;
use std::ops::Range;

/// For each task a slot.
pub fn construct(tasks: &Tasks, tree: &SlotTree, rng: &mut Rng) -> Vec<usize> {
    let ranges: Vec<Vec<Range<usize>>> = (0..=tree.depth()).map(|l| tree.ranges(l)).collect();
    let mut work = Work { tasks, tree, ranges, rng, slot: vec![0; tasks.len()] };
    let everyone = work.rng.order(tasks.len());
    work.node(0, 0..tree.len(), everyone);
    work.slot
}

struct Work<'a> {
    tasks: &'a Tasks,
    tree: &'a SlotTree,
    ranges: Vec<Vec<Range<usize>>>,
    rng: &'a mut Rng,
    slot: Vec<usize>,
}

impl Work<'_> {
    /// Places `members` below the node at `level` that covers `slots`.
    fn node(&mut self, level: usize, slots: Range<usize>, members: Vec<usize>) {
        if level + 1 >= self.tree.depth() || members.len() < 2 {
            members.into_iter().zip(slots).for_each(|(task, slot)| self.slot[task] = slot);
            return;
        }
        let inside = |r: &&Range<usize>| slots.contains(&r.start);
        let children = self.ranges[level + 1].iter().filter(inside).cloned().collect::<Vec<_>>();
        self.divide(level + 1, &children, members);
    }

    /// Divides `members` among neighbouring nodes of one level.
    fn divide(&mut self, level: usize, nodes: &[Range<usize>], members: Vec<usize>) {
        if let [only] = nodes {
            return self.node(level, only.clone(), members);
        }
        let (left, right) = nodes.split_at(nodes.len() / 2);
        let room = |nodes: &[Range<usize>]| nodes.iter().map(Range::len).sum::<usize>();
        let bounds = self.bounds(members.len(), room(left), room(right));
        let side = bisect(&self.graph(&members), bounds, self.rng);
        let pick = |wanted: bool| {
            let chosen = members.iter().zip(&side).filter(move |(_, left)| **left == wanted);
            chosen.map(|(&task, _)| task).collect::<Vec<_>>()
        };
        let (for_left, for_right) = (pick(true), pick(false));
        self.divide(level, left, for_left);
        self.divide(level, right, for_right);
    }

    fn bounds(&self, members: usize, left: usize, right: usize) -> Bounds {
        if self.tree.even.is_empty() {
            return Bounds { least: members.saturating_sub(right), most: members.min(left) };
        }
        let share = members * left;
        Bounds { least: share / (left + right), most: share.div_ceil(left + right) }
    }

    fn graph(&self, members: &[usize]) -> Graph {
        let mut number = vec![usize::MAX; self.tasks.len()];
        members.iter().enumerate().for_each(|(n, &task)| number[task] = n);
        let edges = members
            .iter()
            .map(|&task| {
                let known = self.tasks.neighbours(task).iter();
                known.map(|&(u, w)| (number[u], w)).filter(|e| e.0 != usize::MAX).collect()
            })
            .collect();
        Graph { edges, size: vec![1; members.len()] }
    }
}
