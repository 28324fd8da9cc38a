//! Solo time: for a moment, one thread runs and the others wait, so that it is seen how long its
//! instructions take alone (`windows::SoloTime`).
//!
//! The recorder asks threads to leave light code. Those that come to the dispatcher, or return from
//! a system call, then wait here, and one of them goes on when the recorder says which. Nobody
//! waits for longer than [`LONGEST_NS`], nor twice: the recorder may have been killed. Neighbours:
//! `dispatch` and `syscalls` ask.

use crate::filter::{self, Answer};
use crate::session;
use crate::sys;
use crate::thread;
use core::sync::atomic::Ordering;

/// The recorder holds threads for a few milliseconds.
const LONGEST_NS: u64 = 20_000_000;

/// The calling thread waits while another one is to run alone.
pub fn wait() {
    let solo = &session::first().solo;
    let word = solo.load(Ordering::Acquire);
    if word % 2 == 1 {
        wait_for_others(word);
    }
}

#[cold]
fn wait_for_others(word: u32) {
    // SAFETY: the calling thread's page.
    let thread = unsafe { thread::current(thread::own_page()) };
    if thread.native.waited == word || !can_wait() {
        return;
    }
    let (first, own) = (session::first(), thread.shared().tid.load(Ordering::Relaxed));
    let until = sys::now_ns() as u64 + LONGEST_NS;
    loop {
        let word = first.solo.load(Ordering::Acquire);
        if word % 2 == 0 || first.solo_thread.load(Ordering::Relaxed) == own {
            return;
        }
        let left = until.saturating_sub(sys::now_ns() as u64);
        if left == 0 {
            thread.native.waited = word;
            return;
        }
        sys::wait_while(&first.solo, word, left);
    }
}

/// Whether the program has left us the calls that it takes.
fn can_wait() -> bool {
    let arguments = [0, sys::FUTEX_WAIT, 0, 0, 0, 0];
    [
        (sys::FUTEX, arguments),
        (sys::RESTART_SYSCALL, [0; 6]),
        (sys::CLOCK_GETTIME, [1, 0, 0, 0, 0, 0]),
    ]
    .iter()
    .all(|(number, a)| filter::answer(*number, a) == Answer::Allowed)
}
