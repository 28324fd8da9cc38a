//! `balanced-locality` and memory: no NUMA node is asked for more than its bandwidth is worth,
//! unless that would tear apart who talks.

mod support;

use placement::{Effort, Placement, PolicyKind, Request, Tasks, place};
use support::{Machine, lattice, random_matrix, unit_graph};
use types::{CommMatrix, ThreadId};

/// Two NUMA nodes with that many cores each.
fn two_nodes(cores: usize, bandwidths: [u64; 2]) -> Machine {
    let mut machine = Machine::new(&format!("numa:2 core:{cores} pu:1"), "100,10");
    for (node, mib) in machine.topology.numa_nodes.iter_mut().zip(bandwidths) {
        node.bandwidth_mib = Some(mib).filter(|mib| *mib > 0);
    }
    machine
}

fn balanced(tasks: &Tasks, machine: &Machine, effort: Effort) -> Placement {
    let request = Request { effort, ..Request::new(PolicyKind::BalancedLocality) };
    place(tasks, &machine.topology, &machine.costs, &request).unwrap()
}

/// Accesses by threads on each node, `cores` apart.
fn asked(placement: &Placement, accesses: &[u64], cores: usize) -> [u64; 2] {
    let mut asked = [0; 2];
    for (pu, accesses) in placement.pu_logical.iter().zip(accesses) {
        asked[*pu as usize / cores] += accesses;
    }
    asked
}

/// Up to 16 cores exactly, beyond by search, with every effort.
#[test]
fn who_does_not_talk_is_spread_by_bandwidth() {
    let accesses = [900, 100, 500, 300, 300, 500, 100, 100, 100, 100];
    for cores in [8, 12] {
        for effort in Effort::ALL {
            let tasks = Tasks::from(&CommMatrix::new(10)).with_traffic(&accesses);
            for (bandwidths, wanted) in [
                ([50_000, 50_000], [1500, 1500]),
                ([80_000, 40_000], [2000, 1000]),
                ([40_000, 80_000], [1000, 2000]),
                // Not known of both: taken to be equal.
                ([0, 40_000], [1500, 1500]),
            ] {
                let placed = balanced(&tasks, &two_nodes(cores, bandwidths), effort);
                let mut found = asked(&placed, &accesses, cores);
                if wanted[0] == wanted[1] {
                    found.sort();
                }
                assert_eq!(found, wanted, "{bandwidths:?}, {cores} cores, {effort}");
                let shares: Vec<f64> = placed.memory.iter().map(|m| m.traffic).collect();
                assert!((shares[0] - wanted[0] as f64 / 3000.0).abs() < 1e-12, "{shares:?}");
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{shares:?}");
            }
        }
    }
}

/// Four threads that ask much of memory, and two pairs that talk and ask for little.
#[test]
fn who_talks_stays_together() {
    let mut matrix = CommMatrix::new(8);
    matrix.add(ThreadId(4), ThreadId(5), 1000);
    matrix.add(ThreadId(6), ThreadId(7), 1000);
    let accesses = [800, 800, 800, 800, 10, 10, 10, 10];
    let tasks = Tasks::from(&matrix).with_traffic(&accesses);
    for cores in [8, 12] {
        let placed = balanced(&tasks, &two_nodes(cores, [50_000, 50_000]), Effort::Default);
        let node = |thread: usize| placed.pu_logical[thread] as usize / cores;
        assert_eq!((node(4), node(6)), (node(5), node(7)), "{placed:?}");
        assert_eq!(asked(&placed, &accesses, cores), [1620, 1620], "{cores} cores");
        assert_eq!(placed.cost, 2.0 * 1000.0 * 10.0);
    }
}

/// Two threads that talk much stay on one node, though they ask for nearly all that is asked of
/// memory.
#[test]
fn a_single_pair_is_not_torn_apart() {
    let mut matrix = CommMatrix::new(6);
    for other in 1..6 {
        matrix.add(ThreadId(0), ThreadId(other), 10);
    }
    matrix.add(ThreadId(0), ThreadId(1), 10_000);
    let tasks = Tasks::from(&matrix).with_traffic(&[500, 500, 10, 10, 10, 10]);
    let placed = balanced(&tasks, &two_nodes(8, [50_000, 50_000]), Effort::Default);
    assert_eq!(placed.pu_logical[0] / 8, placed.pu_logical[1] / 8, "{placed:?}");
}

/// With one memory node accesses change nothing, whatever they are.
#[test]
fn one_node_has_nothing_to_spread() {
    let machine = Machine::new("pack:1 l3:4 core:8 pu:1", "100,10");
    let matrix = random_matrix(24, 5);
    let request = Request::new(PolicyKind::BalancedLocality);
    let place = |tasks: &Tasks| place(tasks, &machine.topology, &machine.costs, &request).unwrap();
    let plain = place(&Tasks::from(&matrix));
    let uneven: Vec<u64> = (0..24).map(|thread| thread * thread).collect();
    assert_eq!(plain, place(&Tasks::from(&matrix).with_traffic(&uneven)));
    assert!(plain.memory.is_empty());
}

/// The same answer again and on several processors; other policies do not look at memory.
#[test]
fn placements_are_reproducible_and_others_do_not_care() {
    let machine = Machine::file("epyc-7763-nps4.synthetic");
    let matrix = unit_graph(64, &lattice([8, 8, 1]), 3);
    let accesses: Vec<u64> = (0..64).map(|thread| thread % 7 * 1000 + 1).collect();
    let plain = Tasks::from(&matrix);
    let tasks = Tasks::from(&matrix).with_traffic(&accesses);
    let with = |tasks: &Tasks, policy: PolicyKind, jobs: usize| {
        let request = Request { jobs, effort: Effort::Fast, ..Request::new(policy) };
        place(tasks, &machine.topology, &machine.costs, &request).unwrap()
    };
    for &policy in PolicyKind::ALL {
        let placed = with(&tasks, policy, 1);
        assert_eq!(placed, with(&tasks, policy, 4), "{policy}");
        match policy {
            PolicyKind::BalancedLocality => {
                assert!(
                    placed.memory.iter().all(|m| (m.traffic - 0.125).abs() < 0.03),
                    "{placed:?}"
                );
            }
            _ => assert_eq!(placed, with(&plain, policy, 1), "{policy}"),
        }
    }
}
