//! What no placement can cost less than: how much is left to be gained, said to the user.
//!
//! Cost is the price of the last level on all communication, and at every level above the price's
//! difference on what crosses between nodes there. So a bound on each *cut*, the events between
//! parts of given sizes, bounds the whole. Each cut takes the best of three bounds:
//!
//! - *star*: a thread keeps at most as many neighbours beside it as fit, the heaviest;
//! - *edges*: parts hold at most a certain number of pairs, the heaviest;
//! - *spectral*: Donath, Hoffman: Lower bounds for the partitioning of graphs, 1973: half the sum
//!   of part sizes, largest first, times the smallest eigenvalues of the Laplacian.
//!
//! Loads that must be even are left out, which only lowers the bound. Neighbours: `slots.rs`.

use crate::place::PlaceError;
use crate::slots::SlotTree;
use crate::tasks::Tasks;
use nalgebra::DMatrix;
use topology::{Costs, Hierarchy, Topology};

/// Most threads for which eigenvalues are computed; time grows with the third power.
const MAX_SPECTRAL: usize = 512;

/// A cost, in the units of `Placement::cost`, that no placement of `tasks` on what `topology`
/// allows undercuts without making threads share cores that need not be shared.
///
/// # Errors
/// No threads, or costs made for another machine.
pub fn lower_bound(tasks: &Tasks, topology: &Topology, costs: &Costs) -> Result<f64, PlaceError> {
    let hierarchy = Hierarchy::new(topology);
    crate::place::check(tasks, &hierarchy, costs)?;
    Ok(bound(tasks, &SlotTree::new(&hierarchy, &costs.per_level, tasks.len())))
}

fn bound(tasks: &Tasks, tree: &SlotTree) -> f64 {
    let all = tasks.total();
    let eigenvalues = eigenvalues(tasks, tree.len());
    let mut sum = tree.cost[tree.depth() - 1] * all;
    let mut cut = 0.0f64;
    for level in 1..tree.depth() {
        let mut sizes: Vec<usize> = tree.ranges(level).iter().map(|r| r.len()).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        // What crosses between nodes crosses between their children, too.
        cut = cut.max(star(tasks, sizes[0])).max(edges(tasks, &sizes));
        cut = cut.max(spectral(&eigenvalues, &sizes)).min(all);
        let step = tree.cost[level - 1] - tree.cost[level];
        sum += if step >= 0.0 { step * cut } else { step * all };
    }
    sum
}

/// Each thread keeps its heaviest `size` - 1 neighbours; an edge is cut unless both ends keep it,
/// and counts half for each end that does not.
fn star(tasks: &Tasks, size: usize) -> f64 {
    let lost = |task: usize| tasks.neighbours(task)[..].iter().skip(size - 1).map(|e| e.1).sum();
    (0..tasks.len()).map(lost).map(|lost: f64| lost / 2.0).sum()
}

/// As many of the heaviest pairs stay within as the parts hold pairs.
fn edges(tasks: &Tasks, sizes: &[usize]) -> f64 {
    let mut left = tasks.len();
    let mut pairs = 0;
    for &size in sizes {
        let members = size.min(left);
        pairs += members * members.saturating_sub(1) / 2;
        left -= members;
    }
    let later = |task: usize| tasks.neighbours(task).iter().filter(move |e| e.0 > task);
    let mut weights: Vec<f64> = (0..tasks.len()).flat_map(later).map(|e| e.1).collect();
    weights.sort_unstable_by(|a, b| b.total_cmp(a));
    weights.iter().skip(pairs).sum()
}

/// Of the Laplacian, ascending, free slots included (each adds a 0); empty for too many threads.
fn eigenvalues(tasks: &Tasks, slots: usize) -> Vec<f64> {
    let threads = tasks.len();
    if threads > MAX_SPECTRAL {
        return Vec::new();
    }
    let entry = |a: usize, b: usize| if a == b { tasks.volume(a) } else { -tasks.weight(a, b) };
    let laplacian = DMatrix::from_fn(threads, threads, entry);
    let mut values: Vec<f64> = laplacian.symmetric_eigenvalues().iter().copied().collect();
    values.resize(slots.max(threads), 0.0);
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn spectral(eigenvalues: &[f64], sizes: &[usize]) -> f64 {
    let sum: f64 = sizes.iter().zip(eigenvalues).map(|(&size, value)| size as f64 * value).sum();
    // Less what rounding may have added.
    (sum / 2.0 * (1.0 - 1e-9)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PolicyKind, Request, place};
    use topology::CostModel;

    fn tasks(threads: usize, edges: &[(usize, usize, f64)]) -> Tasks {
        let mut weight = vec![0.0; threads * threads];
        for &(a, b, events) in edges {
            weight[a * threads + b] += events;
            weight[b * threads + a] += events;
        }
        Tasks::from_weights(threads, weight)
    }

    fn complete(threads: usize) -> Tasks {
        let pairs = (0..threads).flat_map(|a| (0..a).map(move |b| (a, b, 1.0)));
        tasks(threads, &pairs.collect::<Vec<_>>())
    }

    fn both(tasks: &Tasks, machine: &str, costs: &str) -> (f64, f64) {
        let machine = Topology::from_synthetic(machine).unwrap();
        let costs = Costs::new(&costs.parse::<CostModel>().unwrap(), &machine).unwrap();
        let request = Request::new(PolicyKind::Locality);
        let cost = place(tasks, &machine, &costs, &request).unwrap().cost;
        (lower_bound(tasks, &machine, &costs).unwrap(), cost)
    }

    /// All-to-all: every placement costs the same, and the bounds know it.
    #[test]
    fn a_complete_graph_has_no_gap() {
        let (bound, cost) = both(&complete(16), "pack:2 core:8 pu:1", "100,10");
        assert_eq!(cost, 64.0 * 100.0 + 56.0 * 10.0);
        assert!(bound <= cost && bound > cost * (1.0 - 1e-6), "{bound} {cost}");
    }

    /// Pairs that communicate with no other thread fit into cores: nothing need cross.
    #[test]
    fn pairs_have_no_gap() {
        let pairs: Vec<_> = (0..8).map(|p| (2 * p, 2 * p + 1, 7.0)).collect();
        let (bound, cost) = both(&tasks(16, &pairs), "pack:2 core:4 pu:2", "100,10,1");
        assert_eq!((bound, cost), (56.0, 56.0));
    }

    /// A star of 16 on cores of two: the heaviest leaf stays beside the hub, seven in the package.
    #[test]
    fn a_star_is_bounded_by_what_fits_beside_the_hub() {
        let leaves: Vec<_> = (1..16).map(|leaf| (0, leaf, 1.0)).collect();
        let (bound, cost) = both(&tasks(16, &leaves), "pack:2 core:4 pu:2", "100,10,1");
        assert_eq!(cost, 8.0 * 100.0 + 6.0 * 10.0 + 1.0);
        assert!(bound <= cost && bound >= cost * 0.5, "{bound} {cost}");
    }

    #[test]
    fn no_placement_undercuts_it() {
        for seed in 1..20u64 {
            let mut rng = crate::rng::Rng::new(seed, 0);
            let threads = 3 + rng.below(30);
            let pairs = (0..threads).flat_map(|a| (0..a).map(move |b| (a, b)));
            let edges: Vec<_> = pairs.map(|(a, b)| (a, b, rng.below(9) as f64)).collect();
            for machine in ["pack:2 core:4 pu:2", "pack:2 l3:2 core:3 pu:1", "core:5 pu:1"] {
                let (bound, cost) = both(&tasks(threads, &edges), machine, "latency");
                assert!(bound <= cost * (1.0 + 1e-12), "{bound} > {cost}: {seed} on {machine}");
            }
        }
    }
}
