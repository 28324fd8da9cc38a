//! `execve` and its kin, and the calls that start other programs.
//!
//! A child gets the mask that its creator would have had, never a bound one. When the launched
//! process itself replaces its program (`env`, `nice`, a shell's `exec`), the plan goes with it.

use crate::environment;
use crate::plan::{self, Plan};
use crate::real::next;
use crate::sys;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::Ordering::*;
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
        Some(plan) if in_launched_process(plan) => unsafe { environment::with_traces(variables) },
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
    unsafe { execve(path, arguments, environment::current()) }
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
    unsafe { execvpe(file, arguments, environment::current()) }
}

/// Before an `execl`: the new program gets the mask that the thread would have had. Returns the
/// function to go on with.
macro_rules! before_variadic {
    ($hook:ident, $name:literal) => {
        unsafe extern "C" fn $hook() -> *mut c_void {
            static NEXT: crate::real::Next = crate::real::Next::new($name);
            if let Some(plan) = plan::get()
                && let Some(slot) = plan::slot_of_tid(plan, 0)
                && slot.life.load(Acquire) == life::BOUND
            {
                let _ = sys::set_affinity(0, &sys::load(&slot.wished));
            }
            NEXT.address()
        }
    };
}
before_variadic!(before_execl, c"execl");
before_variadic!(before_execlp, c"execlp");
before_variadic!(before_execle, c"execle");

/// A hook for a function with any number of arguments: calls `$before`, then jumps to what that
/// returned with all arguments in place. If the call fails, the thread goes on unbound; the plan
/// does not follow into the new program (`execve` and the others below do both).
macro_rules! variadic {
    ($name:ident, $before:ident) => {
        /// # Safety
        /// As for the function of that name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                // al: number of vector registers with arguments; also aligns the stack.
                "push rax",
                "call {before}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp r11",
                before = sym $before,
            )
        }
    };
}
variadic!(execl, before_execl);
variadic!(execlp, before_execlp);
variadic!(execle, before_execle);

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
