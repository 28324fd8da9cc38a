//! What a new thread needs to know before the program's start routine runs.

use core::ffi::c_void;
use injected::starts::Pool;

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

// SAFETY: what the pointers are for is the business of the new thread alone.
unsafe impl Send for Start {}

static POOL: Pool<Start> = Pool::new();

/// Stores a start; the result is the new thread's argument.
pub fn put(start: Start) -> *mut c_void {
    POOL.put(start)
}

/// Takes a start out again.
///
/// # Safety
/// `argument` came from [`put`] and was not taken before.
pub unsafe fn take(argument: *mut c_void) -> Start {
    // SAFETY: as the caller vouches.
    unsafe { POOL.take(argument) }
}
