//! The calls that execute other programs: `execve` and its kin, `posix_spawn`, `system`, `popen`.
//!
//! [`program_hooks!`](crate::program_hooks) defines them for a library, which says by [`Programs`]
//! what it does around them. `execl` and its kin take any number of arguments, which Rust cannot
//! say: they put all of them into one row on the stack, which is the array that `execv` wants. What
//! the C library executes by itself for `system` and `popen` does not pass the other hooks; `shell`
//! sees to those.

use crate::environment::{Traces, current};
use crate::next;
use crate::reachable;
use crate::shell::Command;
use core::ffi::{c_char, c_int, c_void};

/// A null-terminated array of strings.
pub type Strings = *const *const c_char;

/// What a library does around calls that execute other programs. Nothing of it may hold anything to
/// drop across the call.
pub trait Programs {
    /// Whether the program that replaces this one gets the library, too, and by which traces.
    fn replaced_by() -> Option<&'static Traces>;

    /// The same for programs in processes of their own.
    fn started() -> Option<&'static Traces>;

    /// Whether the program at a path must not get the library; `search`: a name without a folder
    /// is looked for in PATH.
    ///
    /// # Safety
    /// `path` is null or a string.
    unsafe fn refuses(_path: *const c_char, _search: bool) -> bool {
        false
    }

    /// Runs a call that returns only if it fails.
    fn executing(call: impl FnOnce() -> c_int) -> c_int;

    /// Runs a call that starts a process.
    fn starting<R>(call: impl FnOnce() -> R) -> R;
}

/// Runs `call` with the environment that the new program gets. One that is not there goes to the
/// kernel as it is.
fn within<R>(traces: Option<&Traces>, variables: Strings, call: impl FnOnce(Strings) -> R) -> R {
    match traces.filter(|_| reachable::are_strings(variables)) {
        // SAFETY: just looked at.
        Some(traces) => unsafe { traces.put_back(variables, call) },
        None => call(variables),
    }
}

/// The traces for the program at a path that replaces this one. A path that is not there is the
/// kernel's to refuse.
fn replaced_by<P: Programs>(path: *const c_char, search: bool) -> Option<&'static Traces> {
    // SAFETY: just looked at.
    P::replaced_by().filter(|_| reachable::is_string(path) && !unsafe { P::refuses(path, search) })
}

/// # Safety
/// As for `execve`.
pub unsafe fn execve<P: Programs>(
    path: *const c_char,
    arguments: Strings,
    variables: Strings,
) -> c_int {
    type Call = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;
    let Some(next) = next!(c"execve": Call) else { return -1 };
    // SAFETY: the program's own call, with our traces put back.
    unsafe {
        within(replaced_by::<P>(path, false), variables, |variables| {
            P::executing(|| next(path, arguments, variables))
        })
    }
}

/// # Safety
/// As for `execvpe`.
pub unsafe fn execvpe<P: Programs>(
    file: *const c_char,
    arguments: Strings,
    variables: Strings,
) -> c_int {
    type Call = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;
    let Some(next) = next!(c"execvpe": Call) else { return -1 };
    // SAFETY: the program's own call, with our traces put back.
    unsafe {
        within(replaced_by::<P>(file, true), variables, |variables| {
            P::executing(|| next(file, arguments, variables))
        })
    }
}

/// # Safety
/// As for `fexecve`.
pub unsafe fn fexecve<P: Programs>(fd: c_int, arguments: Strings, variables: Strings) -> c_int {
    type Call = unsafe extern "C" fn(c_int, Strings, Strings) -> c_int;
    let Some(next) = next!(c"fexecve": Call) else { return -1 };
    // SAFETY: the program's own call, with our traces put back.
    unsafe {
        within(P::replaced_by(), variables, |variables| {
            P::executing(|| next(fd, arguments, variables))
        })
    }
}

/// `execv`, and `execl` once its arguments are in a row.
///
/// # Safety
/// As for `execv`.
pub unsafe fn execv<P: Programs>(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the same call with the environment named.
    unsafe { execve::<P>(path, arguments, current()) }
}

/// `execvp`, and `execlp` once its arguments are in a row.
///
/// # Safety
/// As for `execvp`.
pub unsafe fn execvp<P: Programs>(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the same call with the environment named.
    unsafe { execvpe::<P>(file, arguments, current()) }
}

/// `execle` once its arguments are in a row: the environment follows their null.
///
/// # Safety
/// As for `execle`.
pub unsafe fn execle<P: Programs>(path: *const c_char, arguments: Strings) -> c_int {
    let mut end = arguments;
    // SAFETY: null-terminated, and one more pointer follows, as the caller vouches.
    unsafe {
        while !(*end).is_null() {
            end = end.add(1);
        }
        execve::<P>(path, arguments, (*end.add(1)).cast())
    }
}

/// The type of `posix_spawn` and `posix_spawnp`.
pub type Spawn = unsafe extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    Strings,
    Strings,
) -> c_int;

/// Starts the program at a path by `spawn`, which gets the environment.
///
/// # Safety
/// `path` is null or a string, or the kernel's to refuse.
pub unsafe fn spawn<P: Programs>(
    path: *const c_char,
    search: bool,
    variables: Strings,
    spawn: impl FnOnce(Strings) -> c_int,
) -> c_int {
    // SAFETY: just looked at.
    let takes = |_: &&Traces| reachable::is_string(path) && !unsafe { P::refuses(path, search) };
    within(P::started().filter(takes), variables, |variables| P::starting(|| spawn(variables)))
}

/// Starts a shell by `call`, which gets the command.
///
/// # Safety
/// `command` is null or a string.
pub unsafe fn shell<P: Programs, R>(
    command: *const c_char,
    call: impl FnOnce(*const c_char) -> R,
) -> R {
    // SAFETY: as the caller vouches.
    let ours = P::started().and_then(|traces| unsafe { Command::new(traces, command) });
    let result = P::starting(|| call(ours.as_ref().map_or(command, Command::text)));
    if let Some(ours) = ours {
        ours.free();
    }
    result
}

/// Defines the hooks of a library that implements [`Programs`] for `$ours`.
#[macro_export]
macro_rules! program_hooks {
    ($ours:ty) => {
        use core::ffi::{c_char, c_int, c_void};
        use $crate::programs::{self, Spawn, Strings};

        /// # Safety
        /// As for `execve`.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, variables: Strings) -> c_int {
            // SAFETY: the program's own arguments.
            unsafe { programs::execve::<$ours>(path, arguments, variables) }
        }

        /// # Safety
        /// As for `execvpe`.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn execvpe(file: *const c_char, arguments: Strings, variables: Strings) -> c_int {
            // SAFETY: the program's own arguments.
            unsafe { programs::execvpe::<$ours>(file, arguments, variables) }
        }

        /// # Safety
        /// As for `fexecve`.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, variables: Strings) -> c_int {
            // SAFETY: the program's own arguments.
            unsafe { programs::fexecve::<$ours>(fd, arguments, variables) }
        }

        $crate::program_hooks!(@array $ours; execv = execl, execvp = execlp);

        unsafe extern "C" fn execle_in_a_row(path: *const c_char, arguments: Strings) -> c_int {
            // SAFETY: the program's own arguments.
            unsafe { programs::execle::<$ours>(path, arguments) }
        }

        $crate::program_hooks!(@row execle, execle_in_a_row);

        $crate::program_hooks!(@spawn $ours; posix_spawn = c"posix_spawn" false, posix_spawnp = c"posix_spawnp" true);

        /// # Safety
        /// As for `system`, which is a cancellation point.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
            type Call = unsafe extern "C-unwind" fn(*const c_char) -> c_int;
            let Some(next) = $crate::next!(c"system": Call) else { return -1 };
            // SAFETY: the program's own call.
            unsafe { programs::shell::<$ours, _>(command, |command| next(command)) }
        }

        /// # Safety
        /// As for `popen`.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void {
            type Call = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut c_void;
            let Some(next) = $crate::next!(c"popen": Call) else { return core::ptr::null_mut() };
            // SAFETY: the program's own call.
            unsafe { programs::shell::<$ours, _>(command, |command| next(command, mode)) }
        }
    };
    (@array $ours:ty; $($array:ident = $list:ident),*) => {$(
        /// # Safety
        /// As for the C library's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $array(path: *const c_char, arguments: Strings) -> c_int {
            // SAFETY: the program's own arguments.
            unsafe { programs::$array::<$ours>(path, arguments) }
        }

        $crate::program_hooks!(@row $list, $array);
    )*};
    // A function of any number of arguments, the first two in rdi and rsi: with those in registers
    // pushed where the return address was, all of them lie in a row before `$array` is called.
    (@row $list:ident, $array:ident) => {
        /// # Safety
        /// As for the C library's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $list() -> c_int {
            core::arch::naked_asm!(
                "pop r10",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                // Seven words below what is a multiple of 16 plus 8: aligned for the call.
                "push r10",
                "call {array}",
                "pop r10",
                "add rsp, 40",
                "push r10",
                "ret",
                array = sym $array,
            )
        }
    };
    (@spawn $ours:ty; $($hook:ident = $name:literal $search:literal),*) => {$(
        /// # Safety
        /// As for `posix_spawn`.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $hook(
            pid: *mut libc::pid_t,
            path: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            arguments: Strings,
            variables: Strings,
        ) -> c_int {
            let Some(next) = $crate::next!($name: Spawn) else { return libc::ENOSYS };
            // SAFETY: the program's own call, with our traces put back where it is to get them.
            unsafe {
                programs::spawn::<$ours>(path, $search, variables, |variables| {
                    next(pid, path, actions, attributes, arguments, variables)
                })
            }
        }
    )*};
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    std::thread_local! {
        static CALLED: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    fn text(string: *const c_char) -> String {
        // SAFETY: what the tests pass.
        unsafe { core::ffi::CStr::from_ptr(string) }.to_str().unwrap().into()
    }

    /// Notes what it is called with.
    unsafe extern "C" fn array(path: *const c_char, arguments: Strings) -> c_int {
        let mut all = std::vec![text(path)];
        // SAFETY: null-terminated.
        let rest = (0..).map(|k| unsafe { *arguments.add(k) });
        all.extend(rest.take_while(|argument| !argument.is_null()).map(text));
        let bytes = all.iter().map(String::len).sum::<usize>();
        CALLED.set(all);
        bytes as c_int
    }

    crate::program_hooks!(@row list, array);

    #[test]
    fn any_number_of_arguments_lies_in_a_row() {
        type List = unsafe extern "C" fn(*const c_char, *const c_char, ...) -> c_int;
        // SAFETY: it takes its arguments as a function of the C library of any number of them.
        let list = unsafe { core::mem::transmute::<unsafe extern "C" fn() -> c_int, List>(list) };
        let null = core::ptr::null::<c_char>();
        let [a, b, c, d] = [c"a", c"bb", c"", c"dddd"].map(core::ffi::CStr::as_ptr);
        let path = c"/path".as_ptr();
        let called = || CALLED.take().join(",");
        // SAFETY: strings, and a null at the end.
        unsafe {
            assert_eq!((list(path, null), called()), (5, "/path".into()));
            assert_eq!((list(path, a, null), called()), (6, "/path,a".into()));
            assert_eq!((list(path, a, b, c, null), called()), (8, "/path,a,bb,".into()));
            // The last one in a register; the first ones on the stack.
            assert_eq!((list(path, a, b, c, d, null), called()), (12, "/path,a,bb,,dddd".into()));
            assert_eq!(
                (list(path, a, b, c, d, a, null), called()),
                (13, "/path,a,bb,,dddd,a".into())
            );
            let ten = list(path, d, c, b, a, d, c, b, a, d, c, null);
            assert_eq!((ten, called()), (23, "/path,dddd,,bb,a,dddd,,bb,a,dddd,".into()));
        }
    }
}
