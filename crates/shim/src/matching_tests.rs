//! Which thread of a plan a new thread is.

use super::*;
use crate::plan::tests::{described, made};

/// Start routines whose places differ.
fn routines() -> [usize; 2] {
    extern "C" fn first() -> u32 {
        1
    }
    extern "C" fn second() -> u32 {
        2
    }
    [first as *const () as usize, second as *const () as usize]
}

/// A plan that says of each thread its creator, its ordinal, and its place if it is known by that.
fn plan_of(threads: &[(u32, u32, Option<&Place>)]) -> Plan {
    described(threads.len(), |number, slot| {
        let (parent, ordinal, place) = threads[number];
        slot.parent.store(parent, Relaxed);
        slot.ordinal.store(ordinal, Relaxed);
        slot.by_order.store(place.is_none().into(), Relaxed);
        if let Some(place) = place {
            slot.offset.store(place.offset, Relaxed);
            slot.module = place.module;
        }
    })
}

fn place(offset: u64, name: &str) -> Place {
    let mut module = [0; maps::NAME_BYTES];
    module[..name.len()].copy_from_slice(name.as_bytes());
    Place { offset, module }
}

/// The slots that a thread with this slot gets for its threads of a routine.
fn slots_for(plan: Plan, creator: u32, routine: usize, threads: usize) -> Vec<u32> {
    plan::set_own_slot(creator);
    (0..threads).map(|_| take(plan, routine).slot).collect()
}

#[test]
fn threads_get_slots_by_routine_creator_and_ordinal() {
    let [first, second] = routines();
    let [at_first, at_second] = [first, second].map(|routine| maps::locate(routine).unwrap());
    let plan = plan_of(&[
        (NONE, 0, None),
        // Not in order, and mixed with others.
        (0, 1, Some(&at_first)),
        (0, 0, Some(&at_second)),
        (0, 0, Some(&at_first)),
        (1, 0, Some(&at_first)),
        (0, 3, Some(&at_first)),
        (NONE, 0, Some(&at_second)),
        (NONE, 1, Some(&at_second)),
    ]);
    // The third one is not in the plan.
    assert_eq!(slots_for(plan, 0, first, 5), [3, 1, NONE, 5, NONE]);
    assert_eq!(slots_for(plan, 0, second, 2), [2, NONE]);
    assert_eq!(slots_for(plan, 1, first, 2), [4, NONE]);
    // Of a creator that the plan does not know, or that had none of these: those of any creator.
    assert_eq!(slots_for(plan, NONE, second, 1), [6]);
    assert_eq!(slots_for(plan, 4, second, 2), [7, NONE]);
    assert_eq!(slots_for(plan, NONE, first, 1), [NONE]);
    assert_eq!(plan.header.created.load(Relaxed), 13);
}

#[test]
fn a_thread_that_could_not_be_created_gives_everything_back() {
    let routine = routines()[0];
    let at = maps::locate(routine).unwrap();
    let plan = plan_of(&[(NONE, 0, None), (0, 0, Some(&at)), (0, 1, Some(&at))]);
    plan::set_own_slot(0);
    for _ in 0..3 {
        let found = take(plan, routine);
        assert_eq!((found.slot, found.creator), (1, 0));
        give_back(plan, found);
        assert_eq!(plan.slots[1].life.load(Relaxed), life::WAITING);
        assert_eq!(plan.header.created.load(Relaxed), 0);
    }
    assert_eq!(slots_for(plan, 0, routine, 2), [1, 2]);
    // One that had no slot.
    let none = take(plan, routine);
    give_back(plan, none);
    assert_eq!((none.slot, plan.header.created.load(Relaxed)), (NONE, 2));
    assert_eq!(plan.slots[1].seen.load(Relaxed), 2);
}

#[test]
fn slots_without_identity_are_taken_in_the_order_of_creation() {
    let plan = plan_of(&[(0, 0, None); 4]);
    let routine = routines()[0];
    plan.slots[1].thread.store(3, Relaxed);
    plan.slots[3].thread.store(1, Relaxed);
    assert_eq!(slots_for(plan, NONE, routine, 4), [3, 2, 1, NONE]);
    // The initial thread's is nobody else's.
    assert_eq!(plan.slots[0].life.load(Relaxed), life::WAITING);
}

#[test]
fn another_version_of_a_library_serves_only_where_the_plan_has_not_this_one() {
    let plan = plan_of(&[
        (NONE, 0, None),
        (0, 0, Some(&place(0x100, "libgomp.so.1.0.0"))),
        (0, 0, Some(&place(0x200, "libgomp.so.1"))),
        (NONE, 0, Some(&place(0x300, "libgomp.so.1"))),
        (0, 0, Some(&place(0x100, "app"))),
    ]);
    let group = |creator, offset, name| group_of(plan, creator, Some(&place(offset, name)));
    assert_eq!(group(0, 0x200, "libgomp.so.1"), Some(2));
    // This routine of an unknown creator comes before others of this one.
    assert_eq!(group(0, 0x300, "libgomp.so.1"), Some(3));
    assert_eq!(
        (group(0, 0x999, "libgomp.so.1"), group(NONE, 0x999, "libgomp.so.2")),
        (Some(1), Some(3))
    );
    // A program is no library, and its routines are told apart.
    assert_eq!((group(0, 0x100, "app"), group(0, 0x101, "app")), (Some(4), None));
    assert_eq!((group(0, 0x100, "ap"), group_of(plan, 0, None)), (None, None));
}

#[test]
fn a_name_that_identifies_is_taken_once() {
    let name = *b"worker\0\0\0\0\0\0\0\0\0\0";
    let plan = described(4, |number, slot| slot.name = if number < 3 { name } else { [0; 16] });
    plan.slots[1].name_identifies.store(1, Relaxed);
    plan.slots[2].name_identifies.store(1, Relaxed);
    assert_eq!(take_by_name(plan, b"worker2\0\0\0\0\0\0\0\0\0"), None);
    let taken = [0; 3].map(|_| take_by_name(plan, &name));
    assert_eq!(taken, [Some(1), Some(2), None]);
    assert_eq!(plan.slots[1].life.load(Relaxed), life::TAKEN);
    plan.slots[1].life.store(life::WAITING, Relaxed);
    assert_eq!(take_by_name(plan, &name), Some(1));
}

#[test]
fn a_slot_is_one_threads_where_several_create_at_once() {
    const SLOTS: usize = 200;
    let routine = routines()[0];
    let at = maps::locate(routine).unwrap();
    let plan = plan_of(&core::array::from_fn::<_, SLOTS, _>(|k| (NONE, k as u32, Some(&at))));
    let create = move || slots_for(plan, NONE, routine, SLOTS / 2);
    let threads = [0; 4].map(|_| std::thread::spawn(create));
    let mut all: Vec<u32> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    all.sort_unstable();
    let (found, none) = all.split_at(SLOTS);
    assert!((0..).zip(found).all(|(k, slot)| k == *slot) && none.iter().all(|slot| *slot == NONE));
}

#[test]
fn strangers_are_listed_as_long_as_there_is_room_and_counted_beyond() {
    let plan = made(2);
    plan.slots[1].thread.store(42, Relaxed);
    let routine = routines()[1];
    note_stranger(plan, 1, routine);
    note_stranger(plan, NONE, 8);
    let [known, unknown] = [&plan.strangers[0], &plan.strangers[1]];
    let at = maps::locate(routine).unwrap();
    assert_eq!((known.tid.load(Relaxed), known.parent.load(Relaxed)), (sys::tid(), 42));
    assert_eq!(known.offset.load(Relaxed), at.offset);
    let module = known.module.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
    assert!(module.eq(at.module[..96].iter().copied()));
    assert_eq!((unknown.parent.load(Relaxed), unknown.module[0].load(Relaxed)), (NONE, 0));
    (2..=MAX_STRANGERS + 3).for_each(|_| note_stranger(plan, 0, 8));
    assert_eq!(plan.header.strangers.load(Relaxed), MAX_STRANGERS as u32 + 4);
    assert!(plan.slots[0].tid.load(Relaxed) == 0 && plan.slots[1].thread.load(Relaxed) == 42);
}
