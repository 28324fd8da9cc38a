//! Signal masks and handlers that the program sees while SIGTRAP is ours.

use super::*;
use core::ffi::c_void;
use core::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Dispositions are the process's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a test in a thread of its own, whose mask is nobody else's, with our handler installed.
fn with_ours(test: fn()) {
    let _guard = ONE_AT_A_TIME.lock();
    if !handler::is_installed() {
        assert_eq!(handler::install(), Ok(()));
    }
    std::thread::spawn(test).join().unwrap();
}

fn set_of(signals: &[c_int]) -> sigset_t {
    // SAFETY: a set of nothing, then valid signals.
    unsafe {
        let mut set = core::mem::zeroed();
        libc::sigemptyset(&mut set);
        signals.iter().for_each(|signal| _ = libc::sigaddset(&mut set, *signal));
        set
    }
}

fn has(set: &sigset_t, signal: c_int) -> bool {
    // SAFETY: a valid set.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// A program's call; whether it was told before that SIGTRAP and SIGUSR1 are blocked.
fn mask(how: c_int, signals: Option<&[c_int]>) -> (bool, bool) {
    let (new, mut old) = (signals.map(set_of), set_of(&[]));
    let given = new.as_ref().map_or(core::ptr::null(), |set| set as *const _);
    // SAFETY: valid sets.
    assert_eq!(unsafe { pthread_sigmask(how, given, &mut old) }, 0);
    (has(&old, libc::SIGTRAP), has(&old, libc::SIGUSR1))
}

/// The kernel's mask.
fn really_blocked() -> u64 {
    let mut mask = 0_u64;
    // SAFETY: a set of the kernel's size.
    unsafe {
        let into = &raw mut mask as usize;
        injected::raw::raw(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK as usize, 0, into, 8);
    }
    mask
}

const USR1_BIT: u64 = 1 << (libc::SIGUSR1 - 1);

#[test]
fn the_program_sees_the_mask_that_it_has_set_and_the_kernel_one_without_sigtrap() {
    with_ours(|| {
        const TRAP: &[c_int] = &[libc::SIGTRAP];
        const BOTH: &[c_int] = &[libc::SIGTRAP, libc::SIGUSR1];
        const USR1: &[c_int] = &[libc::SIGUSR1];
        let shown = || mask(libc::SIG_BLOCK, None);
        assert_eq!(mask(libc::SIG_BLOCK, Some(BOTH)), (false, false));
        assert_eq!(shown(), (true, true));
        assert_eq!(really_blocked() & (TRAP_BIT | USR1_BIT), USR1_BIT);
        assert_eq!(mask(libc::SIG_UNBLOCK, Some(USR1)), (true, true));
        assert_eq!(mask(libc::SIG_BLOCK, Some(USR1)), (true, false));
        assert_eq!(mask(libc::SIG_UNBLOCK, Some(TRAP)), (true, true));
        assert_eq!(mask(libc::SIG_SETMASK, Some(TRAP)), (false, true));
        assert_eq!((shown(), really_blocked() & TRAP_BIT), ((true, false), 0));
        assert_eq!(mask(libc::SIG_SETMASK, Some(USR1)), (true, false));
        assert_eq!(shown(), (false, true));
        // How does not matter where nothing is set; a call that fails changes nothing.
        assert_eq!(mask(99, None), (false, true));
        let both = set_of(BOTH);
        // SAFETY: a valid set.
        assert_eq!(unsafe { pthread_sigmask(99, &both, null_mut()) }, libc::EINVAL);
        assert_eq!(shown(), (false, true));
    });
}

#[test]
fn what_waits_and_a_mask_of_ours_do_not_get_to_the_next_program() {
    with_ours(|| {
        let waits = || {
            let mut waits = 0_u64;
            // SAFETY: a set of the kernel's size.
            unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut waits, 8) };
            waits & TRAP_BIT != 0
        };
        handler::raw_mask(libc::SIG_BLOCK);
        // SAFETY: to this thread, where it is blocked.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTRAP) };
        assert!(waits());
        before_exec();
        assert!(!waits() && really_blocked() & TRAP_BIT == 0);
        mask(libc::SIG_BLOCK, Some(&[libc::SIGTRAP]));
        before_exec();
        assert_ne!(really_blocked() & TRAP_BIT, 0);
        after_failed_exec();
        assert_eq!(really_blocked() & TRAP_BIT, 0);
    });
}

static CALLS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn programs_handler(signal: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    CALLS.fetch_add(signal as u32, Relaxed);
}

/// The program's call with a handler; the one that was there before.
fn handle(how: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: plain data, and a handler that only counts.
    unsafe {
        let (mut new, mut old): (libc::sigaction, libc::sigaction) = core::mem::zeroed();
        (new.sa_sigaction, new.sa_flags) = (how, flags);
        assert_eq!(sigaction(libc::SIGTRAP, &new, &mut old), 0);
        old.sa_sigaction
    }
}

fn trap() {
    // SAFETY: to this thread, which has a handler for it.
    unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTRAP) };
}

#[test]
fn the_program_gets_its_signals_and_is_shown_its_own_handler() {
    with_ours(|| {
        let its = programs_handler as *const () as usize;
        assert_eq!(handle(its, libc::SA_SIGINFO), libc::SIG_DFL);
        // SAFETY: plain data.
        let (mut asked, mut kernels): (libc::sigaction, libc::sigaction) =
            unsafe { core::mem::zeroed() };
        // SAFETY: asks only.
        unsafe {
            sigaction(libc::SIGTRAP, core::ptr::null(), &mut asked);
            let next = next!(c"sigaction": SigAction).unwrap();
            next(libc::SIGTRAP, core::ptr::null(), &mut kernels);
        }
        assert_eq!((asked.sa_sigaction, asked.sa_flags), (its, libc::SA_SIGINFO));
        assert_ne!(kernels.sa_sigaction, its);
        trap();
        trap();
        assert_eq!(CALLS.swap(0, Relaxed), 2 * libc::SIGTRAP as u32);
        // One for one signal only.
        assert_eq!(handle(its, libc::SA_SIGINFO | libc::SA_RESETHAND), its);
        trap();
        assert_eq!(CALLS.swap(0, Relaxed), libc::SIGTRAP as u32);
        assert_eq!(handle(libc::SIG_DFL, 0), libc::SIG_DFL);
        // As `signal` sets it: System V's is for one only, BSD's restarts.
        // SAFETY: a handler that only counts.
        unsafe {
            assert_eq!(sysv_signal(libc::SIGTRAP, its), libc::SIG_DFL);
            assert_eq!(programs().sa_flags, libc::SA_RESETHAND | libc::SA_NODEFER);
            assert_eq!(signal(libc::SIGTRAP, its), its);
            assert_eq!(programs().sa_flags, libc::SA_RESTART);
            assert_eq!(signal(libc::SIGTRAP, libc::SIG_DFL), its);
        }
    });
}
