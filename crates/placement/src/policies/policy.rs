//! What a policy is, and what it may look at.

use crate::slots::SlotTree;
use crate::solver::Effort;
use crate::tasks::Tasks;
use topology::Hierarchy;

/// What a policy is given.
pub struct Input<'a> {
    pub tasks: &'a Tasks,
    pub hierarchy: &'a Hierarchy,
    /// The slots the solver may use for this many threads.
    pub tree: &'a SlotTree,
    pub seed: u64,
    pub effort: Effort,
    /// Threads that the solver may use; the answer does not depend on it.
    pub jobs: usize,
}

/// A way to place threads.
pub trait Policy {
    /// For each thread the PU it goes to, as an index into [`Hierarchy::pus`]. The same input
    /// always gives the same answer. Empty when nothing is to be bound.
    ///
    /// No two threads share a core while there are as many cores as threads; beyond that, cores and
    /// PUs are loaded evenly. So policies answer with slots of [`Input::tree`], which the solver or
    /// [`even_out`](crate::even::even_out) has made even. Only `compact` does not.
    fn place(&self, input: &Input<'_>) -> Vec<usize>;
}
