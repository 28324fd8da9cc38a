//! `execve` and its kin, and the calls that start other programs: the plan goes with the launched
//! process when it replaces its program; no other program gets anything of ours.

use crate::reading;
use crate::session::{self, TRACES, without_rest};
use injected::Traces;
use injected::programs::Programs;

struct Launched;

impl Programs for Launched {
    fn replaced_by() -> Option<&'static Traces> {
        let ours = |session: &session::Session| {
            session.header.pid.load(core::sync::atomic::Ordering::Relaxed) == injected::raw::pid()
        };
        session::get().filter(ours).map(|_| &TRACES)
    }

    fn started() -> Option<&'static Traces> {
        None
    }

    fn executing(call: impl FnOnce() -> c_int) -> c_int {
        without_rest(call)
    }

    fn starting<R>(call: impl FnOnce() -> R) -> R {
        without_rest(call)
    }
}

injected::program_hooks!(Launched);

type End = unsafe extern "C" fn(c_int) -> !;

/// # Safety
/// As for `_exit`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    finish();
    if let Some(next) = injected::next!(c"_exit": End) {
        // SAFETY: the program's own call.
        unsafe { next(status) }
    }
    loop {
        // SAFETY: no memory is concerned.
        unsafe { injected::raw::raw(libc::SYS_exit_group, status as usize, 0, 0, 0) };
    }
}

/// # Safety
/// As for `_Exit`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case, reason = "C's name")]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the program's own call.
    unsafe { _exit(status) }
}

/// Not in a child of vfork, whose memory is its parent's.
fn finish() {
    if Launched::replaced_by().is_some() {
        reading::finish();
    }
}
