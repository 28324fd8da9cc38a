//! A program's wishes for processors against the plan.

use super::*;
use crate::plan::tests::made;
use std::cell::Cell;

const BYTES: usize = size_of::<Mask>();

fn mask(cpus: &[usize]) -> Mask {
    let mut mask = [0; MASK_WORDS];
    cpus.iter().for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
    mask
}

/// A plan whose second thread would have CPUs 0 to 3 without us, of 0 to 7.
fn planned(life: u32) -> Target {
    let plan = made(2);
    sys::store(&plan.header.original, &mask(&[0, 1, 2, 3, 4, 5, 6, 7]));
    sys::store(&plan.slots[1].wished, &mask(&[0, 1, 2, 3]));
    plan.slots[1].life.store(life, Relaxed);
    (plan, &plan.slots[1])
}

/// The program sets a mask by a call with this result: its result, and the slot's life during the
/// call, if it was made.
fn set(target: Option<Target>, wish: &Mask, size: usize, result: i32) -> (i32, Option<u32>) {
    let called = Cell::new(None);
    let call = || {
        called.set(Some(target.map_or(u32::MAX, |(_, slot)| slot.life.load(Relaxed))));
        result
    };
    // SAFETY: a valid mask.
    let said = unsafe { with_wish(target, wish.as_ptr().cast(), size, 0, call) };
    (said, called.get())
}

#[test]
fn what_narrows_nothing_does_not_undo_a_binding() {
    let (plan, slot) = planned(life::BOUND);
    let target = Some((plan, slot));
    let wished = || sys::load(&slot.wished);
    // What it would have had, and more than that.
    assert_eq!(set(target, &mask(&[0, 1, 2, 3]), BYTES, -1), (0, None));
    assert_eq!(set(target, &mask(&[0, 1, 2, 3, 5]), BYTES, -1), (0, None));
    assert!(wished() == mask(&[0, 1, 2, 3]));
    // Everything: from now on it would have everything that there was.
    assert_eq!(set(target, &[u64::MAX; MASK_WORDS], BYTES, -1), (0, None));
    assert!(wished() == mask(&[0, 1, 2, 3, 4, 5, 6, 7]));
    // So the same mask as before narrows it now.
    assert_eq!(set(target, &mask(&[0, 1, 2, 3]), BYTES, -1), (-1, Some(life::PROGRAMS_OWN)));
    assert_eq!(slot.life.load(Relaxed), life::BOUND);
}

#[test]
fn a_wish_wins_over_the_plan_unless_the_kernel_refuses_it() {
    let (plan, slot) = planned(life::BOUND);
    let narrow = mask(&[2]);
    assert_eq!(set(Some((plan, slot)), &narrow, BYTES, -1), (-1, Some(life::PROGRAMS_OWN)));
    assert_eq!(slot.life.load(Relaxed), life::BOUND);
    assert!(sys::load(&slot.wished) == mask(&[0, 1, 2, 3]));
    slot.tid.store(sys::tid(), Relaxed);
    assert_eq!(set(Some((plan, slot)), &narrow, BYTES, 0), (0, Some(life::PROGRAMS_OWN)));
    assert_eq!(slot.life.load(Relaxed), life::PROGRAMS_OWN);
    // What it has by the kernel, which knows CPUs that are not there.
    assert!(sys::load(&slot.wished) == sys::affinity(0).unwrap());
}

#[test]
fn a_short_mask_has_no_cpus_beyond_its_end() {
    let (plan, slot) = planned(life::BOUND);
    sys::store(&slot.wished, &mask(&[0, 70]));
    let wish = mask(&[0, 70]);
    assert_eq!(set(Some((plan, slot)), &wish, 8, -1), (-1, Some(life::PROGRAMS_OWN)));
    assert_eq!(set(Some((plan, slot)), &wish, 16, -1), (0, None));
    assert_eq!(set(Some((plan, slot)), &wish, 0, -1).0, -1);
    // A longer one than any is read as far as there may be CPUs.
    let long = [wish, [u64::MAX; MASK_WORDS]];
    assert_eq!(set(Some((plan, slot)), &long[0], 2 * BYTES, -1), (0, None));
}

#[test]
fn threads_that_are_not_bound_are_the_programs_business() {
    let everything = [u64::MAX; MASK_WORDS];
    assert_eq!(set(None, &everything, BYTES, 5), (5, Some(u32::MAX)));
    let (plan, slot) = planned(life::TAKEN);
    // Before it is bound: the call is made, and the plan stays in force.
    assert_eq!(set(Some((plan, slot)), &everything, BYTES, 0), (0, Some(life::TAKEN)));
    assert_eq!(slot.life.load(Relaxed), life::TAKEN);
    assert_eq!(set(Some((plan, slot)), &mask(&[1]), BYTES, -1), (-1, Some(life::PROGRAMS_OWN)));
    assert_eq!(slot.life.load(Relaxed), life::TAKEN);
    // SAFETY: no mask, which the kernel refuses.
    let said = unsafe { with_wish(Some((plan, slot)), core::ptr::null(), BYTES, 0, || -14) };
    assert_eq!((said, slot.life.load(Relaxed)), (-14, life::TAKEN));
}

#[test]
fn a_wish_that_is_taken_back_puts_the_plan_in_force_again() {
    let (plan, slot) = planned(life::PROGRAMS_OWN);
    slot.thread.store(0, Relaxed);
    let everything = [u64::MAX; MASK_WORDS];
    // Another wish.
    assert_eq!(set(Some((plan, slot)), &mask(&[0, 1]), BYTES, -1), (-1, Some(life::PROGRAMS_OWN)));
    // The initial thread is bound when the first other one is created, and not before.
    assert_eq!(set(Some((plan, slot)), &everything, BYTES, 0), (0, Some(life::TAKEN)));
    assert!(sys::load(&slot.wished) == sys::load(&plan.header.original));
    assert_eq!(slot.life.load(Relaxed), life::TAKEN);
    // Later at once; here to a CPU outside of what there was, which would be no binding.
    slot.life.store(life::PROGRAMS_OWN, Relaxed);
    plan.header.created.store(1, Relaxed);
    slot.pu_os.store(77, Relaxed);
    assert_eq!(set(Some((plan, slot)), &everything, BYTES, 0), (0, Some(life::PROGRAMS_OWN)));
}

#[test]
fn the_program_is_shown_as_much_of_its_mask_as_it_has_asked_for() {
    let (_, slot) = planned(life::BOUND);
    sys::store(&slot.wished, &mask(&[0, 9, 64]));
    let shown = |slot: Option<&Slot>, size: usize| {
        let mut words = [7_u64; MASK_WORDS + 1];
        // SAFETY: the words.
        unsafe { show_wished(slot, words.as_mut_ptr().cast(), size) };
        words
    };
    assert_eq!(shown(Some(slot), 8)[..3], [1 << 9 | 1, 7, 7]);
    assert_eq!(shown(Some(slot), 16)[..3], [1 << 9 | 1, 1, 7]);
    assert_eq!(shown(Some(slot), 1)[..2], [1, 7]);
    let all = shown(Some(slot), BYTES + 8);
    assert!(all[..MASK_WORDS] == mask(&[0, 9, 64]) && all[MASK_WORDS] == 7);
    assert_eq!(shown(None, 16)[..2], [7, 7]);
}
