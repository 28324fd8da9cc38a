//! `detloc`: Decongested Thread Locality (DeTLoc, section 2): pairs that talk on the same node, but
//! pairs that talk *at the same time* on different nodes, so that memory controllers are not
//! congested.
//!
//! 1. Weighted k-means of the times at which communication happens, weights being its events; the
//!    number of clusters by the Bayesian Information Criterion (`clusters.rs`).
//! 2. A pair's load in a cluster is its share of all events, Wp; a cluster's load Lc is the sum of
//!    these over its pairs.
//! 3. From the heaviest cluster to the lightest, in each from the heaviest pair to the lightest:
//!    both threads go to one memory node, of those with room the one that carries least of this
//!    cluster, then least of all. Where one of them has its place already, the other follows if
//!    there is room.
//!
//! The paper leaves open where threads that communicate with no other go (here: where there is most
//! room) and which core of a node is taken (here: the free slot closest to the partner). Without
//! times, all communication counts as one cluster.

use super::clusters::{self, Point};
use crate::even;
use crate::policies::{Input, Policy};
use crate::rng::Rng;
use crate::slots::SlotTree;
use crate::tasks::{Moment, Tasks};
use std::collections::BTreeMap;

pub struct Detloc;

impl Policy for Detloc {
    fn place(&self, input: &Input<'_>) -> Vec<usize> {
        let groups = groups(input.tasks, &mut Rng::new(input.seed, 7));
        let mut slots = Nodes::new(input.tree).place(input.tasks.len(), &groups);
        even::even_out(input.tasks, input.tree, &mut slots);
        slots.iter().map(|&slot| input.tree.pu[slot]).collect()
    }
}

/// Pairs of a cluster with their events, heaviest first.
type Group = Vec<((usize, usize), f64)>;

/// The clusters' pairs, the heaviest cluster first.
fn groups(tasks: &Tasks, rng: &mut Rng) -> Vec<Group> {
    let moments = moments(tasks);
    let mut weight: BTreeMap<u64, f64> = BTreeMap::new();
    for moment in &moments {
        // Times are not negative, so their bits are in their order.
        *weight.entry(moment.time.to_bits()).or_insert(0.0) += moment.events;
    }
    let points: Vec<Point> =
        weight.iter().map(|(&at, &weight)| Point { at: f64::from_bits(at), weight }).collect();
    let cluster = clusters::find(&points, rng);
    let of: BTreeMap<u64, usize> = weight.keys().copied().zip(cluster).collect();
    let mut pairs: BTreeMap<(usize, (usize, usize)), f64> = BTreeMap::new();
    for moment in &moments {
        let (a, b) = moment.pair;
        let key = (of[&moment.time.to_bits()], (a.min(b), a.max(b)));
        *pairs.entry(key).or_insert(0.0) += moment.events;
    }
    let count = of.values().max().map_or(0, |last| last + 1);
    let mut groups = vec![Group::new(); count];
    pairs.into_iter().for_each(|((cluster, pair), events)| groups[cluster].push((pair, events)));
    groups.iter_mut().for_each(|group| group.sort_by(|a, b| b.1.total_cmp(&a.1)));
    let load = |group: &Group| group.iter().map(|pair| pair.1).sum::<f64>();
    groups.sort_by(|a, b| load(b).total_cmp(&load(a)));
    groups
}

/// What happened when; all at once where no times are known.
fn moments(tasks: &Tasks) -> Vec<Moment> {
    let known = tasks.moments().iter().filter(|m| m.events > 0.0 && m.pair.0 != m.pair.1);
    let known: Vec<Moment> = known.copied().collect();
    if !known.is_empty() {
        return known;
    }
    let pairs = (0..tasks.len()).flat_map(|a| {
        let later = tasks.neighbours(a).iter().filter(move |e| e.0 > a);
        later.map(move |&(b, events)| Moment { time: 0.0, pair: (a, b), events })
    });
    pairs.collect()
}

/// The memory nodes and what they carry.
struct Nodes<'a> {
    tree: &'a SlotTree,
    /// For each slot its node.
    node: &'a [usize],
    free: Vec<bool>,
    /// Free slots of each node, and what the pairs on it communicate: in this cluster and in all.
    room: Vec<usize>,
    cluster: Vec<f64>,
    all: Vec<f64>,
}

impl<'a> Nodes<'a> {
    fn new(tree: &'a SlotTree) -> Self {
        let room: Vec<usize> = tree.ranges(tree.memory).iter().map(|r| r.len()).collect();
        let none = vec![0.0; room.len()];
        Self {
            tree,
            node: &tree.node[tree.memory],
            free: vec![true; tree.len()],
            room,
            cluster: none.clone(),
            all: none,
        }
    }

    fn place(mut self, threads: usize, groups: &[Group]) -> Vec<usize> {
        let mut slot: Vec<Option<usize>> = vec![None; threads];
        for group in groups {
            self.cluster.fill(0.0);
            for &((a, b), events) in group {
                let (first, second) = match (slot[a], slot[b]) {
                    (Some(_), Some(_)) => continue,
                    (None, Some(_)) => (b, a),
                    _ => (a, b),
                };
                let at = slot[first].unwrap_or_else(|| self.take_in(self.best_node(2)));
                slot[first] = Some(at);
                slot[second] = Some(self.take_near(at));
                self.cluster[self.node[at]] += events;
                self.all[self.node[at]] += events;
            }
        }
        slot.into_iter().map(|s| s.unwrap_or_else(|| self.take_in(self.emptiest()))).collect()
    }

    /// Of the nodes with room for `wanted` threads, or for as many as any has, that which carries
    /// least.
    fn best_node(&self, wanted: usize) -> usize {
        let most = self.room.iter().copied().max().unwrap_or(0).min(wanted);
        let fits = (0..self.room.len()).filter(|&n| self.room[n] >= most);
        let key = |n: usize| (self.cluster[n], self.all[n]);
        fits.reduce(|a, b| if key(b) < key(a) { b } else { a }).expect("a node with room")
    }

    fn emptiest(&self) -> usize {
        (0..self.room.len()).rev().max_by_key(|&n| self.room[n]).expect("a node")
    }

    fn take_in(&mut self, node: usize) -> usize {
        let free = (0..self.tree.len()).find(|&s| self.free[s] && self.node[s] == node);
        self.take(free.expect("a node with room"))
    }

    /// The closest free slot, on the same node if there is one.
    fn take_near(&mut self, at: usize) -> usize {
        let free = (0..self.tree.len()).rev().filter(|&s| self.free[s]);
        let near = free.max_by_key(|&s| self.tree.common(s, at));
        self.take(near.expect("as many slots as threads"))
    }

    fn take(&mut self, slot: usize) -> usize {
        self.free[slot] = false;
        self.room[self.node[slot]] -= 1;
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{Hierarchy, Topology};

    fn moment(time: f64, pair: (usize, usize), events: f64) -> Moment {
        Moment { time, pair, events }
    }

    /// Two pairs that talk at once and two that talk later: each node gets one of each.
    #[test]
    fn pairs_that_talk_at_once_are_kept_apart() {
        let mut moments = Vec::new();
        for t in 0..20 {
            moments.push(moment(t as f64, (0, 1), 50.0));
            moments.push(moment(t as f64, (2, 3), 40.0));
            moments.push(moment(1000.0 + t as f64, (4, 5), 30.0));
            moments.push(moment(1000.0 + t as f64, (6, 7), 20.0));
        }
        let mut weight = vec![0.0; 64];
        for m in &moments {
            let (a, b) = m.pair;
            weight[a * 8 + b] += m.events;
            weight[b * 8 + a] += m.events;
        }
        let tasks = Tasks::from_weights(8, weight).with_moments(moments);
        let groups = groups(&tasks, &mut Rng::new(0, 7));
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0], [((0, 1), 1000.0), ((2, 3), 800.0)]);
        let machine = Topology::from_synthetic("pack:2 core:4 pu:1").unwrap();
        let tree = SlotTree::new(&Hierarchy::new(&machine), &[100.0, 10.0], 8);
        assert_eq!(tree.memory, 1);
        let slots = Nodes::new(&tree).place(8, &groups);
        let node: Vec<usize> = slots.iter().map(|&s| tree.node[1][s]).collect();
        assert_eq!([node[0], node[2], node[4], node[6]], [node[1], node[3], node[5], node[7]]);
        assert_ne!(node[0], node[2]);
        assert_ne!(node[4], node[6]);
        // The heavier of the later pairs joins the lighter of the earlier ones.
        assert_eq!(node[4], node[2]);
    }

    #[test]
    fn without_times_all_is_one_cluster() {
        let mut weight = vec![0.0; 16];
        (weight[1], weight[4]) = (5.0, 5.0);
        let groups = groups(&Tasks::from_weights(4, weight), &mut Rng::new(0, 7));
        assert_eq!(groups, [vec![((0, 1), 5.0)]]);
    }
}
