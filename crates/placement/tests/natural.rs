//! Of plans that cost the same, the one in natural order: T0 on L#0, and so on.

mod support;

use placement::PolicyKind;
use support::{Machine, lattice, random_matrix, unit_graph};
use topology::Hierarchy;
use types::{CommMatrix, ThreadId};

#[test]
fn a_chain_in_order_is_placed_in_order() {
    for (spec, costs, threads) in [
        ("core:4 pu:1", "100", 4),
        ("pack:2 core:2 pu:1", "100,10", 4),
        ("pack:2 core:4 pu:2", "180,50,10", 16),
        ("pack:4 core:8 pu:2", "180,50,10", 64),
    ] {
        let machine = Machine::new(spec, costs);
        let chain = unit_graph(threads, &lattice([1, 1, threads]), 0);
        for seed in 0..4 {
            let plan = machine.place(&chain, PolicyKind::Locality, seed);
            let order: Vec<u32> = (0..threads as u32).collect();
            assert_eq!(plan.pu_logical, order, "{spec}, seed {seed}");
        }
    }
}

/// Threads 0 and 3 talk, and so do 1 and 2.
#[test]
fn pairs_stand_in_the_order_of_their_first_threads() {
    let machine = Machine::new("pack:2 core:2 pu:1", "100,10");
    let mut matrix = CommMatrix::new(4);
    for (from, to) in [(0, 3), (2, 1)] {
        matrix.add(ThreadId(from), ThreadId(to), 7);
    }
    for policy in [PolicyKind::Locality, PolicyKind::BalancedLocality] {
        assert_eq!(machine.place(&matrix, policy, 0).pu_logical, [0, 2, 3, 1], "{policy}");
    }
}

/// On machines whose parts differ, too: no exchange of two equal parts gives a thread a lower PU
/// without giving an earlier thread a higher one.
#[test]
fn no_exchange_of_equal_parts_comes_closer_to_the_order() {
    let mut machines: Vec<(String, Machine)> =
        ["epyc-7763-nps4.synthetic", "sapphire-rapids-snc4.synthetic", "hybrid.xml", "uneven.xml"]
            .iter()
            .map(|name| (name.to_string(), Machine::file(name)))
            .collect();
    machines.push(("3 x 3 x 2".into(), Machine::new("pack:3 core:3 pu:2", "latency")));
    for (name, machine) in &machines {
        let hierarchy = Hierarchy::new(&machine.topology);
        let pus = hierarchy.pus.len();
        for threads in [2, 5, hierarchy.cores(), pus, pus + 3] {
            let matrix = random_matrix(threads.min(70), 11);
            let plan = machine.place(&matrix, PolicyKind::Locality, 1);
            for exchanged in exchanges(&hierarchy) {
                let index = |pu: &u32| hierarchy.pus.iter().position(|p| p == pu).unwrap();
                let other: Vec<u32> =
                    plan.pu_logical.iter().map(|pu| hierarchy.pus[exchanged[index(pu)]]).collect();
                assert!(plan.pu_logical <= other, "{threads} threads on {name}");
            }
        }
    }
}

/// All exchanges of two parts of one parent that look the same: for each PU the one that it
/// becomes.
fn exchanges(hierarchy: &Hierarchy) -> Vec<Vec<usize>> {
    let pus = hierarchy.pus.len();
    let part = |level: usize, pu: usize| match level {
        0 => 0,
        _ => hierarchy.levels[level - 1].part[pu],
    };
    // Where each level divides the part that begins at `first`.
    let shape = |first: usize, count: usize, level: usize| -> Vec<Vec<bool>> {
        let divides = |below: usize, pu: usize| part(below, pu) != part(below, pu - 1);
        let row = |below| (first + 1..first + count).map(|pu| divides(below, pu)).collect();
        (level..=hierarchy.levels.len()).map(row).collect()
    };
    let mut all = Vec::new();
    for level in 1..=hierarchy.levels.len() {
        let begins: Vec<usize> =
            (0..pus).filter(|&pu| pu == 0 || part(level, pu) != part(level, pu - 1)).collect();
        let count = |begin: usize| {
            begins.iter().find(|&&next| next > begin).map_or(pus, |&next| next) - begin
        };
        for (i, &a) in begins.iter().enumerate() {
            for &b in &begins[i + 1..] {
                let alike = count(a) == count(b)
                    && part(level - 1, a) == part(level - 1, b)
                    && shape(a, count(a), level) == shape(b, count(b), level);
                if alike {
                    let mut exchange: Vec<usize> = (0..pus).collect();
                    (0..count(a)).for_each(|at| exchange.swap(a + at, b + at));
                    all.push(exchange);
                }
            }
        }
    }
    assert!(!all.is_empty(), "a machine without equal parts tests nothing");
    all
}
