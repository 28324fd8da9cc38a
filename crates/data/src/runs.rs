//! Memory of our own for large blocks: stretches of pages in a part of the address space that the
//! kernel uses for nothing by itself, so that one comparison tells our blocks from others.
//!
//! Address space is taken in *extents*; blocks are *runs* of pages in one. A run keeps its policy
//! when its block ends, and serves the next one of its layout, with the pages that are there. What
//! lies side by side under one policy is one mapping for the kernel.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use injected::policies::{self, mode};
use injected::raw::{raw, raw6, read_file};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Address space that is ours to use.
const ZONE_BYTES: usize = 4 << 40;
/// Where it may begin: above programs that are linked to fixed addresses, below those that are not
/// and below the kernel's mappings.
const FIRST_ZONE: usize = 0x1000_0000_0000;
const ZONES: usize = 8;
/// Extents are whole units, whose owners are kept.
const UNIT: usize = 2 << 20;
const UNITS: usize = ZONE_BYTES / UNIT;
/// An extent for many blocks; but no more than this number of the block that it is made for.
const MAX_EXTENT: usize = 64 << 20;
const BLOCKS_OF_EXTENT: usize = 16;
/// Runs of this many pages begin at a whole unit, so that they can have huge pages.
const HUGE: usize = UNIT / PAGE;

/// Where it begins; far from all addresses until it is known.
static ZONE: AtomicUsize = AtomicUsize::new(1 << 62);
/// Units that are mapped, as bits.
static MAPPED: [AtomicU64; UNITS / 64] = [const { AtomicU64::new(0) }; UNITS / 64];
/// Units that were tried. Under the lock of `large`.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Mappings that our ranges may have made, and how many they may make.
static MAPPINGS: AtomicU64 = AtomicU64::new(0);
static MAX_MAPPINGS: AtomicU64 = AtomicU64::new(0);

/// Part of the kernel's limit of mappings that ranges may use: the program needs some, too.
const SHARE_OF_MAPPINGS: u64 = 2;
const USUAL_MAPPINGS: u64 = 65_530;
/// Least address space that a program must be allowed: what we take could be what it lacks.
const AMPLE: u64 = 64 << 30;

/// Chooses the zone, while there is one thread.
pub fn prepare() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid pointer.
    let known = unsafe {
        let into = &raw mut limit as usize;
        raw(libc::SYS_prlimit64, 0, libc::RLIMIT_AS as usize, 0, into) == 0
    };
    if known && limit.rlim_cur < AMPLE {
        return false;
    }
    let mut text = [0_u8; 24];
    let got = read_file(c"/proc/sys/vm/max_map_count", &mut text);
    let digits = text[..got].iter().take_while(|byte| byte.is_ascii_digit());
    let most = digits.fold(0_u64, |n, digit| n.saturating_mul(10) + u64::from(digit - b'0'));
    let most = if most == 0 { USUAL_MAPPINGS } else { most };
    MAX_MAPPINGS.store(most / SHARE_OF_MAPPINGS, Relaxed);
    // The stack's address is random where addresses are.
    let chance = (&raw const limit as usize >> 12) % ZONES;
    ZONE.store(FIRST_ZONE + chance * ZONE_BYTES, Release);
    true
}

/// Whether a block is ours.
#[inline(always)]
pub fn owns(block: *mut u8) -> bool {
    let at = (block as usize).wrapping_sub(ZONE.load(Relaxed));
    at < ZONE_BYTES && MAPPED[at / UNIT / 64].load(Relaxed) >> (at / UNIT % 64) & 1 != 0
}

/// What is left of an extent.
#[derive(Clone, Copy)]
pub struct Extent {
    at: usize,
    end: usize,
}

impl Extent {
    pub const NONE: Self = Self { at: 0, end: 0 };

    /// Takes a run of `pages` pages and returns its address. Maps a new extent if this one is too
    /// small. The caller holds the lock of `large`.
    pub fn take(&mut self, pages: usize) -> Option<usize> {
        let bytes = pages.checked_mul(PAGE)?;
        let align = if pages >= HUGE { UNIT } else { PAGE };
        let start = self.at.next_multiple_of(align);
        if start + bytes <= self.end {
            self.at = start + bytes;
            return Some(start);
        }
        let wanted = bytes.saturating_mul(BLOCKS_OF_EXTENT).min(MAX_EXTENT).max(bytes);
        let whole = wanted.checked_next_multiple_of(UNIT)?;
        let start = map(whole)?;
        // The larger rest stays.
        if whole - bytes > self.end - self.at {
            (self.at, self.end) = (start + bytes, start + whole);
        }
        Some(start)
    }
}

/// Maps an extent.
fn map(bytes: usize) -> Option<usize> {
    let zone = ZONE.load(Acquire);
    let units = bytes / UNIT;
    loop {
        let first = USED.load(Relaxed);
        if first + units > UNITS {
            return None;
        }
        USED.store(first + units, Relaxed);
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let flags = (flags | libc::MAP_FIXED_NOREPLACE) as usize;
        let start = zone + first * UNIT;
        // SAFETY: a new mapping where nothing is.
        let at = unsafe { raw6(libc::SYS_mmap, start, bytes, access, flags, usize::MAX, 0) };
        if at == start as isize {
            // What is not used yet is to be no part of a run's mapping: a huge page would reach
            // from there into what gets another policy.
            policies::bind(start as u64, bytes as u64, mode::LOCAL, 0, 0).ok();
            (first..first + units).for_each(|unit| {
                MAPPED[unit / 64].fetch_or(1 << (unit % 64), Release);
            });
            return Some(start);
        }
        if at > 0 {
            // A kernel that does not know the flag takes the address for a hint.
            // SAFETY: mapped just now.
            unsafe { raw(libc::SYS_munmap, at as usize, bytes, 0, 0) };
        } else if at != -(libc::EEXIST as isize) {
            return None;
        }
    }
}

/// Takes a run out of what is not used yet: it has no policy.
pub fn begin(start: usize, bytes: usize) {
    policies::bind(start as u64, bytes as u64, mode::DEFAULT, 0, 0).ok();
}

/// Gives pages back to the kernel; they are zeroes afterwards.
pub fn give_back(start: usize, bytes: usize) -> bool {
    // SAFETY: a run of ours that no block uses.
    unsafe { raw(libc::SYS_madvise, start, bytes, libc::MADV_DONTNEED as usize, 0) == 0 }
}

/// What became of a wish.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Granted,
    Refused(u32),
    /// It would make too many mappings.
    TooMany,
}

/// Gives a part of a run a policy; `splits`: other policies lie beside it.
pub fn bind(start: usize, bytes: usize, mode: u32, nodes: u64, splits: bool) -> Wish {
    if splits && MAPPINGS.fetch_add(2, Relaxed) >= MAX_MAPPINGS.load(Relaxed) {
        MAPPINGS.fetch_sub(2, Relaxed);
        return Wish::TooMany;
    }
    debug_assert!(mode != mode::DEFAULT);
    match policies::bind(start as u64, bytes as u64, mode, nodes, 0) {
        Ok(()) => Wish::Granted,
        Err(error) if error == libc::ENOMEM as u32 => Wish::TooMany,
        Err(error) => Wish::Refused(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::attached;

    #[test]
    fn runs_lie_side_by_side_and_large_ones_begin_at_a_unit() {
        let (_, _alone) = attached();
        let mut extent = Extent::NONE;
        let sizes = [1, 3, HUGE - 1, 8, HUGE, 1, HUGE + 1, MAX_EXTENT / PAGE + 1, 20, 5000];
        let mut all: Vec<(usize, usize)> = sizes
            .map(|pages| {
                let start = extent.take(pages).unwrap();
                let align = if pages >= HUGE { UNIT } else { PAGE };
                assert!(start.is_multiple_of(align), "{pages}");
                (start, start + pages * PAGE)
            })
            .to_vec();
        assert_eq!(all[0].1, all[1].0);
        for (start, end) in &all {
            assert!(owns(*start as *mut u8) && owns((end - 1) as *mut u8));
            // SAFETY: the first and the last byte of a run of ours.
            unsafe {
                assert_eq!([(*start as *mut u8).read(), ((end - 1) as *mut u8).read()], [0; 2]);
                (*start as *mut u8).write(1);
                ((end - 1) as *mut u8).write(1);
            }
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }

    #[test]
    fn the_larger_rest_stays_when_a_new_extent_is_mapped() {
        let (_, _alone) = attached();
        let mut extent = Extent::NONE;
        // 64 MiB are mapped, of which little is left.
        assert!(extent.take(MAX_EXTENT / PAGE - 2).is_some());
        let left = (extent.at, extent.end);
        assert_eq!(left.1 - left.0, 2 * PAGE);
        // A run that takes a new one up: the two pages stay.
        assert!(extent.take(MAX_EXTENT / PAGE).is_some());
        assert_eq!((extent.at, extent.end), left);
        assert!(extent.take(3).is_some());
        assert!(extent.end - extent.at >= BLOCKS_OF_EXTENT * PAGE && extent.end != left.1);
        assert!(extent.take(usize::MAX).is_none() && extent.take(ZONE_BYTES / PAGE + 1).is_none());
    }

    #[test]
    fn memory_of_others_is_not_ours_and_ours_can_be_given_back() {
        let (_, _alone) = attached();
        let (local, heap) = (0_u8, Box::new(0_u8));
        let zone = ZONE.load(Relaxed);
        let beside = [zone - 1, zone + ZONE_BYTES - 1, zone + ZONE_BYTES, 0, usize::MAX];
        let others = [&raw const local as usize, core::ptr::from_ref(&*heap).addr()];
        assert!(!others.iter().chain(&beside).any(|at| owns(*at as *mut u8)));
        let mut extent = Extent::NONE;
        let start = extent.take(2).unwrap();
        // SAFETY: a run of ours.
        unsafe {
            (start as *mut u8).write_bytes(7, 2 * PAGE);
            assert!(give_back(start, PAGE));
            assert_eq!([(start as *mut u8).read(), ((start + PAGE) as *mut u8).read()], [0, 7]);
        }
    }
}
