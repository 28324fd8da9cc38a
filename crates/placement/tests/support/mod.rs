//! Graphs, machines and prices for the tests of placement.
#![allow(dead_code)] // Each test program uses its own part.

pub mod kernels;

use placement::{Placement, PolicyKind, Request, Tasks, place};
use std::path::Path;
use topology::{CostModel, Costs, ObjectKind, Topology};
use types::{CommMatrix, ThreadId};

/// A fixed sequence of random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize * n) >> 31
    }

    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| order.swap(i, self.below(i + 1)));
        order
    }
}

/// A matrix with one event per edge, ids shuffled by `seed` (0: not shuffled).
pub fn unit_graph(threads: usize, edges: &[(usize, usize)], seed: u64) -> CommMatrix {
    let id = match seed {
        0 => (0..threads).collect(),
        seed => Random(seed).order(threads),
    };
    let mut matrix = CommMatrix::new(threads);
    for &(a, b) in edges {
        matrix.add(ThreadId(id[a] as u32), ThreadId(id[b] as u32), 1);
    }
    matrix
}

/// Edges of a chain, grid or cube.
pub fn lattice(size: [usize; 3]) -> Vec<(usize, usize)> {
    let [x, y, z] = size;
    let mut edges = Vec::new();
    for v in 0..x * y * z {
        let (i, j, k) = (v / (y * z), v / z % y, v % z);
        edges.extend((i + 1 < x).then_some((v, v + y * z)));
        edges.extend((j + 1 < y).then_some((v, v + z)));
        edges.extend((k + 1 < z).then_some((v, v + 1)));
    }
    edges
}

/// A sparse random matrix, asymmetric.
pub fn random_matrix(threads: usize, seed: u64) -> CommMatrix {
    let mut random = Random(seed);
    let mut matrix = CommMatrix::new(threads);
    for a in 0..threads {
        for b in 0..threads {
            if random.below(threads) < 4 {
                matrix.add(ThreadId(a as u32), ThreadId(b as u32), random.below(1000) as u64);
            }
        }
    }
    matrix
}

pub struct Machine {
    pub topology: Topology,
    pub costs: Costs,
}

impl Machine {
    pub fn new(spec: &str, costs: &str) -> Self {
        let topology = Topology::from_spec(spec).unwrap();
        let costs = Costs::new(&costs.parse::<CostModel>().unwrap(), &topology).unwrap();
        Self { topology, costs }
    }

    /// One of the machines in `tests/machines/`.
    pub fn file(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines");
        Self::new(folder.join(name).to_str().unwrap(), "latency")
    }

    pub fn place(&self, matrix: &CommMatrix, policy: PolicyKind, seed: u64) -> Placement {
        let request = Request { seed, ..Request::new(policy) };
        place(&Tasks::from(matrix), &self.topology, &self.costs, &request).unwrap()
    }

    /// Threads per object of a kind; objects without threads left out.
    pub fn loads(&self, placement: &Placement, kind: ObjectKind) -> Vec<usize> {
        let mut loads = std::collections::BTreeMap::new();
        for &pu in &placement.pu_logical {
            let itself = self.topology.pus[pu as usize].object;
            *loads.entry(self.topology.ancestor(pu, kind).unwrap_or(itself)).or_insert(0) += 1;
        }
        loads.into_values().collect()
    }
}
