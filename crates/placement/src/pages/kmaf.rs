//! kMAF's data mapping (Diener, 7.3.5): a page is judged at each access that is seen, and moved
//! when its pattern has settled.
//!
//! Its NUMA vector counts the accesses from each node; the sampled exclusivity (7.3) chooses
//! between locality and balance (7.4). Locality moves the page to the node with the most accesses
//! once these are at least 2 · (second most + 1) (7.5, 7.6); balance to the interleaved node once
//! there were more accesses than nodes (7.7, 7.8). Table 7.2 calls steps c and j balance, to which
//! 7.4 gives no policy (67 % and 60 % are between the limits); nothing is moved there either way.

use crate::pages::interleave;

/// The limits of exclusivity, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KmafLimits {
    /// Above: locality.
    pub min_locality: f64,
    /// Below: balance.
    pub max_balance: f64,
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
        if self.node.is_none() {
            self.node = Some(node);
            return (KmafPolicy::FirstTouch, KmafAction::Allocate(node));
        }
        let policy = self.policy(limits);
        let wanted = match policy {
            KmafPolicy::Locality => self.settled(),
            KmafPolicy::Balance => self.balanced(),
            KmafPolicy::FirstTouch | KmafPolicy::None => None,
        };
        match wanted.filter(|wanted| Some(*wanted) != self.node) {
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
        let all: u128 = self.vector.iter().map(|&count| u128::from(count)).sum();
        let most = self.vector.iter().max().copied().unwrap_or(0);
        if all == 0 { 0.0 } else { most as f64 / all as f64 }
    }

    /// 7.4.
    fn policy(&self, limits: KmafLimits) -> KmafPolicy {
        match self.exclusivity() {
            share if share > limits.min_locality => KmafPolicy::Locality,
            share if share < limits.max_balance => KmafPolicy::Balance,
            _ => KmafPolicy::None,
        }
    }

    /// 7.5 and 7.6: the node that clearly accesses the page most.
    fn settled(&self) -> Option<usize> {
        let busiest = (0..self.vector.len()).max_by_key(|&node| self.vector[node])?;
        let others = (0..self.vector.len()).filter(|&node| node != busiest);
        let second = others.map(|node| self.vector[node]).max().unwrap_or(0);
        let enough = u128::from(self.vector[busiest]) >= 2 * (u128::from(second) + 1);
        enough.then_some(busiest)
    }

    /// 7.7 and 7.8: the interleaved node, once there are enough accesses to judge.
    fn balanced(&self) -> Option<usize> {
        let all: u128 = self.vector.iter().map(|&count| u128::from(count)).sum();
        let nodes = self.vector.len();
        (all > nodes as u128).then(|| interleave::node(self.number, nodes))
    }
}
