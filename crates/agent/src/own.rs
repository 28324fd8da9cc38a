//! The calling thread's page and record, and the fields of control blocks.
//!
//! Neighbour: [`thread`](crate::thread) makes them.

use crate::filter::Filter;
use crate::layouts::ThreadState;
use core::sync::atomic::{AtomicU64, Ordering};
use engine::control;

/// The agent's record of a thread.
#[repr(C)]
pub struct Thread {
    /// What slow paths get as a thread.
    pub state: ThreadState,
    /// Its signal mask.
    pub signal_mask: u64,
    /// Bank and slot.
    pub slot: Option<(usize, usize)>,
    /// Lowest address of its stacks.
    pub stacks: u64,
    /// Filters of system calls; the last one installed.
    pub filters: *const Filter,
    /// For native time.
    pub native: ForNative,
}

/// What a thread has for going native.
#[derive(Clone, Copy)]
pub struct ForNative {
    /// Whether the kernel turns its calls into signals; `None`: not asked yet.
    pub dispatches: Option<bool>,
    /// The thread was refused in the phase with this word, and does not ask again before the next.
    pub stays_in: u32,
    /// Until when it stays because of its calls, by the system's clock, ns; 0 = it does not.
    pub stays_until: u64,
    /// Whether signals come on a stack of ours.
    pub armed: bool,
    /// Whether the thread, if it is home for a moment only, may go again without being asked
    /// whether it can come home.
    pub may_return: bool,
    /// Calls since it was judged, and its processor time then, ns.
    pub calls: u32,
    pub judged_ns: u64,
    /// The word of the last [solo time](crate::solo) that did not end in time.
    pub waited: u32,
}

impl ForNative {
    pub const NEW: ForNative = ForNative {
        dispatches: None,
        stays_in: 0,
        stays_until: 0,
        armed: false,
        may_return: false,
        calls: 0,
        judged_ns: 0,
        waited: 0,
    };
}

/// Address of a field of a control block.
pub fn place_of(page: u64, offset: i32) -> *mut u64 {
    page.wrapping_add_signed((offset - control::PAGE).into()) as *mut u64
}

/// Reads a field of a control block.
///
/// # Safety
/// `page` must be a thread's page.
pub unsafe fn field(page: u64, offset: i32) -> u64 {
    // SAFETY: forwarded; fields are aligned words.
    unsafe { AtomicU64::from_ptr(place_of(page, offset)) }.load(Ordering::Relaxed)
}

/// Writes a field of a control block.
///
/// # Safety
/// As [`field`].
pub unsafe fn set_field(page: u64, offset: i32, value: u64) {
    // SAFETY: as above.
    unsafe { AtomicU64::from_ptr(place_of(page, offset)) }.store(value, Ordering::Relaxed);
}

/// The calling thread's page. Only for threads that are attached, and new ones, which have their
/// creator's until then.
pub fn own_page() -> u64 {
    let page: u64;
    // SAFETY: %gs points to the end of a page whose first word is its address.
    unsafe {
        core::arch::asm!("mov {}, gs:[{}]", out(reg) page, const control::SELF, options(nostack, readonly))
    };
    page
}

/// Address of the calling thread's record, as the slow paths want it. For whom [`own_page`] is for.
pub fn own_record() -> u64 {
    // SAFETY: the calling thread's page.
    unsafe { field(own_page(), control::THREAD) }
}

/// The calling thread's record.
///
/// # Safety
/// The caller is attached.
pub unsafe fn current(page: u64) -> &'static mut Thread {
    // SAFETY: set by `prepare`; records of threads live forever.
    unsafe { &mut *(field(page, control::THREAD) as *mut Thread) }
}
