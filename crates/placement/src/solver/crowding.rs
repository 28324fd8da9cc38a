//! The price of crowded parts of a machine, kept up to date under refinement (`refine.rs`): the
//! load of every group of the tree's `Crowded`, so that an exchange is priced in O(kinds of
//! groups).

use super::refine::EMPTY;
use crate::score;
use crate::slots::SlotTree;
use crate::tasks::Tasks;

/// Loads of all groups, numbered over all kinds of groups.
pub struct Crowding {
    kinds: usize,
    /// `cell[s * kinds + k]`: the group of kind k that slot s is in.
    cell: Vec<u32>,
    /// By group.
    price: Vec<f64>,
    load: Vec<f64>,
    /// `burden[t * kinds + k]`: what task t adds to its group of kind k.
    burden: Vec<f64>,
    at_start: f64,
}

impl Crowding {
    /// Starts from tasks in slots.
    pub fn new(tasks: &Tasks, tree: &SlotTree, slots: &[usize]) -> Self {
        let kinds = tree.crowded.len();
        let mut cell = vec![0; tree.len() * kinds];
        let mut price = Vec::new();
        for (kind, crowded) in tree.crowded.iter().enumerate() {
            for (slot, &group) in crowded.group.iter().enumerate() {
                cell[slot * kinds + kind] = (price.len() + group) as u32;
            }
            price.extend_from_slice(&crowded.price);
        }
        let of = |task| tree.crowded.iter().map(move |crowded| tasks.burden(task, crowded.by));
        let burden: Vec<f64> = (0..tasks.len()).flat_map(of).collect();
        let mut load = vec![0.0; price.len()];
        for (task, &slot) in slots.iter().enumerate() {
            for kind in 0..kinds {
                load[cell[slot * kinds + kind] as usize] += burden[task * kinds + kind];
            }
        }
        let at_start = score::crowding(tasks, tree, slots);
        Self { kinds, cell, price, load, burden, at_start }
    }

    /// Whether nothing has a price.
    pub fn is_empty(&self) -> bool {
        self.kinds == 0
    }

    /// What was paid at the start; tells how large rounding errors may be.
    pub fn price(&self) -> f64 {
        self.at_start
    }

    /// Whether two slots are in the same groups.
    pub fn same(&self, a: usize, b: usize) -> bool {
        self.cells(a) == self.cells(b)
    }

    fn cells(&self, slot: usize) -> &[u32] {
        &self.cell[slot * self.kinds..(slot + 1) * self.kinds]
    }

    fn burden_of(&self, task: usize, kind: usize) -> f64 {
        if task == EMPTY { 0.0 } else { self.burden[task * self.kinds + kind] }
    }

    /// Change of Σ price · load² when slots `a` and `b`, which hold the tasks `t` and `u`, exchange
    /// these.
    pub fn delta(&self, (a, t): (usize, usize), (b, u): (usize, usize)) -> f64 {
        let mut sum = 0.0;
        for (kind, (&from, &to)) in self.cells(a).iter().zip(self.cells(b)).enumerate() {
            if from == to {
                continue;
            }
            let moved = self.burden_of(t, kind) - self.burden_of(u, kind);
            let (from, to) = (from as usize, to as usize);
            let gone = self.price[from] * (moved - 2.0 * self.load[from]);
            sum += moved * (gone + self.price[to] * (moved + 2.0 * self.load[to]));
        }
        sum
    }

    /// Takes note of that exchange.
    pub fn exchange(&mut self, (a, t): (usize, usize), (b, u): (usize, usize)) {
        for kind in 0..self.kinds {
            let moved = self.burden_of(t, kind) - self.burden_of(u, kind);
            let [from, to] = [a, b].map(|slot| self.cell[slot * self.kinds + kind] as usize);
            self.load[from] -= moved;
            self.load[to] += moved;
        }
    }
}
