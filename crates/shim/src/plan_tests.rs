//! The plan in shared memory: versions, look-ups, other programs.

use super::*;
use std::alloc::{Layout, alloc_zeroed};
use std::os::unix::fs::FileExt;

/// A plan of a test's own. The thread of each slot is the slot's number.
pub fn made(slots: usize) -> Plan {
    described(slots, |_, _| {})
}

/// The same, where `describe` writes what the launcher does.
pub fn described(slots: usize, describe: impl Fn(usize, &mut Slot)) -> Plan {
    let layout = Layout::from_size_align(bytes(slots) as usize, PAGE as usize).unwrap();
    // SAFETY: zeroes are a valid plan; tests are few, so it stays for good.
    unsafe {
        let base = alloc_zeroed(layout);
        let first = base.add(SLOTS_OFFSET as usize).cast::<Slot>();
        for number in 0..slots {
            let slot = &mut *first.add(number);
            slot.thread.store(number as u32, Relaxed);
            describe(number, slot);
        }
        Plan {
            header: &*base.cast(),
            slots: core::slice::from_raw_parts(first, slots),
            strangers: core::slice::from_raw_parts(
                base.add(STRANGERS_OFFSET as usize).cast(),
                MAX_STRANGERS,
            ),
        }
    }
}

#[test]
fn only_a_plan_of_this_version_is_mapped_and_another_one_hears_of_it() {
    let path = std::env::temp_dir().join(format!("threadtalk-plan-{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    file.set_len(bytes(3)).unwrap();
    let attempt = |magic: u64, version: u32, slots: u32| {
        file.write_all_at(&magic.to_le_bytes(), 0).unwrap();
        file.write_all_at(&version.to_le_bytes(), 8).unwrap();
        file.write_all_at(&slots.to_le_bytes(), 12).unwrap();
        let base = map(&name);
        let mut word = [0; 4];
        let at = core::mem::offset_of!(Header, state) as u64;
        file.read_exact_at(&mut word, at).unwrap();
        file.write_all_at(&[0; 4], at).unwrap();
        (base, u32::from_le_bytes(word))
    };
    assert_eq!(attempt(MAGIC ^ 1, VERSION, 3), (None, 0));
    assert_eq!(attempt(MAGIC, VERSION + 1, 3), (None, state::VERSION_MISMATCH));
    assert_eq!(attempt(MAGIC, VERSION, MAX_SLOTS as u32 + 1).0, None);
    assert_eq!(map(c"/nonexistent/plan"), None);
    let (base, said) = attempt(MAGIC, VERSION, 3);
    assert_eq!((SLOTS.load(Relaxed), said), (3, 0));
    // The last byte of the last slot is there, and is the file's.
    // SAFETY: mapped just now.
    unsafe { base.unwrap().add(bytes(3) as usize - 1).write(7) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, bytes(3) - 1).unwrap();
    assert_eq!(byte, [7]);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn threads_are_found_by_id_and_handle_until_they_end() {
    let plan = made(4);
    let number = |slot: Option<&Slot>| slot.map(|slot| slot.thread.load(Relaxed));
    plan.slots.iter().for_each(|slot| {
        slot.tid.store(100 + slot.thread.load(Relaxed), Relaxed);
        slot.handle.store(0x7000 + u64::from(slot.thread.load(Relaxed)), Relaxed);
    });
    assert_eq!(number(slot_of_tid(plan, 102)), Some(2));
    assert_eq!(number(slot_of_handle(plan, 0x7003)), Some(3));
    // The kernel gives the id of a thread that has ended to another one.
    plan.slots[2].ended.store(1, Relaxed);
    plan.slots[3].ended.store(1, Relaxed);
    assert!(slot_of_tid(plan, 102).is_none() && slot_of_handle(plan, 0x7003).is_none());
    plan.slots[3].tid.store(102, Relaxed);
    plan.slots[3].ended.store(0, Relaxed);
    assert_eq!(number(slot_of_tid(plan, 102)), Some(3));
    // The calling thread, which is told its slot.
    set_own_slot(1);
    // SAFETY: no arguments.
    let own = unsafe { libc::pthread_self() };
    assert_eq!(
        (number(slot_of_tid(plan, 0)), number(slot_of_handle(plan, own))),
        (Some(1), Some(1))
    );
    set_own_slot(NONE);
    assert!(slot_of_tid(plan, 0).is_none() && slot_of_handle(plan, own).is_none());
}

#[test]
fn only_the_initial_thread_has_a_slot_without_being_told() {
    let plan = made(3);
    plan.slots[0].thread.store(7, Relaxed);
    plan.slots[2].thread.store(0, Relaxed);
    assert_eq!((initial_slot(plan), initial_slot(made(0))), (Some(2), None));
    // Tests run in other threads than that.
    let slots = std::thread::spawn(move || [own_slot(plan), own_slot(plan)]).join().unwrap();
    assert_eq!(slots, [None, None]);
}

#[test]
fn nothing_is_left_of_the_program_before() {
    let plan = made(2);
    let (header, slot) = (plan.header, &plan.slots[1]);
    for count in [&header.created, &header.strangers, &header.recognised, &header.execs] {
        count.store(5, Relaxed);
    }
    for field in [&slot.life, &slot.tid, &slot.error, &slot.seen, &slot.ended] {
        field.store(3, Relaxed);
    }
    slot.handle.store(9, Relaxed);
    slot.stack_start.store(9, Relaxed);
    slot.first[77].store(1, Relaxed);
    slot.last[77].store(1, Relaxed);
    forget_previous_program(plan);
    let counts = [&header.created, &header.strangers, &header.recognised, &header.execs];
    assert_eq!(counts.map(|count| count.load(Relaxed)), [0, 0, 0, 6]);
    let fields = [&slot.life, &slot.tid, &slot.error, &slot.seen, &slot.ended];
    assert_eq!(fields.map(|field| field.load(Relaxed)), [life::WAITING, 0, 0, 0, 0]);
    assert_eq!((slot.handle.load(Relaxed), slot.stack_start.load(Relaxed)), (0, 0));
    assert!(sys::load(&slot.first) == [0; 128] && sys::load(&slot.last) == [0; 128]);
    // What the launcher has written stays.
    assert_eq!(slot.thread.load(Relaxed), 1);
}
