//! The program's own affinity calls.
//!
//! Asking: a thread that we have bound is shown the mask it would have had, so that a runtime still
//! counts all CPUs. Setting: the program's wish wins over the plan, and is reported; a mask that
//! does not narrow what the thread would have had (OpenMP runtimes set "everything") is no wish.

use crate::bind;
use crate::plan::{self, Plan};
use crate::sys::{self, Mask};
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::*;
use injected::next;
use libc::{pid_t, pthread_t};
use wire::launch::{MASK_WORDS, Slot, life};

type SchedCall = unsafe extern "C" fn(pid_t, usize, *mut c_void) -> c_int;
type PthreadCall = unsafe extern "C" fn(pthread_t, usize, *mut c_void) -> c_int;

/// # Safety
/// As for `sched_getaffinity`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sched_getaffinity(pid: pid_t, size: usize, mask: *mut c_void) -> c_int {
    let Some(next) = next!(c"sched_getaffinity": SchedCall) else { return no_such_call() };
    // SAFETY: the program's own call; on success its buffer holds `size` bytes.
    unsafe {
        let result = next(pid, size, mask);
        if result == 0 {
            show_wished(bound_by_tid(pid), mask, size);
        }
        result
    }
}

/// # Safety
/// As for `pthread_getaffinity_np`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_getaffinity_np(
    thread: pthread_t,
    size: usize,
    mask: *mut c_void,
) -> c_int {
    let Some(next) = next!(c"pthread_getaffinity_np": PthreadCall) else { return libc::ENOSYS };
    // SAFETY: the program's own call; on success its buffer holds `size` bytes.
    unsafe {
        let result = next(thread, size, mask);
        if result == 0 {
            let slot = plan::get().and_then(|plan| plan::slot_of_handle(plan, thread));
            show_wished(slot.filter(|slot| is_bound(slot)), mask, size);
        }
        result
    }
}

/// # Safety
/// As for `sched_setaffinity`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sched_setaffinity(pid: pid_t, size: usize, mask: *mut c_void) -> c_int {
    let Some(next) = next!(c"sched_setaffinity": SchedCall) else { return no_such_call() };
    // SAFETY: the program's own call.
    unsafe { with_wish(by_tid(pid), mask, size, 0, || next(pid, size, mask)) }
}

/// # Safety
/// As for `pthread_setaffinity_np`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_setaffinity_np(
    thread: pthread_t,
    size: usize,
    mask: *mut c_void,
) -> c_int {
    let Some(next) = next!(c"pthread_setaffinity_np": PthreadCall) else { return libc::ENOSYS };
    let plan = plan::get().filter(|&plan| !plan::watches(plan));
    let target = plan.and_then(|plan| Some((plan, plan::slot_of_handle(plan, thread)?)));
    // SAFETY: the program's own call.
    unsafe { with_wish(target, mask, size, 0, || next(thread, size, mask)) }
}

/// `sched_getaffinity` and `sched_setaffinity` as raw system calls, which LLVM's OpenMP runtime
/// makes. The result is the kernel's, errors negative.
///
/// # Safety
/// As for the system calls.
pub unsafe fn raw_affinity_call(number: i64, pid: pid_t, size: usize, mask: *mut c_void) -> isize {
    // SAFETY: the program's own call; the kernel says how many bytes it has written.
    unsafe {
        let call = || sys::raw(number, pid as usize, size, mask as usize, 0);
        if number == libc::SYS_sched_getaffinity {
            let result = call();
            if result > 0 {
                show_wished(bound_by_tid(pid), mask, result as usize);
            }
            return result;
        }
        with_wish(by_tid(pid), mask, size, 0, call)
    }
}

/// A planned thread of this process that is ours to bind.
type Target = (Plan, &'static Slot);

fn by_tid(pid: pid_t) -> Option<Target> {
    let plan = plan::get().filter(|&plan| !plan::watches(plan))?;
    Some((plan, plan::slot_of_tid(plan, pid as u32)?))
}

fn is_bound(slot: &Slot) -> bool {
    slot.life.load(Acquire) == life::BOUND
}

fn bound_by_tid(pid: pid_t) -> Option<&'static Slot> {
    by_tid(pid).map(|(_, slot)| slot).filter(|slot| is_bound(slot))
}

/// Overwrites an answer of the kernel with the mask that the thread would have had.
///
/// # Safety
/// `mask` has `size` writable bytes.
unsafe fn show_wished(slot: Option<&Slot>, mask: *mut c_void, size: usize) {
    let Some(slot) = slot else { return };
    let wished = sys::load(&slot.wished);
    let length = size.min(size_of::<Mask>());
    // SAFETY: both have that many bytes.
    unsafe {
        core::ptr::copy_nonoverlapping(wished.as_ptr().cast::<u8>(), mask.cast::<u8>(), length);
    }
}

/// Lets the program set a mask, unless it would only undo a binding without asking for anything.
/// `done` is the result that means success.
///
/// # Safety
/// `mask` has `size` readable bytes, or `call` would fail.
unsafe fn with_wish<R: PartialEq + Copy>(
    target: Option<Target>,
    mask: *const c_void,
    size: usize,
    done: R,
    call: impl FnOnce() -> R,
) -> R {
    let Some((plan, slot)) = target.filter(|_| !mask.is_null()) else { return call() };
    let mut wish = [0u64; MASK_WORDS];
    let length = size.min(size_of::<Mask>());
    // SAFETY: both have that many bytes; the program passes a valid mask.
    unsafe {
        core::ptr::copy_nonoverlapping(mask.cast::<u8>(), wish.as_mut_ptr().cast::<u8>(), length);
    }
    let before = slot.life.load(Acquire);
    let anywhere = sys::load(&plan.header.original);
    let narrows = !sys::contains(&wish, &sys::load(&slot.wished));
    match before {
        life::BOUND if !narrows => {
            if sys::contains(&wish, &anywhere) {
                sys::store(&slot.wished, &anywhere);
            }
            return done;
        }
        // The initial thread before it is bound.
        life::TAKEN if !narrows => return call(),
        life::PROGRAMS_OWN if sys::contains(&wish, &anywhere) => {
            return if withdrawn(plan, slot, &anywhere) { done } else { call() };
        }
        _ => {}
    }
    // Said before it is done, so that the launcher does not bind in between.
    slot.life.store(life::PROGRAMS_OWN, Release);
    let result = call();
    match result == done {
        true => {
            if let Some(now) = sys::affinity(slot.tid.load(Relaxed)) {
                sys::store(&slot.wished, &now);
            }
        }
        false => slot.life.store(before, Release),
    }
    result
}

/// The program takes back a wish: a runtime has visited every CPU to learn about it, say. The plan
/// is in force again; true when the thread is bound now.
fn withdrawn(plan: Plan, slot: &Slot, anywhere: &Mask) -> bool {
    sys::store(&slot.wished, anywhere);
    slot.life.store(life::TAKEN, Release);
    let initial = slot.thread.load(Relaxed) == 0;
    if initial && plan.header.created.load(Relaxed) == 0 {
        // Still too early for it.
        return false;
    }
    bind::bind(plan, slot, slot.tid.load(Relaxed), anywhere);
    is_bound(slot)
}

fn no_such_call() -> c_int {
    // SAFETY: errno of the calling thread.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod tests;
