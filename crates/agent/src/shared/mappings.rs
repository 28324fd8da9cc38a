//! Which memory of this process is shared, and the map of its pages for the slow paths.
//!
//! The map has two levels, as large mappings shall not take much: a chunk of 2 MiB whose pages all
//! follow on each other has one entry. Both are sparse, and mapped when memory is shared for the
//! first time.

use super::is_used;
use super::objects::Object;
use crate::layouts::{CHUNK_SHIFT, MIXED, tt_shared_chunks, tt_shared_pages};
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use engine::options::ADDRESS_BITS;
use wire::shared::{EXTENT_BYTES, EXTENT_SHIFT};

const PAGE_SHIFT: u32 = 12;
const PAGE: u64 = 1 << PAGE_SHIFT;
const CHUNK: u64 = 1 << CHUNK_SHIFT;
/// Pages of a chunk, and of an extent.
const CHUNK_PAGES: u64 = CHUNK / PAGE;
const EXTENT_PAGES: u64 = EXTENT_BYTES / PAGE;
const CHUNKS_BYTES: u64 = 4 << (ADDRESS_BITS - CHUNK_SHIFT);
const PAGES_BYTES: u64 = 4 << (ADDRESS_BITS - PAGE_SHIFT);
const _: () = assert!(EXTENT_SHIFT > CHUNK_SHIFT);

/// Memory that is shared: addresses, and from where in what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    pub start: u64,
    pub end: u64,
    pub object: Object,
    pub offset: u64,
    /// Forks of this process before it was mapped.
    pub forks: u32,
}

/// Forks of this process, and of those that it is a copy of.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process is about to fork: a child will share its memory.
pub fn forks() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

impl Piece {
    pub fn new((start, bytes): (u64, u64), object: Object, offset: u64) -> Self {
        let forks = FORKS.load(Ordering::Relaxed);
        Piece { start, end: start + bytes, object, offset, forks }
    }

    /// Numbers of its pages, from and to, by parts that follow on each other.
    fn places(&self) -> impl Iterator<Item = (u64, Option<u32>, u64)> {
        let piece = *self;
        let mut at = piece.start;
        core::iter::from_fn(move || {
            let offset = piece.offset + (at - piece.start);
            let bytes = (EXTENT_BYTES - offset % EXTENT_BYTES).min(piece.end.checked_sub(at)?);
            let first = at;
            at += bytes;
            (bytes != 0).then(|| {
                let extent = piece.object.extent(offset);
                let page = (offset % EXTENT_BYTES / PAGE) as u32;
                let number = extent.map(|extent| extent * EXTENT_PAGES as u32 + page);
                (first / PAGE, number, bytes / PAGE)
            })
        })
    }

    /// The part in `start..end`, where the two meet.
    fn within(self, start: u64, end: u64) -> Option<Piece> {
        let (first, last) = (self.start.max(start), self.end.min(end));
        let offset = self.offset + (first - self.start);
        (first < last).then_some(Piece { start: first, end: last, offset, ..self })
    }

    /// The same memory at another address.
    fn moved(self, from: u64, to: u64) -> Piece {
        let place = |address: u64| address.wrapping_sub(from).wrapping_add(to);
        Piece { start: place(self.start), end: place(self.end), ..self }
    }
}

/// All of this process, in any order; they do not overlap.
#[derive(Default)]
pub struct Mappings(Vec<Piece>);

impl Mappings {
    pub const fn new() -> Self {
        Mappings(Vec::new())
    }

    /// What is shared in `start..end`.
    pub fn pieces(&self, start: u64, end: u64) -> Vec<Piece> {
        self.0.iter().filter_map(|piece| piece.within(start, end)).collect()
    }

    /// This memory is shared from now on.
    pub fn add(&mut self, piece: Piece) {
        if is_used() && piece.start < piece.end && piece.end <= 1 << ADDRESS_BITS {
            self.remove(piece.start, piece.end);
            self.0.push(piece);
            fill(&piece);
        }
    }

    /// The memory in `start..end` goes away, or is none that is shared. Returns what was.
    pub fn remove(&mut self, start: u64, end: u64) -> Vec<Piece> {
        let removed = self.pieces(start, end);
        if removed.is_empty() {
            return removed;
        }
        let rest = self.0.iter().flat_map(|p| [p.within(0, start), p.within(end, !0)]);
        self.0 = rest.flatten().collect();
        for piece in &removed {
            set(piece.start / PAGE, (piece.end - piece.start) / PAGE, None);
        }
        removed
    }

    /// These pieces have been unmapped. What no other process, and nothing else, can map again is
    /// forgotten, so that its shadow takes no memory.
    pub fn unmapped(&self, pieces: &[Piece]) {
        let forks = FORKS.load(Ordering::Relaxed);
        let is_gone = |piece: &&Piece| {
            let is_alone = piece.object.is_anonymous() && piece.forks == forks;
            is_alone && self.0.iter().all(|other| other.object != piece.object)
        };
        pieces.iter().filter(is_gone).for_each(discard);
    }

    /// The kernel has emptied the memory in `start..end`.
    pub fn emptied(&self, start: u64, end: u64) {
        self.pieces(start, end).iter().for_each(discard);
    }

    /// These pieces have been moved by mremap, and may have grown.
    pub fn moved(&mut self, pieces: &[Piece], old: (u64, u64), new: (u64, u64)) {
        let (end, grows) = (new.0 + new.1, new.1 > old.1);
        for piece in pieces {
            let mut piece = piece.moved(old.0, new.0);
            // The kernel lets only a single mapping grow.
            if grows && pieces.len() == 1 {
                piece.end = end;
            }
            if let Some(piece) = piece.within(new.0, end) {
                self.add(piece);
            }
        }
    }
}

/// Forgets what is known of the memory.
fn discard(piece: &Piece) {
    for (_, number, count) in piece.places() {
        if let Some(number) = number {
            super::forget(u64::from(number) * PAGE, count * PAGE);
        }
    }
}

/// Enters a piece into the map of pages.
fn fill(piece: &Piece) {
    piece.places().for_each(|(page, number, count)| set(page, count, number));
}

/// Both levels of the map.
#[derive(Clone, Copy)]
struct Map {
    chunks: *mut u32,
    pages: *mut u32,
}

fn known() -> Option<Map> {
    // SAFETY: pointers that are only reached atomically, the first one last.
    let load = |at: *mut *mut u32| unsafe { AtomicPtr::from_ptr(at) }.load(Ordering::Acquire);
    let chunks = load(&raw mut tt_shared_chunks);
    let pages = load(&raw mut tt_shared_pages);
    (!chunks.is_null()).then_some(Map { chunks, pages })
}

/// Maps the map if it is not there yet.
fn map() -> Option<Map> {
    if let Some(map) = known() {
        return Some(map);
    }
    let pages = sys::anonymous_away(PAGES_BYTES)?;
    let chunks = sys::anonymous_away(CHUNKS_BYTES)?;
    sys::keep_out_of_dumps(pages, PAGES_BYTES);
    sys::keep_out_of_dumps(chunks, CHUNKS_BYTES);
    // SAFETY: as above.
    unsafe {
        AtomicPtr::from_ptr(&raw mut tt_shared_pages).store(pages as *mut u32, Ordering::Release);
        AtomicPtr::from_ptr(&raw mut tt_shared_chunks).store(chunks as *mut u32, Ordering::Release);
    }
    super::introduce();
    known()
}

/// Addresses of both levels of the map; 0 = there is none yet.
pub fn places() -> [u64; 2] {
    known().map_or([0; 2], |map| [map.chunks as u64, map.pages as u64])
}

/// Whether `address` lies in the map.
pub fn contains(address: u64) -> bool {
    known().is_some_and(|map| {
        let chunks = map.chunks as u64..map.chunks as u64 + CHUNKS_BYTES;
        let pages = map.pages as u64..map.pages as u64 + PAGES_BYTES;
        chunks.contains(&address) || pages.contains(&address)
    })
}

impl Map {
    fn chunk(&self, number: u64) -> &AtomicU32 {
        // SAFETY: of an address of the program's.
        unsafe { AtomicU32::from_ptr(self.chunks.add(number as usize)) }
    }

    fn page(&self, number: u64) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.pages.add(number as usize)) }
    }

    /// Gives the chunk's pages entries of their own.
    fn divide(&self, chunk: u64) {
        let entry = self.chunk(chunk).load(Ordering::Relaxed);
        if entry == MIXED {
            return;
        }
        for k in 0..CHUNK_PAGES {
            let value = if entry == 0 { 0 } else { entry + k as u32 };
            self.page(chunk * CHUNK_PAGES + k).store(value, Ordering::Relaxed);
        }
        self.chunk(chunk).store(MIXED, Ordering::Release);
    }

    /// If none of the chunk's pages is shared any more, it needs no entries of theirs.
    fn unite(&self, chunk: u64) {
        let is_free = |k: u64| self.page(chunk * CHUNK_PAGES + k).load(Ordering::Relaxed) == 0;
        if self.chunk(chunk).load(Ordering::Relaxed) == MIXED && (0..CHUNK_PAGES).all(is_free) {
            self.chunk(chunk).store(0, Ordering::Release);
        }
    }
}

/// Enters `count` pages from page `first` on: their numbers follow on `number`, or they are not
/// shared.
fn set(first: u64, count: u64, number: Option<u32>) {
    let Some(map) = (if number.is_some() { map() } else { known() }) else { return };
    let entry = |page: u64| number.map_or(0, |number| number + (page - first) as u32 + 1);
    let end = first + count;
    let mut page = first;
    while page < end {
        let chunk = page / CHUNK_PAGES;
        let next = ((chunk + 1) * CHUNK_PAGES).min(end);
        if next - page == CHUNK_PAGES {
            map.chunk(chunk).store(entry(page), Ordering::Release);
        } else {
            map.divide(chunk);
            (page..next).for_each(|p| map.page(p).store(entry(p), Ordering::Relaxed));
            if number.is_none() {
                map.unite(chunk);
            }
        }
        page = next;
    }
}

#[cfg(test)]
#[path = "mappings_tests.rs"]
mod tests;
