//! The papers' own examples, decided by the whole decider.

use online::{
    Access, Action, Decider, Machine, Observation, PageSeen, PageState, Policy, Settings, TaskSeen,
};
use topology::Topology;

fn machine(spec: &str) -> Machine {
    Machine::new(Topology::from_synthetic(spec).unwrap()).unwrap()
}

/// Table 7.2 of the thesis: 3 nodes, page 2, limits 70 % and 60 %; the actions of steps a to n.
#[test]
fn table_7_2_by_the_decider() {
    let mut settings = Settings::of(Policy::Kmaf);
    settings.set("min_locality=0.7").unwrap();
    // The table's maxBal is 60 %, not 1.5/N.
    settings.set("max_balance=1.8").unwrap();
    let mut decider = Decider::new(settings, machine("numa:3 pu:1"));
    let page = 2 * 4096;
    let mut node = 0;
    let mut moves = Vec::new();
    let accesses = [0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (step, from) in ('a'..).zip(accesses) {
        let at_ns = (step as u64 - 96) * 1_000_000;
        let access = Access { task: from + 1, space: 1, address: page + 8, cpu: from };
        let state = PageState::On(node);
        let seen = PageSeen { process: 9, space: 1, address: page, at: 0x7000, bytes: 4096, state };
        let task = |task| TaskSeen { task, process: 9, cpu: task - 1, ..TaskSeen::default() };
        let observation = Observation {
            at_ns,
            tasks: vec![task(1), task(2), task(3)],
            accesses: vec![access],
            samples: 1,
            pages: vec![seen],
            ..Observation::default()
        };
        for action in decider.step(&observation).actions {
            let Action::Move { process: 9, pages } = action else { panic!("{action:?}") };
            assert_eq!(pages.len(), 1);
            assert_eq!(pages[0].0, 0x7000, "the address in the process, not in the space");
            node = pages[0].1;
            moves.push((step, node));
        }
    }
    assert_eq!(moves, [('e', 1), ('g', 2), ('n', 0)]);
}

/// Section 6.3.1.3: two tasks fault in one block; it is a communication event of that pair.
#[test]
fn figure_6_1_counts_one_event() {
    let mut decider = Decider::new(Settings::of(Policy::Cdsm), machine("pu:4"));
    let tasks = (0..4).map(|task| TaskSeen { task, ..TaskSeen::default() }).collect::<Vec<_>>();
    let access = |task, address| Access { task, space: 1, address, cpu: task };
    let observation = Observation {
        tasks,
        accesses: vec![access(0, 0x1000), access(3, 0x10ff), access(3, 0x1100)],
        samples: 3,
        ..Observation::default()
    };
    decider.step(&observation);
    let matrix = decider.communication(&[0, 1, 2, 3]);
    let expected = |cell: usize| f64::from(u8::from(cell == 3 || cell == 12));
    assert!(matrix.iter().enumerate().all(|(cell, events)| *events == expected(cell)));
}
