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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn neighbours_share_four_places_and_the_fifth_is_left_out() {
        // `slot` adds to a base of 0: look at the slots' addresses only.
        let t = Table { base: 0 };
        let same = |k: u64| (k << BITS) | 7;
        assert!((0..5).all(|k| t.slot(same(k), 0) == t.slot(same(0), 0)));
        assert_eq!(t.slot(same(0), 3) as u64 - t.slot(same(0), 0) as u64, 48);
    }

    #[test]
    fn keys_stay_and_values_change() {
        // The table's address must fit 31 bits, so this one lies in low memory.
        const MAP_32BIT: i32 = 0x40;
        // SAFETY: a fresh mapping.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                BYTES as usize,
                3,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | MAP_32BIT,
                -1,
                0,
            )
        } as u64;
        let t = Table { base: i32::try_from(base).unwrap() };
        let read = |target| {
            // SAFETY: within the mapping.
            (0..PROBES)
                .map(|p| unsafe { *t.slot(target, p) })
                .find(|e| e[0] == target)
                .map(|e| e[1])
        };
        let same: vec::Vec<u64> = (0..5).map(|k| (k << BITS) | 7).collect();
        // SAFETY: mapped, one thread.
        unsafe {
            same.iter().for_each(|k| t.insert(*k, *k + 1));
            assert_eq!(read(same[3]), Some(same[3] + 1));
            assert_eq!(read(same[4]), None, "no room");
            t.insert(same[1], 50);
            t.forget(same[2], 60);
        }
        assert_eq!((read(same[1]), read(same[2])), (Some(50), Some(60)));
    }
}
