//! What a layout costs: threads on PUs, and units of pages on nodes.
//!
//! The sum of three costs, all in the unit of the communication costs (nanoseconds that threads
//! wait, where these are latencies):
//!
//! - *communication*: Σ events · cost of the level between the two threads;
//! - *memory*: Σ accesses that reach memory · latency from the thread's node to the page's;
//! - *controllers*: for each stretch of time, Σ over nodes of A · B² / (R · w): B bytes that the
//!   node serves, w its bandwidth, R what all threads ask for, A how many threads ask. An access
//!   waits as long as its node needs for its part, B / w, and a part B / R of all accesses goes
//!   there; so it is least when each node serves what its bandwidth is worth. As DeTLoc does, it
//!   counts what happens at the same time, not the sum over the run.
//!
//! Of the accesses that pass the private caches, the shared cache keeps those that fit: with the
//! working set W of its threads (what several touch counts once) and its size C, a part of
//! max(COLD_SHARE, 1 − C / W) reaches memory. Where working sets are not known, all do.
//! Bandwidth between nodes is not modelled. Neighbours: `descend.rs` and `threads.rs` search for
//! cheap layouts, `topology::DataNodes` has latencies and bandwidths.

use crate::data::units::{Unit, units};
use crate::data::usage::{DataUse, WorkingSet};
use crate::place::price;
use crate::tasks::Tasks;
use std::rc::Rc;
use topology::{Costs, DataNodes, Hierarchy};

/// Part of the accesses that reach memory though the shared cache has room for all: first touches,
/// and lines that others displace. An estimate.
pub const COLD_SHARE: f64 = 0.05;
/// Bytes that an access to memory fetches.
pub const LINE_BYTES: f64 = 64.0;

/// What a layout costs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CostParts {
    /// Between threads.
    pub communication: f64,
    /// From threads to memory.
    pub memory: f64,
    /// At the memory controllers.
    pub controllers: f64,
}

impl CostParts {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.communication + self.memory + self.controllers
    }
}

/// Where the pages of a unit are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spot {
    /// Where the thread that touches them first runs.
    FirstTouch,
    /// On one node.
    Node(u16),
    /// In turns.
    Interleave,
    /// In turns, by bandwidth.
    Weighted,
    /// As [`Data::kept`] says.
    Kept,
}

/// The node of every page under a policy, and each unit's parts on the nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    pub node: Vec<u16>,
    /// By unit and node.
    pub part: Vec<f64>,
}

/// Where all units are.
#[derive(Clone, PartialEq, Debug)]
pub struct Data {
    pub spots: Vec<Spot>,
    pub kept: Option<Rc<Kept>>,
}

/// The problem.
pub struct Model<'a> {
    pub tasks: &'a Tasks,
    pub usage: &'a DataUse,
    pub hierarchy: &'a Hierarchy,
    pub costs: &'a Costs,
    pub nodes: &'a DataNodes,
    pub units: Vec<Unit>,
    /// By stretch: A / R, in cost per byte² and bandwidth; 0 where nothing is asked for.
    pub crowding: Vec<f64>,
    /// By stretch: R.
    pub asked: Vec<f64>,
    /// Parts of the weighted interleaving by node.
    pub weighted: Vec<f64>,
}

impl<'a> Model<'a> {
    pub fn new(
        tasks: &'a Tasks,
        usage: &'a DataUse,
        hierarchy: &'a Hierarchy,
        costs: &'a Costs,
        nodes: &'a DataNodes,
    ) -> Self {
        let units = units(usage);
        let stretches =
            units.iter().flat_map(|unit| &unit.uses).map(|u| u.stretch as usize + 1).max();
        let mut asked = vec![0.0; stretches.unwrap_or(0)];
        let mut active = vec![vec![false; usage.threads]; asked.len()];
        for u in units.iter().flat_map(|unit| &unit.uses).filter(|u| u.reaching > 0.0) {
            asked[u.stretch as usize] += u.reaching * LINE_BYTES;
            active[u.stretch as usize][u.thread as usize] = true;
        }
        let count = |active: &Vec<bool>| active.iter().filter(|one| **one).count() as f64;
        let crowding = active.iter().zip(&asked).map(|(active, &asked)| match asked > 0.0 {
            true => count(active) / asked * nodes.per_ns,
            false => 0.0,
        });
        let crowding = crowding.collect();
        let weights = crate::data::policy::weights(nodes);
        let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
        let weighted = weights.iter().map(|&weight| f64::from(weight) / sum).collect();
        Self { tasks, usage, hierarchy, costs, nodes, units, crowding, asked, weighted }
    }

    /// The home of each thread.
    pub fn homes(&self, pus: &[usize]) -> Vec<usize> {
        pus.iter().map(|&pu| self.nodes.home[pu]).collect()
    }

    pub fn communication(&self, pus: &[usize]) -> f64 {
        price(self.tasks, self.hierarchy, &self.costs.per_level, pus)
    }

    /// For each thread the part of its accesses that reaches memory.
    pub fn reaching(&self, pus: &[usize]) -> Vec<f64> {
        let mut set = vec![0u64; self.nodes.caches.len()];
        let mut seen = Vec::new();
        for WorkingSet { threads, bytes } in &self.usage.working {
            seen.clear();
            for cache in threads.iter().filter_map(|&t| self.nodes.cache[pus[t as usize]]) {
                if !seen.contains(&cache) {
                    seen.push(cache);
                    set[cache] += bytes;
                }
            }
        }
        let known = !self.usage.working.is_empty();
        let part = |&pu: &usize| match self.nodes.cache[pu].filter(|_| known) {
            Some(cache) => part_missed(set[cache], self.nodes.caches[cache]),
            None => 1.0,
        };
        pus.iter().map(part).collect()
    }

    /// The least part of each thread's accesses that can reach memory, wherever it runs.
    pub fn least_reaching(&self) -> Vec<f64> {
        let mut own = vec![0u64; self.usage.threads];
        for WorkingSet { threads, bytes } in &self.usage.working {
            threads.iter().for_each(|&thread| own[thread as usize] += bytes);
        }
        let largest = self.nodes.caches.iter().copied().max().unwrap_or(0);
        let cached = self.nodes.cache.iter().any(Option::is_some) && !self.usage.working.is_empty();
        own.iter().map(|&set| if cached { part_missed(set, largest) } else { 1.0 }).collect()
    }

    /// The unit's parts on the nodes, `first` being where its first touch puts it.
    pub fn parts(&self, unit: usize, spot: Spot, first: usize, kept: Option<&Kept>) -> Vec<f64> {
        let nodes = self.nodes.len();
        let only = |node: usize| (0..nodes).map(|n| f64::from(u8::from(n == node))).collect();
        match spot {
            Spot::FirstTouch => only(first),
            Spot::Node(node) => only(usize::from(node)),
            Spot::Interleave => vec![1.0 / nodes as f64; nodes],
            Spot::Weighted => self.weighted.clone(),
            Spot::Kept => {
                let kept = kept.expect("spots that are kept have a policy's nodes");
                kept.part[unit * nodes..(unit + 1) * nodes].to_vec()
            }
        }
    }

    /// A policy's nodes of pages, for [`Spot::Kept`].
    pub fn kept(&self, node: Vec<u16>) -> Kept {
        let nodes = self.nodes.len();
        let mut part = vec![0.0; self.units.len() * nodes];
        for (index, unit) in self.units.iter().enumerate() {
            let one = 1.0 / unit.pages.len() as f64;
            for &page in &unit.pages {
                part[index * nodes + usize::from(node[page as usize])] += one;
            }
        }
        Kept { node, part }
    }
}

fn part_missed(working_set: u64, cache: u64) -> f64 {
    if working_set <= cache {
        return COLD_SHARE;
    }
    (1.0 - cache as f64 / working_set as f64).max(COLD_SHARE)
}

/// What units cost, threads being where they are.
pub struct Given<'m, 'a> {
    pub model: &'m Model<'a>,
    /// By unit: the node of its first touch.
    pub first: Vec<usize>,
    /// By unit and node: cost of its accesses if all its pages were there.
    pub linear: Vec<f64>,
    /// By unit: stretches, and bytes asked of memory in each.
    pub traffic: Vec<Vec<(usize, f64)>>,
    pub communication: f64,
}

impl<'m, 'a> Given<'m, 'a> {
    pub fn new(model: &'m Model<'a>, pus: &[usize]) -> Self {
        let (homes, reaching) = (model.homes(pus), model.reaching(pus));
        let nodes = model.nodes.len();
        let mut linear = Vec::with_capacity(model.units.len() * nodes);
        let mut traffic = Vec::with_capacity(model.units.len());
        let mut by_home = vec![0.0; model.nodes.cost.len()];
        let mut by_stretch = vec![0.0; model.asked.len()];
        for unit in &model.units {
            by_home.fill(0.0);
            let mut stretches: Vec<usize> = Vec::new();
            for u in &unit.uses {
                let (thread, stretch) = (u.thread as usize, u.stretch as usize);
                let accesses = u.reaching * reaching[thread];
                by_home[homes[thread]] += accesses;
                if by_stretch[stretch] == 0.0 {
                    stretches.push(stretch);
                }
                by_stretch[stretch] += accesses * LINE_BYTES;
            }
            stretches.sort_unstable();
            stretches.dedup();
            let taken = |s: usize| (s, std::mem::take(&mut by_stretch[s]));
            traffic.push(stretches.into_iter().map(taken).collect());
            let rows = || by_home.iter().zip(&model.nodes.cost);
            let cost =
                |node: usize| rows().map(|(accesses, row)| accesses * row[node]).sum::<f64>();
            linear.extend((0..nodes).map(cost));
        }
        let touched = |unit: &Unit| match unit.touched_by {
            Some(thread) => model.nodes.nearest[homes[thread as usize]],
            None => 0,
        };
        let first = model.units.iter().map(touched).collect();
        Self { model, first, linear, traffic, communication: model.communication(pus) }
    }

    /// Bytes that each node serves in each stretch, row by stretch.
    pub fn load(&self, data: &Data) -> Vec<f64> {
        let nodes = self.model.nodes.len();
        let mut load = vec![0.0; self.model.asked.len() * nodes];
        for (unit, &spot) in data.spots.iter().enumerate() {
            let parts = self.model.parts(unit, spot, self.first[unit], data.kept.as_deref());
            for &(stretch, bytes) in &self.traffic[unit] {
                let row = &mut load[stretch * nodes..(stretch + 1) * nodes];
                row.iter_mut().zip(&parts).for_each(|(load, part)| *load += bytes * part);
            }
        }
        load
    }

    /// What a layout costs.
    pub fn cost(&self, data: &Data) -> CostParts {
        let nodes = self.model.nodes.len();
        let mut memory = 0.0;
        for (unit, &spot) in data.spots.iter().enumerate() {
            let parts = self.model.parts(unit, spot, self.first[unit], data.kept.as_deref());
            let linear = &self.linear[unit * nodes..(unit + 1) * nodes];
            memory += linear.iter().zip(&parts).map(|(cost, part)| cost * part).sum::<f64>();
        }
        let load = self.load(data);
        let bandwidth = |at: usize| self.model.nodes.nodes[at % nodes].bandwidth;
        let wait = |(at, load): (usize, &f64)| {
            self.model.crowding[at / nodes] * load * load / bandwidth(at)
        };
        let controllers = load.iter().enumerate().map(wait).sum();
        CostParts { communication: self.communication, memory, controllers }
    }
}
