//! Where the parts of the shadow lie, as `slow/shadow.h` has it.

use crate::layouts::{MAX_BANKS, tt_last_sites, tt_stamps, tt_written};
use core::sync::atomic::{AtomicU64, Ordering};

/// Of each bank.
pub(super) static BASE: [AtomicU64; MAX_BANKS] = [const { AtomicU64::new(0) }; MAX_BANKS];

/// Base of a bank.
pub fn base_of(bank: usize) -> u64 {
    BASE[bank].load(Ordering::Relaxed)
}

/// Address of the bytes-written shadow; 0 = none.
pub fn written() -> u64 {
    // SAFETY: written only before any slow path runs.
    unsafe { tt_written }
}

/// Address of the last writers' code sites; 0 = none.
pub fn last_sites() -> u64 {
    // SAFETY: written only before any slow path runs.
    unsafe { tt_last_sites }
}

/// Address of the stamps of lines; 0 = none.
pub fn stamps() -> u64 {
    // SAFETY: written only before any slow path runs.
    unsafe { tt_stamps }
}
