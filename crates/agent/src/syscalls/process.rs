//! Processes: executing another program, ending, and settings of a process.

use super::Outcome;
use super::executable::{self, Verdict};
use super::seccomp;
use crate::environment::{Environment, Variables};
use crate::limits;
use crate::lone;
use crate::program;
use crate::session::{self, Child, is_recorded};
use crate::sys;
use crate::thread;
use crate::windows;
use core::sync::atomic::Ordering;
use engine::control;
use wire::session::{EXITED, failure, state};

/// A program is executed: it takes this process's recording along, or, in a child that still shares
/// its parent's memory, gets one of its own. A call that fails must leave all as it was.
pub fn execute(number: u64, a: [u64; 6]) -> Outcome {
    let recorded = is_recorded();
    let follow = session::first().follow.load(Ordering::Relaxed) != 0;
    let Some(environment) = Environment::kept().filter(|_| recorded || follow) else {
        return Outcome::Native;
    };
    let at = if number == sys::EXECVE { 2 } else { 3 };
    // What is not there the kernel refuses.
    let Some(envp) = Variables::read(a[at]) else { return Outcome::Native };
    if !seccomp::allows_start() {
        return leave(number, a, recorded, failure::FORBIDDEN);
    }
    if envp.are_taken() {
        return leave(number, a, recorded, failure::ANOTHER_RECORDING);
    }
    if recorded {
        lone::is_not_alone();
    }
    match executable::judge(number, &a) {
        Verdict::Nothing => Outcome::Native,
        Verdict::Native(reason) => leave(number, a, recorded, reason),
        Verdict::Lone => leave(number, a, recorded, failure::LONE),
        Verdict::Recordable if !is_within_reach(environment) => {
            leave(number, a, recorded, failure::UNREACHABLE)
        }
        Verdict::Recordable if recorded => stay(environment, number, a, (at, &envp)),
        Verdict::Recordable => bear(environment, number, a, (at, &envp)),
    }
}

/// Whether the program to be executed will find library and recording.
fn is_within_reach(environment: &Environment) -> bool {
    const R_OK: u64 = 4;
    let library = environment.library();
    // SAFETY: NUL-terminated.
    let readable = unsafe { sys::call(sys::ACCESS, [library.as_ptr() as u64, R_OK, 0, 0, 0, 0]) };
    readable == 0 && environment.place().is_some_and(|place| place.is_reachable())
}

/// The program's own call, of a program that will run without the agent.
fn call_bare(number: u64, a: [u64; 6]) -> i64 {
    limits::expose(true);
    let result = call(number, a);
    limits::expose(false);
    result
}

/// The program's own call, of a program that will be recorded: it needs room before it knows its
/// limits.
fn call_recorded(number: u64, a: [u64; 6]) -> i64 {
    if windows::are_used() {
        limits::before_mapping(windows::BYTES, sys::MAP_SHARED);
    }
    let result = call(number, a);
    limits::after_mapping();
    result
}

/// The program's own call.
fn call(number: u64, a: [u64; 6]) -> i64 {
    // SAFETY: as the program made it, but for the environment; it returns only when it fails.
    unsafe { sys::program_call(number, a) }
}

/// The recorded process executes a program, with these variables in argument `at`, and stays in its
/// segment.
fn stay(
    environment: &Environment,
    number: u64,
    mut a: [u64; 6],
    (at, envp): (usize, &Variables),
) -> Outcome {
    let header = session::header();
    let (segment, parent) = (session::segment(), header.parent_segment.load(Ordering::Relaxed));
    let envp = environment.with(envp, segment, parent);
    a[at] = envp.as_ptr() as u64;
    session::await_births();
    header.execs.fetch_add(1, Ordering::Relaxed);
    header.state.store(state::NOT_LOADED, Ordering::Relaxed);
    let result = call_recorded(number, a);
    header.execs.fetch_sub(1, Ordering::Relaxed);
    header.state.store(state::RUNNING, Ordering::Relaxed);
    Outcome::Done(result)
}

/// A child that shares its parent's memory executes a program, which gets a segment.
fn bear(
    environment: &Environment,
    number: u64,
    mut a: [u64; 6],
    (at, envp): (usize, &Variables),
) -> Outcome {
    let Some(segment) = session::take_segment() else { return Outcome::Native };
    let envp = environment.with(envp, segment, session::segment());
    a[at] = envp.as_ptr() as u64;
    let result = call_recorded(number, a);
    session::give_back(segment);
    Outcome::Done(result)
}

/// The program that is executed runs natively, for `reason`: the recording says so.
fn leave(number: u64, a: [u64; 6], recorded: bool, reason: u32) -> Outcome {
    let (path, words) = if number == sys::EXECVE { (a[0], a[1]) } else { (a[1], a[2]) };
    if recorded {
        let header = session::header();
        session::set_left_for(&program::string(path, executable::MAX_PATH).unwrap_or_default());
        header.left_reason.store(reason, Ordering::Relaxed);
        let result = call_bare(number, a);
        header.left_reason.store(failure::NONE, Ordering::Relaxed);
        return Outcome::Done(result);
    }
    let place = Environment::kept().and_then(Environment::place);
    let child = place.and_then(|place| Child::new(&place));
    let Some(child) = child else {
        session::first().children_out_of_reach.fetch_add(1, Ordering::Relaxed);
        let result = call_bare(number, a);
        session::first().children_out_of_reach.fetch_sub(1, Ordering::Relaxed);
        return Outcome::Done(result);
    };
    child.runs_natively(words, reason);
    let result = call_bare(number, a);
    child.forget();
    Outcome::Done(result)
}

/// The process ends.
pub fn exit_group(code: u64, page: u64) -> Outcome {
    if is_recorded() {
        let header = session::header();
        header.ended_ns.store(sys::now_ns(), Ordering::Relaxed);
        header.cpu_ns.store(sys::cpu_ns() as u64, Ordering::Relaxed);
        header.exit_status.store(EXITED | code as u32 & 0xff, Ordering::Relaxed);
        // SAFETY: the calling thread's page.
        unsafe { thread::current(page) }.end();
        lone::ended();
    }
    Outcome::Native
}

/// A thread changes its name or what it may call.
pub fn prctl(a: [u64; 6], page: u64) -> Outcome {
    const PR_SET_NAME: u64 = 15;
    const PR_SET_SECCOMP: u64 = 22;
    const PR_SET_TSC: u64 = 26;
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    const EINVAL: i64 = -22;
    match u64::from(a[0] as u32) {
        PR_SET_NAME => {
            // SAFETY: the program's own call.
            let result = unsafe { sys::program_call(sys::PRCTL, a) };
            // SAFETY: the calling thread's page.
            unsafe { thread::current(page) }.save_name();
            Outcome::Done(result)
        }
        PR_SET_SECCOMP => seccomp::prctl(a),
        PR_SET_TSC => {
            windows::forget_clock();
            Outcome::Native
        }
        // It tells calls apart by their addresses, which are others in the code cache.
        PR_SET_SYSCALL_USER_DISPATCH => Outcome::Done(EINVAL),
        _ => Outcome::Native,
    }
}

const ARCH_SHSTK_ENABLE: u64 = 0x5001;
const ARCH_SHSTK_DISABLE: u64 = 0x5002;
const ARCH_SHSTK_STATUS: u64 = 0x5005;
const ARCH_SHSTK_SHSTK: u64 = 1;

/// %gs is ours; the program's base is kept apart. A shadow stack it cannot have: no return address
/// would be on it, since the code cache calls without `call`.
pub fn arch_prctl(page: u64, a: [u64; 6]) -> Outcome {
    const ARCH_SET_GS: u64 = 0x1001;
    const ARCH_GET_GS: u64 = 0x1004;
    const EPERM: i64 = -1;
    const EOPNOTSUPP: i64 = -95;
    // TASK_SIZE_MAX, with four levels of page tables.
    const END: u64 = (1 << 47) - 4096;
    let [what, argument, ..] = a;
    match u64::from(what as u32) {
        ARCH_SET_GS if argument >= END => Outcome::Done(EPERM),
        ARCH_SET_GS => {
            // SAFETY: the calling thread's page.
            unsafe { thread::set_field(page, control::PROGRAM_GS, argument) };
            Outcome::Done(0)
        }
        ARCH_GET_GS => {
            // SAFETY: as above.
            let base = unsafe { thread::field(page, control::PROGRAM_GS) };
            Outcome::Done(program::give(argument, &[base]))
        }
        ARCH_SHSTK_ENABLE => Outcome::Done(EOPNOTSUPP),
        _ => Outcome::Native,
    }
}

/// Switches the shadow stack off that the C library may have been told to begin with; false where
/// it has locked it.
pub fn leave_shadow_stack() -> bool {
    let mut on = 0u64;
    // SAFETY: the kernel writes one word; without the stack, returns are not compared with it.
    unsafe {
        let status = [ARCH_SHSTK_STATUS, &raw mut on as u64, 0, 0, 0, 0];
        let disable = [ARCH_SHSTK_DISABLE, ARCH_SHSTK_SHSTK, 0, 0, 0, 0];
        sys::call(sys::ARCH_PRCTL, status) != 0
            || on & ARCH_SHSTK_SHSTK == 0
            || sys::call(sys::ARCH_PRCTL, disable) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::words_at_end;

    const SET: u64 = 0x1001;
    const GET: u64 = 0x1004;
    const EPERM: i64 = -1;

    fn done(outcome: Outcome) -> Option<i64> {
        match outcome {
            Outcome::Done(result) => Some(result),
            _ => None,
        }
    }

    #[test]
    fn the_program_gets_the_base_of_gs_back_that_it_has_set() {
        let page = sys::anonymous(4096).unwrap();
        let ask = |what, argument| done(arch_prctl(page, [what, argument, 0, 0, 0, 0]));
        let at = words_at_end(&[7]);
        let get = || (ask(GET, at), program::words::<1>(at));
        assert_eq!(get(), (Some(0), Some([0])));
        for base in [0x1234_5678_9abc, (1 << 47) - 4097, 0] {
            assert_eq!(ask(SET, base), Some(0));
            assert_eq!(get(), (Some(0), Some([base])));
        }
        assert_eq!(ask(SET, 5), Some(0));
        // No address of a program.
        assert_eq!([ask(SET, 1 << 47), ask(SET, !0)], [Some(EPERM); 2]);
        assert_eq!(get(), (Some(0), Some([5])));
        assert_eq!([ask(GET, at + 1), ask(GET, 8)], [Some(program::EFAULT); 2]);
    }

    #[test]
    fn what_would_break_the_code_cache_is_refused_and_the_rest_is_the_kernels() {
        const EOPNOTSUPP: i64 = -95;
        const ARCH_SET_FS: u64 = 0x1002;
        let page = sys::anonymous(4096).unwrap();
        assert_eq!(done(arch_prctl(page, [0x5001, 1, 0, 0, 0, 0])), Some(EOPNOTSUPP));
        assert_eq!(done(arch_prctl(page, [ARCH_SET_FS, 0, 0, 0, 0, 0])), None);
        const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
        const PR_GET_DUMPABLE: u64 = 3;
        const EINVAL: i64 = -22;
        let dispatch = [PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, 0, 0];
        assert_eq!(done(prctl(dispatch, page)), Some(EINVAL));
        assert_eq!(done(prctl([PR_GET_DUMPABLE, 0, 0, 0, 0, 0], page)), None);
    }
}
