//! Where threads may go: a tree of slots over the allowed part of a machine.
//!
//! The number of threads decides what a slot is (T threads):
//!
//! - T ≤ cores: one slot per core, on its first allowed PU. No core can be shared.
//! - cores < T ≤ PUs: one slot per PU; loads per core should be even.
//! - T > PUs: ⌈T / PUs⌉ slots under every PU; loads per PU and then per core should be even.

use topology::Hierarchy;

/// Groups of slots whose loads should be even.
#[derive(Clone, PartialEq, Debug)]
pub struct Even {
    /// For each slot its group.
    pub group: Vec<usize>,
    /// How much Σ load² of these groups counts.
    pub weight: i64,
}

/// Groups of slots that it costs to crowd: Σ price · load² of the groups is added to the cost.
#[derive(Clone, PartialEq, Debug)]
pub struct Crowded {
    /// For each slot its group.
    pub group: Vec<usize>,
    /// For each group its price.
    pub price: Vec<f64>,
    /// What the load of a group is the sum of.
    pub by: Burden,
}

/// What a task burdens its surroundings with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Burden {
    /// [`Tasks::volume`](crate::Tasks::volume).
    Talk,
    /// [`Tasks::traffic`](crate::Tasks::traffic).
    Memory,
}

/// A tree whose leaves each take at most one thread. Leaves below any node are contiguous.
#[derive(Clone, PartialEq, Debug)]
pub struct SlotTree {
    /// For each slot, its PU as an index into [`Hierarchy::pus`].
    pub pu: Vec<usize>,
    /// `node[d][s]`: the node at level d (0 = root, only node 0) above slot s. There are `depth`
    /// such levels; the slots themselves are level `depth`.
    pub node: Vec<Vec<usize>>,
    /// `cost[d]`: cost between two slots whose closest common node is at level d.
    pub cost: Vec<f64>,
    /// What should be loaded evenly.
    pub even: Vec<Even>,
    /// What should not be crowded; empty in a machine's own tree.
    pub crowded: Vec<Crowded>,
    /// The level whose nodes are the memory nodes; 0 when there is only one.
    pub memory: usize,
    /// Only slots of the same shape may exchange what they hold; all 0 in a machine's own tree.
    pub shape: Vec<usize>,
}

impl SlotTree {
    /// The slots for `threads` threads. `costs` has one entry per level of the hierarchy.
    pub fn new(hierarchy: &Hierarchy, costs: &[f64], threads: usize) -> Self {
        let pus = hierarchy.pus.len();
        if threads <= hierarchy.cores() {
            let first = (0..pus).filter(|&i| i == 0 || hierarchy.core[i] != hierarchy.core[i - 1]);
            return Self::over(hierarchy, costs, first.collect(), 1);
        }
        let copies = threads.div_ceil(pus);
        let mut tree = Self::over(hierarchy, costs, (0..pus).collect(), copies);
        let core = tree.pu.iter().map(|&pu| hierarchy.core[pu] as usize).collect();
        if copies > 1 {
            // PUs before cores: on hybrid machines, where some cores have one PU and others two,
            // both cannot be even.
            let weight = (threads * threads) as i64 + 1;
            tree.even.push(Even { group: tree.pu.clone(), weight });
        }
        if hierarchy.cores() < pus {
            tree.even.push(Even { group: core, weight: 1 });
        }
        tree
    }

    /// One slot for every allowed PU: the tree on which any placement can be priced.
    pub fn all_pus(hierarchy: &Hierarchy, costs: &[f64], copies: usize) -> Self {
        Self::over(hierarchy, costs, (0..hierarchy.pus.len()).collect(), copies)
    }

    fn over(hierarchy: &Hierarchy, costs: &[f64], pus: Vec<usize>, copies: usize) -> Self {
        let pu: Vec<usize> = pus.iter().flat_map(|&pu| std::iter::repeat_n(pu, copies)).collect();
        let mut node = vec![vec![0; pu.len()]];
        let mut cost = Vec::new();
        let mut memory = 0;
        for (level, &price) in hierarchy.levels.iter().zip(costs) {
            let part = renumber(pu.iter().map(|&pu| level.part[pu] as usize));
            if part != node[node.len() - 1] {
                cost.push(price);
                node.push(part);
            }
            if ["packages", "NUMA nodes"].contains(&level.between) {
                memory = node.len() - 1;
            }
        }
        if copies > 1 {
            // Threads on one PU share its cache.
            cost.push(0.0);
        } else if node.len() > 1 {
            // The last level has a node per slot: that is the slots themselves.
            node.pop();
        } else {
            cost.push(0.0);
        }
        let shape = vec![0; pu.len()];
        let memory = memory.min(node.len() - 1);
        Self { pu, node, cost, even: Vec::new(), crowded: Vec::new(), memory, shape }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.pu.len()
    }

    /// Number of levels with nodes, the root's included.
    pub fn depth(&self) -> usize {
        self.node.len()
    }

    /// Number of nodes at a level.
    pub fn parts(&self, level: usize) -> usize {
        self.node[level].last().map_or(0, |last| last + 1)
    }

    /// Level of the closest common node of two different slots.
    pub fn common(&self, a: usize, b: usize) -> usize {
        let mut level = self.depth() - 1;
        while self.node[level][a] != self.node[level][b] {
            level -= 1;
        }
        level
    }

    /// The slots below each node of a level, or each slot alone when `level` is the depth.
    pub fn ranges(&self, level: usize) -> Vec<std::ops::Range<usize>> {
        if level == self.depth() {
            return (0..self.len()).map(|slot| slot..slot + 1).collect();
        }
        let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
        for (slot, &node) in self.node[level].iter().enumerate() {
            match ranges.get_mut(node) {
                Some(range) => range.end = slot + 1,
                None => ranges.push(slot..slot + 1),
            }
        }
        ranges
    }

    /// Slots for threads given by PU; `None` when the tree has no room for them like that.
    pub fn slots_for(&self, pus: &[usize], hierarchy: &Hierarchy) -> Option<Vec<usize>> {
        let per_core = self.len() == hierarchy.cores() && self.even.is_empty();
        let mut taken = vec![false; self.len()];
        pus.iter()
            .map(|&pu| {
                let fits = |&slot: &usize| {
                    let same_core = hierarchy.core[self.pu[slot]] == hierarchy.core[pu];
                    !taken[slot] && (self.pu[slot] == pu || per_core && same_core)
                };
                let slot = (0..self.len()).find(fits)?;
                taken[slot] = true;
                Some(slot)
            })
            .collect()
    }
}

/// Costs between slots at hand: the closest common level of two slots is the least one between
/// neighbouring slots from one to the other, and the least of any stretch is that of two stretches
/// whose lengths are powers of two.
pub struct Distances<'a> {
    cost: &'a [f64],
    slots: usize,
    /// `least[k * slots + s]`: closest common level of the slots s to s + 2^k.
    least: Vec<u8>,
}

impl<'a> Distances<'a> {
    pub fn new(tree: &'a SlotTree) -> Self {
        let slots = tree.len();
        let mut least: Vec<u8> =
            (0..slots).map(|s| tree.common(s, (s + 1).min(slots - 1)) as u8).collect();
        let mut length = 1;
        while 2 * length < slots {
            let from = least.len() - slots;
            for s in 0..slots {
                let beyond = (s + length).min(slots - 1);
                least.push(least[from + s].min(least[from + beyond]));
            }
            length *= 2;
        }
        Self { cost: &tree.cost, slots, least }
    }

    /// Cost between two different slots.
    pub fn between(&self, a: usize, b: usize) -> f64 {
        let (low, high) = (a.min(b), a.max(b));
        let power = (high - low).ilog2();
        let row = power as usize * self.slots;
        let level = self.least[row + low].min(self.least[row + high - (1 << power)]);
        self.cost[level as usize]
    }
}

/// Numbers contiguous ids from 0 in the order in which they come.
fn renumber(ids: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut last = None;
    let mut count = 0;
    ids.map(|id| {
        count += usize::from(last != Some(id));
        last = Some(id);
        count - 1
    })
    .collect()
}
