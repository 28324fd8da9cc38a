//! `dlclose`: other code may come to lie where some was.

use allocations::chain;
use core::ffi::{c_int, c_void};
use injected::next;

type Close = unsafe extern "C" fn(*mut c_void) -> c_int;

/// # Safety
/// As for `dlclose`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
    let Some(next) = next!(c"dlclose": Close) else { return -1 };
    // SAFETY: the program's own call.
    let result = unsafe { next(library) };
    chain::forget();
    result
}
