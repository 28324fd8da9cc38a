//! kMAF's data mapping (Diener, 7.3.5): a page is judged at each access that is seen, and moved
//! when its pattern has settled.
//!
//! Its NUMA vector counts the accesses from each node; the sampled exclusivity (7.3) chooses
//! between locality and balance (7.4). Locality moves the page to the node with the most accesses
//! once these are at least 2 · (second most + 1) (7.5, 7.6); balance to the interleaved node once
//! there were more accesses than nodes (7.7, 7.8). Table 7.2 calls steps c and j balance, to which
//! 7.4 gives no policy (67 % and 60 % are between the limits); nothing is moved there either way.

use crate::pages::interleave;

/// Exclusivity that counts as local, and interleaved pages' over the number of nodes (table 7.3).
const MIN_LOCALITY: f64 = 0.8;
const MAX_BALANCE: f64 = 1.5;
/// Factor of the locality filter (7.5).
const FILTER: f64 = 2.0;

/// When kMAF moves a page.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KmafLimits {
    /// Exclusivity (0 to 1) above which locality decides.
    pub min_locality: f64,
    /// Exclusivity below which balance decides.
    pub max_balance: f64,
    /// How many times as many accesses as any other node (one more than it had) the busiest node
    /// must have.
    pub filter: f64,
}

impl KmafLimits {
    /// Those of table 7.3, for a machine with this many nodes.
    pub fn of(nodes: usize) -> Self {
        let max_balance = MAX_BALANCE / nodes.max(1) as f64;
        Self { min_locality: MIN_LOCALITY, max_balance, filter: FILTER }
    }
}

/// What decides where a page should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KmafPolicy {
    /// The node of the first access.
    FirstTouch,
    /// The node with most accesses.
    Locality,
    /// The interleaved node.
    Balance,
    /// Nothing: its exclusivity lies between the limits.
    None,
}

/// What is done with the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KmafAction {
    /// The first access: the page comes to be on this node.
    Allocate(usize),
    /// The page moves to this node.
    Migrate(usize),
    /// The page stays where it is.
    Stay,
}

/// A page that is watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KmafPage {
    number: u64,
    /// Accesses from each node.
    vector: Vec<u64>,
    node: Option<usize>,
}

impl KmafPage {
    /// A page that no thread has accessed yet, by its number (address divided by page size).
    ///
    /// # Panics
    /// Without nodes.
    pub fn new(number: u64, nodes: usize) -> Self {
        assert!(nodes > 0, "a machine has at least one node");
        Self { number, vector: vec![0; nodes], node: None }
    }

    /// An access from `node`: what decided, and what is done.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn access(&mut self, node: usize, limits: KmafLimits) -> (KmafPolicy, KmafAction) {
        self.vector[node] = self.vector[node].saturating_add(1);
        let Some(here) = self.node else {
            self.node = Some(node);
            return (KmafPolicy::FirstTouch, KmafAction::Allocate(node));
        };
        let (policy, wanted) = kmaf_judge(self.number, &self.vector, limits);
        match wanted.filter(|wanted| *wanted != here) {
            Some(wanted) => {
                self.node = Some(wanted);
                (policy, KmafAction::Migrate(wanted))
            }
            None => (policy, KmafAction::Stay),
        }
    }

    /// Where the page is; `None` before the first access.
    pub fn node(&self) -> Option<usize> {
        self.node
    }

    /// The sampled exclusivity (7.3); 0 before the first access.
    pub fn exclusivity(&self) -> f64 {
        exclusivity(&self.vector)
    }
}

/// Which policy a page falls under, and the node where it should be; `None`: where it is. `vector`
/// are the accesses from each node, `number` is the page's address divided by its size.
pub fn kmaf_judge(number: u64, vector: &[u64], limits: KmafLimits) -> (KmafPolicy, Option<usize>) {
    match exclusivity(vector) {
        share if share > limits.min_locality => (KmafPolicy::Locality, settled(vector, limits)),
        share if share < limits.max_balance => (KmafPolicy::Balance, balanced(number, vector)),
        _ => (KmafPolicy::None, None),
    }
}

/// 7.3.
fn exclusivity(vector: &[u64]) -> f64 {
    let all: u128 = vector.iter().map(|&count| u128::from(count)).sum();
    let most = vector.iter().max().copied().unwrap_or(0);
    if all == 0 { 0.0 } else { most as f64 / all as f64 }
}

/// 7.5 and 7.6: the node that clearly accesses the page most.
fn settled(vector: &[u64], limits: KmafLimits) -> Option<usize> {
    let busiest = (0..vector.len()).max_by_key(|&node| vector[node])?;
    let others = (0..vector.len()).filter(|&node| node != busiest);
    let second = others.map(|node| vector[node]).max().unwrap_or(0);
    (vector[busiest] as f64 >= limits.filter * (second as f64 + 1.0)).then_some(busiest)
}

/// 7.7 and 7.8: the interleaved node, once there are enough accesses to judge.
fn balanced(number: u64, vector: &[u64]) -> Option<usize> {
    let all: u128 = vector.iter().map(|&count| u128::from(count)).sum();
    (all > vector.len() as u128).then(|| interleave::node(number, vector.len()))
}
