//! The shadow memory: one word per block of the program's memory.

pub mod bases;
pub mod depart;
pub mod folding;
pub mod own;
mod pages;

pub use bases::{base_of, last_sites, written};

use crate::counting;
use crate::grants;
use crate::layouts::{
    DEPARTED, LOCKED_BIT, MAX_BANKS, tt_banks, tt_block_shift, tt_last_sites, tt_reach, tt_shadow,
    tt_written,
};
use crate::limits;
use crate::session;
use crate::sys;
use crate::tracked;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use engine::indirect::{self, Tables};
use engine::options::{ADDRESS_BITS, LINE_SHIFT};
use wire::session::mode;

/// Bytes of user address space on x86-64 with four page-table levels.
const ADDRESS_SPACE: u64 = 1 << ADDRESS_BITS;
/// A block's lock, in the word of its site.
const LOCKED: u32 = 1 << LOCKED_BIT;
/// Bits of an address that tell blocks apart in the banks after the first: 2 TiB of address space
/// for a bank of 64-byte blocks, so that there is room for two dozen.
const FAR_ADDRESS_BITS: u32 = 44;
const FAR_SPACE: u64 = 1 << FAR_ADDRESS_BITS;

/// Where the tables of indirect branches, whose addresses must fit a displacement, may end: just
/// below 2 GiB, so that the low addresses stay free for programs that are not position independent.
/// Alternatives follow for programs that have something there.
const ENDS: [u64; 5] = [0x7fe0_0000, 0x7000_0000, 0x6000_0000, 0x5000_0000, 0x4000_0000];

/// There can be this many generations of code at once, and at least this many threads can stay in
/// old code.
const TABLES: usize = 64;
const TABLES_BYTES: u64 = TABLES as u64 * indirect::BYTES;

/// Programs that are not position independent start at 4 MiB: room for a few tables.
const BELOW_PROGRAMS: u64 = 1 << 20;
const FEW_TABLES: usize = 4;
const FEW_BYTES: u64 = FEW_TABLES as u64 * indirect::BYTES;
const _: () = assert!(BELOW_PROGRAMS + FEW_BYTES < 4 << 20);

unsafe extern "C" {
    /// In `slow/wait.h`.
    fn tt_release_locks();
    /// In `slow/departed.h`.
    fn tt_move_departed(thread: u64, bank: u64, from: u64, to: u64);
}

/// Banks in use, as `slow/shadow.h` has them.
static BANKS: AtomicU64 = AtomicU64::new(0);

fn block_shift() -> u32 {
    session::header().block_shift.load(Ordering::Relaxed)
}

/// Bytes of a bank that covers so much of the address space.
fn bank_bytes(space: u64) -> u64 {
    (space >> block_shift()) * 8
}

/// Maps bank 0, what belongs to all banks, and the tables of indirect branches, which it returns;
/// `None` when there is no room.
pub fn map() -> Option<Tables> {
    // SAFETY: before any slow path runs.
    unsafe { tt_block_shift = session::header().block_shift.load(Ordering::Relaxed).into() };
    map_common()?;
    // A program that fills the low 2 GiB: only a few tables must be there.
    let anywhere = |count: usize| {
        let bytes = count as u64 * indirect::BYTES;
        let mut starts = (1..0x7f00_0000 / bytes).rev().map(|k| k * bytes);
        starts.find(|start| map_at(*start, bytes)).map(|start| (start, count))
    };
    let mut starts = ENDS.map(|end| end - TABLES_BYTES).into_iter();
    let usual = starts.find(|start| map_at(*start, TABLES_BYTES)).map(|start| (start, TABLES));
    let below = || map_at(BELOW_PROGRAMS, FEW_BYTES).then_some((BELOW_PROGRAMS, FEW_TABLES));
    let (start, count) =
        usual.or_else(|| anywhere(TABLES)).or_else(|| anywhere(FEW_TABLES)).or_else(below)?;
    match sys::anonymous_away(bank_bytes(ADDRESS_SPACE)) {
        Some(base) => add_bank(base, ADDRESS_SPACE)?,
        // Small blocks need more than there is.
        None => map_bank().map(|_| ())?,
    }
    Some(Tables { base: start as i32, first: 0, count })
}

/// Maps what describes blocks and lines for all banks together, as far as the mode needs it: the
/// bytes written (or the second accessors), and the last sites.
fn map_common() -> Option<()> {
    let shift = block_shift();
    let mode = counting::mode();
    if !matches!(mode, mode::DETAIL | mode::UNDIRECTED) {
        return Some(());
    }
    let unit = if mode == mode::DETAIL { LINE_SHIFT } else { shift };
    let bytes = (ADDRESS_SPACE >> unit) * 8;
    let written = sys::anonymous_away(bytes)?;
    sys::keep_private(written, bytes);
    let site_bytes = (ADDRESS_SPACE >> shift.max(LINE_SHIFT)) * 4;
    let sites = sys::anonymous_away(site_bytes)?;
    sys::keep_private(sites, site_bytes);
    // SAFETY: before any slow path runs.
    unsafe {
        tt_written = written;
        tt_last_sites = sites;
    }
    Some(())
}

/// Maps zeroed memory exactly there; false when something is in the way.
fn map_at(start: u64, bytes: u64) -> bool {
    let protection = sys::PROT_READ | sys::PROT_WRITE;
    let flags =
        sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED_NOREPLACE;
    // SAFETY: does not replace anything.
    match unsafe { sys::map(start, bytes, protection, flags, -1, 0) } {
        Some(got) if got == start => true,
        Some(got) => {
            // A kernel before 4.17 takes the address as a hint.
            // SAFETY: just mapped.
            unsafe { sys::unmap(got, bytes, sys::MAP_PRIVATE) };
            false
        }
        None => false,
    }
}

/// Maps one more bank wherever there is room; returns its number.
pub fn map_bank() -> Option<usize> {
    let bank = BANKS.load(Ordering::Relaxed) as usize;
    if bank == MAX_BANKS {
        return None;
    }
    add_bank(sys::anonymous_away(bank_bytes(FAR_SPACE))?, FAR_SPACE)?;
    if bank <= 1 {
        folding::start();
    }
    Some(bank)
}

fn add_bank(base: u64, space: u64) -> Option<()> {
    let bank = BANKS.load(Ordering::Relaxed) as usize;
    tracked::add_bank(bank, space)?;
    sys::keep_private(base, bank_bytes(space));
    // SAFETY: slow paths see the bank once it is counted.
    unsafe {
        tt_shadow[bank] = base;
        tt_reach[bank] = space - 1;
        bases::BASE[bank].store(base, Ordering::Relaxed);
        BANKS.store(bank as u64 + 1, Ordering::Relaxed);
        AtomicU64::from_ptr(&raw mut tt_banks).store(bank as u64 + 1, Ordering::Release);
    }
    Some(())
}

/// The address space that a bank tells apart.
fn space_of(bank: usize) -> u64 {
    // SAFETY: set before the bank was counted.
    unsafe { tt_reach[bank] + 1 }
}

/// In a fork's child: empty shadow; the parent's was not copied.
pub fn renew() -> bool {
    let (base, space) = (base_of(0), space_of(0));
    limits::forked();
    depart::renew();
    BANKS.store(0, Ordering::Relaxed);
    if map_common().is_none() || !map_at(base, bank_bytes(space)) {
        return false;
    }
    add_bank(base, space).is_some() && grants::renew()
}

/// In a fork's child: threads that held locks of blocks are not here.
pub fn release_locks() {
    // SAFETY: the only thread.
    unsafe { tt_release_locks() };
}

fn banks() -> core::ops::Range<usize> {
    0..BANKS.load(Ordering::Relaxed) as usize
}

/// Addresses of the words of the whole blocks in `start..end` in a bank: a range, or several where
/// the bank folds the address space.
fn words(bank: usize, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let (base, space, shift) = (base_of(bank), space_of(bank), block_shift());
    let last = end >> shift;
    let mut block = start.next_multiple_of(1 << shift) >> shift;
    core::iter::from_fn(move || {
        let blocks = space >> shift;
        let first = block;
        block = last.min((first / blocks + 1) * blocks);
        let at = base + first % blocks * 8;
        (first < last).then(|| (at, at + (block - first) * 8))
    })
}

/// Forgets who wrote and read program addresses `start..end`: the memory is new.
pub fn clear(start: u64, end: u64) {
    if end <= start || end > ADDRESS_SPACE {
        return;
    }
    crate::pages::forget(start, end);
    counting::forget(start, end);
    for (first, last) in banks().flat_map(|bank| words(bank, start, end)) {
        clear_words(first, last);
    }
    for (first, last) in banks().flat_map(|bank| tracked::words(bank, start, end)) {
        clear_words(first, last);
    }
    grants::clear(start, end);
}

fn clear_words(first: u64, last: u64) {
    const MADV_DONTNEED: u64 = 4;
    let (whole_first, whole_last) = (first.next_multiple_of(4096), last & !4095);
    // SAFETY: within the shadow. Other threads may race, as they may on the memory itself.
    unsafe {
        if whole_first >= whole_last {
            core::ptr::write_bytes(first as *mut u8, 0, (last - first) as usize);
            return;
        }
        core::ptr::write_bytes(first as *mut u8, 0, (whole_first - first) as usize);
        core::ptr::write_bytes(whole_last as *mut u8, 0, (last - whole_last) as usize);
        let range = [whole_first, whole_last - whole_first, MADV_DONTNEED, 0, 0, 0];
        if sys::call(sys::MADVISE, range) != 0 {
            clear_written(whole_first, whole_last);
        }
    }
}

/// Where the kernel may not be asked: looks for words to clear.
fn clear_written(first: u64, last: u64) {
    for word in (first..last).step_by(8) {
        // SAFETY: within the shadow.
        let word = unsafe { AtomicU64::from_ptr(word as *mut u64) };
        if word.load(Ordering::Relaxed) != 0 {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// The program has moved `bytes` from `from` to `to`, where the shadow is empty: what is known of
/// whole blocks goes along, if they are whole blocks there, too. (Pages move, and blocks may be
/// larger.)
pub fn copy(from: u64, to: u64, bytes: u64) {
    let block = 1 << block_shift();
    if from.max(to).saturating_add(bytes) > ADDRESS_SPACE
        || counting::traced_copy(from, to, bytes)
        || (from ^ to) & (block - 1) != 0
    {
        return;
    }
    let (first, last) = (from.next_multiple_of(block), (from + bytes) & !(block - 1));
    for old in (first..last).step_by(block as usize) {
        copy_block(old, to.wrapping_add(old.wrapping_sub(from)));
    }
}

fn copy_block(old: u64, new: u64) {
    // Of tracked blocks and others, different things are known.
    let is_tracked = |address| tracked::word(0, address).is_some();
    if is_tracked(old) != is_tracked(new) {
        return;
    }
    let word = |bank: usize, address: u64| {
        let at = tracked::word(bank, address).unwrap_or_else(|| {
            base_of(bank) + ((address & (space_of(bank) - 1)) >> block_shift()) * 8
        });
        // SAFETY: within the shadow.
        unsafe { AtomicU64::from_ptr(at as *mut u64) }
    };
    let mut is_known = false;
    for bank in banks() {
        // What no thread has touched stays untouched: the shadow of large memory is larger than
        // what is in use.
        let value = word(bank, old).load(Ordering::Relaxed);
        if value != 0 {
            is_known = true;
            if value & DEPARTED != 0 && counting::mode() != mode::UNDIRECTED {
                // SAFETY: the calling thread's record, and addresses of the program's.
                unsafe { tt_move_departed(crate::own::own_record(), bank as u64, old, new) };
            }
            word(bank, new).store(value, Ordering::Relaxed);
        }
    }
    if is_known {
        copy_common(old, new);
    }
}

/// What is known of a block for all banks together.
fn copy_common(old: u64, new: u64) {
    let (shift, mode) = (block_shift(), counting::mode());
    let unit = match mode {
        mode::DETAIL => LINE_SHIFT,
        mode::UNDIRECTED => shift,
        _ => return,
    };
    let written = |address: u64| (written() + (address >> unit) * 8) as *mut u64;
    let site = |address: u64| (last_sites() + (address >> shift.max(LINE_SHIFT)) * 4) as *mut u32;
    // SAFETY: within the shadow, as long as the block, or its line, is.
    unsafe {
        for k in 0..1 << shift.saturating_sub(unit) {
            let value = AtomicU64::from_ptr(written(old).add(k)).load(Ordering::Relaxed);
            AtomicU64::from_ptr(written(new).add(k)).store(value, Ordering::Relaxed);
        }
        if mode == mode::DETAIL {
            let value = AtomicU32::from_ptr(site(old)).load(Ordering::Relaxed);
            AtomicU32::from_ptr(site(new)).store(value & !LOCKED, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "shadow_tests.rs"]
mod tests;
