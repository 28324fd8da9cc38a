//! A lock that nobody waits for long: what it protects is worth less than the program's time.

use core::sync::atomic::{AtomicU32, Ordering::*};

/// Turns after which a waiting thread does without.
const PATIENCE: u32 = 200;

/// Held by nobody, or by one thread.
pub struct Lock(AtomicU32);

impl Lock {
    /// A free lock.
    #[allow(clippy::new_without_default, reason = "it is made for statics")]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Runs `action` alone; `None` where others hold the lock for too long.
    pub fn with<R>(&self, action: impl FnOnce() -> R) -> Option<R> {
        let mut turns = 0;
        while self.0.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            turns += 1;
            if turns > PATIENCE {
                return None;
            }
            // SAFETY: no arguments. The holder may have lost its processor.
            unsafe { injected::raw::raw(libc::SYS_sched_yield, 0, 0, 0, 0) };
        }
        let result = action();
        self.0.store(0, Release);
        Some(result)
    }

    /// Frees the lock in a forked child, where the thread that held it does not exist.
    pub fn break_open(&self) {
        self.0.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::cell::Cell;

    struct Counted(Lock, Cell<u64>);

    // SAFETY: the number is touched under the lock only.
    unsafe impl Sync for Counted {}

    #[test]
    fn one_thread_at_a_time_is_inside_and_who_waits_too_long_is_not() {
        let counted = &Counted(Lock::new(), Cell::new(0));
        let inside: u64 = std::thread::scope(|scope| {
            let count = move || {
                (0..20_000)
                    .filter(|_| counted.0.with(|| counted.1.set(counted.1.get() + 1)).is_some())
            };
            let threads = [0; 4].map(|_| scope.spawn(move || count().count() as u64));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(counted.1.get(), inside);
        let lock = Lock::new();
        assert_eq!(lock.with(|| lock.with(|| 1)), Some(None));
        assert_eq!(lock.with(|| 2), Some(2));
        lock.0.store(1, Relaxed);
        lock.break_open();
        assert_eq!(lock.with(|| 3), Some(3));
    }
}
