//! `execve` and its kin: the new program is watched, too, where children are followed or the launched
//! process replaces its program.
//!
//! Not seen: `execl` and its kin, which take any number of arguments and so cannot be written in Rust,
//! and what the C library executes by itself (`system`, `popen`). Those programs run unwatched.

use crate::hooks::signals;
use crate::session::{self, TRACES};
use core::ffi::{c_char, c_int, c_void};
use injected::environment;
use injected::next;

type Strings = *const *const c_char;

/// The environment that a new program gets.
///
/// # Safety
/// `variables` is null or a null-terminated array of strings.
unsafe fn environment_for_exec(variables: Strings) -> Strings {
    match session::goes_on() {
        // SAFETY: as the caller vouches.
        true => unsafe { TRACES.put_back(variables) },
        false => variables,
    }
}

/// Runs a call that returns only if it fails.
fn executing(call: impl FnOnce() -> c_int) -> c_int {
    signals::before_exec();
    let result = call();
    signals::after_failed_exec();
    result
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
    executing(|| unsafe { next(path, arguments, environment_for_exec(variables)) })
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
    executing(|| unsafe { next(file, arguments, environment_for_exec(variables)) })
}

/// # Safety
/// As for `execvp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the same call with the environment named.
    unsafe { execvpe(file, arguments, environment::current()) }
}

/// # Safety
/// As for `fexecve`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, variables: Strings) -> c_int {
    type Call = unsafe extern "C" fn(c_int, Strings, Strings) -> c_int;
    let Some(next) = next!(c"fexecve": Call) else { return -1 };
    // SAFETY: the program's own call with our traces put back.
    executing(|| unsafe { next(fd, arguments, environment_for_exec(variables)) })
}

/// Hooks of `posix_spawn` and `posix_spawnp`.
macro_rules! spawning {
    ($($hook:ident = $name:literal),*) => {$(
        /// # Safety
        /// As for `posix_spawn`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $hook(
            pid: *mut libc::pid_t,
            path: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            arguments: Strings,
            variables: Strings,
        ) -> c_int {
            type Call = unsafe extern "C" fn(
                *mut libc::pid_t, *const c_char, *const c_void, *const c_void, Strings, Strings,
            ) -> c_int;
            let Some(next) = next!($name: Call) else { return libc::ENOSYS };
            // SAFETY: the program's own call, with our traces put back where children are followed.
            unsafe {
                let variables = if session::follows() { TRACES.put_back(variables) } else { variables };
                next(pid, path, actions, attributes, arguments, variables)
            }
        }
    )*};
}

spawning!(posix_spawn = c"posix_spawn", posix_spawnp = c"posix_spawnp");
