//! Anonymous memory that the program maps for itself: it stays where the kernel has put it, and its
//! pages get the policies that the plan has for its ranges.
//!
//! Neighbours: `hooks/mapping.rs` tells of mappings; `large.rs` binds, `records.rs` keeps what
//! `reading.rs` looks at.

use crate::large::{bind, list_block, new_record, place};
use crate::mutex::Mutex;
use crate::records::Record;
use crate::session::{self, Session, digits};
use crate::{fixed, reading, sites};
use allocations::busy;
use allocations::chain::Entry;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use injected::policies::{self, PAGE, mode};
use wire::data::OF_MAPPING;

/// Placed mappings that are known at once; further ones are not placed.
const MAX_KNOWN: usize = 1 << 12;

/// Never taken in a forked child, which places nothing.
static LOCK: Mutex = Mutex::new();
/// Records of mappings: those without a block are free.
static KNOWN: [AtomicPtr<Record>; MAX_KNOWN] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_KNOWN];
/// How many have been made.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A mapping that was just made, of whole pages.
#[derive(Clone, Copy)]
pub struct Made {
    pub start: u64,
    pub bytes: u64,
    /// Of mmap.
    pub flags: i32,
}

impl Made {
    fn end(self) -> u64 {
        self.start + self.bytes
    }

    /// Whether its pages are there already.
    fn is_filled(self) -> bool {
        self.flags & (libc::MAP_POPULATE | libc::MAP_LOCKED) != 0
    }
}

fn known() -> impl Iterator<Item = &'static Record> {
    let count = COUNT.load(Acquire).min(MAX_KNOWN);
    // SAFETY: records are for good.
    KNOWN[..count].iter().filter_map(|record| unsafe { record.load(Acquire).as_ref() })
}

/// The placed mapping that holds the address.
fn at(address: u64) -> Option<&'static Record> {
    known().find(|record| {
        let start = record.block.load(Relaxed);
        start != 0 && (start..start + record.bytes.load(Relaxed)).contains(&address)
    })
}

/// Whether a placed mapping is in part in `bytes` from `start` on.
pub fn is_in(start: u64, bytes: u64) -> bool {
    known().any(|record| {
        let first = record.block.load(Relaxed);
        let end = first + record.bytes.load(Relaxed);
        first != 0 && first < start.saturating_add(bytes) && start < end
    })
}

/// A record that is free, or a new one. Under the lock.
fn free_record() -> Option<&'static Record> {
    if let Some(free) = known().find(|record| record.block.load(Relaxed) == 0) {
        return Some(free);
    }
    let count = COUNT.load(Relaxed);
    let record = KNOWN.get(count).and_then(|_| new_record())?;
    KNOWN[count].store(core::ptr::from_ref(record).cast_mut(), Release);
    COUNT.store(count + 1, Release);
    Some(record)
}

/// The program has made a mapping of a size that the plan may mean.
#[cold]
pub fn made(made: Made, entry: Entry) {
    let digits = digits(made.bytes as usize) | OF_MAPPING;
    if !busy::enter() {
        return;
    }
    fixed::catch_up();
    if let Some(session) = session::get() {
        let site = match sites::recent(entry, digits) {
            Some(known) => known,
            None => sites::of(session, entry, digits),
        };
        if let Some(number) = site.and_then(|site| sites::next_entry(session, site)) {
            place_it(session, number, made);
        }
    }
    busy::leave();
}

fn place_it(session: Session, number: u32, made: Made) {
    let entry = &session.entries[number as usize];
    entry.appeared.fetch_add(1, Relaxed);
    let header = session.header;
    if session::is_filtered() {
        header.filtered.fetch_add(1, Relaxed);
        return;
    }
    if session.has_own_policy() {
        header.own_policy.fetch_add(1, Relaxed);
        return;
    }
    let record = LOCK.with(|| {
        let record = free_record()?;
        record.base.store(made.start, Relaxed);
        record.bytes.store(made.bytes, Relaxed);
        record.entry.store(number, Relaxed);
        record.plan_for(made.bytes);
        record.block.store(made.start, Release);
        Some(record)
    });
    // Without a record it could not move: what divides it would not be known.
    let Some(record) = record else {
        header.unlisted.fetch_add(1, Relaxed);
        return;
    };
    let (start, end) = (made.start as usize, made.end() as usize);
    bind(session, entry, (start, end), (start, made.bytes as usize));
    list_block(session, record, made.start, made.bytes, number);
    if made.is_filled() {
        bind_again(session, record, made.start, made.end());
    }
}

/// From an address of a placed mapping to where its policy may change next; `None`: the address is
/// in no placed mapping.
pub fn next_policy(address: u64) -> Option<impl Fn(u64) -> u64> {
    let session = session::get()?;
    let record = at(address)?;
    let entry = session.entries.get(record.entry.load(Relaxed) as usize)?;
    let base = record.base.load(Relaxed);
    let parts = session.parts_of(entry, record.planned_pages());
    Some(move |from: u64| {
        let ends = parts.clone().flat_map(|(_, start, end)| [base + start, base + end]);
        let all = ends.filter(|end| *end > from);
        all.min().unwrap_or(u64::MAX)
    })
}

/// Gives a part of a placed mapping its policies, and moves pages that are there.
fn bind_again(session: Session, record: &Record, from: u64, to: u64) {
    let Some(entry) = session.entries.get(record.entry.load(Relaxed) as usize) else { return };
    let base = record.base.load(Relaxed);
    for (range, first, end) in session.parts_of(entry, record.planned_pages()) {
        let (first, end) = ((base + first).max(from), (base + end).min(to));
        if first < end
            && let Err(error) = fixed::bind(range, first, end)
        {
            entry.error.store(error, Relaxed);
            entry.refused.fetch_add(1, Relaxed);
        }
    }
}

/// A part of a mapping was mapped anew, which takes its policy away.
pub fn renewed(made: Made) {
    let Some(session) = session::get().filter(|_| !session::is_filtered()) else { return };
    if let Some(record) = at(made.start) {
        bind_again(session, record, made.start, made.end());
    }
}

/// Memory is about to be unmapped.
pub fn ends(start: u64, bytes: u64) {
    let Some(session) = session::get() else { return };
    let end = start.saturating_add(bytes).next_multiple_of(PAGE);
    for record in known() {
        let first = record.block.load(Relaxed);
        let last = first + record.bytes.load(Relaxed);
        if first == 0 || last <= start || end <= first {
            continue;
        }
        match (start <= first, last <= end) {
            (true, true) => {
                reading::at_end(session, record);
                record.block.store(0, Release);
            }
            (true, false) => begins_later(session, record, end, last - end),
            (false, true) => record.bytes.store(start - first, Relaxed),
            // A hole: the rest stays as it is.
            (false, false) => {}
        }
        relist(session, record);
    }
}

/// A mapping loses its first part: what the plan says counts from the rest.
fn begins_later(session: Session, record: &Record, start: u64, bytes: u64) {
    record.base.store(start, Relaxed);
    record.bytes.store(bytes, Relaxed);
    record.block.store(start, Release);
    if !session::is_filtered() {
        let _ = policies::bind(start, bytes, mode::DEFAULT, 0, 0);
        bind_again(session, record, start, start + bytes);
    }
}

/// The placed mapping that begins there. To be asked before it moves: afterwards another one may
/// begin there.
pub fn from(start: u64) -> Option<&'static Record> {
    known().find(|record| start != 0 && record.block.load(Relaxed) == start)
}

/// A mapping has moved, or got another size. What is new of it gets its policies.
pub fn moved(record: &Record, new: u64, (old_bytes, bytes): (u64, u64)) {
    let Some(session) = session::get() else { return };
    record.base.store(new, Relaxed);
    record.bytes.store(bytes, Relaxed);
    record.block.store(new, Release);
    if bytes > old_bytes && !session::is_filtered() {
        bind_again(session, record, new + old_bytes, new + bytes);
    }
    relist(session, record);
}

/// Tells the launcher where a mapping is now.
fn relist(session: Session, record: &Record) {
    if let Some(place) = place(session, record.listed.load(Relaxed)) {
        place.bytes.store(record.bytes.load(Relaxed), Relaxed);
        place.start.store(record.block.load(Relaxed), Release);
    }
}

#[cfg(test)]
#[path = "mappings_tests.rs"]
mod tests;
