//! Blocks of 64 KiB and more: they get runs of pages of our own, each with the policies that the
//! plan has for its ranges. Freed runs serve further blocks of the same layout and size class.

use crate::mutex::Mutex;
use crate::reading;
use crate::records::{self, Record};
use crate::runs::{self, Extent, PAGE, Wish};
use crate::session::{self, Session};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use injected::heap;
use wire::data::{BLOCKS, Block, Entry, MIN_LARGE, Range};

/// Blocks of fewer bytes stay where the program's allocator puts them.
pub const MIN: usize = MIN_LARGE as usize;
/// Largest block, bytes.
const MAX: usize = 1 << 40;
/// Size classes: eight for each doubling, so that at most an eighth is left over.
const CLASSES: usize = 8 * 32;
/// Freed memory that is kept with its pages; of larger runs none is.
const MAX_KEPT: u64 = 64 << 20;
const MAX_KEPT_RUN: usize = 32 << 20;
/// Free runs of a list that are looked at for one that fits.
const LOOKED_AT: usize = 8;
/// What comes before a block in its run.
const HEAD: usize = 16;

static LOCK: Mutex = Mutex::new();
/// Heads of lists of free runs: by layout, whether the block begins at a page, and size class.
static HEADS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
static LAYOUTS: AtomicUsize = AtomicUsize::new(0);
/// Bytes of free runs that are kept with their pages.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Address space that is left. Under the lock.
struct Left(UnsafeCell<Extent>);

// SAFETY: used under the lock only.
unsafe impl Sync for Left {}

static LEFT: Left = Left(UnsafeCell::new(Extent::NONE));

/// Makes the lists, while there is one thread.
pub fn prepare(session: Session) -> bool {
    let layouts = session.entries.iter().map(|entry| entry.layout.load(Relaxed) as usize + 1);
    let layouts = layouts.max().unwrap_or(1);
    LAYOUTS.store(layouts, Relaxed);
    if let Some(base) = heap::map(layouts * 2 * CLASSES * size_of::<AtomicU32>()) {
        HEADS.store(base as *mut AtomicU32, Release);
    }
    !HEADS.load(Acquire).is_null()
}

/// In a forked child.
pub fn break_open() {
    LOCK.break_open();
}

fn head(list: u32) -> Option<&'static AtomicU32> {
    let heads = HEADS.load(Acquire);
    if heads.is_null() || list as usize >= LAYOUTS.load(Relaxed) * 2 * CLASSES {
        return None;
    }
    // SAFETY: within the table, which is for good.
    Some(unsafe { &*heads.add(list as usize) })
}

/// The smallest class of runs that hold this many pages, and the pages of its runs.
fn class(pages: usize) -> (usize, usize) {
    let pages = pages.max(8);
    let shift = (usize::BITS - 1 - pages.leading_zeros()) as usize - 3;
    let eighths = (pages + (1 << shift) - 1) >> shift;
    // 16 eighths are the first 8 of the next doubling.
    ((shift * 8 + eighths - 8).min(CLASSES - 1), eighths << shift)
}

/// What a block is asked for with.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub bytes: usize,
    /// A power of two.
    pub align: usize,
    pub zeroed: bool,
}

/// A block for an entry of the plan; `None`: the program's allocator is to give it.
pub fn allocate(session: Session, number: u32, wanted: Wanted) -> Option<*mut u8> {
    let entry = &session.entries[number as usize];
    entry.appeared.fetch_add(1, Relaxed);
    let at_page = wanted.align >= PAGE;
    // Where offsets count from must be a page that begins in the run.
    let lead = if at_page { wanted.align } else { wanted.align.max(HEAD) };
    let bytes = wanted.bytes.checked_add(lead).filter(|bytes| *bytes <= MAX)?;
    let (class, pages) = class(bytes.div_ceil(PAGE));
    let list = (entry.layout.load(Relaxed) as usize * 2 + usize::from(at_page)) * CLASSES + class;
    let (index, record) = match again(list as u32, wanted) {
        Some(found) => found,
        None => fresh(session, entry, list as u32, pages, wanted)?,
    };
    let base = record.base.load(Relaxed) as usize;
    let block = (if at_page { base } else { base + lead }) as *mut u8;
    record.block.store(block as u64, Relaxed);
    record.bytes.store(wanted.bytes as u64, Relaxed);
    record.entry.store(number, Relaxed);
    // SAFETY: the run has at least 16 bytes before the block.
    unsafe { records::note(block, index) };
    if record.dirty.swap(1, Relaxed) != 0 && wanted.zeroed {
        // SAFETY: the run has room for the block.
        unsafe { block.write_bytes(0, wanted.bytes) };
    }
    list_block(session, record, block as u64, wanted.bytes as u64, number);
    Some(block)
}

/// A run that was free.
fn again(list: u32, wanted: Wanted) -> Option<(u32, &'static Record)> {
    let mut before = head(list)?;
    LOCK.with(|| {
        for _ in 0..LOOKED_AT {
            let index = before.load(Relaxed);
            let record = records::get(index)?;
            if !fits(record, wanted) {
                before = &record.next;
                continue;
            }
            before.store(record.next.load(Relaxed), Relaxed);
            if record.dirty.load(Relaxed) != 0 {
                KEPT.fetch_sub(record.pages.load(Relaxed) * PAGE as u64, Relaxed);
            }
            return Some((index, record));
        }
        None
    })
}

/// Whether a block that begins at a page begins where it must in a run, and ends in it: runs of
/// blocks with a larger alignment have less room behind their base.
fn fits(record: &Record, wanted: Wanted) -> bool {
    let [run, base, pages] = [&record.run, &record.base, &record.pages].map(|at| at.load(Relaxed));
    let end = run + pages * PAGE as u64;
    wanted.align < PAGE
        || base.is_multiple_of(wanted.align as u64) && base + wanted.bytes as u64 <= end
}

/// A new run with the policies of the entry.
#[cold]
fn fresh(
    session: Session,
    entry: &Entry,
    list: u32,
    pages: usize,
    wanted: Wanted,
) -> Option<(u32, &'static Record)> {
    if session::is_filtered() {
        session.header.filtered.fetch_add(1, Relaxed);
        return None;
    }
    if session.has_own_policy() {
        session.header.own_policy.fetch_add(1, Relaxed);
        return None;
    }
    let made = LOCK.with(|| {
        // SAFETY: under the lock.
        let run = unsafe { (*LEFT.0.get()).take(pages) }?;
        records::make().map(|(index, record)| (run, index, record))
    });
    let Some((run, index, record)) = made else {
        session.header.no_space.fetch_add(1, Relaxed);
        return None;
    };
    let align = wanted.align;
    let base = if align >= PAGE { (run + HEAD).next_multiple_of(align) } else { run };
    record.run.store(run as u64, Relaxed);
    record.pages.store(pages as u64, Relaxed);
    record.base.store(base as u64, Relaxed);
    record.list.store(list, Relaxed);
    record.dirty.store(0, Relaxed);
    record.plan_for(wanted.bytes as u64);
    runs::begin(run, pages * PAGE);
    bind(session, entry, (run, run + pages * PAGE), (base, wanted.bytes));
    Some((index, record))
}

/// Gives a run the policies of the entry's ranges, which count from `base`.
pub fn bind(
    session: Session,
    entry: &Entry,
    (run, end): (usize, usize),
    (base, bytes): (usize, usize),
) {
    let reach = base.saturating_add(bytes).next_multiple_of(PAGE);
    // What is behind the block goes with its end: runs side by side are one mapping then.
    let part = |(range, from, to): (&'static Range, u64, u64)| {
        let start = base.saturating_add(from as usize).min(end);
        let stop = base.saturating_add(to as usize).min(end);
        (range, (start, if stop + PAGE >= reach { end } else { stop }))
    };
    let mut complete = true;
    let mut ask = |range: &Range, (start, stop): (usize, usize), splits: bool| {
        let (mode, nodes) = (range.mode.load(Relaxed), range.nodes.load(Relaxed));
        match runs::bind(start, stop - start, mode, nodes, splits) {
            Wish::Granted => return,
            Wish::TooMany => session.header.mapping_limit.fetch_add(1, Relaxed),
            Wish::Refused(error) => {
                entry.error.store(error, Relaxed);
                entry.refused.fetch_add(1, Relaxed)
            }
        };
        complete = false;
    };
    let mut parts = session.parts_of(entry, records::pages(bytes as u64)).map(part);
    match parts.clone().find(|(_, part)| *part == (base, end)) {
        Some((range, _)) => ask(range, (run, end), false),
        None => parts
            .by_ref()
            .filter(|(_, (start, stop))| start < stop)
            .for_each(|(range, part)| ask(range, part, true)),
    }
    if complete {
        entry.placed.fetch_add(1, Relaxed);
    }
}

/// A record for memory that is not ours.
pub fn new_record() -> Option<&'static Record> {
    LOCK.with(|| records::make().map(|(_, record)| record))
}

/// Whether memory of our own begins in `bytes` from `start` on.
pub fn is_in(start: u64, bytes: u64) -> bool {
    bytes > 0 && runs::owns(start as *mut u8)
}

/// Lists a block for the launcher, at the place that its run has there.
#[inline(always)]
pub fn list_block(session: Session, record: &Record, start: u64, bytes: u64, entry: u32) {
    let listed = match record.listed.load(Relaxed) {
        0 => find_place(session, record),
        known => known,
    };
    if let Some(place) = place(session, listed) {
        place.bytes.store(bytes, Relaxed);
        place.entry.store(entry, Relaxed);
        place.start.store(start, Release);
    }
}

/// The place of a run in the launcher's list.
pub fn place(session: Session, listed: u32) -> Option<&'static Block> {
    (listed as usize).checked_sub(1).and_then(|at| session.blocks.get(at))
}

#[cold]
fn find_place(session: Session, record: &Record) -> u32 {
    let next = session.header.next_block.fetch_add(1, Relaxed);
    if next as usize >= BLOCKS {
        session.header.unlisted.fetch_add(1, Relaxed);
        return 0;
    }
    record.listed.store(next + 1, Relaxed);
    next + 1
}

/// The block at an address of ours ends. What is no block is left alone: the program would have
/// ended for freeing it.
pub fn free(block: *mut u8) {
    // SAFETY: `owns` has said so.
    let Some((index, record)) = (unsafe { records::of(block) }) else { return };
    if let Some(session) = session::get() {
        reading::at_end(session, record);
        if let Some(place) = place(session, record.listed.load(Relaxed)) {
            place.start.store(0, Release);
        }
    }
    let bytes = record.pages.load(Relaxed) * PAGE as u64;
    let much = bytes > MAX_KEPT_RUN as u64 || KEPT.load(Relaxed) + bytes > MAX_KEPT;
    let filtered = session::is_filtered();
    if much && !filtered && runs::give_back(record.run.load(Relaxed) as usize, bytes as usize) {
        record.dirty.store(0, Relaxed);
    }
    record.block.store(0, Relaxed);
    let Some(head) = head(record.list.load(Relaxed)) else { return };
    LOCK.with(|| {
        if record.dirty.load(Relaxed) != 0 {
            KEPT.fetch_add(bytes, Relaxed);
        }
        record.next.store(head.load(Relaxed), Relaxed);
        head.store(index, Relaxed);
    });
}

/// Bytes that a block of ours may use.
pub fn usable(block: *mut u8) -> usize {
    // SAFETY: `owns` has said so.
    let Some((_, record)) = (unsafe { records::of(block) }) else { return 0 };
    let end = record.run.load(Relaxed) + record.pages.load(Relaxed) * PAGE as u64;
    (end - block as u64) as usize
}

/// What `realloc` can do with a block of ours.
pub enum Resized {
    /// It stays where it is.
    InPlace,
    /// The caller copies its first `copied` bytes to a new block.
    Move { copied: usize },
}

/// Resizes the block to `bytes`, at least one, where it can stay.
pub fn resize(block: *mut u8, bytes: usize) -> Resized {
    // SAFETY: `owns` has said so.
    let Some((_, record)) = (unsafe { records::of(block) }) else {
        return Resized::Move { copied: 0 };
    };
    let usable = usable(block);
    // What has become much smaller gives its memory back.
    if bytes <= usable && bytes >= usable / 2 {
        record.bytes.store(bytes as u64, Relaxed);
        let listed = record.listed.load(Relaxed);
        if let Some(place) = session::get().and_then(|session| place(session, listed)) {
            place.bytes.store(bytes as u64, Relaxed);
        }
        return Resized::InPlace;
    }
    Resized::Move { copied: (record.bytes.load(Relaxed) as usize).min(bytes) }
}

/// The entry of a block of ours; blocks that move keep it where the plan says nothing else.
pub fn entry_of(block: *mut u8) -> Option<u32> {
    // SAFETY: `owns` has said so.
    let (_, record) = unsafe { records::of(block) }?;
    Some(record.entry.load(Relaxed))
}

#[cfg(test)]
#[path = "large_tests.rs"]
mod tests;
