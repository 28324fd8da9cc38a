//! `execve` and its kin, and the calls that start other programs.
//!
//! A child gets the mask that its creator would have had, never a bound one. When the launched
//! process itself replaces its program (`env`, `nice`, a shell's `exec`), the plan goes with it.
//!
//! Not seen: `execl` and its kin, which take any number of arguments and so cannot be written in
//! Rust. A forked child that calls them has its mask back already; only after `vfork`, or in the
//! launched process itself, the new program starts with the mask of the calling thread.

use crate::plan::TRACES;
use crate::plan::{self, Plan};
use crate::sys;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::Ordering::*;
use injected::next;
use wire::launch::{Slot, life};

type Strings = *const *const c_char;

/// Runs `call` while the calling thread has the mask that it would have had, then binds it again.
fn unbound<R>(call: impl FnOnce() -> R) -> R {
    let bound: Option<&Slot> = plan::get()
        .and_then(|plan| plan::slot_of_tid(plan, 0))
        .filter(|slot| slot.life.load(Acquire) == life::BOUND);
    let Some(slot) = bound else { return call() };
    let _ = sys::set_affinity(0, &sys::load(&slot.wished));
    let result = call();
    // A vfork child shares our memory but not our place; what failed there ends there.
    let still_here = plan::get().is_some_and(in_launched_process);
    if let Some(planned) = sys::only(slot.pu_os.load(Relaxed)).filter(|_| still_here) {
        let _ = sys::set_affinity(0, &planned);
    }
    result
}

fn in_launched_process(plan: Plan) -> bool {
    plan.header.pid.load(Relaxed) == sys::pid()
}

/// The environment that a new program in this process gets.
///
/// # Safety
/// `variables` is null or a null-terminated array of strings.
unsafe fn environment_for_exec(variables: Strings) -> Strings {
    match plan::get() {
        // SAFETY: as the caller vouches.
        Some(plan) if in_launched_process(plan) => unsafe { TRACES.put_back(variables) },
        _ => variables,
    }
}

/// # Safety
/// As for `execve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: Strings,
    variables: Strings,
) -> c_int {
    type Call = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;
    let Some(next) = next!(c"execve": Call) else { return -1 };
    // SAFETY: the program's own call with our traces put back.
    unbound(|| unsafe { next(path, arguments, environment_for_exec(variables)) })
}

/// # Safety
/// As for `execv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the same call with the environment named.
    unsafe { execve(path, arguments, injected::environment::current()) }
}

/// # Safety
/// As for `execvpe`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: Strings,
    variables: Strings,
) -> c_int {
    type Call = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;
    let Some(next) = next!(c"execvpe": Call) else { return -1 };
    // SAFETY: the program's own call with our traces put back.
    unbound(|| unsafe { next(file, arguments, environment_for_exec(variables)) })
}

/// # Safety
/// As for `execvp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the same call with the environment named.
    unsafe { execvpe(file, arguments, injected::environment::current()) }
}

/// # Safety
/// As for `fexecve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, variables: Strings) -> c_int {
    type Call = unsafe extern "C" fn(c_int, Strings, Strings) -> c_int;
    let Some(next) = next!(c"fexecve": Call) else { return -1 };
    // SAFETY: the program's own call with our traces put back.
    unbound(|| unsafe { next(fd, arguments, environment_for_exec(variables)) })
}

/// # Safety
/// As for `posix_spawn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    variables: Strings,
) -> c_int {
    let Some(next) = next!(c"posix_spawn": Spawn) else { return libc::ENOSYS };
    // SAFETY: the program's own call.
    unbound(|| unsafe { next(pid, path, actions, attributes, arguments, variables) })
}

type Spawn = unsafe extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    Strings,
    Strings,
) -> c_int;

/// # Safety
/// As for `posix_spawnp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    variables: Strings,
) -> c_int {
    let Some(next) = next!(c"posix_spawnp": Spawn) else { return libc::ENOSYS };
    // SAFETY: the program's own call.
    unbound(|| unsafe { next(pid, file, actions, attributes, arguments, variables) })
}

/// # Safety
/// As for `system`, which is a cancellation point.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    type Call = unsafe extern "C-unwind" fn(*const c_char) -> c_int;
    let Some(next) = next!(c"system": Call) else { return -1 };
    // SAFETY: the program's own call.
    unbound(|| unsafe { next(command) })
}

/// # Safety
/// As for `popen`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void {
    type Call = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_void;
    let Some(next) = next!(c"popen": Call) else { return core::ptr::null_mut() };
    // SAFETY: the program's own call.
    unbound(|| unsafe { next(command, mode) })
}
