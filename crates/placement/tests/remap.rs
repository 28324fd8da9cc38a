//! Placing again: noise moves no thread, a new pattern moves every thread it must, and nothing else
//! does.

mod support;

use placement::{PolicyKind, Remapping, Request, Tasks, Terms, remap};
use support::{Machine, Random, lattice, unit_graph};
use types::{CommMatrix, ThreadId};

fn again(machine: &Machine, matrix: &CommMatrix, current: &[u32], seed: u64) -> Remapping {
    let request = Request { seed, ..Request::new(PolicyKind::Locality) };
    let tasks = Tasks::from(matrix);
    let terms = Terms::default();
    remap(&tasks, &machine.topology, &machine.costs, current, &request, terms).unwrap()
}

/// Every count times 1000, give or take some percent.
fn noisy(matrix: &CommMatrix, percent: usize, seed: u64) -> CommMatrix {
    let mut random = Random(seed);
    let mut noisy = CommMatrix::new(matrix.threads());
    for (from, to, count) in matrix.iter() {
        let factor = 1000 - 10 * percent + random.below(20 * percent + 1);
        noisy.add(from, to, count * factor as u64);
    }
    noisy
}

#[test]
fn the_same_communication_moves_nobody() {
    for name in ["nehalem-ex-4s.synthetic", "epyc-7763-nps4.synthetic", "hybrid.xml"] {
        let machine = Machine::file(name);
        for threads in [8, 31, 64] {
            let matrix = unit_graph(threads, &lattice([1, 1, threads]), 3);
            let first = machine.place(&matrix, PolicyKind::Locality, 0);
            let next = again(&machine, &matrix, &first.pu_logical, 9);
            assert_eq!(next.cost_before, first.cost, "{threads} on {name}");
            // Another seed may find a better placement, which then has to be much better.
            assert!(next.moved.is_empty() || next.cost < 0.95 * first.cost, "{threads} on {name}");
        }
    }
}

#[test]
fn five_percent_of_noise_move_few() {
    let machine = Machine::file("nehalem-ex-4s.synthetic");
    for (size, seed) in [([1, 8, 8], 5), ([4, 4, 4], 6)] {
        let matrix = unit_graph(64, &lattice(size), seed);
        let mut current = machine.place(&noisy(&matrix, 5, 1), PolicyKind::Locality, 0).pu_logical;
        let mut moves = 0;
        for update in 2..10 {
            let next = again(&machine, &noisy(&matrix, 5, update), &current, update);
            assert!(next.cost <= next.cost_before);
            moves += next.moved.len();
            current = next.pu_logical;
        }
        assert!(moves <= 8 * 64 / 20, "{moves} of 512 threads moved");
    }
}

/// Sockets exchanged and cores renumbered: the same placement, so no thread has to move.
#[test]
fn symmetries_of_the_machine_are_seen_through() {
    let machine = Machine::new("pack:2 core:4 pu:1", "100,10");
    let mut matrix = CommMatrix::new(8);
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4)] {
        matrix.add(ThreadId(a), ThreadId(b), 100);
    }
    let mirrored = [7, 5, 6, 4, 3, 1, 0, 2];
    let next = again(&machine, &matrix, &mirrored, 0);
    assert_eq!((next.moved.len(), next.pu_logical), (0, mirrored.to_vec()));
}

/// Two threads changed places in what they do: exactly these two move.
#[test]
fn only_those_move_that_must() {
    let machine = Machine::new("pack:2 core:4 pu:1", "100,10");
    let groups = |groups: [[u32; 4]; 2]| {
        let mut matrix = CommMatrix::new(8);
        for group in groups {
            for a in group {
                group.into_iter().for_each(|b| matrix.add(ThreadId(a), ThreadId(b), 50));
            }
        }
        matrix
    };
    let first = machine.place(&groups([[0, 1, 2, 3], [4, 5, 6, 7]]), PolicyKind::Locality, 0);
    let next = again(&machine, &groups([[0, 1, 2, 7], [4, 5, 6, 3]]), &first.pu_logical, 0);
    assert_eq!(next.moved, [3, 7]);
    assert_eq!(next.pu_logical[3], first.pu_logical[7]);
    assert_eq!(next.pu_logical[7], first.pu_logical[3]);
}

#[test]
fn threads_on_top_of_each_other_or_on_no_pu_are_moved() {
    let machine = Machine::new("pack:2 core:2 pu:1", "100,10");
    let matrix = unit_graph(4, &lattice([1, 1, 4]), 0);
    let next = again(&machine, &matrix, &[0, 0, 9, 3], 0);
    let mut pus = next.pu_logical.clone();
    pus.sort();
    assert_eq!(pus, [0, 1, 2, 3]);
    assert!(!next.moved.contains(&0) || !next.moved.contains(&3), "{next:?}");
}
