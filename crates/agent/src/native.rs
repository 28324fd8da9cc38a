//! Native time: between windows, threads run the program's own code, and come back.
//!
//! The recorder says when threads may go (`wire::windows::native`). One that comes to the
//! dispatcher, or has made a system call that the agent handles, then goes on in the program's own
//! code. It comes back in two ways. The kernel turns each of its system calls into SIGSYS (syscall
//! user dispatch): calls that mean nothing to the agent are made at once, the others in light code,
//! as always, so that nothing is ever missed. Most calls of the first kind need no signal, as there
//! are [doors](crate::doors::calls) at them. And the recorder calls it by a signal before the next
//! window. Since no call is made natively, that signal never interrupts one.
//!
//! A thread stays in light code where this would not go unnoticed or not work: when it blocks these
//! signals, is in a handler on a stack of its own, is traced, uses %gs, or has filtered its calls.
//! Light code is also cheaper for a thread that makes many calls for which there are no doors. Such
//! a thread stays there for a while and then tries again.
//!
//! Both signals belong to the program as before: what it sets for them is kept and carried out.
//!
//! Neighbours: `stubs/native.rs` is the way there, `signals/native_time.rs` the way back; the
//! dispatcher asks whenever a thread comes to it. What threads allocate natively, `doors.rs` tells.

use crate::filter;
use crate::own::{self, field, place_of, set_field};
use crate::proc;
use crate::session::{self, is_recorded};
use crate::stubs;
use crate::stubs::native as stub;
use crate::sys;
use crate::thread;
use crate::windows;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use engine::control::{self, NATIVE, NATIVE_PC, SELECTOR};
use wire::windows::native::{AWAY, CALLED, CALLING, HOME, SIGNAL};

/// A call that comes back by SIGSYS takes this much longer, ns: measured on a guest, where a call
/// takes 340 ns.
pub const COMEBACK_NS: u64 = 4000;
/// Of a `stack_t`: there is none.
pub const SS_DISABLE: u32 = 2;
/// The kernel turns a system call into this signal.
pub const SIGSYS: u64 = 31;

/// Whether both signals' handlers are ours.
static READY: AtomicBool = AtomicBool::new(false);

/// Both signals' handlers are ours from now on.
pub fn begin() {
    READY.store(true, Ordering::Release);
}

/// Whether threads may ever go.
pub fn is_used() -> bool {
    READY.load(Ordering::Relaxed)
}

/// Whether the program's actions for the signal are kept here, and not by the kernel.
pub fn keeps(signal: u64) -> bool {
    (signal == SIGSYS || signal == SIGNAL as u64) && is_used()
}

/// Whether threads of this process may go now.
pub fn is_wanted() -> bool {
    let byte = windows::may_go_byte();
    // SAFETY: mapped for good, and changed by the recorder only.
    byte != 0
        && unsafe { AtomicU8::from_ptr(byte as *mut u8) }.load(Ordering::Relaxed) != 0
        && session::header().may_go_native.load(Ordering::Relaxed) != 0
}

/// The word that tells the recorder where the thread is.
fn word(page: u64) -> &'static AtomicU32 {
    // SAFETY: the calling thread's page, as long as it lives; aligned.
    unsafe { AtomicU32::from_ptr(place_of(page, NATIVE).cast()) }
}

/// The calling thread is back in the agent. Returns whether it was away. Waits while the recorder
/// is about to send it the signal, so that this comes before anything that it could interrupt.
pub fn come_home(page: u64) -> bool {
    /// Rests after which the recorder must have been killed.
    const PATIENCE: u32 = 10_000;
    let (word, mut rests) = (word(page), 0);
    loop {
        match word.load(Ordering::Acquire) {
            // In a door it may have said so and not done the rest.
            HOME => {
                // SAFETY: the calling thread's page.
                unsafe { set_field(page, SELECTOR, 0) };
                return false;
            }
            CALLING if rests < PATIENCE => {
                rests += 1;
                sys::rest();
            }
            seen @ (AWAY | CALLING | CALLED) => {
                let home = word.compare_exchange(seen, HOME, Ordering::AcqRel, Ordering::Relaxed);
                if home.is_ok() {
                    break;
                }
            }
            _ => return false,
        }
    }
    // SAFETY: the calling thread's page.
    unsafe { set_field(page, SELECTOR, 0) };
    expect_odd_flags(page);
    true
}

/// The program may have set flags, while nobody looked, that the slow paths do not go with.
fn expect_odd_flags(page: u64) {
    // SAFETY: the calling thread's page.
    unsafe { set_field(page, control::ODD_FLAGS, 1) };
}

/// The calling thread has come to the dispatcher, maybe because it could not go after all.
pub fn come_to_dispatcher(page: u64) {
    let was_away = word(page).load(Ordering::Relaxed) != HOME && come_home(page);
    // SAFETY: the calling thread's page.
    let own = unsafe { &mut thread::current(page).native };
    if !core::mem::take(&mut own.may_return) && !was_away {
        return;
    }
    expect_odd_flags(page);
    if core::mem::take(&mut own.armed) {
        let none = Stack { flags: SS_DISABLE.into(), ..Stack::default() };
        // SAFETY: nothing is on that stack.
        unsafe { sys::call(sys::SIGALTSTACK, [&raw const none as u64, 0, 0, 0, 0, 0]) };
    }
}

/// Where the calling thread goes on to run the program's own code at `pc`, if it may go: the
/// address of a stub.
pub fn way_to(pc: u64, page: u64) -> Option<u64> {
    if !is_wanted() || !may_go(page) {
        return None;
    }
    windows::stop_waiting(page);
    // SAFETY: the calling thread's page.
    unsafe {
        set_field(page, NATIVE_PC, pc);
        set_field(page, control::MAY_GO, windows::may_go_byte());
    }
    Some(stub::tt_go_native as *const () as u64)
}

/// What the program must not use for the thread to go.
const MUST_BE_ZERO: [i32; 5] =
    [control::DETACHED, control::LENT, control::PROGRAM_GS, control::TRAP_FLAG, control::PENDING];

/// Whether the calling thread may go; if not, not before the next native time.
fn may_go(page: u64) -> bool {
    // SAFETY: the calling thread's page.
    let thread = unsafe { thread::current(page) };
    let phase = session::first().phase.load(Ordering::Relaxed);
    if thread.native.stays_in == phase {
        return false;
    }
    // SAFETY: as above.
    let free = MUST_BE_ZERO.iter().all(|offset| unsafe { field(page, *offset) } == 0);
    let until = thread.native.stays_until;
    if until != 0 && (sys::now_ns() as u64) < until {
        return false;
    }
    thread.native.stays_until = 0;
    // A tracer would see the signals.
    let may = free && is_recorded() && !filter::any() && !proc::is_traced() && is_used();
    if may && can_come_home(thread, page) {
        thread.native.may_return = true;
        return true;
    }
    thread.native.stays_in = phase;
    false
}

/// Whether signals that bring the thread back get through to it, and have a stack to come on.
fn can_come_home(thread: &mut own::Thread, page: u64) -> bool {
    const BOTH: u64 = 1 << (SIGSYS - 1) | 1 << (SIGNAL - 1);
    let mut mask = 0u64;
    // SAFETY: the kernel writes one word.
    let asked = unsafe { sys::call(sys::RT_SIGPROCMASK, [0, 0, &raw mut mask as u64, 8, 0, 0]) };
    asked == 0 && mask & BOTH == 0 && has_stack(thread, page) && dispatches(thread, page)
}

/// The kernel's `stack_t`.
#[repr(C)]
#[derive(Default)]
struct Stack {
    start: u64,
    flags: u64,
    bytes: u64,
}

/// Whether signals find room: on the stack that the program has for them, if it is not on that one
/// now, or on one of ours. Ours the kernel forgets with each signal, so that no handler of the
/// program sees it.
fn has_stack(thread: &mut own::Thread, page: u64) -> bool {
    const SS_AUTODISARM: u64 = 1 << 31;
    let mut stack = Stack::default();
    // SAFETY: the kernel writes a stack_t.
    let asked = unsafe { sys::call(sys::SIGALTSTACK, [0, &raw mut stack as u64, 0, 0, 0, 0]) };
    // SAFETY: the calling thread's page.
    let pointer = unsafe { field(page, control::APP_RSP) };
    if asked != 0 {
        return false;
    }
    if stack.flags as u32 & SS_DISABLE == 0 {
        return pointer.wrapping_sub(stack.start) > stack.bytes;
    }
    let (start, bytes) = thread.stack_for_native();
    if pointer.wrapping_sub(start) <= bytes {
        return false;
    }
    let ours = Stack { start, flags: SS_AUTODISARM, bytes };
    // SAFETY: memory of the thread's own that nothing else uses.
    let armed = unsafe { sys::call(sys::SIGALTSTACK, [&raw const ours as u64, 0, 0, 0, 0, 0]) };
    thread.native.armed = armed == 0;
    thread.native.armed
}

/// Whether the kernel turns the thread's calls into signals, but for those of the agent itself.
fn dispatches(thread: &mut own::Thread, page: u64) -> bool {
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    const ON: u64 = 1;
    let (start, end) = stubs::image();
    let selector = place_of(page, SELECTOR) as u64;
    let arguments = [PR_SET_SYSCALL_USER_DISPATCH, ON, start, end - start, selector, 0];
    let ask = || {
        // SAFETY: the calling thread's page, where the byte stays 0 until it goes.
        unsafe {
            set_field(page, SELECTOR, 0);
            sys::call(sys::PRCTL, arguments) == 0
        }
    };
    *thread.native.dispatches.get_or_insert_with(ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of a thread that is there, which the kernel would stop at calls.
    fn page_of(state: u32) -> u64 {
        let page = sys::anonymous(4096).unwrap();
        word(page).store(state, Ordering::Relaxed);
        // SAFETY: a page that this test has made.
        unsafe { set_field(page, SELECTOR, 1) };
        page
    }

    /// Where the recorder takes the thread to be, whether calls are stopped, and whether flags may
    /// be odd.
    fn is_now(page: u64) -> (u32, u64, u64) {
        // SAFETY: as above.
        let [selector, odd] = [SELECTOR, control::ODD_FLAGS].map(|at| unsafe { field(page, at) });
        (word(page).load(Ordering::Relaxed), selector, odd)
    }

    fn wait_for(word: &AtomicBool) {
        while !word.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_was_away_is_home_and_may_call_again() {
        for state in [AWAY, CALLED] {
            let page = page_of(state);
            assert!(come_home(page));
            assert_eq!(is_now(page), (HOME, 0, 1));
            assert!(!come_home(page));
        }
    }

    #[test]
    fn a_thread_at_home_was_not_away_but_may_call() {
        let page = page_of(HOME);
        assert!(!come_home(page));
        assert_eq!(is_now(page), (HOME, 0, 0));
    }

    #[test]
    fn a_thread_that_is_being_called_waits_for_the_signal_to_be_sent() {
        let page = page_of(CALLING);
        let [there, sent] = [const { AtomicBool::new(false) }; 2];
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                there.store(true, Ordering::Relaxed);
                (come_home(page), sent.load(Ordering::Acquire))
            });
            wait_for(&there);
            (0..3).for_each(|_| sys::rest());
            sent.store(true, Ordering::Release);
            word(page).store(CALLED, Ordering::Release);
            assert_eq!(thread.join().unwrap(), (true, true));
        });
        assert_eq!(is_now(page), (HOME, 0, 1));
    }

    #[test]
    fn the_recorders_word_and_the_threads_do_not_get_lost_in_each_other() {
        let page = page_of(HOME);
        let swap = |from, to| {
            let (one, other) = (Ordering::AcqRel, Ordering::Relaxed);
            word(page).compare_exchange(from, to, one, other).is_ok()
        };
        let [there, over] = [const { AtomicBool::new(false) }; 2];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                there.store(true, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    let _ = swap(AWAY, CALLING) && swap(CALLING, CALLED);
                }
            });
            wait_for(&there);
            for _ in 0..300 {
                assert!(swap(HOME, AWAY));
                std::thread::yield_now();
                assert!(come_home(page));
                assert_eq!(word(page).load(Ordering::Relaxed), HOME);
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
