//! Tracked blocks: a sample that is observed between windows, too (`slow/tracked.h`).
//!
//! Of each group of neighbouring blocks one is tracked. Its shadow words lie in arrays of their
//! own, a word for each group, because windows empty the shadow.

mod note;

use self::note::TrackedNote;
use crate::layouts::{MAX_BANKS, tt_reach, tt_to_passing, tt_tracked, tt_tracked_notes};
use crate::session;
use crate::sys;
use crate::sys::keep_private;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};
use engine::options::ADDRESS_BITS;
use wire::windows::TRACKED_OF;

/// Which block of a group is tracked: the upper bits of the product with its number, 2⁶⁴ over the
/// golden ratio. Also in `slow/tracked.h`.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const GROUP_SHIFT: u32 = TRACKED_OF.trailing_zeros();
/// Places of a map of grants in a page.
const PAGE: u64 = 4096;

fn block_shift() -> u32 {
    session::header().block_shift.load(Ordering::Relaxed)
}

/// The tracked block of a group.
fn block_of(group: u64) -> u64 {
    group << GROUP_SHIFT | group.wrapping_mul(SPREAD) >> (u64::BITS - GROUP_SHIFT)
}

/// Bytes of the array of words for a bank that covers so much of the address space.
fn words_bytes(space: u64) -> u64 {
    (space >> block_shift() >> GROUP_SHIFT) * 8
}

/// Bytes of the array of notes.
fn notes_bytes() -> u64 {
    (1 << ADDRESS_BITS >> block_shift() >> GROUP_SHIFT) * size_of::<TrackedNote>() as u64
}

/// Maps the words of a bank, and with the first bank the notes. `None` when there is no room.
pub fn add_bank(bank: usize, space: u64) -> Option<()> {
    if !crate::windows::are_used() {
        return Some(());
    }
    if bank == 0 {
        let notes = sys::anonymous_away(notes_bytes())?;
        keep_private(notes, notes_bytes());
        // SAFETY: before any slow path runs.
        unsafe { tt_tracked_notes = notes };
    }
    let words = sys::anonymous_away(words_bytes(space))?;
    keep_private(words, words_bytes(space));
    // SAFETY: slow paths see the bank once it is counted.
    unsafe { tt_tracked[bank] = words };
    Some(())
}

fn are_used() -> bool {
    // SAFETY: written only before any slow path runs.
    unsafe { tt_tracked_notes != 0 }
}

/// Address of a bank's words, and the part of the address space that it tells apart.
fn bank(bank: usize) -> (u64, u64) {
    // SAFETY: set before the bank was counted.
    unsafe { (tt_tracked[bank], tt_reach[bank] + 1) }
}

/// Whether `address` lies in these arrays.
pub fn contains(address: u64) -> bool {
    let words = |b: usize| {
        let (start, space) = bank(b);
        start != 0 && (start..start + words_bytes(space)).contains(&address)
    };
    // SAFETY: as above.
    let notes = unsafe { tt_tracked_notes };
    are_used() && ((notes..notes + notes_bytes()).contains(&address) || (0..MAX_BANKS).any(words))
}

/// Address of the word of a tracked block; `None` for others.
pub fn word(in_bank: usize, address: u64) -> Option<u64> {
    let block = address >> block_shift();
    let group = block >> GROUP_SHIFT;
    (are_used() && block_of(group) == block).then(|| {
        let (start, space) = bank(in_bank);
        start + group % (space >> block_shift() >> GROUP_SHIFT) * 8
    })
}

/// Groups whose tracked block may lie in `blocks` blocks from `first` on.
fn groups(first: u64, blocks: u64) -> Range<u64> {
    first >> GROUP_SHIFT..((first + blocks - 1) >> GROUP_SHIFT) + 1
}

/// Addresses of the words of all groups with a block in `start..end`, in a bank, and the first
/// group: a span, or several where the bank folds the address space.
pub fn spans(in_bank: usize, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let shift = block_shift();
    let empty = !are_used() || start >= end;
    let Range { start: mut group, end } =
        if empty { 0..0 } else { groups(start >> shift, (end - start).div_ceil(1 << shift)) };
    let (base, space) = if empty { (0, 1 << ADDRESS_BITS) } else { bank(in_bank) };
    let all = space >> shift >> GROUP_SHIFT;
    core::iter::from_fn(move || {
        let first = group;
        group = end.min((first / all + 1) * all);
        let at = base + first % all * 8;
        (first < end).then(|| (at, at + (group - first) * 8, first))
    })
}

/// The same for groups of which all blocks lie in `start..end`, without their numbers, and the
/// words of the tracked blocks in `start..end` of the groups at both ends.
pub fn words(in_bank: usize, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let group_shift = block_shift() + GROUP_SHIFT;
    let inner = start.next_multiple_of(1 << group_shift)..end >> group_shift << group_shift;
    let ends = [start, end.saturating_sub(1)].map(|address| {
        let block = address_in(address >> group_shift);
        let inside = are_used() && (start..end).contains(&block);
        inside.then(|| word(in_bank, block)).flatten().map(|at| (at, at + 8))
    });
    let spans = spans(in_bank, inner.start, inner.end);
    spans.map(|(first, last, _)| (first, last)).chain(ends.into_iter().flatten())
}

/// The program's address of the tracked block of a group.
pub fn address_in(group: u64) -> u64 {
    block_of(group) << block_shift()
}

/// Takes back what the thread with that map has been granted of tracked blocks among `blocks`
/// blocks from `first` on, in its passing map.
pub fn clear_grants(map: u64, first: u64, blocks: u64) {
    const MADV_REMOVE: u64 = 9;
    if !are_used() {
        return;
    }
    // SAFETY: written only before any slow path runs.
    let passing = map.wrapping_add(unsafe { tt_to_passing });
    let (from, until) = (first & !(PAGE - 1), (first + blocks).next_multiple_of(PAGE));
    let places = engine::grants::BYTES;
    let pages = |start: u64, end: u64| {
        let range = [passing + start, end - start, MADV_REMOVE, 0, 0, 0];
        // SAFETY: within a passing map, of which nothing but grants is lost.
        start == end || unsafe { sys::call(sys::MADVISE, range) } == 0
    };
    let emptied = match (from % places, until - from) {
        _ if blocks <= PAGE => false,
        (_, all) if all >= places => pages(0, places),
        (start, some) if start + some > places => {
            pages(start, places) & pages(0, start + some - places)
        }
        (start, some) => pages(start, start + some),
    };
    if !emptied {
        let tracked = groups(first, blocks).map(block_of);
        tracked.take(places as usize).for_each(|block| {
            // SAFETY: within a passing map.
            let byte = unsafe { AtomicU8::from_ptr((passing + block % places) as *mut u8) };
            byte.store(0, Ordering::SeqCst);
        });
    }
}

#[cfg(test)]
#[path = "tracked_tests.rs"]
mod tests;
