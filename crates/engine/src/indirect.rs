//! The table that translated code looks indirect branch targets up in.
//!
//! Open addressing with four probes; an entry is a pair (target, code). A key is written once and
//! never changes, so that a reader which has compared it may jump through the value whenever it
//! likes; code that becomes invalid has its value pointed at the miss stub.

use core::sync::atomic::{AtomicU64, Ordering};

/// log2 of the number of entries.
pub const BITS: u32 = 17;
/// Entries that a lookup compares.
pub const PROBES: u64 = 4;
/// Bytes of the table, probes past the last entry included.
pub const BYTES: u64 = ((1 << BITS) + PROBES) * 16;

/// The table at a fixed address that fits a 32-bit displacement.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub base: i32,
}

impl Table {
    fn slot(&self, target: u64, probe: u64) -> *mut [u64; 2] {
        let index = (target & ((1 << BITS) - 1)) + probe;
        (self.base as u64 + index * 16) as *mut [u64; 2]
    }

    /// Makes `target` lead to `code`. A full neighbourhood is left as it is: such targets take the
    /// dispatcher every time.
    ///
    /// # Safety
    /// The table must be mapped, and only one thread at a time may call this.
    pub unsafe fn insert(&self, target: u64, code: u64) {
        for probe in 0..PROBES {
            let slot = self.slot(target, probe).cast::<u64>();
            // SAFETY: within the table; readers are translated code, which reads aligned words.
            let (key, value) =
                unsafe { (AtomicU64::from_ptr(slot), AtomicU64::from_ptr(slot.add(1))) };
            match key.load(Ordering::Relaxed) {
                0 => {
                    value.store(code, Ordering::Relaxed);
                    key.store(target, Ordering::Release);
                    return;
                }
                k if k == target => {
                    value.store(code, Ordering::Release);
                    return;
                }
                _ => {}
            }
        }
    }

    /// Makes `target` lead to the miss stub if it is in the table.
    ///
    /// # Safety
    /// As [`Self::insert`].
    pub unsafe fn forget(&self, target: u64, miss: u64) {
        for probe in 0..PROBES {
            let slot = self.slot(target, probe).cast::<u64>();
            // SAFETY: as in `insert`.
            let (key, value) =
                unsafe { (AtomicU64::from_ptr(slot), AtomicU64::from_ptr(slot.add(1))) };
            if key.load(Ordering::Relaxed) == target {
                value.store(miss, Ordering::Release);
            }
        }
    }
}
