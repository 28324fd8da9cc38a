//! Signals that come before there is a program to pass them on to: kept as they came, until there
//! is one.
//!
//! Neighbour: `signals`, whose handlers put them here. All of it may be done in handlers, and by
//! several threads at once.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Most that are kept; more are lost.
const MAX: usize = 64;

const FREE: u32 = 0;
const CHANGING: u32 = 1;
const KEPT: u32 = 2;

struct Slot {
    state: AtomicU32,
    info: UnsafeCell<MaybeUninit<libc::siginfo_t>>,
}

// SAFETY: what a slot holds is touched only by who has made it `CHANGING`.
unsafe impl Sync for Slot {}

/// In the order in which they came, but for signals that come at the same time.
static SLOTS: [Slot; MAX] =
    [const { Slot { state: AtomicU32::new(FREE), info: UnsafeCell::new(MaybeUninit::uninit()) } };
        MAX];

/// Takes hold of the first slot that is in `state`.
fn hold(state: u32) -> Option<&'static Slot> {
    SLOTS.iter().find(|slot| slot.state.compare_exchange(state, CHANGING, SeqCst, Relaxed).is_ok())
}

/// Keeps a signal.
pub fn keep(info: &libc::siginfo_t) {
    if let Some(slot) = hold(FREE) {
        // SAFETY: ours alone now.
        unsafe { (*slot.info.get()).write(*info) };
        slot.state.store(KEPT, SeqCst);
    }
}

/// Hands all that are kept to `pass_on`, which forgets them.
pub fn take(mut pass_on: impl FnMut(&libc::siginfo_t)) {
    while let Some(slot) = hold(KEPT) {
        // SAFETY: ours alone now, and written before it was `KEPT`.
        pass_on(unsafe { (*slot.info.get()).assume_init_ref() });
        slot.state.store(FREE, Release);
    }
}

/// The first one that is kept.
pub fn any() -> Option<i32> {
    let slot = SLOTS.iter().find(|slot| slot.state.load(Acquire) == KEPT)?;
    // SAFETY: written before it was `KEPT`; only `take` frees it, where there is a program.
    Some(unsafe { (*slot.info.get()).assume_init_ref() }.si_signo)
}
