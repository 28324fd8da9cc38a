//! Calls by which a program forbids itself system calls: from then on we make none in it. What has
//! been placed stays; new blocks are served from what is there.

use crate::{large, mappings, session};
use core::ffi::{c_int, c_long, c_ulong};
use core::sync::atomic::Ordering::Relaxed;
use injected::next;

/// # Safety
/// As for `prctl`.
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
    if option == libc::PR_SET_SECCOMP {
        before_filter();
    }
    // SAFETY: the program's own call.
    unsafe { next(option, a, b, c, d) }
}

/// Six arguments whatever the call takes: the rest is not looked at, as in the C library's own.
///
/// # Safety
/// As for `syscall`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    type Call = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
    let Some(next) = next!(c"syscall": Call) else { return -1 };
    if number == libc::SYS_seccomp {
        before_filter();
    }
    // SAFETY: the program's own call.
    let result = unsafe { next(number, a, b, c, d, e, f) };
    // The C library has no function for it: libnuma and programs make the call themselves.
    if number == libc::SYS_mbind && result == 0 {
        own_policy(a as u64, b as u64);
    }
    result
}

/// The program has set a policy for memory, some of which the plan may place.
fn own_policy(start: u64, bytes: u64) {
    let is_placed = large::is_in(start, bytes) || mappings::is_in(start, bytes);
    if let Some(session) = session::get().filter(|_| is_placed) {
        session.header.own_ranges.fetch_add(1, Relaxed);
    }
}

/// What is there by now is looked at while that is allowed.
fn before_filter() {
    crate::reading::finish();
    session::filter();
}
