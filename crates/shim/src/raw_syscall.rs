//! `syscall(2)`'s library function: affinity calls are looked at, what concerns data is passed on
//! to the library that places it, everything else goes straight to the kernel.
//!
//! LLVM's OpenMP runtime asks for and sets affinities this way.

use crate::affinity::raw_affinity_call;
use crate::sys;
use core::ffi::{c_int, c_long, c_void};
use injected::next;

/// Results from here on, as unsigned numbers, are negative error codes.
const FIRST_ERROR: usize = -4095_isize as usize;

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
    // The library that places data looks at these.
    if matches!(number, libc::SYS_mbind | libc::SYS_seccomp)
        && let Some(next) = next!(c"syscall": Call)
    {
        // SAFETY: the program's own call.
        return unsafe { next(number, a, b, c, d, e, f) };
    }
    // SAFETY: the program's own call.
    let result = unsafe {
        match number {
            libc::SYS_sched_getaffinity | libc::SYS_sched_setaffinity => {
                raw_affinity_call(number, a as c_int, b, c as *mut c_void)
            }
            _ => sys::raw6(number, a, b, c, d, e, f),
        }
    };
    if (result as usize) < FIRST_ERROR {
        return result as c_long;
    }
    // SAFETY: errno of the calling thread.
    unsafe { *libc::__errno_location() = -result as c_int };
    -1
}
