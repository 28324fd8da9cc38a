//! Where threads are in the code cache, so that code in which no thread is any more can be given
//! up.
//!
//! A thread's page holds the cache address with which it last came from the dispatcher. When the
//! cache is flushed, all that leads from old code to new goes by the dispatcher
//! (`engine::generation`), so the address tells which generation the thread is in. It also holds
//! the address to which the thread is about to return from a signal, because it goes there without
//! the dispatcher. Signal frames hold addresses of the program only.
//!
//! A process that has called vfork comes back to the cache where it made the call, while its child
//! uses the same page meanwhile: that address is kept aside until the parent is seen again.
//!
//! Everything here is called with the runtime's lock held (`dispatch.rs`).

use crate::lock::Lock;
use crate::session;
use crate::sys;
use crate::thread::{field, set_field};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use engine::control::{self, ENTERED, RETURNS};
use wire::session::{ThreadPage, life};

/// A thread that will come back to the cache when its process's child has ended or executed a
/// program.
struct Lent {
    page: u64,
    pid: i64,
    address: u64,
}

static LENT: Lock<Vec<Lent>> = Lock::new(Vec::new());
/// How many there are.
static ALL_LENT: AtomicUsize = AtomicUsize::new(0);

fn own_pid() -> i64 {
    // SAFETY: no arguments.
    unsafe { sys::call(sys::GETPID, [0; 6]) }
}

/// The calling thread has come to the dispatcher, and nothing of the code that it was in is on its
/// way.
pub fn leave(page: u64) {
    // SAFETY: the calling thread's page.
    unsafe {
        set_field(page, ENTERED, 0);
        set_field(page, RETURNS, 0);
    }
    if ALL_LENT.load(Ordering::Relaxed) != 0 {
        take_back(page, own_pid());
    }
}

/// The parent is back if it is the one that calls; whatever its children lent is over then, too.
fn take_back(page: u64, pid: i64) {
    let mut lent = LENT.lock();
    let Some(from) = lent.iter().position(|l| (l.page, l.pid) == (page, pid)) else { return };
    let mut index = 0;
    lent.retain(|l| {
        index += 1;
        l.page != page || index <= from
    });
    ALL_LENT.store(lent.len(), Ordering::Relaxed);
    drop(lent);
    // SAFETY: the calling thread's page.
    unsafe { set_field(page, control::LENT, 0) };
}

/// The calling thread, which will come back to `address`, lends its page to a child. In a
/// `namespace` of its own a child may have its parent's number: then there is no way to tell when
/// the parent is back.
pub fn lend(page: u64, address: u64, namespace: bool) {
    let pid = own_pid();
    take_back(page, pid);
    let pid = if namespace { i64::MIN } else { pid };
    let mut lent = LENT.lock();
    lent.push(Lent { page, pid, address });
    ALL_LENT.store(lent.len(), Ordering::Relaxed);
    drop(lent);
    // SAFETY: the calling thread's page.
    unsafe { set_field(page, control::LENT, 1) };
}

/// In a fork's child: its only thread, with the new page `page`, goes on where it was in its
/// parent.
pub fn inherit(page: u64, entered: u64) {
    LENT.lock().clear();
    ALL_LENT.store(0, Ordering::Relaxed);
    // SAFETY: the only thread's page.
    unsafe { set_field(page, ENTERED, entered) };
}

/// All cache addresses in which threads are or to which they will come back.
pub fn entered() -> Vec<u64> {
    let threads = session::header().threads.load(Ordering::Relaxed) as usize;
    let mut all: Vec<u64> = LENT.lock().iter().map(|lent| lent.address).collect();
    for id in 0..threads {
        // SAFETY: within the session; all fields are atomic.
        let page = unsafe { &*session::page(id) };
        let address = page as *const ThreadPage as u64;
        // SAFETY: as above.
        let held = [ENTERED, RETURNS].map(|offset| unsafe { field(address, offset) });
        let state = page.life.load(Ordering::Acquire);
        if state == life::UNUSED || held == [0; 2] {
            continue;
        }
        if state == life::EXITED && is_gone(page) {
            // SAFETY: as above; its thread is not there any more.
            unsafe {
                set_field(address, ENTERED, 0);
                set_field(address, RETURNS, 0);
            }
            continue;
        }
        all.extend(held.into_iter().filter(|address| *address != 0));
    }
    all
}

/// Whether a thread that has asked to exit has done so: until then it is in the cache, before its
/// last system call. Its number may be another thread's by now.
pub fn is_gone(page: &ThreadPage) -> bool {
    let tid = page.tid.load(Ordering::Relaxed);
    let arguments = [sys::pid().into(), tid.into(), 0, 0, 0, 0];
    // SAFETY: signal 0 only asks.
    if unsafe { sys::call(sys::TGKILL, arguments) } == sys::ESRCH {
        return true;
    }
    let threads = session::header().threads.load(Ordering::Relaxed) as usize;
    (0..threads).any(|id| {
        // SAFETY: within the session; all fields are atomic.
        let other = unsafe { &*session::page(id) };
        let alive = other.life.load(Ordering::Relaxed) == life::ALIVE;
        alive && other.tid.load(Ordering::Relaxed) == tid
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard};

    /// Tests share what is lent.
    fn alone() -> MutexGuard<'static, ()> {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(|one| one.into_inner());
        inherit(new_page(), 0);
        one
    }

    fn new_page() -> u64 {
        sys::anonymous(size_of::<ThreadPage>() as u64).unwrap()
    }

    /// As a process with that number does it.
    fn lend_as(pid: i64, page: u64, address: u64) {
        LENT.lock().push(Lent { page, pid, address });
    }

    fn lent() -> Vec<u64> {
        LENT.lock().iter().map(|lent| lent.address).collect()
    }

    fn get(page: u64, offset: i32) -> u64 {
        // SAFETY: a page that this test has made.
        unsafe { field(page, offset) }
    }

    fn set(page: u64, offset: i32, value: u64) {
        // SAFETY: as above.
        unsafe { set_field(page, offset, value) }
    }

    #[test]
    fn a_page_is_lent_until_its_owner_is_seen_again() {
        let _alone = alone();
        let page = new_page();
        lend(page, 0x1000, false);
        assert_eq!((lent(), get(page, control::LENT)), (vec![0x1000], 1));
        set(page, ENTERED, 0x2000);
        set(page, RETURNS, 0x3000);
        leave(page);
        assert_eq!((lent(), get(page, control::LENT)), (vec![], 0));
        assert_eq!((get(page, ENTERED), get(page, RETURNS)), (0, 0));
        assert_eq!(ALL_LENT.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_child_that_is_seen_does_not_take_its_parents_page_back() {
        let _alone = alone();
        let page = new_page();
        lend_as(own_pid() + 1, page, 0x1000);
        lend(page, 0x2000, false);
        assert_eq!(lent(), [0x1000, 0x2000]);
        leave(page);
        assert_eq!(lent(), [0x1000]);
        leave(page);
        assert_eq!(lent(), [0x1000]);
    }

    #[test]
    fn what_children_have_lent_ends_with_their_parent() {
        let _alone = alone();
        let (page, other) = (new_page(), new_page());
        lend_as(own_pid() + 5, page, 0x1000);
        lend(page, 0x2000, false);
        lend_as(own_pid() + 1, page, 0x3000);
        lend(other, 0x4000, false);
        lend_as(own_pid() + 2, page, 0x5000);
        leave(page);
        // What an ancestor has lent, and another thread, is still lent.
        assert_eq!(lent(), [0x1000, 0x4000]);
        assert_eq!((get(page, control::LENT), get(other, control::LENT)), (0, 1));
        assert_eq!(ALL_LENT.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_owner_lends_its_page_once_at_a_time() {
        let _alone = alone();
        let page = new_page();
        lend(page, 0x1000, false);
        lend_as(own_pid() + 1, page, 0x2000);
        lend(page, 0x3000, false);
        assert_eq!((lent(), get(page, control::LENT)), (vec![0x3000], 1));
    }

    #[test]
    fn a_parent_whose_child_may_have_its_number_is_never_seen() {
        let _alone = alone();
        let page = new_page();
        lend(page, 0x1000, true);
        leave(page);
        assert_eq!((lent(), get(page, control::LENT)), (vec![0x1000], 1));
    }

    #[test]
    fn a_forks_child_has_lent_nothing_and_is_where_its_parent_was() {
        let _alone = alone();
        let (page, new) = (new_page(), new_page());
        lend(page, 0x1000, false);
        inherit(new, 0x2000);
        assert_eq!((lent(), get(new, ENTERED)), (vec![], 0x2000));
        assert_eq!(ALL_LENT.load(Ordering::Relaxed), 0);
    }
}
