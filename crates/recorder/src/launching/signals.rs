//! Signals that would end us go to the program, so that what it did can be kept.
//!
//! Some ask for an end: those of a terminal, and SIGTERM. Once a program has been started they
//! never end us any more: what was recorded still has to be read and saved, and one Ctrl-C often
//! arrives twice (from the terminal and from a parent). A user who insists is obeyed all the same,
//! see [`PATIENCE`].
//!
//! All others that would end us are the program's business: batch systems and users send SIGUSR1,
//! SIGALRM and so on to the process that they have started, which is us. Where a sender signals a
//! whole process group, the program gets such a signal twice; that cannot be detected.
//!
//! The handlers only store numbers and make calls that are async-signal-safe. There is one awaited
//! program per process at a time.

use crate::early;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

/// Signals that ask for an end.
const ASKING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Others that end a process; those from SIGRTMIN on do, too.
const OTHERS: [i32; 10] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];
/// And those that a fault of our own raises, too.
const FAULTS: [i32; 7] = [
    libc::SIGABRT,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];
/// A program that is asked this often and still runs is killed; without one, it is us.
pub const PATIENCE: i32 = 3;

/// The program; 0 when there is none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The last signal that asked for an end; 0 when none has.
static LAST: AtomicI32 = AtomicI32::new(0);
/// How many came.
static COUNT: AtomicI32 = AtomicI32::new(0);
/// Bit k - 1: the program got signal k, which does not ask, by way of us.
static PASSED: AtomicU64 = AtomicU64::new(0);
/// What was done about [`FAULTS`] before.
static BEFORE: OnceLock<Vec<(i32, libc::sigaction)>> = OnceLock::new();

/// Runs `action`, which makes system calls, in a handler.
fn keeping_errno(action: impl FnOnce()) {
    // SAFETY: valid in every thread.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        action();
        *errno = saved;
    }
}

extern "C" fn on_asking(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to SA_SIGINFO handlers.
    let code = unsafe { (*info).si_code };
    LAST.store(signal, Ordering::SeqCst);
    let count = COUNT.fetch_add(1, Ordering::SeqCst) + 1;
    let child = CHILD.load(Ordering::SeqCst);
    // SAFETY: the calls have no preconditions.
    keeping_errno(|| unsafe {
        match (child > 0, count >= PATIENCE) {
            (true, true) => _ = libc::kill(child, libc::SIGKILL),
            // Sent by a process. What a terminal sends (SI_KERNEL) reaches the program's whole
            // process group, in which the program is, by itself; but a terminal that is closed
            // tells the session's leader only.
            (true, false) if code <= 0 || signal == libc::SIGHUP && leads_session() => {
                _ = libc::kill(child, signal);
            }
            (true, false) => {}
            // Takes effect when this handler returns.
            (false, true) => {
                libc::signal(signal, libc::SIG_DFL);
                libc::kill(libc::getpid(), signal);
            }
            (false, false) => {}
        }
    });
}

fn leads_session() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::getsid(0) == libc::getpid() }
}

extern "C" fn on_other(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    keeping_errno(|| {
        // SAFETY: the kernel passes a valid siginfo to SA_SIGINFO handlers, with a sender in what
        // processes send.
        let (code, ours) = unsafe { ((*info).si_code, (*info).si_pid() == libc::getpid()) };
        let sent = code <= 0 && !ours;
        if FAULTS.contains(&signal) && !sent {
            return as_before(signal);
        }
        // The kernel itself tells of limits that we have reached, which are not the program's, and
        // of an alarm that was set before we were executed in the place of the program.
        if !sent && signal != libc::SIGALRM {
            return;
        }
        // SAFETY: as above.
        let info = unsafe { &*info };
        match CHILD.load(Ordering::SeqCst) {
            0 => {
                early::keep(info);
                pass_on_early();
            }
            child => pass_on(child, info),
        }
    });
}

/// Async-signal-safe.
fn pass_on(child: i32, info: &libc::siginfo_t) {
    let signal = info.si_signo;
    PASSED.fetch_or(1 << (signal - 1), Ordering::SeqCst);
    // SAFETY: no preconditions; what was queued goes on with its value.
    unsafe {
        if info.si_code == libc::SI_QUEUE {
            libc::syscall(libc::SYS_rt_sigqueueinfo, child, signal, info);
        } else {
            libc::kill(child, signal);
        }
    }
}

/// Passes on what came while there was no program, if there is one now. Async-signal-safe.
fn pass_on_early() {
    let child = CHILD.load(Ordering::SeqCst);
    if child > 0 {
        early::take(|info| pass_on(child, info));
    }
}

/// A fault of our own: takes its course.
fn as_before(signal: i32) {
    let before = BEFORE.get().and_then(|list| list.iter().find(|(known, _)| *known == signal));
    let Some((_, action)) = before else { return };
    // SAFETY: valid pointers. Other faults happen again, and abort() insists by itself.
    unsafe {
        libc::sigaction(signal, action, std::ptr::null_mut());
        if matches!(signal, libc::SIGTRAP | libc::SIGSYS) {
            libc::raise(signal);
        }
    }
}

/// Starts passing signals on, once and for good, except those that are ignored (`nohup`): the
/// program inherits that, and so do we.
pub fn forward() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        BEFORE.get_or_init(|| FAULTS.map(|signal| (signal, action_of(signal))).into());
        ASKING.iter().for_each(|&signal| install(signal, on_asking));
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        let others = OTHERS.into_iter().chain(FAULTS).chain(real_time);
        others.for_each(|signal| install(signal, on_other));
    });
}

/// What is done about a signal.
fn action_of(signal: i32) -> libc::sigaction {
    // SAFETY: all-zero is a valid sigaction; the pointers are valid for the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action
    }
}

fn install(signal: i32, handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)) {
    if action_of(signal).sa_sigaction == libc::SIG_IGN {
        return;
    }
    // SAFETY: all-zero is a valid sigaction; the pointers are valid for the call.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler as *const () as usize;
        // One after the other, since there is room for few of them on the stack for overflows of
        // the other.
        libc::sigfillset(&mut new.sa_mask);
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(signal, &new, std::ptr::null_mut());
    }
}

/// From now on, signals that ask for an end end us: there is nothing to be kept any more, only
/// something to be computed.
pub fn no_longer_keep() {
    for signal in ASKING {
        if action_of(signal).sa_sigaction == on_asking as *const () as usize {
            // SAFETY: the usual action, in place of our own handler.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

/// Runs `action` with the signals that may end us waiting until it is done: for what must not be
/// left half done. All other threads must block these signals.
pub fn held<R>(action: impl FnOnce() -> R) -> R {
    // SAFETY: all-zero is a valid sigset_t and the pointers are valid for the calls.
    let before = unsafe {
        let (mut block, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        ASKING.iter().for_each(|&signal| _ = libc::sigaddset(&mut block, signal));
        libc::pthread_sigmask(libc::SIG_BLOCK, &block, &mut before);
        before
    };
    let result = action();
    // SAFETY: the mask as it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

/// Names the program, and passes on what came before it had a process id.
pub fn await_end(pid: i32) {
    PASSED.store(0, Ordering::SeqCst);
    CHILD.store(pid, Ordering::SeqCst);
    if let Some(early) = interrupted() {
        // SAFETY: no preconditions.
        unsafe { libc::kill(pid, early) };
    }
    pass_on_early();
}

/// Call this before the program is reaped: afterwards its process id may be another process's.
pub fn unwatch() {
    CHILD.store(0, Ordering::SeqCst);
}

/// The last signal that asked us to stop, if one has.
pub fn interrupted() -> Option<i32> {
    Some(LAST.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
}

/// The same for a caller that has started no program: signals meant for a program count, too.
pub fn ended_by() -> Option<i32> {
    interrupted().or_else(early::any)
}

/// Whether the program that ran last got this signal by way of us.
pub fn was_passed_on(signal: i32) -> bool {
    (1..=64).contains(&signal) && PASSED.load(Ordering::SeqCst) >> (signal - 1) & 1 != 0
}

/// `SIGSEGV` for 11, and so on.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSTKFLT => "SIGSTKFLT",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGIO => "SIGIO",
        libc::SIGPWR => "SIGPWR",
        libc::SIGSYS => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_string()
}

/// Signals are for the thread that waits for the program.
pub fn block_signals() {
    // SAFETY: all-zero is a valid sigset_t to fill, and the pointers are valid.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}
