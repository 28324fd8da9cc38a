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
