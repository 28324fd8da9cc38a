//! A lock whose waiters sleep (Drepper, Futexes Are Tricky, 2011, section 5): threads of any
//! priority may hold it, and what it protects must not be lost.

use core::sync::atomic::{AtomicU32, Ordering::*};
use injected::raw::raw6;

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// Held by nobody, or by one thread.
pub struct Mutex(AtomicU32);

impl Mutex {
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Runs `action` alone.
    #[inline]
    pub fn with<R>(&self, action: impl FnOnce() -> R) -> R {
        if self.0.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            self.wait();
        }
        let result = action();
        if self.0.swap(FREE, Release) == AWAITED {
            self.futex(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
        }
        result
    }

    #[cold]
    fn wait(&self) {
        while self.0.swap(AWAITED, Acquire) != FREE {
            self.futex(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, AWAITED);
        }
    }

    fn futex(&self, operation: i32, value: u32) {
        let word = &raw const self.0 as usize;
        // SAFETY: our own word, and no time limit.
        unsafe { raw6(libc::SYS_futex, word, operation as usize, value as usize, 0, 0, 0) };
    }

    /// Frees the lock in a forked child, where the thread that held it does not exist.
    pub fn break_open(&self) {
        self.0.store(FREE, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Counted(Mutex, Cell<u64>);

    // SAFETY: the number is touched under the lock only.
    unsafe impl Sync for Counted {}

    #[test]
    fn one_thread_at_a_time_is_inside_and_none_sleeps_for_ever() {
        let counted = Counted(Mutex::new(), Cell::new(0));
        let counted = &counted;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for turn in 0..50_000 {
                        counted.0.with(|| {
                            let before = counted.1.get();
                            if turn % 1000 == 0 {
                                std::thread::yield_now();
                            }
                            counted.1.set(before + 1);
                        });
                    }
                });
            }
        });
        assert_eq!((counted.1.get(), counted.0.0.load(Relaxed)), (200_000, FREE));
    }

    #[test]
    fn a_lock_that_nobody_will_free_can_be_broken_open() {
        for state in [HELD, AWAITED] {
            let mutex = Mutex(AtomicU32::new(state));
            mutex.break_open();
            assert_eq!(mutex.with(|| 7), 7);
        }
    }
}
