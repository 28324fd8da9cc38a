//! What a new thread needs to know before the program's start routine runs: kept in a fixed pool,
//! because there is no heap here, from its creation until it has started.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// Threads that may be between creation and start at once; the next creator waits.
const PENDING: usize = 1024;

/// Everything about a thread that is being created.
#[derive(Clone, Copy)]
pub struct Start {
    /// The program's start routine, of whichever kind its creator knows.
    pub routine: *mut c_void,
    pub argument: *mut c_void,
    /// Slot of the new thread, or `NONE`.
    pub slot: u32,
    /// Slot of its creator, or `NONE`.
    pub creator: u32,
    /// 1 when the program has given the new thread a mask of its own.
    pub own_mask: u32,
}

struct Cell {
    used: AtomicU32,
    routine: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
    slot: AtomicU32,
    creator: AtomicU32,
    own_mask: AtomicU32,
}

static POOL: [Cell; PENDING] = [const {
    Cell {
        used: AtomicU32::new(0),
        routine: AtomicPtr::new(core::ptr::null_mut()),
        argument: AtomicPtr::new(core::ptr::null_mut()),
        slot: AtomicU32::new(0),
        creator: AtomicU32::new(0),
        own_mask: AtomicU32::new(0),
    }
}; PENDING];

/// Stores a start; the result is the new thread's argument.
pub fn put(start: Start) -> *mut c_void {
    let cell = loop {
        let free = POOL.iter().find(|cell| {
            cell.used.load(Relaxed) == 0
                && cell.used.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        });
        if let Some(cell) = free {
            break cell;
        }
        // SAFETY: no arguments. A thread that was created before will start and free its cell.
        unsafe { libc::sched_yield() };
    };
    cell.routine.store(start.routine, Relaxed);
    cell.argument.store(start.argument, Relaxed);
    cell.slot.store(start.slot, Relaxed);
    cell.creator.store(start.creator, Relaxed);
    cell.own_mask.store(start.own_mask, Relaxed);
    (cell as *const Cell).cast_mut().cast()
}

/// Takes a start out again.
///
/// # Safety
/// `argument` came from [`put`] and was not taken before.
pub unsafe fn take(argument: *mut c_void) -> Start {
    // SAFETY: as the caller vouches, a cell of the pool.
    let cell = unsafe { &*argument.cast::<Cell>() };
    let start = Start {
        routine: cell.routine.load(Relaxed),
        argument: cell.argument.load(Relaxed),
        slot: cell.slot.load(Relaxed),
        creator: cell.creator.load(Relaxed),
        own_mask: cell.own_mask.load(Relaxed),
    };
    cell.used.store(0, Release);
    start
}
