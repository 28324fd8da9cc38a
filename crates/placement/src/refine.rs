//! Swap refinement: exchange what two slots hold as long as that helps.
//!
//! For each task the communication with every node of the tree is kept up to date, so that the gain
//! of a swap takes O(depth) to compute and O(neighbours · depth) to apply. Evenness of loads comes
//! first, communication second (see `score.rs`). Neighbours: `subtree.rs` uses the same on whole
//! subtrees, `search.rs` adds kicks, `balance.rs` only evens out.

use crate::slots::{Even, SlotTree};
use crate::tasks::Tasks;

/// Largest tree on which every slot is tried for every task.
const ALL_TRIED: usize = 320;
/// On larger ones: how many of the heaviest neighbours are looked at, for how many of these the
/// node above theirs as well, and how many slots to either side of them.
const NEAR: usize = 12;
const NEAREST: usize = 4;
const REACH: usize = 16;

/// An empty slot.
pub const EMPTY: usize = usize::MAX;

/// Change of a score.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Delta {
    pub unevenness: i64,
    pub cost: f64,
}

impl Delta {
    /// Whether this is an improvement by more than `rounding`.
    pub fn improves(&self, rounding: f64) -> bool {
        self.unevenness < 0 || self.unevenness == 0 && self.cost < -rounding
    }

    /// Whether this is better than `other`.
    pub fn beats(&self, other: &Self) -> bool {
        (self.unevenness, self.cost) < (other.unevenness, other.cost)
    }
}

/// An assignment under refinement.
pub struct State<'a> {
    pub tasks: &'a Tasks,
    pub tree: &'a SlotTree,
    /// For each task its slot.
    pub slot: Vec<usize>,
    /// For each slot its task or [`EMPTY`].
    pub held: Vec<usize>,
    /// Changes smaller than this are rounding.
    pub rounding: f64,
    depth: usize,
    /// `above[s * depth + d]`: the node at level d above slot s, numbered over all levels.
    above: Vec<usize>,
    nodes: usize,
    /// `talk[t * nodes + n]`: events between task t and all tasks below node n.
    talk: Vec<f64>,
    /// Cost of a level minus that of the level above.
    step: Vec<f64>,
    /// Load of each group, for each of the tree's groupings.
    load: Vec<Vec<i64>>,
}

impl<'a> State<'a> {
    /// Starts from tasks in slots.
    pub fn new(tasks: &'a Tasks, tree: &'a SlotTree, slots: &[usize]) -> Self {
        let depth = tree.depth();
        let mut above = vec![0; tree.len() * depth];
        let mut nodes = 0;
        for (level, node) in tree.node.iter().enumerate() {
            node.iter().enumerate().for_each(|(s, n)| above[s * depth + level] = nodes + n);
            nodes += node.last().map_or(0, |last| last + 1);
        }
        let mut held = vec![EMPTY; tree.len()];
        slots.iter().enumerate().for_each(|(task, &slot)| held[slot] = task);
        let mut talk = vec![0.0; tasks.len() * nodes];
        for task in 0..tasks.len() {
            for &(other, weight) in tasks.neighbours(task) {
                for &node in &above[slots[other] * depth..(slots[other] + 1) * depth] {
                    talk[task * nodes + node] += weight;
                }
            }
        }
        let step = (0..depth).map(|d| tree.cost[d] - if d > 0 { tree.cost[d - 1] } else { 0.0 });
        let step: Vec<f64> = step.collect();
        let loads = |even: &Even| crate::score::loads(tasks, &even.group, slots);
        let load = tree.even.iter().map(loads).collect();
        let largest = tree.cost.iter().fold(0.0, |a: f64, &b| a.max(b));
        let rounding = tasks.total() * largest * 1e-12;
        let slot = slots.to_vec();
        Self { tasks, tree, slot, held, rounding, depth, above, nodes, talk, step, load }
    }

    /// Cost of `task` with all others if it were in `slot`; tasks in `slot` count as beside it.
    pub fn price(&self, task: usize, slot: usize) -> f64 {
        let talk = &self.talk[task * self.nodes..(task + 1) * self.nodes];
        let above = &self.above[slot * self.depth..(slot + 1) * self.depth];
        above.iter().zip(&self.step).map(|(&node, step)| step * talk[node]).sum()
    }

    /// Whether two slots differ in nothing that matters.
    fn equivalent(&self, a: usize, b: usize) -> bool {
        let last = self.depth - 1;
        self.above[a * self.depth + last] == self.above[b * self.depth + last]
            && self.tree.even.iter().all(|even| even.group[a] == even.group[b])
    }

    /// Change when slots `a` and `b` exchange what they hold. `price_here` is the price of the task
    /// in `a` where it is.
    fn delta_from(&self, a: usize, b: usize, price_here: f64) -> Delta {
        let (t, u) = (self.held[a], self.held[b]);
        let mut cost = 0.0;
        if t != EMPTY {
            cost += self.price(t, b) - price_here;
        }
        if u != EMPTY {
            cost += self.price(u, a) - self.price(u, b);
        }
        if t != EMPTY && u != EMPTY {
            // Their own pair counts as beside each other above, but stays as far apart.
            let beside = self.tree.cost[self.depth - 1];
            cost += 2.0 * self.tasks.weight(t, u) * (self.tree.cost_between(a, b) - beside);
        }
        Delta { unevenness: self.unevenness_delta(a, b), cost }
    }

    fn load_of(&self, task: usize) -> i64 {
        if task == EMPTY { 0 } else { self.tasks.load(task) }
    }

    fn unevenness_delta(&self, a: usize, b: usize) -> i64 {
        let moved = self.load_of(self.held[a]) - self.load_of(self.held[b]);
        let change = |(even, load): (&Even, &Vec<i64>)| {
            let (from, to) = (even.group[a], even.group[b]);
            match from == to {
                true => 0,
                false => even.weight * 2 * moved * (load[to] - load[from] + moved),
            }
        };
        self.tree.even.iter().zip(&self.load).map(change).sum()
    }

    /// Change when slots `a` and `b` exchange what they hold.
    pub fn delta(&self, a: usize, b: usize) -> Delta {
        let here = if self.held[a] == EMPTY { 0.0 } else { self.price(self.held[a], a) };
        self.delta_from(a, b, here)
    }

    /// Whether the slots may exchange and that would change anything.
    pub fn may_swap(&self, a: usize, b: usize) -> bool {
        self.tree.shape[a] == self.tree.shape[b] && !self.equivalent(a, b)
    }

    /// The best slot for the task in `a` to exchange with, if that improves; all slots are tried.
    pub fn best_swap(&self, a: usize) -> Option<(usize, Delta)> {
        self.best_of(a, 0..self.tree.len())
    }

    /// The same, but on large trees only slots close to the task's heaviest neighbours are tried.
    pub fn best_swap_near(&self, a: usize) -> Option<(usize, Delta)> {
        let task = self.held[a];
        if self.tree.len() <= ALL_TRIED || task == EMPTY {
            return self.best_swap(a);
        }
        let mut near: Vec<usize> = Vec::new();
        for (rank, &(other, _)) in self.tasks.neighbours(task).iter().take(NEAR).enumerate() {
            let at = self.slot[other];
            let level = self.depth - if rank < NEAREST { 2.min(self.depth) } else { 1 };
            let node = &self.tree.node[level];
            let before = (0..at).rev().take(REACH).take_while(|&s| node[s] == node[at]);
            let after = (at..self.tree.len()).take(REACH).take_while(|&s| node[s] == node[at]);
            near.extend(before.chain(after));
        }
        near.sort_unstable();
        near.dedup();
        self.best_of(a, near.into_iter())
    }

    fn best_of(&self, a: usize, slots: impl Iterator<Item = usize>) -> Option<(usize, Delta)> {
        if self.held[a] == EMPTY {
            return None;
        }
        let here = self.price(self.held[a], a);
        let mut best: Option<(usize, Delta)> = None;
        for b in slots {
            if b == a || !self.may_swap(a, b) {
                continue;
            }
            let delta = self.delta_from(a, b, here);
            let better = best.as_ref().is_none_or(|(_, found)| delta.beats(found));
            if better && delta.improves(self.rounding) {
                best = Some((b, delta));
            }
        }
        best
    }

    /// Exchanges what two slots hold.
    pub fn swap(&mut self, a: usize, b: usize) {
        let (t, u) = (self.held[a], self.held[b]);
        let moved = self.load_of(t) - self.load_of(u);
        for (Even { group, .. }, load) in self.tree.even.iter().zip(&mut self.load) {
            load[group[a]] -= moved;
            load[group[b]] += moved;
        }
        self.relocate(t, a, b);
        self.relocate(u, b, a);
        self.held.swap(a, b);
    }

    fn relocate(&mut self, task: usize, from: usize, to: usize) {
        if task == EMPTY {
            return;
        }
        let tasks = self.tasks;
        let (depth, nodes) = (self.depth, self.nodes);
        for level in (1..depth).rev() {
            let (old, new) = (self.above[from * depth + level], self.above[to * depth + level]);
            if old == new {
                break;
            }
            for &(other, weight) in tasks.neighbours(task) {
                self.talk[other * nodes + old] -= weight;
                self.talk[other * nodes + new] += weight;
            }
        }
        self.slot[task] = to;
    }

    /// Best swap of each task in turn, in the given order, until none improves or after `passes`.
    /// With `thorough` the first pass tries all slots also on large trees.
    pub fn descend(&mut self, order: &[usize], passes: usize, thorough: bool) -> bool {
        let mut improved = false;
        for pass in 0..passes {
            let mut changed = false;
            for &task in order {
                let here = self.slot[task];
                let all = thorough && pass == 0;
                let best = if all { self.best_swap(here) } else { self.best_swap_near(here) };
                if let Some((slot, _)) = best {
                    self.swap(here, slot);
                    changed = true;
                }
            }
            improved |= changed;
            if !changed {
                break;
            }
        }
        improved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::score::Score;

    /// Every delta must be the difference of two full scores, also after many swaps.
    #[test]
    fn deltas_are_differences_of_scores() {
        let machine = topology::Topology::from_synthetic("pack:2 core:3 pu:2").unwrap();
        let hierarchy = topology::Hierarchy::new(&machine);
        let mut rng = Rng::new(7, 0);
        for threads in [5, 9, 12, 20] {
            let mut weight = vec![0.0; threads * threads];
            for i in 0..threads {
                for j in 0..i {
                    let w = rng.below(50) as f64;
                    (weight[i * threads + j], weight[j * threads + i]) = (w, w);
                }
            }
            let mut tasks = Tasks::from_weights(threads, weight);
            tasks = tasks.with_load((0..threads).map(|t| i64::from(t != 1)).collect());
            let tree = SlotTree::new(&hierarchy, &[180.0, 50.0, 10.0], threads);
            let start = &rng.order(tree.len())[..threads];
            let mut state = State::new(&tasks, &tree, start);
            for _ in 0..200 {
                let (a, b) = (rng.below(tree.len()), rng.below(tree.len()));
                if a == b {
                    continue;
                }
                let before = Score::of(&tasks, &tree, &state.slot);
                let delta = state.delta(a, b);
                state.swap(a, b);
                let after = Score::of(&tasks, &tree, &state.slot);
                assert_eq!(delta.unevenness, after.unevenness - before.unevenness);
                assert_eq!(delta.cost, after.cost - before.cost);
            }
        }
    }
}
