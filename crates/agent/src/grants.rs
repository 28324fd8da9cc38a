//! Where each thread's map of grants lies ([`engine::grants`]): one for each reader slot, with the
//! thread's part of the session, page and tallies, right below it, so that %gs reaches all.
//!
//! The part is mapped there a second time, which needs no descriptor. In modes without checks
//! threads have no map, and their parts stay where the session has them. Where accesses are counted
//! by page, more of the session lies below: see [`pages`].
//!
//! Neighbours: `slow/grants.h` grants and takes back, [`thread`](crate::thread) has the slots.

pub mod folding;

use crate::counting;
use crate::layouts::{
    MAX_BANKS, REGION_SHIFT, REGIONS, SLOTS, tt_granted, tt_grants, tt_to_passing,
};
use crate::limits;
use crate::pages;
use crate::presence;
use crate::session;
use crate::sys;
use crate::tracked;
use crate::windows;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use wire::session::{AREA_BYTES, ThreadPage, mode};

const MAPS: usize = MAX_BANKS * SLOTS;
const PAGE: u64 = size_of::<ThreadPage>() as u64;
const _: () = assert!(MAPS <= wire::pages::MAX_SLOTS);

/// Bytes below each map.
fn below() -> u64 {
    if pages::are_counted() { pages::BELOW } else { AREA_BYTES }
}

fn stride() -> u64 {
    below() + engine::grants::BYTES
}

fn reserved() -> u64 {
    MAPS as u64 * stride()
}

/// Start of the reservation; 0 = threads have no maps.
static START: AtomicU64 = AtomicU64::new(0);
/// Start of another one like it, for the threads' passing maps; 0 = there are no windows.
static PASSING: AtomicU64 = AtomicU64::new(0);
/// Logical id + 1 of the thread whose page lies below each map; 0 = none yet.
static OWNERS: [AtomicU32; MAPS] = [const { AtomicU32::new(0) }; MAPS];
/// Whether that thread is there.
static LIVE: [AtomicBool; MAPS] = [const { AtomicBool::new(false) }; MAPS];

/// The maps that a thread uses.
fn live_maps() -> impl Iterator<Item = u64> {
    live().map(|(_, map)| map)
}

/// The slots that have a thread, with its map.
pub fn live() -> impl Iterator<Item = (usize, u64)> {
    let live = LIVE.iter().enumerate().filter(|(_, live)| live.load(Ordering::Relaxed));
    live.map(|(index, _)| (index, map_of(index)))
}

fn needed() -> bool {
    !matches!(counting::mode(), mode::TRANSLATE | mode::TRACE)
}

/// Reserves the maps; `None` when there is no room.
pub fn map() -> Option<()> {
    if needed() {
        START.store(reserve()?, Ordering::Relaxed);
        if windows::are_used() {
            PASSING.store(reserve_places()?, Ordering::Relaxed);
        }
    }
    Some(())
}

/// Places for the passing maps, which are shared: children inherit them.
fn reserve_places() -> Option<u64> {
    const FLAGS: u64 = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
    let start = sys::map_away(reserved(), sys::PROT_NONE, FLAGS, -1, 0)?;
    limits::not_data(reserved());
    // SAFETY: before any slow path runs.
    unsafe { tt_to_passing = start.wrapping_sub(START.load(Ordering::Relaxed)) };
    Some(start)
}

fn reserve() -> Option<u64> {
    let start = sys::anonymous_away(reserved())?;
    sys::keep_private(start, reserved());
    Some(start)
}

/// In a fork's child: empty maps where the parent's were. Until the calling thread has a page
/// again, it must not use %gs.
pub fn renew() -> bool {
    OWNERS.iter().for_each(|owner| owner.store(0, Ordering::Relaxed));
    LIVE.iter().for_each(|live| live.store(false, Ordering::Relaxed));
    let start = START.load(Ordering::Relaxed);
    if start == 0 {
        return true;
    }
    let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE | sys::MAP_FIXED;
    // Unlike other fixed mappings, this one does not replace what counts already.
    limits::before_mapping(reserved(), flags);
    // SAFETY: what is there are pages of the parent's threads.
    let mapped =
        unsafe { sys::map(start, reserved(), sys::PROT_READ | sys::PROT_WRITE, flags, -1, 0) };
    limits::mapped(reserved(), flags);
    sys::keep_private(start, reserved());
    mapped.is_some()
}

/// Whether `address` lies in the maps.
pub fn contains(address: u64) -> bool {
    let starts = [&START, &PASSING].map(|start| start.load(Ordering::Relaxed));
    starts.iter().any(|&start| start != 0 && (start..start + reserved()).contains(&address))
}

fn map_of(index: usize) -> u64 {
    START.load(Ordering::Relaxed) + index as u64 * stride() + below()
}

/// Where the thread in that slot has its passing map, with its page right below; 0 = there are no
/// windows.
pub fn passing_map(bank: usize, slot: usize) -> u64 {
    match PASSING.load(Ordering::Relaxed) {
        0 => 0,
        start => start + (bank * SLOTS + slot) as u64 * stride() + below(),
    }
}

/// Whether this slot can be had for a thread with that id without asking the kernel.
pub fn is_ready(bank: usize, slot: usize, id: usize) -> bool {
    OWNERS[bank * SLOTS + slot].load(Ordering::Relaxed) == id as u32 + 1
}

/// Whether the slot's last thread is not there any more.
pub fn is_vacant(bank: usize, slot: usize) -> bool {
    let owner = OWNERS[bank * SLOTS + slot].load(Ordering::Relaxed);
    // SAFETY: within the session; all fields are atomic.
    owner == 0 || presence::is_gone(unsafe { &*session::page(owner as usize - 1) })
}

/// Gives a slot, with an empty map, to the thread with that id. Returns where its page lies and its
/// map, which is 0 in modes without.
pub fn take(bank: usize, slot: usize, id: usize) -> Option<(u64, u64)> {
    let page = session::page(id) as u64;
    if START.load(Ordering::Relaxed) == 0 {
        return Some((page, 0));
    }
    let index = bank * SLOTS + slot;
    let map = map_of(index);
    if !is_ready(bank, slot, id) {
        place(index, id)?;
    }
    // SAFETY: the slot is ours; slow paths of other threads may look at any time.
    unsafe { AtomicU64::from_ptr(&raw mut tt_grants[bank][slot]).store(map, Ordering::Relaxed) };
    LIVE[index].store(true, Ordering::SeqCst);
    pages::begin(index, id);
    Some((map - PAGE, map))
}

/// The slot's thread is gone.
pub fn leave(bank: usize, slot: usize) {
    if START.load(Ordering::Relaxed) != 0 {
        pages::end(bank * SLOTS + slot, map_of(bank * SLOTS + slot));
    }
    LIVE[bank * SLOTS + slot].store(false, Ordering::Relaxed);
}

/// Lays what the thread with that id has of the session below a map, which is emptied if it has
/// been used.
fn place(index: usize, id: usize) -> Option<()> {
    const MADV_DONTNEED: u64 = 4;
    let map = map_of(index);
    let used = OWNERS[index].load(Ordering::Relaxed) != 0;
    let empty = [map, engine::grants::BYTES, MADV_DONTNEED, 0, 0, 0];
    // SAFETY: no thread uses the map any more.
    if used && unsafe { sys::call(sys::MADVISE, empty) } != 0 {
        return None;
    }
    let area = session::page(id) as u64 + PAGE - AREA_BYTES;
    sys::map_again(area, map - AREA_BYTES, AREA_BYTES)?;
    let passing = passing_map(index / SLOTS, index % SLOTS);
    if passing != 0 {
        sys::map_again(area, passing - AREA_BYTES, AREA_BYTES)?;
        sys::map_again(windows::passing_map(index), passing, engine::grants::BYTES)?;
    }
    if !used && pages::are_counted() {
        for map in [map, passing].into_iter().filter(|map| *map != 0) {
            sys::map_again(pages::slot(index), map - pages::COUNTED, wire::pages::SLOT_BYTES)?;
        }
    }
    OWNERS[index].store(id as u32 + 1, Ordering::Relaxed);
    Some(())
}

/// Makes slots of the first bank ready for the next threads, before the program forbids what it
/// takes: `free` of them in the order in which they will be taken, for ids from `first` on.
pub fn make_ready(free: impl Iterator<Item = usize>, first: usize) {
    if START.load(Ordering::Relaxed) != 0 {
        for (slot, id) in free.zip(first..) {
            if place(slot, id).is_none() {
                return;
            }
        }
    }
}

/// The program's memory in `start..end` is new: no thread may access it without asking.
pub fn clear(start: u64, end: u64) {
    if START.load(Ordering::Relaxed) == 0 {
        return;
    }
    let shift = session::header().block_shift.load(Ordering::Relaxed);
    let (first, last) = (start >> shift, (end - 1) >> shift);
    let blocks = last - first + 1;
    granted_in(first, blocks).for_each(|map| {
        clear_places(map, first, blocks);
        tracked::clear_grants(map, first, blocks);
    });
}

/// The maps that a thread uses and that may grant something of `blocks` blocks from `first` on. A
/// pair that the block behind makes with the last one needs a grant of the last one.
fn granted_in(first: u64, blocks: u64) -> impl Iterator<Item = u64> {
    let regions = ((first + blocks - 1) >> REGION_SHIFT) - (first >> REGION_SHIFT) + 1;
    let mut slots = [0; MAX_BANKS];
    for region in (first >> REGION_SHIFT..).take((regions as usize).min(REGIONS)) {
        for (bank, slots) in slots.iter_mut().enumerate() {
            // SAFETY: only atomic accesses, here and in C.
            let granted = unsafe { &raw mut tt_granted[region as usize % REGIONS][bank] };
            // SAFETY: as above.
            *slots |= unsafe { AtomicU64::from_ptr(granted) }.load(Ordering::Relaxed);
        }
    }
    let granted = move |index: usize| slots[index / SLOTS] >> (index % SLOTS) & 1 != 0;
    let live = LIVE.iter().enumerate().filter(|(_, live)| live.load(Ordering::Relaxed));
    live.filter(move |(index, _)| granted(*index)).map(|(index, _)| map_of(index))
}

/// Clears the places of `blocks` blocks from `first` on, and then the pair that the block behind
/// makes with the last.
fn clear_places(map: u64, first: u64, blocks: u64) {
    const PLACES: u64 = engine::grants::BYTES;
    if blocks >= PLACES {
        clear_range(map, map + PLACES);
        return;
    }
    let from = first & (PLACES - 1);
    let until = from + blocks;
    clear_range(map + from, map + until.min(PLACES));
    if until > PLACES {
        clear_range(map, map + until - PLACES);
    }
    let pairs = engine::grants::READ_PAIR | engine::grants::WRITE_PAIR;
    clear_bits(map + (until & (PLACES - 1)), pairs);
}

fn clear_bits(at: u64, bits: u8) {
    // SAFETY: within a map, which is mapped for good.
    let byte = unsafe { core::sync::atomic::AtomicU8::from_ptr(at as *mut u8) };
    if byte.load(Ordering::Relaxed) & bits != 0 {
        byte.fetch_and(!bits, Ordering::SeqCst);
    }
}

/// Clears bytes of a map: whole pages by giving them back, others where they are not clear.
fn clear_range(start: u64, end: u64) {
    const MADV_DONTNEED: u64 = 4;
    let (whole, rest) = (start.next_multiple_of(4096).min(end), end & !4095);
    (start..whole).for_each(|at| clear_bits(at, !0));
    if whole < rest {
        // SAFETY: within a map.
        let given =
            unsafe { sys::call(sys::MADVISE, [whole, rest - whole, MADV_DONTNEED, 0, 0, 0]) };
        if given != 0 {
            (whole..rest).for_each(|at| clear_bits(at, !0));
        }
    }
    (rest.max(whole)..end).for_each(|at| clear_bits(at, !0));
}

#[cfg(test)]
pub mod testing;
#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;
