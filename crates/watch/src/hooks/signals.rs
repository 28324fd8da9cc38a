//! Signal dispositions and masks. SIGTRAP comes to us first. A program may handle it as a
//! precaution, as Fortran's runtime does: when the first one comes that is not ours, nothing is
//! watched any more, and the program's handler gets it and all that follow. It is never blocked for
//! long, because what is blocked could come to the program by `sigwait`, or survive an `execve` and
//! end the next program.
//!
//! Handlers that run on an alternate stack block SIGTRAP meanwhile: a stack made for one signal may
//! have no room for another one.

use crate::handler::{self, TRAP_BIT};
use crate::{session, thread};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use injected::next;
use libc::{sighandler_t, sigset_t};
use wire::watch::reason;

type SigAction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type Signal = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
type Mask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

/// Sets a disposition past the hook.
///
/// # Safety
/// The action is valid.
pub unsafe fn set(signal: c_int, action: &libc::sigaction) {
    if let Some(next) = next!(c"sigaction": SigAction) {
        // SAFETY: as the caller vouches.
        unsafe { next(signal, action, core::ptr::null_mut()) };
    }
}

/// What the program has made of SIGTRAP. It is written by the program's own calls, which would not
/// know of each other's order without us either.
struct Programs(UnsafeCell<libc::sigaction>);

// SAFETY: see the type; every value ever there is a valid one.
unsafe impl Sync for Programs {}

// SAFETY: an all-zero struct is the default disposition.
static PROGRAMS: Programs = Programs(UnsafeCell::new(unsafe { core::mem::zeroed() }));

/// What the program has made of SIGTRAP.
pub fn programs() -> libc::sigaction {
    // SAFETY: see `Programs`.
    unsafe { PROGRAMS.0.get().read() }
}

/// SIGTRAP is as at the start, for the program.
pub fn reset_programs() {
    // SAFETY: see `Programs`; an all-zero struct is the default disposition.
    unsafe { PROGRAMS.0.get().write(core::mem::zeroed()) };
}

/// `sigaction` for SIGTRAP: the program gets what it wants.
fn change_trap(action: Option<&libc::sigaction>) -> libc::sigaction {
    let old = programs();
    let Some(action) = action else { return old };
    // SAFETY: see `Programs`.
    unsafe { PROGRAMS.0.get().write(*action) };
    match action.sa_sigaction {
        libc::SIG_DFL => handler::install_first(libc::SA_RESTART),
        libc::SIG_IGN => {
            session::step_back(reason::OWN_HANDLER);
            // SAFETY: the program's own action.
            unsafe { set(libc::SIGTRAP, action) };
        }
        _ if session::get().is_some() => {
            handler::install_first(action.sa_flags & libc::SA_RESTART);
        }
        _ => handler::install_before(action),
    }
    old
}

/// # Safety
/// As for `sigaction`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let Some(next) = next!(c"sigaction": SigAction) else { return -1 };
    if signal == libc::SIGTRAP && handler::is_installed() {
        // SAFETY: null, or the program's own action and buffer.
        unsafe {
            let before = change_trap(action.as_ref());
            if let Some(old) = old.as_mut() {
                *old = before;
            }
        }
        return 0;
    }
    // SAFETY: null, or the program's own action.
    let mut changed = unsafe { action.as_ref() }.copied();
    let watched = session::get().is_some();
    let on_stack = changed.as_mut().filter(|a| watched && a.sa_flags & libc::SA_ONSTACK != 0);
    match on_stack {
        // SAFETY: the program's own call with one more signal blocked.
        Some(action) => unsafe {
            libc::sigaddset(&mut action.sa_mask, libc::SIGTRAP);
            next(signal, action, old)
        },
        // SAFETY: the program's own call.
        None => unsafe { next(signal, action, old) },
    }
}

/// Hooks of the calls that are like `signal`, with the flags that each gives a handler.
macro_rules! like_signal {
    ($($hook:ident = $name:literal, $flags:expr;)*) => {$(
        /// # Safety
        /// As for `signal`.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $hook(signal: c_int, handler: sighandler_t) -> sighandler_t {
            let Some(next) = next!($name: Signal) else { return libc::SIG_ERR };
            if signal == libc::SIGTRAP && handler::is_installed() && handler != libc::SIG_ERR {
                // SAFETY: an all-zero struct is valid.
                let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
                action.sa_sigaction = handler;
                action.sa_flags = $flags;
                return change_trap(Some(&action)).sa_sigaction;
            }
            // SAFETY: the program's own call.
            unsafe { next(signal, handler) }
        }
    )*};
}

like_signal!(
    signal = c"signal", libc::SA_RESTART;
    bsd_signal = c"bsd_signal", libc::SA_RESTART;
    ssignal = c"ssignal", libc::SA_RESTART;
    sysv_signal = c"sysv_signal", libc::SA_RESETHAND | libc::SA_NODEFER;
    __sysv_signal = c"__sysv_signal", libc::SA_RESETHAND | libc::SA_NODEFER;
    sigset = c"sigset", 0;
);

/// Sets the mask without SIGTRAP, and tells the program that it is there.
///
/// # Safety
/// As for `pthread_sigmask`.
unsafe fn change_mask(next: Mask, how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    if !handler::is_installed() {
        // SAFETY: the program's own call.
        return unsafe { next(how, new, old) };
    }
    // SAFETY: null, or the program's own set.
    let mut changed = unsafe { new.as_ref() }.copied();
    let mut named = false;
    if let Some(set) = changed.as_mut().filter(|_| how != libc::SIG_UNBLOCK) {
        // SAFETY: a valid set.
        unsafe {
            named = libc::sigismember(set, libc::SIGTRAP) == 1;
            libc::sigdelset(set, libc::SIGTRAP);
        }
    }
    let passed = changed.as_ref().map_or(core::ptr::null(), |set| set as *const _);
    // SAFETY: the program's own call with one signal less.
    let result = unsafe { next(how, passed, old) };
    if result != 0 {
        return result;
    }
    thread::with(|thread| {
        let before = thread.blocks.get();
        // SAFETY: null, or the program's own buffer, filled just now.
        if let Some(old) = unsafe { old.as_mut() }.filter(|_| before) {
            // SAFETY: a valid set.
            unsafe { libc::sigaddset(old, libc::SIGTRAP) };
        }
        // SAFETY: null, or the program's own set.
        let unblocks = how == libc::SIG_UNBLOCK
            && unsafe { new.as_ref() }
                // SAFETY: a valid set.
                .is_some_and(|set| unsafe { libc::sigismember(set, libc::SIGTRAP) } == 1);
        match how {
            _ if new.is_null() => {}
            libc::SIG_SETMASK => thread.blocks.set(named),
            libc::SIG_BLOCK => thread.blocks.set(before || named),
            _ => thread.blocks.set(before && !unblocks),
        }
    });
    result
}

/// # Safety
/// As for `pthread_sigmask`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    let Some(next) = next!(c"pthread_sigmask": Mask) else { return libc::ENOSYS };
    // SAFETY: the program's own call.
    unsafe { change_mask(next, how, new, old) }
}

/// # Safety
/// As for `sigprocmask`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn sigprocmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    let Some(next) = next!(c"sigprocmask": Mask) else { return -1 };
    // SAFETY: the program's own call.
    unsafe { change_mask(next, how, new, old) }
}

/// Before another program is executed: it must not inherit a signal of ours that waits, and its
/// mask is what the program wants. Undone by [`after_failed_exec`].
pub fn before_exec() {
    if !handler::is_installed() {
        return;
    }
    handler::raw_mask(libc::SIG_BLOCK);
    let (set, now) = (TRAP_BIT, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: valid pointers; it takes what waits and does not wait itself.
    while unsafe {
        let (set, now) = (&raw const set as usize, &raw const now as usize);
        injected::raw::raw(libc::SYS_rt_sigtimedwait, set, 0, now, 8)
    } > 0
    {}
    if !thread::with(|thread| thread.blocks.get()) {
        handler::raw_mask(libc::SIG_UNBLOCK);
    }
}

/// The program is still this one.
pub fn after_failed_exec() {
    if handler::is_installed() {
        handler::raw_mask(libc::SIG_UNBLOCK);
    }
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
