//! `execve` and its kin, and the calls that start other programs: the new program is followed, too,
//! where children are, or where the launched process replaces its program.

use crate::sanitized;
use crate::session::{self, TRACES};
use injected::Traces;
use injected::programs::Programs;

struct Following;

impl Programs for Following {
    fn replaced_by() -> Option<&'static Traces> {
        session::goes_on().then_some(&TRACES)
    }

    fn started() -> Option<&'static Traces> {
        session::follows().then_some(&TRACES)
    }

    unsafe fn refuses(path: *const c_char, search: bool) -> bool {
        // SAFETY: as the caller vouches.
        unsafe { sanitized::refuses(path, search) }
    }

    fn executing(call: impl FnOnce() -> c_int) -> c_int {
        call()
    }

    fn starting<R>(call: impl FnOnce() -> R) -> R {
        call()
    }
}

injected::program_hooks!(Following);
