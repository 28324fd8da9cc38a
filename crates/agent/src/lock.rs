//! Locks of the agent, which need no libc. Signals that arrive while one is held are deferred.
//!
//! The word of a lock is a futex with priority inheritance: 0, or the thread id of its holder. It
//! is taken and released without a system call unless another thread waits. A waiter spins for a
//! moment and then sleeps, while the kernel runs the holder with the waiter's priority. So a
//! real-time thread never spins while it keeps the holder from running, and no third thread with a
//! priority between the two can keep the holder from running either.
//!
//! Where the kernel cannot know the holder (see [`Lock::lock`]), waiters look again every now and
//! then. Neighbour: `slow/wait.h`, which has the locks of blocks.

use crate::filter;
use crate::own;
use crate::sys;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use engine::control;
use wire::session::ThreadPage;

/// A value behind a lock.
pub struct Lock<T> {
    /// [`FREE`], or the holder, with the kernel's bits.
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands out one reference at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The right to use the value.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    owner: u32,
}

const FREE: u32 = 0;
/// An owner that has no thread id: no thread has this one, and the kernel says so when a thread
/// asks for it.
const UNNAMED: u32 = 0x3fff_ffff;
/// Looks at a lock before its waiter sleeps.
const SPINS: u32 = 200;

/// Whether the calling thread's page can be asked for its thread id.
static NAMED: AtomicBool = AtomicBool::new(false);

/// Says whether threads have pages that hold their ids: not before the initial thread is attached,
/// and not in the child of a fork until it is.
pub fn name_owners(named: bool) {
    NAMED.store(named, Ordering::Relaxed);
}

/// The calling thread as the owner of a lock. A child of vfork uses its parent's page, and the id
/// there is not its own. In the child's namespace that id may even be another thread's.
fn own_name() -> u32 {
    if !NAMED.load(Ordering::Relaxed) {
        return UNNAMED;
    }
    let page = own::own_page();
    // SAFETY: the calling thread's page.
    if unsafe { own::field(page, control::LENT) } != 0 {
        return UNNAMED;
    }
    // SAFETY: as above; the field is atomic.
    unsafe { &*(page as *const ThreadPage) }.tid.load(Ordering::Relaxed)
}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        let owner = own_name();
        if !self.try_take(owner) {
            self.wait(owner);
        }
        Guard { lock: self, owner }
    }

    fn try_take(&self, owner: u32) -> bool {
        let swap = |from, to| {
            self.word.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        self.word.load(Ordering::Relaxed) == FREE && swap(FREE, owner)
    }

    /// Takes the lock once its holder has released it.
    #[cold]
    fn wait(&self, owner: u32) {
        for _ in 0..SPINS {
            core::hint::spin_loop();
            if self.try_take(owner) {
                return;
            }
        }
        while !self.sleep_until_taken(owner) && !self.try_take(owner) {
            sys::rest();
        }
    }

    /// Has the kernel take the lock for the calling thread. False if it cannot: because it does not
    /// know the calling thread or the holder by these names, or because a thread is not allowed to
    /// tell it.
    fn sleep_until_taken(&self, owner: u32) -> bool {
        const LOCK_PI: u64 = 6 | sys::FUTEX_PRIVATE;
        /// A holder that may not wake other threads stores 0: then the waiter looks again.
        const PATIENCE_NS: i64 = 1_000_000_000;
        if owner == UNNAMED || filter::forbids_futex() {
            return false;
        }
        let end = sys::wall_clock_ns() + PATIENCE_NS;
        let end = [end / 1_000_000_000, end % 1_000_000_000];
        let arguments = [&raw const self.word as u64, LOCK_PI, 0, end.as_ptr() as u64, 0, 0];
        // SAFETY: a word of our own that lives as long as any thread waits for it.
        unsafe { sys::call(sys::FUTEX, arguments) == 0 }
    }

    fn release(&self, owner: u32) {
        const UNLOCK_PI: u64 = 7 | sys::FUTEX_PRIVATE;
        if self.word.compare_exchange(owner, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
            return;
        }
        // Another thread waits. In the child of a fork no thread does, and the kernel knows nothing
        // of the lock.
        let arguments = [&raw const self.word as u64, UNLOCK_PI, 0, 0, 0, 0];
        // SAFETY: as above.
        if owner == UNNAMED || unsafe { sys::call(sys::FUTEX, arguments) } != 0 {
            self.word.store(FREE, Ordering::Release);
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.release(self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: u64 = 20_000;
    const FUTEX_WAITERS: u32 = 1 << 31;

    /// Adds to a pair of numbers in several threads, in steps that must not be mixed.
    fn add_in_threads(take: impl Fn(&Lock<[u64; 2]>) -> Guard<'_, [u64; 2]> + Sync) {
        let (lock, take) = (Lock::new([0; 2]), &take);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..TIMES {
                        let mut pair = take(&lock);
                        assert_eq!(pair[0], pair[1]);
                        pair[0] += 1;
                        core::hint::spin_loop();
                        pair[1] += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), [4 * TIMES; 2]);
        assert_eq!(lock.word.load(Ordering::Relaxed), FREE);
    }

    /// As [`Lock::lock`] for threads that the kernel knows by their names.
    fn lock_as(lock: &Lock<[u64; 2]>, owner: u32) -> Guard<'_, [u64; 2]> {
        if !lock.try_take(owner) {
            lock.wait(owner);
        }
        Guard { lock, owner }
    }

    #[test]
    fn one_thread_at_a_time_holds_a_lock() {
        add_in_threads(Lock::lock);
    }

    #[test]
    fn waiters_that_the_kernel_knows_get_the_lock_one_by_one() {
        add_in_threads(|lock| lock_as(lock, sys::tid()));
    }

    #[test]
    fn threads_with_and_without_names_share_a_lock() {
        let next = AtomicU32::new(0);
        add_in_threads(|lock| match next.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => lock.lock(),
            _ => lock_as(lock, sys::tid()),
        });
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_by_the_release() {
        let lock = Lock::new([0; 2]);
        std::thread::scope(|scope| {
            let held = lock_as(&lock, sys::tid());
            let waiter = scope.spawn(|| lock_as(&lock, sys::tid())[0]);
            // Until the kernel has noted a waiter, where it does.
            for _ in 0..10_000 {
                if lock.word.load(Ordering::Relaxed) & FUTEX_WAITERS != 0 {
                    break;
                }
                sys::rest();
            }
            let mut held = held;
            held[0] = 5;
            drop(held);
            assert_eq!(waiter.join().unwrap(), 5);
        });
        assert_eq!(lock.word.load(Ordering::Relaxed), FREE);
    }

    #[test]
    fn a_lock_that_the_kernel_does_not_know_is_free_after_its_release() {
        let lock = Lock::new([0; 2]);
        // As in the child of a fork: the word names a thread of the parent, and its waiters.
        for owner in [sys::tid(), 0x3fff_fffe, UNNAMED] {
            lock.word.store(owner | FUTEX_WAITERS, Ordering::Relaxed);
            assert!(!lock.try_take(UNNAMED));
            drop(Guard { lock: &lock, owner });
            assert_eq!(lock.word.load(Ordering::Relaxed), FREE);
        }
    }
}
