//! Placements by phase: chosen where they are cheaper, moving included, and can be recognised.

use placement::{
    PhaseInput, Phased, Plan, PlanMark, PolicyKind, Request, Tasks, place, place_by_phase,
};
use topology::{CostModel, Costs, Topology};

/// Four threads, of which these pairs communicate.
fn tasks(pairs: &[(usize, usize)], events: f64) -> Tasks {
    let mut weight = vec![0.0; 16];
    for &(a, b) in pairs {
        weight[a * 4 + b] = events;
        weight[b * 4 + a] = events;
    }
    Tasks::from_weights(4, weight)
}

fn near(events: f64) -> Tasks {
    tasks(&[(0, 1), (2, 3)], events)
}

fn far(events: f64) -> Tasks {
    tasks(&[(0, 2), (1, 3)], events)
}

/// On two packages of two cores.
fn phased(kinds: &[Tasks], order: &[usize], marked: impl Fn(&[usize]) -> bool) -> (Phased, Plan) {
    let machine = Topology::from_synthetic("pack:2 core:2").unwrap();
    let costs = Costs::new(&CostModel::Latency, &machine).unwrap();
    let mut weight = vec![0.0; 16];
    for kind in kinds {
        (0..16).for_each(|at| weight[at] += kind.weight(at / 4, at % 4));
    }
    let request = Request::new(PolicyKind::Locality);
    let one = place(&Tasks::from_weights(4, weight), &machine, &costs, &request).unwrap();
    let mark = |group: &[usize]| {
        marked(group).then(|| PlanMark { offset: group[0] as u64, ..PlanMark::default() })
    };
    let input = PhaseInput { kinds, order, mark: &mark };
    let found = place_by_phase(&input, &one, &machine, &costs, &request).unwrap();
    (found, Plan::new(&one, &machine, &[]))
}

#[test]
fn swapped_partners_get_a_placement_each() {
    let (found, plan) = phased(&[near(1e7), far(1e7)], &[0, 1], |_| true);
    let Phased::Several(found) = found else { panic!("{found:?}") };
    assert!(found.cost < found.one && found.moving > 0.0, "{found:?}");
    assert_eq!((found.phases.len(), found.switches), (2, 1));
    let moved = found.phases[0].pus.iter().zip(&found.phases[1].pus).filter(|(a, b)| a != b);
    assert_eq!(moved.count(), 2, "no more than must move");
    let second = found.phases[1].clone();
    let plan = plan.with_phases(found);
    assert_eq!(plan.version, 4);
    let name = format!("threadtalk-phases-{}.json", std::process::id());
    let file = std::env::temp_dir().join(name);
    plan.write(&file, true).unwrap();
    let read = Plan::read(&file);
    std::fs::remove_file(&file).unwrap();
    let read = read.unwrap();
    assert_eq!(read, plan);
    let os: Vec<u32> = read.in_phase(1).slots.iter().map(|slot| slot.pu_os).collect();
    assert_eq!(os, second.pus.iter().map(|pu| pu.pu_os).collect::<Vec<_>>());
}

#[test]
fn moving_must_pay_off() {
    let few = [near(100.0), far(100.0)];
    assert_eq!(phased(&few, &[0, 1], |_| true).0, Phased::One);
    // The same communication in one change pays off, in 100,000 it does not.
    let many = [near(1e6), far(1e6)];
    assert!(matches!(phased(&many, &[0, 1], |_| true).0, Phased::Several(_)));
    let order: Vec<usize> = (0..100_000).map(|at| at % 2).collect();
    assert_eq!(phased(&many, &order, |_| true).0, Phased::One);
}

#[test]
fn what_cannot_be_recognised_gets_none() {
    let kinds = [near(1e7), far(1e7)];
    assert!(matches!(phased(&kinds, &[0, 1], |_| false).0, Phased::Unmarked(_)));
    let second_only = |group: &[usize]| group == [1];
    assert!(matches!(phased(&kinds, &[0, 1], second_only).0, Phased::Several(_)));
    // The first comes again, and must be recognised then.
    assert!(matches!(phased(&kinds, &[0, 1, 0], second_only).0, Phased::Unmarked(_)));
    // Of three kinds, the one without a mark joins another.
    let kinds = [near(1e7), far(1e7), near(1e7)];
    let (found, _) = phased(&kinds, &[0, 1, 2], |group| group == [1] || group == [0, 2]);
    let Phased::Several(found) = found else { panic!("{found:?}") };
    assert_eq!(found.phases.len(), 2);
}
