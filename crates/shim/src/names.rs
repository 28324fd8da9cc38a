//! `pthread_setname_np` and `prctl(PR_SET_NAME)`: a thread that matched nothing when it was created
//! may be recognised by the name that it gives itself.

use crate::plan;
use crate::sys;
use crate::{bind, matching};
use core::ffi::{CStr, c_char, c_int, c_ulong};
use core::sync::atomic::Ordering::*;
use injected::next;
use libc::pthread_t;
use wire::launch::{MASK_WORDS, Stranger, life};

/// # Safety
/// As for `pthread_setname_np`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_setname_np(thread: pthread_t, name: *const c_char) -> c_int {
    type Call = unsafe extern "C" fn(pthread_t, *const c_char) -> c_int;
    let Some(next) = next!(c"pthread_setname_np": Call) else { return libc::ENOSYS };
    // SAFETY: the program's own call.
    unsafe {
        let result = next(thread, name);
        if result == 0 && thread == libc::pthread_self() {
            named(name);
        }
        result
    }
}

/// # Safety
/// As for `prctl`, whose arguments after the first are all machine words.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    type Call = unsafe extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int;
    let Some(next) = next!(c"prctl": Call) else { return -1 };
    // SAFETY: the program's own call.
    unsafe {
        let result = next(option, a, b, c, d);
        if result == 0 && option == libc::PR_SET_NAME {
            named(a as *const c_char);
        }
        result
    }
}

/// The calling thread now has this name.
///
/// # Safety
/// `name` is a string.
unsafe fn named(name: *const c_char) {
    let Some(plan) = plan::get() else { return };
    if let Some(slot) = plan::own_slot(plan) {
        return bind::note_own_name(&plan.slots[slot as usize].seen_name);
    }
    // SAFETY: as the caller vouches.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    let mut padded = [0u8; 16];
    let length = text.len().min(15);
    padded[..length].copy_from_slice(&text[..length]);
    let stranger = own_stranger(plan);
    let Some(index) = matching::take_by_name(plan, &padded) else {
        if let Some(stranger) = stranger {
            bind::note_own_name(&stranger.seen_name);
        }
        return;
    };
    plan::set_own_slot(index);
    plan.header.recognised.fetch_add(1, Relaxed);
    // Off the list: a 0 there means no thread.
    if let Some(stranger) = stranger {
        stranger.tid.store(0, Relaxed);
    }
    let slot = &plan.slots[index as usize];
    slot.tid.store(sys::tid(), Relaxed);
    // SAFETY: no arguments.
    slot.handle.store(unsafe { libc::pthread_self() }, Relaxed);
    slot.matched_ns.store(sys::now_ns(), Relaxed);
    bind::note_own_name(&slot.seen_name);
    let wished = sys::affinity(0).unwrap_or([u64::MAX; MASK_WORDS]);
    debug_assert!(slot.life.load(Relaxed) == life::TAKEN);
    bind::bind(plan, slot, 0, &wished);
    bind::watch_end(index);
}

/// The calling thread's place on the list of threads outside the plan, if it was long enough.
fn own_stranger(plan: plan::Plan) -> Option<&'static Stranger> {
    let tid = sys::tid();
    plan.strangers.iter().find(|s| s.tid.load(Relaxed) == tid)
}
