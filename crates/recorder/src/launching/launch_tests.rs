//! Plans that do and do not fit, and what the shared memory says after a run.

use super::*;
use placement::{Baselines, PlanIdentity};

fn machine() -> Topology {
    Topology::from_synthetic("pack:2 core:2 pu:1").unwrap()
}

fn plan(slots: &[(u32, u32, u32)]) -> Plan {
    Plan {
        version: 1,
        policy: "locality".into(),
        seed: 0,
        cost: 0.0,
        baselines: Baselines { compact: 0.0, scatter: 0.0, random: 0.0, os: 0.0 },
        lower_bound: None,
        levels: Vec::new(),
        apps: Vec::new(),
        data: None,
        phases: None,
        events: String::new(),
        program: String::new(),
        slots: slots
            .iter()
            .map(|&(thread, pu_logical, pu_os)| PlanSlot {
                thread,
                pu_logical,
                pu_os,
                identity: None,
            })
            .collect(),
        machine: "the other machine".into(),
        machine_pus: 4,
    }
}

#[test]
fn a_plan_for_this_machine_passes() {
    assert!(check_plan(&plan(&[(0, 0, 0), (1, 3, 3), (2, 3, 3)]), &machine()).is_ok());
}

#[test]
fn plans_for_other_machines_are_refused_with_the_difference() {
    let refusal = |plan: Plan| check_plan(&plan, &machine()).unwrap_err().to_string();
    let missing = refusal(plan(&[(0, 0, 0), (1, 0, 9)]));
    assert!(missing.starts_with("the plan cannot be used here: it puts thread 1 on PU P#9, which"));
    assert!(missing.ends_with("for this machine with 'threadtalk place'"), "{missing}");
    let renumbered = refusal(plan(&[(0, 1, 2)]));
    assert!(renumbered.contains("its PU P#2 is L#1, on this machine L#2"), "{renumbered}");
    let mut larger = plan(&[(0, 0, 0)]);
    larger.machine_pus = 8;
    assert!(
        refusal(larger).contains("for a machine with 8 PUs (the other machine), this one has 4")
    );
}

#[test]
fn slots_carry_identities_or_an_order() {
    let mut plan = plan(&[(0, 0, 0), (1, 1, 1), (2, 2, 2)]);
    let identity = |routine: &str, parent, ordinal, name: &str| {
        let start_routine = routine.into();
        let (name, symbol) = (name.into(), String::new());
        Some(PlanIdentity { start_routine, symbol, parent, ordinal, name })
    };
    plan.slots[0].identity = identity("", None, 0, "app");
    plan.slots[1].identity = identity("lib+0x1.so+0x1f40", Some(0), 3, "worker");
    let memory = PlanMemory::create(&plan, &How::ALL, None).unwrap();
    let mapping = memory.slots().unwrap();
    let slot = &mapping.records()[1];
    assert_eq!(text(&slot.module), "lib+0x1.so");
    assert_eq!((slot.offset.load(Relaxed), slot.ordinal.load(Relaxed)), (0x1f40, 3));
    assert_eq!((slot.parent.load(Relaxed), slot.by_order.load(Relaxed)), (0, 0));
    assert_eq!((text(&slot.name).as_str(), slot.name_identifies.load(Relaxed)), ("worker", 1));
    assert_eq!(mapping.records()[0].parent.load(Relaxed), NONE);
    assert_eq!(mapping.records()[2].by_order.load(Relaxed), 1);
}

#[test]
fn outcomes_follow_from_what_was_read_back() {
    let plan = plan(&[(0, 1, 1)]);
    let memory = PlanMemory::create(&plan, &How::ALL, None).unwrap();
    let mapping = memory.slots().unwrap();
    let slot = &mapping.records()[0];
    let outcome = || bindings(&plan, mapping.records()).remove(0).outcome;
    assert_eq!(outcome(), Outcome::NotSeen);
    slot.life.store(life::BOUND, Relaxed);
    store(&slot.first, &[1].into_iter().collect());
    assert_eq!(outcome(), Outcome::AsPlanned);
    store(&slot.last, &[0, 1].into_iter().collect());
    assert_eq!(outcome(), Outcome::Moved);
    assert_eq!(bindings(&plan, mapping.records())[0].bound.as_ref().unwrap().to_string(), "0-1");
    slot.life.store(life::FAILED, Relaxed);
    slot.error.store(libc::EPERM as u32, Relaxed);
    assert!(matches!(outcome(), Outcome::Refused(why) if why.contains("not permitted")));
    slot.life.store(life::PROGRAMS_OWN, Relaxed);
    assert_eq!(outcome(), Outcome::ProgramsOwn);
}

#[test]
fn a_watched_thread_is_judged_by_what_was_read_last() {
    let set = |text: &str| CpuSet::parse_list(text).unwrap();
    let judge = |first: &str, last: &str| watched(set("2"), set(first), set(last));
    assert_eq!(judge("0-3", "2"), (Outcome::AsPlanned, Some(set("2"))));
    assert_eq!(judge("2", ""), (Outcome::AsPlanned, Some(set("2"))));
    assert_eq!(judge("2", "0-3"), (Outcome::Elsewhere, Some(set("0-3"))));
    assert_eq!(judge("0-3", "1"), (Outcome::Elsewhere, Some(set("1"))));
    assert_eq!(judge("0-3", ""), (Outcome::Unread, None));
}
