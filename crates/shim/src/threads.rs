//! `pthread_create` and `thrd_create`: every thread passes here before the program's routine runs.
//!
//! The frames of `posix_thread` and `c11_thread` stay below the program's; `pthread_exit` and
//! cancellation unwind through them, so they are `C-unwind` and hold nothing to drop.

use crate::plan::{self, Plan};
use crate::start::{self, Start};
use crate::sys::{self, Mask};
use crate::{bind, matching};
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::*;
use injected::next;
use libc::{pthread_attr_t, pthread_t};
use wire::launch::{MASK_WORDS, NONE, life};

type PosixRoutine = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type C11Routine = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
type PosixCreate =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, PosixRoutine, *mut c_void) -> c_int;
type C11Create = unsafe extern "C" fn(*mut pthread_t, C11Routine, *mut c_void) -> c_int;
/// `thrd_error` of `<threads.h>`.
const THRD_ERROR: c_int = 2;

/// # Safety
/// As for `pthread_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: PosixRoutine,
    argument: *mut c_void,
) -> c_int {
    let Some(next) = next!(c"pthread_create": PosixCreate) else { return libc::ENOSYS };
    let Some(plan) = plan::get() else {
        // SAFETY: the program's own call.
        return unsafe { next(thread, attributes, routine, argument) };
    };
    let found = matching::take(plan, routine as usize);
    // SAFETY: the program's own attributes.
    let own_mask = unsafe { has_own_mask(plan, attributes, found.creator) };
    let start = start::put(Start {
        routine: routine as *mut c_void,
        argument,
        slot: found.slot,
        creator: found.creator,
        own_mask: u32::from(own_mask),
    });
    // SAFETY: the program's own call with our routine around its own.
    let result = unsafe { next(thread, attributes, posix_thread, start) };
    after_creation(plan, found, start, result == 0);
    result
}

/// # Safety
/// As for `thrd_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut pthread_t,
    routine: C11Routine,
    argument: *mut c_void,
) -> c_int {
    let Some(next) = next!(c"thrd_create": C11Create) else { return THRD_ERROR };
    let Some(plan) = plan::get() else {
        // SAFETY: the program's own call.
        return unsafe { next(thread, routine, argument) };
    };
    let found = matching::take(plan, routine as usize);
    let routine = routine as *mut c_void;
    let (slot, creator) = (found.slot, found.creator);
    let start = start::put(Start { routine, argument, slot, creator, own_mask: 0 });
    // SAFETY: the program's own call with our routine around its own.
    let result = unsafe { next(thread, c11_thread, start) };
    after_creation(plan, found, start, result == 0);
    result
}

fn after_creation(plan: Plan, found: matching::Match, start: *mut c_void, created: bool) {
    if created {
        bind::bind_initial(plan);
    } else {
        // SAFETY: no thread was created, so nobody else takes it.
        unsafe { start::take(start) };
        matching::give_back(plan, found);
    }
}

unsafe extern "C-unwind" fn posix_thread(start: *mut c_void) -> *mut c_void {
    // SAFETY: what `pthread_create` above has passed.
    let start = unsafe { start::take(start) };
    arrive(start);
    // SAFETY: the routine that the program passed to `pthread_create`.
    unsafe {
        let routine = core::mem::transmute::<*mut c_void, PosixRoutine>(start.routine);
        routine(start.argument)
    }
}

unsafe extern "C-unwind" fn c11_thread(start: *mut c_void) -> c_int {
    // SAFETY: what `thrd_create` above has passed.
    let start = unsafe { start::take(start) };
    arrive(start);
    // SAFETY: the routine that the program passed to `thrd_create`.
    unsafe {
        let routine = core::mem::transmute::<*mut c_void, C11Routine>(start.routine);
        routine(start.argument)
    }
}

/// The new thread takes its place.
fn arrive(start: Start) {
    let Some(plan) = plan::get() else { return };
    plan::set_own_slot(start.slot);
    let inherited = bind::inherited(plan, start.creator).filter(|_| start.own_mask == 0);
    let Some(slot) = plan.slots.get(start.slot as usize) else {
        matching::note_stranger(plan, start.creator, start.routine as usize);
        if let Some(mask) = inherited {
            let _ = sys::set_affinity(0, &mask);
        }
        return;
    };
    let wished = inherited.or_else(|| sys::affinity(0)).unwrap_or([u64::MAX; MASK_WORDS]);
    slot.tid.store(sys::tid(), Relaxed);
    // SAFETY: no arguments.
    slot.handle.store(unsafe { libc::pthread_self() }, Relaxed);
    slot.matched_ns.store(sys::now_ns(), Relaxed);
    bind::note_own_name(&slot.seen_name);
    if start.own_mask == 1 {
        sys::store(&slot.wished, &wished);
        slot.life.store(life::PROGRAMS_OWN, Release);
    } else {
        bind::bind(plan, slot, 0, &wished);
        let unbound = slot.life.load(Relaxed) != life::BOUND;
        if let Some(mask) = inherited.filter(|_| unbound) {
            let _ = sys::set_affinity(0, &mask);
        }
    }
    bind::watch_end(start.slot);
}

/// Whether the attributes carry a mask that says more than "anywhere".
///
/// # Safety
/// `attributes` is null or valid.
unsafe fn has_own_mask(plan: Plan, attributes: *const pthread_attr_t, creator: u32) -> bool {
    type Get = unsafe extern "C" fn(*const pthread_attr_t, usize, *mut Mask) -> c_int;
    let Some(get) = next!(c"pthread_attr_getaffinity_np": Get) else { return false };
    if attributes.is_null() || plan::watches(plan) {
        return false;
    }
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: valid attributes, and a buffer as long as said. All ones means that none is set.
    if unsafe { get(attributes, size_of::<Mask>(), &mut mask) } != 0 {
        return false;
    }
    let anywhere = match plan.slots.get(creator as usize) {
        Some(slot) if creator != NONE => sys::load(&slot.wished),
        _ => sys::load(&plan.header.original),
    };
    !sys::contains(&mask, &anywhere)
}
