//! Exact values: costs of known optima, baselines in closed form, and figure 3.6 of Diener's
//! thesis.

mod support;

use placement::{PolicyKind, Request, Tasks, place};
use support::{Machine, Random, lattice, random_matrix, unit_graph};
use topology::{CostModel, Costs, ObjectKind, Topology};
use types::{CommMatrix, ThreadId};

/// 4 sockets × 8 cores × 2, 180 / 50 / 10: from any numbering of the threads.
#[test]
fn chain_grid_and_cube_reach_their_optima_from_shuffled_ids() {
    let machine = Machine::new("pack:4 core:8 pu:2", "180,50,10");
    for (size, optimum) in [([1, 1, 64], 2260.0), ([1, 8, 8], 6400.0), ([4, 4, 4], 10080.0)] {
        for shuffle in 0..6 {
            let matrix = unit_graph(64, &lattice(size), shuffle);
            let placement = machine.place(&matrix, PolicyKind::Locality, shuffle);
            assert_eq!(placement.cost, optimum, "{size:?}, shuffle {shuffle}");
        }
    }
}

/// The chain of 64 in order: every baseline can be counted by hand.
#[test]
fn baselines_of_the_chain_are_exact() {
    let machine = Machine::new("pack:4 core:8 pu:2", "180,50,10");
    let chain = unit_graph(64, &lattice([1, 1, 64]), 0);
    let placement = machine.place(&chain, PolicyKind::Compact, 0);
    // Compact: 32 edges within cores, 28 within sockets, 3 between.
    assert_eq!(placement.cost, 32.0 * 10.0 + 28.0 * 50.0 + 3.0 * 180.0);
    assert_eq!(placement.baselines.compact, 2260.0);
    let levels: Vec<_> =
        placement.levels.iter().map(|l| (l.level.as_str(), l.within.as_str(), l.after)).collect();
    assert_eq!(
        levels,
        [
            ("between SMT siblings", "core", 32.0 / 63.0),
            ("between cores", "package", 28.0 / 63.0),
            ("between packages", "machine", 3.0 / 63.0)
        ]
    );
    let before: Vec<f64> = placement.levels.iter().map(|l| l.before).collect();
    let expected = [1.0 / 63.0, 14.0 / 63.0, 48.0 / 63.0];
    before.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{before:?}"));
    // Scatter: neighbours are always in different sockets.
    assert_eq!(placement.baselines.scatter, 63.0 * 180.0);
    // Of the 63 others on the machine 1 shares the core, 14 the socket, 48 neither.
    let mean = (10.0 + 14.0 * 50.0 + 48.0 * 180.0) / 63.0;
    assert!((placement.baselines.random - 63.0 * mean).abs() < 1e-9);
}

#[test]
fn the_expectation_is_the_mean_over_all_random_placements() {
    // Every assignment of 3 threads to 4 PUs, priced by hand.
    let machine = Machine::new("core:2 pu:2", "100,7");
    let mut matrix = CommMatrix::new(3);
    for (from, to, count) in [(0, 1, 5), (1, 0, 1), (1, 2, 9), (2, 0, 2)] {
        matrix.add(ThreadId(from), ThreadId(to), count);
    }
    let (mut sum, mut count) = (0.0, 0.0);
    let cost = |a: usize, b: usize| if a / 2 == b / 2 { 7.0 } else { 100.0 };
    for a in 0..4 {
        for b in (0..4).filter(|&b| b != a) {
            for c in (0..4).filter(|&c| c != a && c != b) {
                sum += 6.0 * cost(a, b) + 9.0 * cost(b, c) + 2.0 * cost(a, c);
                count += 1.0;
            }
        }
    }
    let expected = machine.place(&matrix, PolicyKind::Compact, 0).baselines.random;
    assert!((expected - sum / count).abs() < 1e-9, "{expected} {}", sum / count);
}

#[test]
fn the_random_expectation_agrees_with_sampling_on_a_restricted_hybrid() {
    let machine = Machine::file("hybrid.xml");
    let matrix = random_matrix(7, 5);
    let expected = machine.place(&matrix, PolicyKind::Compact, 0).baselines.random;
    let hierarchy = topology::Hierarchy::new(&machine.topology);
    let mut random = Random(3);
    let mut sum = 0.0;
    const SAMPLES: usize = 40_000;
    for _ in 0..SAMPLES {
        let pus = random.order(10);
        for (from, to, count) in matrix.iter() {
            let level = hierarchy.common(pus[from.index()], pus[to.index()]);
            sum += count as f64 * machine.costs.per_level[level];
        }
    }
    let mean = sum / SAMPLES as f64;
    assert!((mean / expected - 1.0).abs() < 0.01, "{mean} {expected}");
}

/// Five threads that communicate evenly cost the same in every placement that leaves no core idle.
#[test]
fn chance_leaves_no_core_idle() {
    let machine = Machine::new("node:2 core:2 pu:1", "latency");
    let mut matrix = CommMatrix::new(5);
    for (a, b) in (0..5).flat_map(|a| (0..a).map(move |b| (a, b))) {
        matrix.add(ThreadId(a), ThreadId(b), 2000);
    }
    let placed = machine.place(&matrix, PolicyKind::Locality, 0);
    let [far, near] = machine.costs.per_level[..] else { panic!("two levels") };
    assert_eq!(placed.cost, 2000.0 * (3.0 * near + 6.0 * far));
    assert!((placed.baselines.os / placed.cost - 1.0).abs() < 1e-12, "{:?}", placed.baselines);
    assert!((placed.baselines.random / placed.cost - 1.0).abs() < 1e-12, "{:?}", placed.baselines);
    let before: Vec<f64> = placed.levels.iter().map(|level| level.before).collect();
    let same = before.iter().zip([0.1, 0.3, 0.6]).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(same, "{before:?}");
}

/// Figure 3.6: 4 chained tasks on 2 × 2 × 2 go one per L1, (0,1) and (2,3) within an L2.
#[test]
fn figure_3_6_uses_every_l1_and_keeps_neighbours_in_an_l2() {
    let machine = Machine::new("l2:2 core:2 pu:2", "100,20,5");
    let chain = unit_graph(4, &lattice([1, 1, 4]), 0);
    let placement = machine.place(&chain, PolicyKind::Locality, 0);
    assert_eq!(machine.loads(&placement, ObjectKind::Core), [1, 1, 1, 1]);
    assert_eq!(placement.shared_cores, 0);
    let l2 = |t: usize| machine.topology.ancestor(placement.pu_logical[t], ObjectKind::Cache(2));
    assert_eq!(l2(0), l2(1));
    assert_eq!(l2(2), l2(3));
    assert_ne!(l2(0), l2(2));
    assert_eq!(placement.cost, 20.0 + 100.0 + 20.0);
}

/// Two PUs, four threads in two pairs that talk: each pair on one PU, in any numbering.
#[test]
fn two_pairs_on_two_pus_share_a_pu_each() {
    let machine = Machine::new("core:2 pu:1", "latency");
    for (a, b, c, d) in [(0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)] {
        let mut matrix = CommMatrix::new(4);
        for (x, y, n) in [(a, b, 4096), (b, a, 4000), (c, d, 4096), (a, c, 3), (d, b, 1)] {
            matrix.add(ThreadId(x), ThreadId(y), n);
        }
        let placement = machine.place(&matrix, PolicyKind::Locality, 0);
        let pu = |t: u32| placement.pu_logical[t as usize];
        assert_eq!(pu(a), pu(b));
        assert_eq!(pu(c), pu(d));
        assert_ne!(pu(a), pu(c));
        assert_eq!(placement.cost, 4.0 * machine.costs.per_level[0]);
    }
}

/// An initial thread that only starts two workers and waits does not push them onto one PU.
#[test]
fn an_idle_thread_does_not_count_as_load() {
    let machine = Machine::new("core:2 pu:1", "latency");
    let mut matrix = CommMatrix::new(3);
    matrix.add(ThreadId(0), ThreadId(1), 2);
    matrix.add(ThreadId(1), ThreadId(2), 5000);
    let request = Request::new(PolicyKind::Locality);
    let place = |tasks: Tasks| place(&tasks, &machine.topology, &machine.costs, &request).unwrap();
    let unknown = place(Tasks::from(&matrix));
    assert_eq!(unknown.pu_logical[1], unknown.pu_logical[2]);
    let known = place(Tasks::from(&matrix).with_work(&[100, 90_000, 90_000]));
    assert_ne!(known.pu_logical[1], known.pu_logical[2]);
    assert_eq!(known.pu_logical[0], known.pu_logical[1]);
}

/// One that has done most, before it started four workers, does not make these idle.
#[test]
fn workers_of_a_busy_initial_thread_have_cores_of_their_own() {
    let machine = Machine::new("pack:2 core:2 pu:1", "latency");
    let mut matrix = CommMatrix::new(5);
    (1..5).for_each(|worker| matrix.add(ThreadId(0), ThreadId(worker), 10));
    matrix.add(ThreadId(1), ThreadId(3), 5000);
    matrix.add(ThreadId(2), ThreadId(4), 5000);
    let request = Request::new(PolicyKind::Complace);
    let tasks = Tasks::from(&matrix).with_work(&[9_000_000, 500_000, 500_000, 500_000, 500_000]);
    let placed = place(&tasks, &machine.topology, &machine.costs, &request).unwrap();
    let mut cores = placed.pu_logical.clone();
    cores.sort_unstable();
    cores.dedup();
    assert_eq!(cores.len(), 4, "{:?}", placed.pu_logical);
}

/// COMPLACE, Algorithm 2, worked by hand: 0 first on PU 0; the heaviest edge from it leads to 2,
/// next to it; then 1, tied to 2; then 3, tied to none, on the lowest free PU.
#[test]
fn complace_follows_its_algorithm() {
    let machine = Machine::new("pack:2 core:2 pu:1", "180,50");
    let mut matrix = CommMatrix::new(4);
    matrix.add(ThreadId(0), ThreadId(2), 10);
    matrix.add(ThreadId(2), ThreadId(1), 7);
    matrix.add(ThreadId(0), ThreadId(1), 5);
    let placement = machine.place(&matrix, PolicyKind::Complace, 0);
    assert_eq!(placement.pu_logical, [0, 2, 1, 3]);
    assert_eq!(placement.cost, 10.0 * 50.0 + 12.0 * 180.0);
}

/// EagerMap, worked by hand: pairs {0,3} and {1,2} by cores; then both in one package.
#[test]
fn eagermap_groups_bottom_up() {
    let machine = Machine::new("pack:2 core:2 pu:2", "180,50,10");
    let mut matrix = CommMatrix::new(8);
    for (a, b, n) in [(0, 3, 9), (1, 2, 8), (4, 7, 9), (5, 6, 9), (0, 5, 4), (1, 4, 4)] {
        matrix.add(ThreadId(a), ThreadId(b), n);
    }
    let placement = machine.place(&matrix, PolicyKind::Eagermap, 0);
    // Cores {0,3}, {1,2}, {4,7}, {5,6}; the group of 0 communicates most with that of 5.
    assert_eq!(placement.pu_logical, [0, 4, 5, 1, 6, 2, 3, 7]);
    assert_eq!(placement.cost, 35.0 * 10.0 + 8.0 * 50.0);
}

#[test]
fn compact_and_scatter_are_what_the_thesis_says() {
    let machine = Machine::new("pack:2 core:2 pu:2", "180,50,10");
    let order = |policy, threads| machine.place(&CommMatrix::new(threads), policy, 0).pu_logical;
    assert_eq!(order(PolicyKind::Compact, 4), [0, 1, 2, 3]);
    assert_eq!(order(PolicyKind::Compact, 10), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
    assert_eq!(order(PolicyKind::Scatter, 10), [0, 4, 2, 6, 1, 5, 3, 7, 0, 4]);
    let hybrid = Machine::file("hybrid.xml");
    let scatter = hybrid.place(&CommMatrix::new(10), PolicyKind::Scatter, 0).pu_logical;
    // Eight cores first, then the two SMT siblings.
    assert_eq!(scatter[8..], [1, 3]);
}

#[test]
fn costs_of_another_machine_are_refused() {
    let machine = Topology::from_synthetic("core:4 pu:1").unwrap();
    let other = Topology::from_synthetic("pack:2 core:4 pu:1").unwrap();
    let costs = Costs::new(&CostModel::Latency, &other).unwrap();
    let tasks = Tasks::from(&CommMatrix::new(2));
    let error = place(&tasks, &machine, &costs, &Request::new(PolicyKind::Locality)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there are 2 costs for 1 branching levels; make them for this machine"
    );
    let none = Tasks::from(&CommMatrix::new(0));
    let costs = Costs::new(&CostModel::Latency, &machine).unwrap();
    assert!(place(&none, &machine, &costs, &Request::new(PolicyKind::Locality)).is_err());
}
