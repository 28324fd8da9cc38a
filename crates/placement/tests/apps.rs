//! Several applications on one machine, in one plan.

mod support;

use placement::{App, Plan, PolicyKind, Request, Tasks, place};
use support::{Machine, lattice, unit_graph};
use topology::ObjectKind;
use types::ThreadIdentity;

fn chain(threads: usize) -> Tasks {
    Tasks::from(&unit_graph(threads, &lattice([1, 1, threads]), 0))
}

/// A chain of 4 and two pairs on 2 packages of 4 cores, and the plan for them.
fn planned() -> (Tasks, Plan) {
    let machine = Machine::new("pack:2 core:4 pu:2", "180,50,10");
    let pairs = Tasks::from(&unit_graph(4, &[(0, 2), (1, 3)], 0)).with_work(&[9, 9, 9, 0]);
    let joint = Tasks::side_by_side(&[&chain(4), &pairs]);
    let request = Request::new(PolicyKind::Locality);
    let placement = place(&joint, &machine.topology, &machine.costs, &request).unwrap();
    assert_eq!((placement.shared_cores, placement.cost), (0, 5.0 * 50.0));
    let start_routine = "f".to_string();
    let identity = ThreadIdentity { start_routine, parent: None, ordinal: 0, name: "b".into() };
    let apps = [
        App { name: "a", tasks: &chain(4), identities: &[] },
        App { name: "b", tasks: &pairs, identities: &vec![identity; 4] },
    ];
    (joint, Plan::of_apps(&placement, &machine.topology, &machine.costs, &apps))
}

#[test]
fn threads_lie_side_by_side_and_cores_are_shared_out() {
    let (joint, plan) = planned();
    assert_eq!((joint.len(), joint.weight(4, 6), joint.weight(1, 2)), (8, 1.0, 1.0));
    assert_eq!((joint.weight(3, 4), joint.load(3), joint.load(7)), (0.0, 1, 0));
    assert_eq!((plan.version, plan.slots.len(), plan.apps.len()), (2, 0, 2));
    assert_eq!((plan.apps[0].cost, plan.apps[1].cost), (150.0, 100.0));
    let after: Vec<f64> = plan.apps[1].levels.iter().map(|level| level.after).collect();
    assert_eq!(after, [0.0, 1.0, 0.0]);
    // Eight threads get a core each, whichever application they belong to: no two meet on one.
    assert_eq!(plan.apps[1].levels[0].before, 0.0);
    assert!((plan.apps[1].levels[1].before - 12.0 / 28.0).abs() < 1e-12);
}

#[test]
fn each_application_has_a_plan_of_its_own() {
    let plan = planned().1;
    let path = std::env::temp_dir().join(format!("threadtalk-apps-{}.json", std::process::id()));
    let read = || Plan::read(&path).unwrap();
    plan.write(&path, true).unwrap();
    assert_eq!(read(), plan);
    let b = read().of_app(Some("b")).unwrap();
    assert_eq!(b, read().of_app(Some("1")).unwrap());
    assert_eq!((b.version, b.cost, b.slots.len()), (1, 100.0, 4));
    assert_eq!(b.slots[0].identity.as_ref().unwrap().start_routine, "f");
    assert_eq!(b.slots.iter().map(|slot| slot.thread).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let refused = |name| read().of_app(name).unwrap_err().to_string();
    let which = "the plan places 2 applications; choose one with --app: 0 (a), 1 (b)";
    assert_eq!(refused(None), which);
    assert_eq!(refused(Some("c")), "the plan has no application 'c'; there are 0 (a), 1 (b)");
    let one = "the plan places a single application; leave out --app b";
    assert_eq!(b.of_app(Some("b")).unwrap_err().to_string(), one);
    let bad = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        plan.write(&path, true).unwrap();
        Plan::read(&path).unwrap_err().to_string()
    };
    assert!(bad(&|p| p.apps[1].name = "a".into()).contains("two applications 'a'"));
    assert!(bad(&|p| p.apps[1].slots.clear()).contains("application 'b': it places no thread"));
    assert!(bad(&|p| p.slots = p.apps[0].slots.clone()).contains("threads of no application"));
    std::fs::remove_file(&path).unwrap();
}

/// More threads than PUs in all: loads are even over the applications together.
#[test]
fn oversubscription_is_shared_and_parts_add_up() {
    let machine = Machine::new("pack:2 core:2 pu:1", "180,50");
    let (a, b) = (chain(3), chain(6));
    let joint = Tasks::side_by_side(&[&a, &b]);
    for &policy in PolicyKind::ALL {
        let request = Request::new(policy);
        let placement = place(&joint, &machine.topology, &machine.costs, &request).unwrap();
        if policy != PolicyKind::Os {
            let mut loads = machine.loads(&placement, ObjectKind::Pu);
            loads.sort();
            assert_eq!(loads, [2, 2, 2, 3], "{policy}");
        }
        let part = |first, app| placement.part(first, app, &machine.topology, &machine.costs).0;
        let sum: f64 = part(0, &a) + part(3, &b);
        assert!((sum - placement.cost).abs() < 1e-9 * sum, "{policy}");
    }
}
