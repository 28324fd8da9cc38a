//! What a new thread needs to know before the program's start routine runs: kept in a fixed pool,
//! because there is no heap here, from its creation until it has started.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Threads that may be between creation and start at once; the next creator waits.
const PENDING: usize = 1024;

struct Cell<T> {
    used: AtomicU32,
    start: UnsafeCell<MaybeUninit<T>>,
}

/// Starts of threads, each described by a `T`.
pub struct Pool<T: Copy>([Cell<T>; PENDING]);

// SAFETY: a cell is written by the thread that has taken it, and read by the one thread that is
// given its address.
unsafe impl<T: Copy + Send> Sync for Pool<T> {}

impl<T: Copy> Pool<T> {
    /// A pool with all places free.
    pub const fn new() -> Self {
        Self(
            [const { Cell { used: AtomicU32::new(0), start: UnsafeCell::new(MaybeUninit::uninit()) } };
                PENDING],
        )
    }

    /// Stores a start; the result is the new thread's argument.
    pub fn put(&'static self, start: T) -> *mut c_void {
        let cell = loop {
            let free = self.0.iter().find(|cell| {
                cell.used.load(Relaxed) == 0
                    && cell.used.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
            });
            if let Some(cell) = free {
                break cell;
            }
            // SAFETY: no arguments. A thread that was created before will start and free its cell.
            unsafe { libc::sched_yield() };
        };
        // SAFETY: taken just now.
        unsafe { (*cell.start.get()).write(start) };
        (cell as *const Cell<T>).cast_mut().cast()
    }

    /// Takes a start out again.
    ///
    /// # Safety
    /// `argument` came from [`Pool::put`] of this pool and was not taken before.
    pub unsafe fn take(&'static self, argument: *mut c_void) -> T {
        // SAFETY: as the caller vouches, a cell of the pool that was written.
        let cell = unsafe { &*argument.cast::<Cell<T>>() };
        // SAFETY: as above.
        let start = unsafe { (*cell.start.get()).assume_init() };
        cell.used.store(0, Release);
        start
    }
}

impl<T: Copy> Default for Pool<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn each_thread_gets_what_was_put_for_it() {
        static POOL: Pool<(u64, u64)> = Pool::new();
        // SAFETY: from the pool, and not taken before.
        let take = |argument| unsafe { POOL.take(argument) };
        let arguments: Vec<_> = (0..PENDING as u64).map(|k| POOL.put((k, !k))).collect();
        assert_eq!(arguments.iter().collect::<BTreeSet<_>>().len(), PENDING);
        // All places are taken: the next one gets that of the first thread that starts.
        let (freed, address) = (arguments[700], arguments[700].addr());
        assert_eq!(take(freed), (700, !700));
        let next = POOL.put((9, 9));
        assert_eq!((next.addr(), take(next)), (address, (9, 9)));
        for (k, argument) in (0..).zip(arguments).filter(|(k, _)| *k != 700) {
            assert_eq!(take(argument), (k, !k));
        }
    }

    #[test]
    fn creators_of_threads_wait_while_no_place_is_free() {
        static POOL: Pool<(u64, u64)> = Pool::new();
        // Twice as many threads on their way as there are places.
        std::thread::scope(|scope| {
            let (send, starts) = std::sync::mpsc::channel();
            for thread in 0..4 {
                let send = send.clone();
                scope.spawn(move || {
                    (0..PENDING as u64 / 2).for_each(|k| {
                        let start = (thread << 32 | k, !k);
                        send.send((start, POOL.put(start).addr())).unwrap();
                    });
                });
            }
            drop(send);
            for (start, argument) in starts {
                // SAFETY: from the pool, and not taken before.
                let taken = unsafe { POOL.take(core::ptr::with_exposed_provenance_mut(argument)) };
                assert_eq!(taken, start);
            }
        });
    }
}
