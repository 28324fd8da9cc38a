//! Blocks that share a place in the maps of grants, because their numbers differ in high bits only.
//!
//! With blocks of 64 bytes that are addresses 256 GiB apart: rare, but a program may map what it
//! likes. All of its memory claims the pages of the maps that it needs. Where a page is claimed
//! twice, nothing is granted any more, and every access there takes the slow path, which tells all
//! blocks apart. Claims are made before the program can use the memory, so no grant is ever used
//! for another block.
//!
//! A claim stays when the memory goes.

use super::{clear_range, live_maps};
use crate::layouts::{MAP_PAGE_SHIFT as PAGE_SHIFT, MAP_PAGES as PAGES, tt_any_folded, tt_folded};
use crate::limits;
use crate::proc::program_mappings;
use crate::session;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
use engine::options::ADDRESS_BITS;

/// More of the stack than this, below its top, is not taken for granted.
const MAX_STACK: u64 = 64 << 30;

/// Upper bits, plus one, of the blocks that have claimed each page; 0 = none yet.
static CLAIMS: [AtomicU16; PAGES] = [const { AtomicU16::new(0) }; PAGES];

/// Claims what the program has so far.
pub fn start() {
    if super::START.load(Ordering::Relaxed) == 0 {
        return;
    }
    for (start, end) in program_mappings() {
        if !crate::shadow::own::is_own(start) {
            note(start, end);
        }
    }
    let top = stack_top();
    note(top.saturating_sub(limits::of_stack().min(MAX_STACK)), top);
}

/// An address near the top of the initial thread's stack, which is the caller's.
fn stack_top() -> u64 {
    let here = 0u8;
    &raw const here as u64
}

/// The program may use `start..end` from now on.
pub fn note(start: u64, end: u64) {
    if super::START.load(Ordering::Relaxed) == 0 || end <= start || end >> ADDRESS_BITS != 0 {
        return;
    }
    let shift = session::header().block_shift.load(Ordering::Relaxed) + PAGE_SHIFT;
    // What is larger than a map meets itself on each page.
    for page in (start >> shift..=(end - 1) >> shift).take(2 * PAGES) {
        claim(page);
    }
}

/// `page`: the upper bits above the page's number, which is in the low ones.
fn claim(page: u64) {
    let (number, upper) = (page as usize % PAGES, (page as usize / PAGES) as u16 + 1);
    let before = CLAIMS[number].swap(upper, Ordering::Relaxed);
    if before != 0 && before != upper {
        fold(number);
    }
}

/// Two parts of the program's memory have the page in common: nothing is granted there.
fn fold(number: usize) {
    // SAFETY: only atomic accesses, here and in C.
    unsafe {
        AtomicU8::from_ptr(&raw mut tt_folded[number / 8])
            .fetch_or(1 << (number % 8), Ordering::SeqCst);
        AtomicU32::from_ptr(&raw mut tt_any_folded).store(1, Ordering::SeqCst);
    }
    for map in live_maps() {
        let start = map + ((number as u64) << PAGE_SHIFT);
        clear_range(start, start + (1 << PAGE_SHIFT));
    }
}

#[cfg(test)]
#[path = "folding_tests.rs"]
mod tests;
