//! Taking slots of ended threads back: their readings move from the shadow words of a bank into the
//! table of `slow/departed.h`, which a later writer of those blocks looks at.

use super::own::is_own;
use super::pages::Pages;
use super::{ADDRESS_SPACE, block_shift, words};
use crate::layouts::{Departed, tt_departed, tt_departed_most};
use crate::own;
use crate::proc::program_mappings;
use crate::sys;
use crate::sys::keep_private;
use crate::tracked;
use core::sync::atomic::{AtomicU64, Ordering};

/// Most readings of ended threads that are kept: 64 MiB of them, as they come.
const MAX: u64 = 4 << 20;
const BYTES: u64 = size_of::<Departed>() as u64;

unsafe extern "C" {
    // In `slow/departed.h`.
    fn tt_depart(thread: u64, bank: u64, address: u64, slots: u64) -> u64;
    fn tt_forget_departed();
}

/// Removes reader slots from a whole bank, so that they can be given to other threads. Returns how
/// many readings found no room.
///
/// Only shadow pages that hold anything are looked at, and only those of memory that is mapped now.
/// `None` when the program has forbidden what it takes to look.
pub fn readers(bank: usize, slots: u64) -> Option<u64> {
    let (shift, mappings) = (block_shift(), program_mappings());
    if mappings.is_empty() {
        return None;
    }
    let pages = Pages::open()?;
    make_room();
    let mut lost = 0;
    for (start, end) in mappings {
        if is_own(start) || end > ADDRESS_SPACE {
            continue;
        }
        let (start, end) = (start >> shift << shift, end.next_multiple_of(1 << shift));
        let mut address = start;
        for (first, last) in words(bank, start, end) {
            let page = first & !4095;
            let at = address.wrapping_sub(((first - page) / 8) << shift);
            let blocks = Blocks::All(at);
            let range = Range { bank, page, end: last.next_multiple_of(4096), blocks };
            lost += range.depart(slots, &pages)?;
            address += ((last - first) / 8) << shift;
        }
        lost += tracked_readers(bank, (start, end), slots, &pages)?;
    }
    Some(lost)
}

/// The same for the tracked blocks of a mapping.
fn tracked_readers(
    bank: usize,
    (start, end): (u64, u64),
    slots: u64,
    pages: &Pages,
) -> Option<u64> {
    let mut lost = 0;
    for (first, last, group) in tracked::spans(bank, start, end) {
        let page = first & !4095;
        let group = group.wrapping_sub((first - page) / 8);
        let blocks = Blocks::Tracked(group);
        let range = Range { bank, page, end: last.next_multiple_of(4096), blocks };
        lost += range.depart(slots, pages)?;
    }
    Some(lost)
}

/// Maps the table. Without it, all readings are lost, and said to be.
fn make_room() {
    // SAFETY: called under the registry's lock; slow paths look at the table only once a word says
    // that something is in it.
    unsafe {
        if tt_departed.is_null()
            && let Some(table) = sys::anonymous_away(MAX * BYTES)
        {
            keep_private(table, MAX * BYTES);
            tt_departed = table as *mut Departed;
            tt_departed_most = MAX;
        }
    }
}

/// In a fork's child: its shadow is empty, and the table was not copied.
pub fn renew() {
    // SAFETY: the only thread.
    unsafe { tt_forget_departed() };
}

/// Whether any of up to eight bytes is not 0.
fn any(bytes: &[u8]) -> bool {
    match bytes.try_into() {
        Ok(eight) => u64::from_ne_bytes(eight) != 0,
        Err(_) => bytes.iter().any(|byte| *byte != 0),
    }
}

/// Pages of shadow.
struct Range {
    bank: usize,
    page: u64,
    end: u64,
    blocks: Blocks,
}

/// Whose words lie there.
enum Blocks {
    /// Those of all blocks, from the program's address of the first one on.
    All(u64),
    /// Those of tracked blocks, one of each group from this one on.
    Tracked(u64),
}

impl Blocks {
    /// The program's address of the block with the `index`th word.
    fn address(&self, index: u64) -> u64 {
        match self {
            Self::All(first) => first.wrapping_add(index << block_shift()),
            Self::Tracked(first) => tracked::address_in(first.wrapping_add(index)),
        }
    }
}

impl Range {
    fn depart(&self, slots: u64, pages: &Pages) -> Option<u64> {
        /// Pages that are asked for at once: the range may be most of the address space.
        const CHUNK: u64 = 1 << 18;
        let most = ((self.end - self.page) / 4096).min(CHUNK);
        let mut holds = alloc::vec![0; most as usize];
        let (mut lost, mut page) = (0, self.page);
        while page < self.end {
            let count = ((self.end - page) / 4096).min(CHUNK);
            let holds = &mut holds[..count as usize];
            pages.look(page, holds)?;
            // Most hold nothing.
            for (eight, k) in holds.chunks(8).zip((0..).step_by(8)).filter(|(e, _)| any(e)) {
                let held = eight.iter().zip(k..).filter(|(holds, _)| **holds != 0);
                lost += held.map(|(_, k)| self.depart_page(page + k * 4096, slots)).sum::<u64>();
            }
            page += count * 4096;
        }
        Some(lost)
    }

    fn depart_page(&self, page: u64, slots: u64) -> u64 {
        let thread = own::own_record();
        let depart = |word: u64| {
            // SAFETY: within the shadow.
            let value = unsafe { AtomicU64::from_ptr(word as *mut u64) }.load(Ordering::Relaxed);
            if value & slots == 0 {
                return 0;
            }
            let address = self.blocks.address((word - self.page) / 8);
            // SAFETY: the calling thread's record, and the address of a block whose word lies here.
            unsafe { tt_depart(thread, self.bank as u64, address, slots) }
        };
        (page..page + 4096).step_by(8).map(depart).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_hold_something_are_seen_wherever_they_are_in_a_group() {
        for length in 1..=8 {
            let mut bytes = [0; 8];
            assert!(!any(&bytes[..length]));
            for k in 0..length {
                bytes[k] = 1;
                assert!(any(&bytes[..length]), "{k} of {length}");
                bytes[k] = 0;
            }
            // What lies behind does not count.
            bytes[length..].fill(1);
            assert!(!any(&bytes[..length]));
        }
    }
}
