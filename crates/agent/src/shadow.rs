//! The shadow memory: one word per block of the program's memory.

use crate::session;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use engine::indirect;

/// Bytes of user address space on x86-64 with four page-table levels.
const ADDRESS_SPACE: u64 = 1 << 47;

/// Where the near shadow starts: just below 2 GiB, so that its base fits a displacement and the low
/// addresses stay free for programs that are not position independent. Alternatives follow for
/// programs that have something there.
const BASES: [u64; 5] = [0x7fe0_0000, 0x7000_0000, 0x6000_0000, 0x5000_0000, 0x4000_0000];

/// Room for the indirect branch table below the shadow.
const TABLE_BYTES: u64 = 4 << 20;
const _: () = assert!(indirect::BYTES <= TABLE_BYTES);

unsafe extern "C" {
    /// In `slow.c`.
    static mut tt_shadow: u64;
    static mut tt_block_shift: u64;
}

static BASE: AtomicU64 = AtomicU64::new(0);

/// Where shadow and table lie.
pub struct Placed {
    pub base: i32,
    pub table: i32,
}

/// Maps shadow and table; `None` when there is no room.
pub fn map(block_shift: u32) -> Option<Placed> {
    let bytes = (ADDRESS_SPACE >> block_shift) * 8;
    let protection = sys::PROT_READ | sys::PROT_WRITE;
    let flags =
        sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
    for base in BASES {
        let start = base - TABLE_BYTES;
        // SAFETY: does not replace anything.
        let Some(got) = (unsafe { sys::map(start, TABLE_BYTES + bytes, protection, flags, -1, 0) })
        else {
            continue;
        };
        if got != start {
            // A kernel before 4.17 takes the address as a hint.
            // SAFETY: just mapped.
            unsafe { sys::call(sys::MUNMAP, [got, TABLE_BYTES + bytes, 0, 0, 0, 0]) };
            continue;
        }
        const MADV_DONTFORK: u64 = 10;
        const MADV_DONTDUMP: u64 = 16;
        // SAFETY: advice on our own memory; initialises what the slow paths read before any runs.
        unsafe {
            sys::call(sys::MADVISE, [start, TABLE_BYTES + bytes, MADV_DONTDUMP, 0, 0, 0]);
            sys::call(sys::MADVISE, [base, bytes, MADV_DONTFORK, 0, 0, 0]);
            tt_shadow = base;
            tt_block_shift = block_shift.into();
        }
        BASE.store(base, Ordering::Relaxed);
        return Some(Placed { base: base as i32, table: start as i32 });
    }
    None
}

/// Forgets who wrote and read program addresses `start..end`: the memory is new.
pub fn clear(start: u64, end: u64) {
    const MADV_DONTNEED: u64 = 4;
    let shift = session::header().block_shift.load(Ordering::Relaxed);
    let base = BASE.load(Ordering::Relaxed);
    if base == 0 || end <= start || end > ADDRESS_SPACE {
        return;
    }
    // Blocks that lie wholly in the range.
    let first = base + (start.next_multiple_of(1 << shift) >> shift) * 8;
    let last = base + (end >> shift) * 8;
    if last <= first {
        return;
    }
    let (whole_first, whole_last) = (first.next_multiple_of(4096), last & !4095);
    // SAFETY: within the shadow. Other threads may race, as they may on the memory itself.
    unsafe {
        if whole_first >= whole_last {
            core::ptr::write_bytes(first as *mut u8, 0, (last - first) as usize);
            return;
        }
        core::ptr::write_bytes(first as *mut u8, 0, (whole_first - first) as usize);
        core::ptr::write_bytes(whole_last as *mut u8, 0, (last - whole_last) as usize);
        sys::call(sys::MADVISE, [whole_first, whole_last - whole_first, MADV_DONTNEED, 0, 0, 0]);
    }
}

/// The program has moved `bytes` from `from` to `to`.
pub fn copy(from: u64, to: u64, bytes: u64) {
    let shift = session::header().block_shift.load(Ordering::Relaxed);
    let base = BASE.load(Ordering::Relaxed);
    if base == 0 || from.max(to).saturating_add(bytes) > ADDRESS_SPACE {
        return;
    }
    let words = |address: u64| (base + (address >> shift) * 8) as *mut u8;
    // SAFETY: within the shadow; the old and the new place do not overlap.
    unsafe {
        core::ptr::copy_nonoverlapping(words(from), words(to), (bytes >> shift) as usize * 8)
    };
}

/// Removes reader slots from the whole shadow, so that they can be given to other threads. Returns
/// how many readings were forgotten.
///
/// Only shadow pages in memory are looked at, and only those of memory that is mapped now.
pub fn forget_readers(slots: u64) -> u64 {
    let shift = session::header().block_shift.load(Ordering::Relaxed);
    let base = BASE.load(Ordering::Relaxed);
    let mut forgotten = 0;
    for (start, end) in crate::modules::program_mappings() {
        // The shadow itself and what lies beyond the address space have no shadow of their own.
        if start >= base && start < base + (ADDRESS_SPACE >> shift) * 8 || end > ADDRESS_SPACE {
            continue;
        }
        let first = base + (start >> shift) * 8 & !4095;
        let last = (base + (end >> shift) * 8).next_multiple_of(4096);
        forgotten += forget_in(first, last, slots);
    }
    forgotten
}

fn forget_in(first: u64, last: u64, slots: u64) -> u64 {
    const CHUNK: u64 = 512;
    let mut forgotten = 0;
    let mut page = first;
    while page < last {
        let pages = ((last - page) / 4096).min(CHUNK);
        let mut resident = [0u8; CHUNK as usize];
        // SAFETY: within the shadow; one byte per page.
        let ok = unsafe {
            sys::call(sys::MINCORE, [page, pages * 4096, resident.as_mut_ptr() as u64, 0, 0, 0])
                == 0
        };
        for k in 0..pages {
            if ok && resident[k as usize] & 1 == 0 {
                continue;
            }
            for word in 0..512 {
                let address = (page + k * 4096 + word * 8) as *mut u64;
                // SAFETY: within the shadow.
                let word = unsafe { AtomicU64::from_ptr(address) };
                if word.load(Ordering::Relaxed) & slots != 0 {
                    let old = word.fetch_and(!slots, Ordering::Relaxed);
                    forgotten += u64::from((old & slots).count_ones());
                }
            }
        }
        page += pages * 4096;
    }
    forgotten
}
