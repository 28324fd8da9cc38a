//! Threads, given data: exchanges of slots that lower communication and the cost of reaching
//! pages, until none does.
//!
//! What a thread pays for its accesses depends on its node only; the parts that shared caches keep
//! are taken as they were at the start, so the caller compares true costs. Exchanges never make the
//! loads of cores and PUs less even. Neighbours: `model.rs`, `slots.rs`.

use crate::data::model::{Data, Model, Spot};
use crate::slots::{Distances, SlotTree};

/// Most rounds over all threads.
const MAX_ROUNDS: usize = 12;
const EMPTY: usize = usize::MAX;

/// The improved PUs, as indexes into `Hierarchy::pus`; `None` where the tree has no room for the
/// start.
pub fn improve(
    model: &Model<'_>,
    tree: &SlotTree,
    pus: &[usize],
    data: &Data,
) -> Option<Vec<usize>> {
    let slots = tree.slots_for(pus, model.hierarchy)?;
    let mut held = vec![EMPTY; tree.len()];
    slots.iter().enumerate().for_each(|(task, &slot)| held[slot] = task);
    let pay = payments(model, pus, data);
    let homes = model.nodes.cost.len();
    let home = |slot: usize| model.nodes.home[tree.pu[slot]];
    let distances = Distances::new(tree);
    let mut search = Search { model, slots, held, distances };
    for _ in 0..MAX_ROUNDS {
        let mut moved = false;
        for task in 0..model.tasks.len() {
            let here = search.slots[task];
            let mut best = (here, -1e-9 * search.scale(task).max(pay[task * homes + home(here)]));
            for there in (0..tree.len()).filter(|&there| there != here) {
                if !search.even(tree, task, search.held[there]) {
                    continue;
                }
                let mut delta = search.talk(task, there);
                delta += pay[task * homes + home(there)] - pay[task * homes + home(here)];
                if search.held[there] != EMPTY {
                    let other = search.held[there];
                    delta += pay[other * homes + home(here)] - pay[other * homes + home(there)];
                }
                if delta < best.1 {
                    best = (there, delta);
                }
            }
            if best.0 != here {
                search.exchange(here, best.0);
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    Some(search.slots.iter().map(|&slot| tree.pu[slot]).collect())
}

struct Search<'m, 'a> {
    model: &'m Model<'a>,
    slots: Vec<usize>,
    held: Vec<usize>,
    distances: Distances<'m>,
}

impl Search<'_, '_> {
    fn between(&self, a: usize, b: usize) -> f64 {
        if a == b { 0.0 } else { self.distances.between(a, b) }
    }

    /// What a task's communication costs where it is.
    fn scale(&self, task: usize) -> f64 {
        let here = self.slots[task];
        let pays = |&(other, weight): &(usize, f64)| weight * self.between(here, self.slots[other]);
        self.model.tasks.neighbours(task).iter().map(pays).sum()
    }

    /// Change of the cost of communication when a task changes places with what is there.
    fn talk(&self, task: usize, there: usize) -> f64 {
        let (here, other) = (self.slots[task], self.held[there]);
        let step = |one: usize, partner: usize, from: usize, to: usize| {
            let list = self.model.tasks.neighbours(one).iter().filter(|e| e.0 != partner);
            let change = |&(third, weight): &(usize, f64)| {
                let at = self.slots[third];
                weight * (self.between(to, at) - self.between(from, at))
            };
            list.map(change).sum::<f64>()
        };
        let own = step(task, other, here, there);
        if other == EMPTY { own } else { own + step(other, task, there, here) }
    }

    /// Whether loads stay as even as they are.
    fn even(&self, tree: &SlotTree, task: usize, other: usize) -> bool {
        let load = if other == EMPTY { 0 } else { self.model.tasks.load(other) };
        tree.even.is_empty() || load == self.model.tasks.load(task)
    }

    fn exchange(&mut self, a: usize, b: usize) {
        let (t, u) = (self.held[a], self.held[b]);
        self.held.swap(a, b);
        for (task, slot) in [(t, b), (u, a)] {
            if task != EMPTY {
                self.slots[task] = slot;
            }
        }
    }
}

/// By thread and home: what its accesses would cost there.
fn payments(model: &Model<'_>, pus: &[usize], data: &Data) -> Vec<f64> {
    let (homes, nodes) = (model.nodes.cost.len(), model.nodes.len());
    let (at, reaching) = (model.homes(pus), model.reaching(pus));
    let mut on_node = vec![0.0; model.tasks.len() * nodes];
    // Accesses to pages that follow the thread.
    let mut own = vec![0.0; model.tasks.len()];
    for (index, unit) in model.units.iter().enumerate() {
        let spot = data.spots[index];
        let first = unit.touched_by.map_or(0, |thread| model.nodes.nearest[at[thread as usize]]);
        let parts = model.parts(index, spot, first, data.kept.as_deref());
        for u in &unit.uses {
            let thread = u.thread as usize;
            let accesses = u.reaching * reaching[thread];
            if spot == Spot::FirstTouch && unit.touched_by == Some(u.thread) {
                own[thread] += accesses;
                continue;
            }
            let row = &mut on_node[thread * nodes..(thread + 1) * nodes];
            row.iter_mut().zip(&parts).for_each(|(sum, part)| *sum += accesses * part);
        }
    }
    let mut pay = Vec::with_capacity(model.tasks.len() * homes);
    for thread in 0..model.tasks.len() {
        let row = &on_node[thread * nodes..(thread + 1) * nodes];
        for home in 0..homes {
            let cost = &model.nodes.cost[home];
            let others: f64 = row.iter().zip(cost).map(|(accesses, cost)| accesses * cost).sum();
            pay.push(others + own[thread] * cost[model.nodes.nearest[home]]);
        }
    }
    pay
}
