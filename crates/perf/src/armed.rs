//! What a debug register costs: code that comes to it, and code that never does.
//!
//! Problem: on some processors a store across the border of two lines takes several times as long
//! while any debug register of the thread is armed, wherever that points and however long it is.
//! Vectors of programs are seldom aligned, so that every second or fourth store of such a program
//! is one. Approach: such stores, and nothing else, in turns with and without a register that
//! watches a place of our own; the least time of each. Code that comes to it takes a trap each
//! time, which is measured by coming there.

use crate::sys;
use crate::visits::{Visit, Visits};
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Stores of a turn: some tens of microseconds.
const STORES: u64 = 40_000;
/// Turns of each kind. The least counts: others only ever add time.
const TURNS: usize = 7;
/// From this many times as long on, it matters to programs.
const SLOW: f64 = 1.5;
/// Traps of a turn.
const TRAPS: u64 = 20;

/// What was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Armed {
    /// What stores across two lines take while a debug register is armed, over what they take else;
    /// at least 1.
    pub stores: f64,
    /// What a visit costs the thread that is visited each time that it comes, nanoseconds.
    pub trap_ns: f64,
}

impl Armed {
    /// Whether programs with many such stores take noticeably longer.
    pub fn is_slow(self) -> bool {
        self.stores >= SLOW
    }
}

/// Measures it on the calling thread, with a watchpoint that is open but not enabled. Takes some
/// milliseconds. `None`: it cannot be armed.
pub(crate) fn measure(watchpoint: &OwnedFd) -> Option<Armed> {
    let mut memory = Lines([0; 128]);
    let (mut free, mut armed) = (u64::MAX, u64::MAX);
    for _ in 0..TURNS {
        free = free.min(timed(&mut memory));
        sys::enable(watchpoint).ok()?;
        armed = armed.min(timed(&mut memory));
        sys::disable(watchpoint).ok()?;
    }
    let stores = (armed as f64 / free.max(1) as f64).max(1.0);
    Some(Armed { stores, trap_ns: trap_ns()? })
}

/// CPU time of a trap, nanoseconds.
fn trap_ns() -> Option<f64> {
    static PLACE: AtomicU8 = AtomicU8::new(0);
    // SAFETY: it has no preconditions.
    let tid = unsafe { libc::gettid() } as u32;
    let turn = || {
        let visits = Visits::look(tid, PLACE.as_ptr() as u64, Visit::Write, TRAPS as usize).ok()?;
        let start = sys::thread_cpu_ns();
        (0..TRAPS).for_each(|value| PLACE.store(value as u8, Relaxed));
        let spent = sys::thread_cpu_ns().saturating_sub(start);
        drop(visits);
        Some(spent as f64 / TRAPS as f64)
    };
    let least = (0..TURNS).filter_map(|_| turn()).min_by(f64::total_cmp);
    least.filter(|&ns| ns > 0.0)
}

/// Two lines of memory.
#[repr(align(64))]
struct Lines([u8; 128]);

/// CPU time of [`STORES`] stores across the border of two lines, nanoseconds.
fn timed(memory: &mut Lines) -> u64 {
    let border = memory.0[60..68].as_mut_ptr().cast::<u64>();
    let start = sys::thread_cpu_ns();
    for value in 0..STORES {
        // SAFETY: eight bytes of our own; every address will do.
        unsafe { black_box(border).write_unaligned(value) };
    }
    black_box(&mut *memory);
    sys::thread_cpu_ns().saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_as_long_as_without_is_not_slow() {
        let slow = [1.0, 1.2, 7.7].map(|stores| Armed { stores, trap_ns: 1.0 }.is_slow());
        assert_eq!(slow, [false, false, true]);
    }
}
