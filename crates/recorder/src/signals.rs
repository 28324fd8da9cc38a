//! Signals that ask us to stop go to the program, so that it ends and we can keep what it did.
//!
//! Once a program has been started, such signals never end us any more: what was recorded still has
//! to be read and saved, and one Ctrl-C often arrives twice (from the terminal and from a parent).
//! A user who insists is obeyed all the same, see [`PATIENCE`].
//!
//! The handlers only store numbers and call `kill` and `signal`, which are async-signal-safe. There
//! is one watched program per process at a time.

use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// Signals that are passed on.
const FORWARDED: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// A program that is asked this often and still runs is killed; without one, it is us.
pub const PATIENCE: i32 = 3;

/// The program; 0 when there is none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The last signal that came; 0 when none has.
static LAST: AtomicI32 = AtomicI32::new(0);
/// How many came.
static COUNT: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to SA_SIGINFO handlers.
    let code = unsafe { (*info).si_code };
    LAST.store(signal, Ordering::SeqCst);
    let count = COUNT.fetch_add(1, Ordering::SeqCst) + 1;
    let child = CHILD.load(Ordering::SeqCst);
    // SAFETY: __errno_location is valid in every thread; the calls have no preconditions.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        match (child > 0, count >= PATIENCE) {
            (true, true) => _ = libc::kill(child, libc::SIGKILL),
            // Sent by a process. What a terminal sends (SI_KERNEL) reaches the program's whole
            // process group, in which the program is, by itself.
            (true, false) if code <= 0 => _ = libc::kill(child, signal),
            (true, false) => {}
            // Takes effect when this handler returns.
            (false, true) => {
                libc::signal(signal, libc::SIG_DFL);
                libc::kill(libc::getpid(), signal);
            }
            (false, false) => {}
        }
        *errno = saved;
    }
}

/// Starts passing signals on, once and for good, except those that are ignored (`nohup`): the
/// program inherits that, and so do we.
pub fn forward() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for signal in FORWARDED {
            // SAFETY: all-zero is a valid sigaction; the pointers are valid for the calls.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut old);
                if old.sa_sigaction == libc::SIG_IGN {
                    continue;
                }
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = on_signal as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(signal, &new, std::ptr::null_mut());
            }
        }
    });
}

/// Runs `action` with these signals waiting until it is done: for what must not be left half done. For the
/// process's only thread.
pub fn held<R>(action: impl FnOnce() -> R) -> R {
    // SAFETY: all-zero is a valid sigset_t and the pointers are valid for the calls.
    let before = unsafe {
        let (mut block, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        FORWARDED.iter().for_each(|&signal| _ = libc::sigaddset(&mut block, signal));
        libc::pthread_sigmask(libc::SIG_BLOCK, &block, &mut before);
        before
    };
    let result = action();
    // SAFETY: the mask as it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

/// Names the program, and passes on what came before it had a process id.
pub fn watch(pid: i32) {
    CHILD.store(pid, Ordering::SeqCst);
    if let Some(early) = interrupted() {
        // SAFETY: no preconditions.
        unsafe { libc::kill(pid, early) };
    }
}

/// To be called before the program is reaped: afterwards its process id may be somebody else's.
pub fn unwatch() {
    CHILD.store(0, Ordering::SeqCst);
}

/// The last signal that asked us to stop, if one has.
pub fn interrupted() -> Option<i32> {
    Some(LAST.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
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
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_string()
}
