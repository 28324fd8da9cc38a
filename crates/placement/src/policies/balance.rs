//! `balance` and `load-balance`: loads spread evenly over the machine, whichever threads
//! communicate.
//!
//! Diener's thesis (3.3.1.6): threads in descending order of load, each to the PU with the least.
//! Many PUs are equally idle, so ties are broken from the top: the package with the least load,
//! within it the node, the cache, the core. `balance` takes a thread's communication for its load,
//! `load-balance` what it executes.

use crate::even;
use crate::policies::{Input, Policy};
use crate::slots::SlotTree;

pub struct Balance;

impl Policy for Balance {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        spread(input, &|thread| input.tasks.volume(thread))
    }
}

pub struct LoadBalance;

impl Policy for LoadBalance {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        spread(input, &|thread| input.tasks.work(thread))
    }
}

fn spread(input: &Input<'_>, load: &dyn Fn(usize) -> f64) -> Vec<usize> {
    let mut threads: Vec<usize> = (0..input.tasks.len()).collect();
    threads.sort_by(|&a, &b| load(b).total_cmp(&load(a)));
    let mut loads = Loads::new(input.tree);
    let mut slots = vec![0; threads.len()];
    for thread in threads {
        slots[thread] = loads.take(load(thread));
    }
    even::even_out(input.tasks, input.tree, &mut slots);
    slots.iter().map(|&slot| input.tree.pu[slot]).collect()
}

/// What every node of a tree carries.
struct Loads<'a> {
    tree: &'a SlotTree,
    /// By level and node; the last level has the PUs.
    load: Vec<Vec<f64>>,
    free: Vec<bool>,
}

impl<'a> Loads<'a> {
    fn new(tree: &'a SlotTree) -> Self {
        let mut load: Vec<Vec<f64>> =
            (0..tree.depth()).map(|level| vec![0.0; tree.ranges(level).len()]).collect();
        load.push(vec![0.0; tree.pu.iter().max().map_or(0, |most| most + 1)]);
        Self { tree, load, free: vec![true; tree.len()] }
    }

    fn node(&self, level: usize, slot: usize) -> usize {
        self.tree.node.get(level).map_or(self.tree.pu[slot], |nodes| nodes[slot])
    }

    /// Puts a load into the best free slot.
    fn take(&mut self, load: f64) -> usize {
        let levels = self.tree.depth();
        // The PU first, then from the top down.
        let order: Vec<usize> = std::iter::once(levels).chain(1..levels).collect();
        let key = |slot: usize| -> Vec<f64> {
            order.iter().map(|&level| self.load[level][self.node(level, slot)]).collect()
        };
        let free = (0..self.tree.len()).filter(|&slot| self.free[slot]);
        let less = |a: usize, b: usize| if key(b) < key(a) { b } else { a };
        let slot = free.reduce(less).expect("as many slots as threads");
        for level in 0..=levels {
            let node = self.node(level, slot);
            self.load[level][node] += load;
        }
        self.free[slot] = false;
        slot
    }
}
