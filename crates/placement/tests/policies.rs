//! What each policy is for, on Diener's example (thesis, figure 3.9): two processors of four PUs,
//! eight threads in a chain of which 6 and 7 talk most and 4 and 5 a lot.

mod support;

use placement::{Moment, Placement, PolicyKind, Request, Tasks, place};
use support::{Machine, random_matrix};
use topology::ObjectKind;
use types::{CommMatrix, ThreadId};

fn example() -> CommMatrix {
    let mut matrix = CommMatrix::new(8);
    for (a, events) in [10, 10, 10, 10, 60, 10, 100].into_iter().enumerate() {
        matrix.add(ThreadId(a as u32), ThreadId(a as u32 + 1), events);
    }
    matrix
}

fn machine() -> Machine {
    Machine::new("pack:2 core:4 pu:1", "100,10")
}

fn processor(placement: &Placement) -> Vec<u32> {
    placement.pu_logical.iter().map(|pu| pu / 4).collect()
}

/// Communication of the threads on each processor, sorted.
fn volumes(placement: &Placement, tasks: &Tasks) -> [f64; 2] {
    let mut volume = [0.0; 2];
    for (thread, at) in processor(placement).into_iter().enumerate() {
        volume[at as usize] += tasks.volume(thread);
    }
    volume.sort_by(f64::total_cmp);
    volume
}

#[test]
fn locality_keeps_together_and_distance_pulls_apart() {
    let tasks = Tasks::from(&example());
    let near = machine().place(&example(), PolicyKind::Locality, 0);
    assert_eq!(near.cost, 200.0 * 10.0 + 10.0 * 100.0);
    // All but the threads in the middle talk within a processor: 70 against 350.
    assert_eq!(volumes(&near, &tasks), [70.0, 350.0]);
    let far = machine().place(&example(), PolicyKind::Distance, 0);
    assert_eq!(far.cost, 210.0 * 100.0, "every pair is apart");
}

/// With cores to spare, too: no thread is beside one that it communicates with.
#[test]
fn distance_is_far_where_cores_stay_free() {
    let machine = Machine::new("pack:2 core:20 pu:1", "100,10");
    let far = machine.place(&example(), PolicyKind::Distance, 0);
    assert_eq!(far.cost, 210.0 * 100.0);
    let altra = Machine::file("altra-2s.synthetic");
    for threads in [24, 64] {
        let matrix = random_matrix(threads, 4);
        let [far, near] = [PolicyKind::Distance, PolicyKind::Locality]
            .map(|policy| altra.place(&matrix, policy, 0));
        assert!(far.cost > far.baselines.os && near.cost < near.baselines.os, "{threads}");
    }
}

#[test]
fn balance_evens_out_the_communication_vector() {
    let tasks = Tasks::from(&example());
    let placed = machine().place(&example(), PolicyKind::Balance, 0);
    // Volumes 10 20 20 20 70 70 110 100; the heaviest first, always to the lighter processor.
    assert_eq!(volumes(&placed, &tasks), [210.0, 210.0]);
    assert_eq!(machine().loads(&placed, ObjectKind::Package), [4, 4]);
}

#[test]
fn load_balance_looks_at_work_only() {
    let tasks = Tasks::from(&example()).with_work(&[90, 80, 70, 60, 50, 40, 30, 20]);
    let request = Request::new(PolicyKind::LoadBalance);
    let m = machine();
    let placed = place(&tasks, &m.topology, &m.costs, &request).unwrap();
    let at = processor(&placed);
    assert_eq!(at, [0, 1, 1, 0, 0, 1, 1, 0]);
}

#[test]
fn balanced_locality_is_between_the_two() {
    let tasks = Tasks::from(&example());
    let placed = machine().place(&example(), PolicyKind::BalancedLocality, 0);
    let at = processor(&placed);
    assert_eq!((at[4], at[6]), (at[5], at[7]), "the pairs that talk most stay together");
    let near = machine().place(&example(), PolicyKind::Locality, 0);
    assert!(volumes(&placed, &tasks)[1] < volumes(&near, &tasks)[1], "{placed:?}");
    let balance = machine().place(&example(), PolicyKind::Balance, 0);
    assert!(placed.cost < balance.cost, "{placed:?}");
}

#[test]
fn os_binds_nothing_and_costs_what_chance_does() {
    let placed = machine().place(&example(), PolicyKind::Os, 0);
    assert!(placed.pu_logical.is_empty());
    // Of the 28 pairs of PUs 12 lie within a processor.
    assert!((placed.cost - 210.0 * (12.0 * 10.0 + 16.0 * 100.0) / 28.0).abs() < 1e-6);
    // With half as many threads as PUs no core is shared: siblings are never met.
    let smt = Machine::new("pack:2 core:4 pu:2", "100,10,1");
    let placed = smt.place(&example(), PolicyKind::Os, 0);
    assert!((placed.cost - 210.0 * (12.0 * 10.0 + 16.0 * 100.0) / 28.0).abs() < 1e-6);
}

/// DeTLoc's point: the same matrix, but who talks at the same time decides.
#[test]
fn detloc_keeps_apart_what_happens_at_once() {
    let m = machine();
    let mut matrix = CommMatrix::new(8);
    for pair in 0..4 {
        matrix.add(ThreadId(2 * pair), ThreadId(2 * pair + 1), 1000 - 100 * u64::from(pair));
    }
    for together in [[[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 3], [1, 2]]] {
        let mut moments = Vec::new();
        for (phase, pairs) in together.into_iter().enumerate() {
            for pair in pairs {
                let events = (1000 - 100 * pair) as f64 / 10.0;
                let at = |i: usize| (phase * 500 + i) as f64;
                let pair = (2 * pair, 2 * pair + 1);
                moments.extend((0..10).map(|i| Moment { time: at(i), pair, events }));
            }
        }
        let tasks = Tasks::from(&matrix).with_moments(moments);
        let request = Request::new(PolicyKind::Detloc);
        let at = processor(&place(&tasks, &m.topology, &m.costs, &request).unwrap());
        for [a, b] in together {
            assert_eq!((at[2 * a], at[2 * b]), (at[2 * a + 1], at[2 * b + 1]), "{together:?}");
            assert_ne!(at[2 * a], at[2 * b], "{together:?}: {at:?}");
        }
    }
}

/// No policy leaves a PU idle while another has two threads, whatever the machine.
#[test]
fn all_policies_load_evenly() {
    for name in ["broadwell-2s.synthetic", "sapphire-rapids-snc4.synthetic"] {
        let machine = Machine::file(name);
        for threads in [7, 56, 70, 250] {
            let matrix = random_matrix(threads, 5);
            let bound = |p: &&PolicyKind| ![PolicyKind::Os, PolicyKind::Compact].contains(p);
            for &policy in PolicyKind::ALL.iter().filter(bound) {
                let placed = machine.place(&matrix, policy, 3);
                let loads = machine.loads(&placed, ObjectKind::Pu);
                let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
                assert!(most - least <= 1, "{policy}, {threads} threads on {name}: {loads:?}");
            }
        }
    }
}
