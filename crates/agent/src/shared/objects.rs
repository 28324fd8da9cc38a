//! What shared memory is of, and the places of its extents in the shadow.

use super::{at, counters, is_used};
use crate::session;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::shared::{EXTENT_SHIFT, KEYS_OFFSET, extents};

/// What is mapped: the same in all processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Device, or one of the two below.
    device: u64,
    /// Inode, or number.
    number: u64,
    /// When the file came to be: another file may get the inode of one that was deleted.
    born: u64,
}

/// In place of a device: memory without a name, and a segment of System V.
const ANONYMOUS: u64 = !0;
const SEGMENT: u64 = !1;

/// Extents that are looked at for one that is free.
const TRIES: usize = 1024;

impl Object {
    /// Memory that nothing else will ever be.
    fn anonymous() -> Self {
        let number = counters().anonymous.fetch_add(1, Ordering::Relaxed);
        Object { device: ANONYMOUS, number, born: 0 }
    }

    /// Segment of System V.
    pub fn segment(id: u64) -> Option<Self> {
        is_used().then_some(Object { device: SEGMENT, number: id & 0xffff_ffff, born: 0 })
    }

    /// What mmap maps with these flags and this descriptor; `None` for devices, which may be
    /// anything.
    pub fn mapped(flags: u64, fd: u64) -> Option<Self> {
        if !is_used() {
            return None;
        }
        if flags & sys::MAP_ANONYMOUS != 0 {
            return Some(Self::anonymous());
        }
        let stat = sys::stat_of(fd)?;
        if stat.is_zero_device() {
            return Some(Self::anonymous());
        }
        let [device, number] = stat.identity();
        stat.is_regular().then(|| Object { device, number, born: sys::birth_of(fd) })
    }

    /// Whether only mappings of it, and no name, lead to it.
    pub fn is_anonymous(self) -> bool {
        self.device == ANONYMOUS
    }

    /// Number of the extent that holds this offset; `None` when there are too many.
    pub fn extent(self, offset: u64) -> Option<u32> {
        let words = [self.device, self.number, self.born, offset >> EXTENT_SHIFT];
        let key = words.into_iter().fold(0x7468_7265_6164, |all, word| mix(all ^ mix(word))).max(1);
        let count = extents(session::first().block_shift.load(Ordering::Relaxed));
        for k in 0..TRIES.min(count) {
            let place = (key as usize).wrapping_add(k) % count;
            // SAFETY: within the shadow's table.
            let entry = unsafe { AtomicU64::from_ptr((at(KEYS_OFFSET) as *mut u64).add(place)) };
            let found = match entry.load(Ordering::Relaxed) {
                0 => entry.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed),
                found => Err(found),
            };
            if found == Ok(0) || found == Err(key) {
                return Some(place as u32);
            }
        }
        counters().extents_refused.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014: each bit of
/// the result depends on each bit of the word.
fn mix(word: u64) -> u64 {
    let mut x = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
