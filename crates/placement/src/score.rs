//! What a placement costs, and how evenly it loads.

use crate::slots::{Crowded, Distances, Even, SlotTree};
use crate::tasks::Tasks;
use std::cmp::Ordering;

/// How good an assignment of threads to slots is; lower is better, evenness first.
///
/// This is the limit of cost + λ · Σ load² for large λ: a thread that has to share a core or a PU
/// while another is free loses more than any communication could cost. Where loads are equally
/// even, communication alone decides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Score {
    /// Weighted sum over the groups that should be even of load².
    pub unevenness: i64,
    /// Sum over unordered pairs of events · cost, and what it costs to crowd the
    /// tree's [`Crowded`] groups.
    pub cost: f64,
}

impl Score {
    /// Of threads in slots.
    pub fn of(tasks: &Tasks, tree: &SlotTree, slots: &[usize]) -> Self {
        let cost = cost(tasks, tree, slots) + crowding(tasks, tree, slots);
        Self { unevenness: unevenness(tasks, tree, slots), cost }
    }

    /// Whether this is better than `other` by more than rounding.
    pub fn beats(&self, other: &Self) -> bool {
        match self.unevenness.cmp(&other.unevenness) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.cost < other.cost - other.cost.abs() * 1e-12,
        }
    }
}

/// Sum over unordered pairs of events · cost between their slots.
pub fn cost(tasks: &Tasks, tree: &SlotTree, slots: &[usize]) -> f64 {
    let mut sum = 0.0;
    let distances = Distances::new(tree);
    for a in 0..tasks.len() {
        for &(b, weight) in tasks.neighbours(a).iter().filter(|&&(b, _)| b > a) {
            sum += weight * distances.between(slots[a], slots[b]);
        }
    }
    sum
}

/// Σ price · load² over all that should not be crowded.
pub fn crowding(tasks: &Tasks, tree: &SlotTree, slots: &[usize]) -> f64 {
    let of = |crowded: &Crowded| {
        let mut load = vec![0.0; crowded.price.len()];
        for (task, &slot) in slots.iter().enumerate() {
            load[crowded.group[slot]] += tasks.burden(task, crowded.by);
        }
        load.iter().zip(&crowded.price).map(|(load, price)| price * load * load).sum::<f64>()
    };
    tree.crowded.iter().map(of).sum()
}

fn unevenness(tasks: &Tasks, tree: &SlotTree, slots: &[usize]) -> i64 {
    let square = |even: &Even| loads(tasks, &even.group, slots).iter().map(|l| l * l).sum::<i64>();
    tree.even.iter().map(|even| even.weight * square(even)).sum()
}

/// Load of every group.
pub fn loads(tasks: &Tasks, group: &[usize], slots: &[usize]) -> Vec<i64> {
    let mut loads = vec![0; group.iter().max().map_or(0, |g| g + 1)];
    for (task, &slot) in slots.iter().enumerate() {
        loads[group[slot]] += tasks.load(task);
    }
    loads
}
