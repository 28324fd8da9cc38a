//! Branch and bound for small problems: proves a placement optimal or finds a better one.
//!
//! Threads are placed one after another, the most connected first. Of equal empty subtrees only the
//! first is tried. The bound adds, for each thread still to come, the cheapest free slot seen from
//! those already placed, and for pairs still to come the cheapest level.

use crate::score::{Score, loads};
use crate::slots::SlotTree;
use crate::subtree::shapes;
use crate::tasks::Tasks;

/// Largest tree that is searched, slots.
const LARGEST: usize = 16;
/// Most partial placements looked at; beyond that the search gives up without a proof.
const LIMIT: usize = 30_000;

/// Improves `slots` to an optimum where the problem is small enough; leaves them otherwise.
pub fn improve(tasks: &Tasks, tree: &SlotTree, slots: &mut Vec<usize>) {
    if tree.len() > LARGEST || tasks.len() < 3 {
        return;
    }
    let shape = (0..=tree.depth()).map(|level| shapes(tree, level)).collect();
    let mut search = Search {
        tasks,
        tree,
        shape,
        order: order(tasks),
        slot: vec![usize::MAX; tasks.len()],
        free: vec![true; tree.len()],
        best: Score::of(tasks, tree, slots),
        found: None,
        left: LIMIT,
    };
    search.place(0, 0.0);
    if let Some(better) = search.found {
        *slots = better;
    }
}

/// Each next thread the one most tied to those before it.
fn order(tasks: &Tasks) -> Vec<usize> {
    let sum = |t: usize| tasks.neighbours(t).iter().map(|e| e.1).sum::<f64>();
    let mut tie: Vec<f64> = (0..tasks.len()).map(|t| sum(t) * 1e-9).collect();
    let mut rest: Vec<usize> = (0..tasks.len()).collect();
    let mut order = Vec::new();
    while let Some(next) = rest.iter().copied().max_by(|&a, &b| tie[a].total_cmp(&tie[b])) {
        rest.retain(|&t| t != next);
        tasks.neighbours(next).iter().for_each(|&(other, w)| tie[other] += w);
        order.push(next);
    }
    order
}

struct Search<'a> {
    tasks: &'a Tasks,
    tree: &'a SlotTree,
    /// Per level (the slots' own last), the shape of each node.
    shape: Vec<Vec<usize>>,
    order: Vec<usize>,
    slot: Vec<usize>,
    free: Vec<bool>,
    best: Score,
    found: Option<Vec<usize>>,
    left: usize,
}

impl Search<'_> {
    fn place(&mut self, at: usize, cost: f64) {
        if at == self.order.len() {
            let score = Score::of(self.tasks, self.tree, &self.slot);
            if score.beats(&self.best) {
                (self.best, self.found) = (score, Some(self.slot.clone()));
            }
            return;
        }
        let task = self.order[at];
        let mut options: Vec<(f64, usize)> = (0..self.tree.len())
            .filter(|&slot| self.free[slot] && self.first_of_its_kind(slot))
            .map(|slot| (self.price(task, slot), slot))
            .collect();
        options.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (price, slot) in options {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            self.slot[task] = slot;
            self.free[slot] = false;
            if self.may_win(at + 1, cost + price) {
                self.place(at + 1, cost + price);
            }
            self.slot[task] = usize::MAX;
            self.free[slot] = true;
        }
    }

    /// Cost of `task` in `slot` with the threads placed so far.
    fn price(&self, task: usize, slot: usize) -> f64 {
        let placed = self.tasks.neighbours(task).iter().filter(|e| self.slot[e.0] != usize::MAX);
        placed.map(|&(other, w)| w * self.tree.cost_between(slot, self.slot[other])).sum()
    }

    fn may_win(&self, at: usize, cost: f64) -> bool {
        let unevenness: i64 =
            self.tree.even.iter().map(|even| even.weight * self.squares(&even.group)).sum();
        if unevenness != self.best.unevenness {
            return unevenness < self.best.unevenness;
        }
        let free: Vec<usize> = (0..self.tree.len()).filter(|&s| self.free[s]).collect();
        let cheapest = self.tree.cost.iter().copied().fold(f64::INFINITY, f64::min);
        let mut bound = cost;
        for &task in &self.order[at..] {
            let prices = free.iter().map(|&slot| self.price(task, slot));
            bound += prices.fold(f64::INFINITY, f64::min);
            let open = self.tasks.neighbours(task).iter();
            let open = open.filter(|e| self.slot[e.0] == usize::MAX && e.0 > task);
            bound += cheapest * open.map(|e| e.1).sum::<f64>();
        }
        bound < self.best.cost - self.best.cost.abs() * 1e-12
    }

    fn squares(&self, group: &[usize]) -> i64 {
        let mut load = vec![0; loads(self.tasks, group, &[]).len()];
        for (task, &slot) in self.slot.iter().enumerate().filter(|(_, slot)| **slot != usize::MAX) {
            load[group[slot]] += self.tasks.load(task);
        }
        load.iter().map(|l| l * l).sum()
    }

    /// Whether no equal empty subtree comes before the one that `slot` would open.
    fn first_of_its_kind(&self, slot: usize) -> bool {
        (1..=self.tree.depth()).all(|level| {
            let node = |s: usize| self.node(level, s);
            let mine = node(slot);
            let empty = |n: usize| (0..self.tree.len()).all(|s| node(s) != n || self.free[s]);
            if !empty(mine) {
                return true;
            }
            let parent = self.tree.node[level - 1][slot];
            let sibling = |s: usize| self.tree.node[level - 1][s] == parent && node(s) < mine;
            let equal = |n: usize| self.shape[level][n] == self.shape[level][mine];
            !(0..self.tree.len()).any(|s| sibling(s) && equal(node(s)) && empty(node(s)))
        })
    }

    fn node(&self, level: usize, slot: usize) -> usize {
        self.tree.node.get(level).map_or(slot, |nodes| nodes[slot])
    }
}
