//! Memory controllers and the links between memory nodes: who waits behind whom, and what they
//! carry.
//!
//! Links follow from the distances: two nodes are linked if no third one lies between them, that
//! is, if no detour over another node is about as short. So equal distances make a full network,
//! and distances that grow with the hops make a ring or a mesh. A line takes the way with the
//! fewest links. Controllers and links serve one line after the other; what comes meanwhile waits.
//! Neighbours: `machine.rs` has the distances, `server.rs` the order, `system.rs` asks.

use crate::machine::Machine;
use crate::server::{Done, Server};

/// A detour that takes at most this much longer than the direct way means that there is no direct
/// link.
const DETOUR: f64 = 1.05;

/// A link, one way.
#[derive(Clone, Debug)]
pub struct Link {
    /// Index of the node that it leaves.
    pub from: usize,
    /// Index of the node that it leads to.
    pub to: usize,
    /// What it carries.
    pub server: Server,
}

/// Controllers and links of a machine.
#[derive(Clone, Debug)]
pub struct Interconnect {
    line_bytes: u64,
    /// By node.
    pub controllers: Vec<Server>,
    /// All links.
    pub links: Vec<Link>,
    /// For each pair of nodes, the links on the way; row-major.
    ways: Vec<Vec<u16>>,
}

impl Interconnect {
    /// Idle.
    pub fn new(machine: &Machine) -> Self {
        let nodes = machine.nodes.len();
        let share = machine.family.memory.occupied_share;
        let controllers = machine.bandwidth.iter().map(|b| Server::new(b * share)).collect();
        let distances = distances(machine);
        let mut links = Vec::new();
        for from in 0..nodes {
            for to in (0..nodes).filter(|to| *to != from) {
                if is_linked(&distances, nodes, from, to) {
                    let server = Server::new(machine.family.link_bytes_per_ns);
                    links.push(Link { from, to, server });
                }
            }
        }
        let ways = (0..nodes * nodes).map(|k| way(&links, nodes, k / nodes, k % nodes)).collect();
        Self { line_bytes: machine.line_bytes, controllers, links, ways }
    }

    /// A line goes from a node to another; returns how long it waits on the way.
    pub fn carry(&mut self, now: f64, from: usize, to: usize) -> f64 {
        let at = from * self.controllers.len() + to;
        let mut wait = 0.0;
        for &link in &self.ways[at] {
            wait += self.links[usize::from(link)].server.serve(now + wait, self.line_bytes);
        }
        wait
    }

    /// Number of links between two nodes.
    #[cfg(test)]
    fn hops(&self, from: usize, to: usize) -> usize {
        self.ways[from * self.controllers.len() + to].len()
    }

    /// A node's memory is asked for a line, or given one; returns how long that waits.
    pub fn access_memory(&mut self, now: f64, node: usize) -> f64 {
        self.controllers[node].serve(now, self.line_bytes)
    }

    /// A line goes from a node to another one's memory; nobody waits for it.
    pub fn write_back(&mut self, now: f64, from: usize, to: usize) {
        self.carry(now, from, to);
        self.access_memory(now, to);
    }

    /// What controllers and links have done since this was last asked.
    pub fn take_done(&mut self) -> (Vec<Done>, Vec<Done>) {
        let take = |server: &mut Server| std::mem::take(&mut server.done);
        let links = self.links.iter_mut().map(|link| take(&mut link.server)).collect();
        (self.controllers.iter_mut().map(take).collect(), links)
    }

    /// `ring`, `full` or `mesh`, as far as the links show; empty with one node.
    pub fn shape(&self) -> &'static str {
        let nodes = self.controllers.len();
        let degree = |node: usize| self.links.iter().filter(|link| link.from == node).count();
        match nodes {
            0 | 1 => "",
            _ if self.links.len() == nodes * (nodes - 1) => "full",
            _ if (0..nodes).all(|node| degree(node) == 2) => "ring",
            _ => "mesh",
        }
    }
}

/// Time to memory beyond that of the node's own, for each pair of nodes.
fn distances(machine: &Machine) -> Vec<f64> {
    let nodes = machine.nodes.len();
    let home = |node: usize| machine.home_node.iter().position(|n| *n == node).unwrap_or(0);
    let row = |from: usize| {
        let row = &machine.memory_ns[home(from)];
        (0..nodes).map(move |to| if from == to { 0.0 } else { (row[to] - row[from]).max(0.0) })
    };
    (0..nodes).flat_map(row).collect()
}

fn is_linked(distances: &[f64], nodes: usize, from: usize, to: usize) -> bool {
    let at = |a: usize, b: usize| distances[a * nodes + b];
    let direct = at(from, to);
    (0..nodes).filter(|via| *via != from && *via != to).all(|via| {
        let (first, second) = (at(from, via), at(via, to));
        first >= direct || second >= direct || first + second > direct * DETOUR
    })
}

/// The links of the way with the fewest, by breadth; empty for a node and itself.
fn way(links: &[Link], nodes: usize, from: usize, to: usize) -> Vec<u16> {
    let mut reached: Vec<Option<u16>> = vec![None; nodes];
    let mut edge = vec![from];
    while from != to && reached[to].is_none() && !edge.is_empty() {
        let mut next = Vec::new();
        for node in edge {
            for (number, link) in links.iter().enumerate().filter(|(_, link)| link.from == node) {
                if link.to != from && reached[link.to].is_none() {
                    reached[link.to] = Some(number as u16);
                    next.push(link.to);
                }
            }
        }
        edge = next;
    }
    let mut way = Vec::new();
    let mut at = to;
    while let Some(number) = reached[at].filter(|_| at != from) {
        way.push(number);
        at = links[usize::from(number)].from;
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Topology;

    fn network(distances: &[u64]) -> Interconnect {
        let spec = "pack:4 numa:1(memory=1GiB) core:2 l1d:1(size=32KiB) pu:1";
        let mut topology = Topology::from_synthetic(spec).unwrap();
        topology.numa_distances = distances.to_vec();
        Interconnect::new(&Machine::new(&topology, "it").unwrap())
    }

    #[test]
    fn the_shape_follows_from_the_distances() {
        let ring = network(&[10, 20, 30, 20, 20, 10, 20, 30, 30, 20, 10, 20, 20, 30, 20, 10]);
        assert_eq!((ring.shape(), ring.links.len()), ("ring", 8));
        assert_eq!((ring.hops(0, 1), ring.hops(0, 2), ring.hops(3, 0)), (1, 2, 1));
        let full = network(&[]);
        assert_eq!((full.shape(), full.links.len()), ("full", 12));
        assert_eq!(full.hops(0, 3), 1);
        let line = network(&[10, 20, 30, 40, 20, 10, 20, 30, 30, 20, 10, 20, 40, 30, 20, 10]);
        assert_eq!((line.shape(), line.hops(0, 3)), ("mesh", 3));
    }

    #[test]
    fn a_busy_link_makes_lines_wait() {
        let mut network = network(&[]);
        assert_eq!(network.carry(0.0, 0, 1), 0.0);
        let wait = network.carry(0.0, 0, 1);
        assert!((wait - 64.0 / 19.2).abs() < 1e-9, "{wait}");
        assert_eq!(network.carry(0.0, 1, 0), 0.0);
        assert_eq!(network.access_memory(0.0, 2), 0.0);
        assert!(network.access_memory(0.0, 2) > 0.0);
        assert_eq!(network.controllers[2].done.bytes, 128);
    }
}
