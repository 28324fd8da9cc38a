//! `dlopen`, which brings static data, and `dlclose`, after which other code may lie where some
//! was.

use crate::{fixed, sites};
use core::ffi::{CStr, c_char, c_int, c_void};
use injected::next;

type Close = unsafe extern "C" fn(*mut c_void) -> c_int;

/// # Safety
/// As for `dlclose`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dlclose(library: *mut c_void) -> c_int {
    let Some(next) = next!(c"dlclose": Close) else { return -1 };
    // SAFETY: the program's own call.
    let result = unsafe { next(library) };
    sites::forget();
    result
}

/// The C library's own looks at its return address for a name without a folder, and for `$ORIGIN`:
/// then ours goes on by a jump, and what is loaded is asked for the next time.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(_path: *const c_char, _flags: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        before = sym goes_on,
    )
}

type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

unsafe extern "C" fn no_load(_path: *const c_char, _flags: c_int) -> *mut c_void {
    core::ptr::null_mut()
}

/// What `dlopen` goes on to.
unsafe extern "C" fn goes_on(path: *const c_char, _flags: c_int) -> Open {
    fixed::catch_up();
    // SAFETY: null, or a string of the program's.
    let name = if path.is_null() { &b""[..] } else { unsafe { CStr::from_ptr(path) }.to_bytes() };
    if name.contains(&b'/') && !name.contains(&b'$') {
        return open;
    }
    fixed::expect();
    next!(c"dlopen": Open).unwrap_or(no_load)
}

unsafe extern "C" fn open(path: *const c_char, flags: c_int) -> *mut c_void {
    // SAFETY: the program's own call.
    let library = unsafe { next!(c"dlopen": Open).unwrap_or(no_load)(path, flags) };
    if !library.is_null() {
        fixed::loaded();
    }
    library
}
