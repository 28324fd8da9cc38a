//! `execve` and its kin, and the calls that start other programs: the new program is watched, too,
//! where children are followed or the launched process replaces its program.

use crate::hooks::signals;
use crate::session::{self, TRACES};
use injected::Traces;
use injected::programs::Programs;

struct Watching;

impl Programs for Watching {
    fn replaced_by() -> Option<&'static Traces> {
        session::goes_on().then_some(&TRACES)
    }

    fn started() -> Option<&'static Traces> {
        session::follows().then_some(&TRACES)
    }

    fn executing(call: impl FnOnce() -> c_int) -> c_int {
        signals::before_exec();
        let result = call();
        signals::after_failed_exec();
        result
    }

    fn starting<R>(call: impl FnOnce() -> R) -> R {
        call()
    }
}

injected::program_hooks!(Watching);
