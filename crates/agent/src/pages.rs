//! Who accesses which page: where the counters of translated code lie, and what becomes of counts
//! whose page or thread goes.
//!
//! A thread's counters and what it has touched lie in the session, by slot (`wire::pages`). They
//! are mapped a second time below the thread's map of grants, [`COUNTED`] bytes, where translated
//! code reaches them. Below that are bits of the thread's own: which runs of 256 pages it
//! has touched at all, so that others need not be looked at. When pages go or the thread ends,
//! what was counted moves into the session's records of the past.
//!
//! Neighbours: `slow/pages.h` counts and fills in what is touched first; `engine::pages` emits the
//! rest; [`grants`] places it; [`counting`](crate::counting) says what memory is new.

pub use crate::counting::pages_are_counted as are_counted;
use crate::grants;
use crate::layouts::{RUNS, tt_page_owners, tt_pages, tt_touched_runs};
use crate::lock::Lock;
use crate::session;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use engine::pages::PLACES_BITS;
use wire::pages::{
    Counters, MAX_PAST, OWNER_WORDS, OWNERS_OFFSET, PAGE_SHIFT, PAST_OFFSET, PLACES, Past,
    SLOT_BYTES, SLOTS_OFFSET, THREADS_OFFSET, TOUCHED_BYTES, Touched, known, place,
};

/// Whether each access is counted by page, and not only noted what lies there.
pub fn count_everywhere() -> bool {
    session::header().pages.load(Ordering::Relaxed) == known::COUNTED
}

/// Where a slot's part of the session begins, below the thread's map of grants.
pub const COUNTED: u64 = (-(engine::pages::COUNTERS as i64)) as u64 + TOUCHED_BYTES;
/// Bytes below a map of grants.
pub const BELOW: u64 = 4 << 30;

/// Pages of a run.
const RUN: usize = PLACES / RUNS;
const BITS_BYTES: u64 = RUNS as u64 / 8;

const _: () = assert!(PLACES_BITS == wire::pages::PLACES_BITS);
const _: () = assert!(size_of::<Counters>() == 1 << engine::pages::COUNTERS_SHIFT);
const _: () = assert!(COUNTED + BITS_BYTES <= BELOW && SLOT_BYTES <= COUNTED);

/// Held while counts become part of the past.
static ENDING: Lock<()> = Lock::new(());

/// Tells the slow paths where they count, in a process that begins, also as a fork's child.
pub fn prepare() {
    let counted = session::header().pages.load(Ordering::Relaxed) != 0;
    for bits in runs() {
        bits.store(0, Ordering::Relaxed);
    }
    // SAFETY: no slow path runs.
    unsafe {
        tt_page_owners = if counted { session::pages() + OWNERS_OFFSET } else { 0 };
        tt_pages = u32::from(counted);
    }
}

/// Where a slot's part of the session is.
pub fn slot(index: usize) -> u64 {
    session::pages() + SLOTS_OFFSET + index as u64 * SLOT_BYTES
}

/// Runs in which any thread has touched a page, a bit for each.
fn runs() -> &'static [AtomicU64] {
    // SAFETY: only atomic accesses, here and in C.
    unsafe { &*(&raw const tt_touched_runs).cast::<[AtomicU64; RUNS / 64]>() }
}

/// The runs that the thread with that map has touched.
fn runs_of(map: u64) -> &'static [AtomicU64] {
    let bits = (map - COUNTED - BITS_BYTES) as *const AtomicU64;
    // SAFETY: below a map lies that much; only atomic accesses, here and in C.
    unsafe { core::slice::from_raw_parts(bits, RUNS / 64) }
}

fn is_touched(bits: &[AtomicU64], run: usize) -> bool {
    bits[run / 64].load(Ordering::Relaxed) >> (run % 64) & 1 != 0
}

/// The words of what is said of the page that has a place; the first one is the page.
fn owner_words(place: usize) -> &'static [AtomicU64; OWNER_WORDS] {
    let address = session::pages() + OWNERS_OFFSET;
    // SAFETY: within the session; all fields are atomic, and fill whole words.
    unsafe { &*(address as *const [AtomicU64; OWNER_WORDS]).add(place) }
}

/// What the thread with that map has done to the page at a place.
fn of_place(map: u64, place: usize) -> (&'static Touched, &'static Counters) {
    let start = map - COUNTED;
    // SAFETY: below a map lie both arrays; all fields are atomic.
    unsafe {
        let touched = (start as *const Touched).add(place);
        (&*touched, &*((start + TOUCHED_BYTES) as *const Counters).add(place))
    }
}

fn thread_in(index: usize) -> &'static AtomicU32 {
    let address = session::pages() + THREADS_OFFSET;
    // SAFETY: within the session.
    unsafe { &*(address as *const AtomicU32).add(index) }
}

/// The thread with that id has the slot.
pub fn begin(index: usize, id: usize) {
    if are_counted() {
        thread_in(index).store(id as u32 + 1, Ordering::Relaxed);
    }
}

/// The slot's thread is gone: what it has counted becomes part of the past.
pub fn end(index: usize, map: u64) {
    if !are_counted() {
        return;
    }
    let _held = ENDING.lock();
    let bits = runs_of(map);
    for (word, set) in bits.iter().enumerate().filter(|(_, set)| set.load(Ordering::Relaxed) != 0) {
        for run in (0..64).filter(|bit| set.load(Ordering::Relaxed) >> bit & 1 != 0) {
            let first = (word * 64 + run) * RUN;
            (first..first + RUN).for_each(|place| end_use(index, map, place));
        }
        set.store(0, Ordering::Relaxed);
    }
    thread_in(index).store(0, Ordering::Relaxed);
}

/// What the slot's thread has done to the page at that place becomes part of the past.
fn end_use(index: usize, map: u64, place: usize) {
    let (touched, counters) = of_place(map, place);
    let values = [&counters.reads, &counters.writes, &touched.lines, &touched.written];
    let [reads, writes, lines, written] = values.map(|value| value.load(Ordering::Relaxed));
    if reads | writes | lines == 0 {
        return;
    }
    let thread = thread_in(index).load(Ordering::Relaxed);
    let page = owner_words(place)[0].load(Ordering::Relaxed);
    add(page, thread.into(), &[reads, writes, lines, written], reads + writes);
    values.iter().for_each(|value| value.store(0, Ordering::Relaxed));
}

/// Adds a record. Where there is no room for it, its accesses count as lost.
fn add(page: u64, thread: u64, what: &[u64], accesses: u64) {
    let header = session::header();
    let number = header.past.load(Ordering::Relaxed);
    if number as usize >= MAX_PAST || page == 0 {
        header.page_accesses_lost.fetch_add(accesses, Ordering::Relaxed);
        return;
    }
    let address = session::pages() + PAST_OFFSET;
    // SAFETY: within the session; all fields are atomic.
    let past = unsafe { &*(address as *const Past).add(number as usize) };
    past.thread.store(thread, Ordering::Relaxed);
    past.what.iter().zip(what).for_each(|(to, value)| to.store(*value, Ordering::Relaxed));
    past.page.store(page, Ordering::Release);
    header.past.store(number + 1, Ordering::Release);
}

/// The program's memory in `start..end` is new: what was counted for whole pages there becomes part
/// of the past.
pub fn forget(start: u64, end: u64) {
    let (first, last) = (start.div_ceil(1 << PAGE_SHIFT), end >> PAGE_SHIFT);
    if !are_counted() || first >= last {
        return;
    }
    let _held = ENDING.lock();
    // What is larger than all places together meets each of them once.
    let most = (last - first).min(PLACES as u64);
    let mut page = first;
    while page < first + most {
        let next = (page / RUN as u64 + 1) * RUN as u64;
        if is_touched(runs(), place(page) / RUN) {
            for page in page..next.min(first + most) {
                end_page(place(page), first..last);
            }
        }
        page = next;
    }
}

/// Memory has moved, with what it holds: who touched it first did so wherever it was. To be told
/// before what was there is forgotten.
pub fn moved(old: u64, new: u64, bytes: u64) {
    let (first, last) = (old >> PAGE_SHIFT, (old + bytes) >> PAGE_SHIFT);
    if !are_counted() {
        return;
    }
    let _held = ENDING.lock();
    let mut page = first;
    while page < last {
        let next = (page / RUN as u64 + 1) * RUN as u64;
        if is_touched(runs(), place(page) / RUN) {
            for page in page..next.min(last) {
                move_owner(page, page - first + (new >> PAGE_SHIFT));
            }
        }
        page = next;
    }
}

/// Gives a page that nothing has accessed yet the first thread of another one.
fn move_owner(old: u64, new: u64) {
    let [from, to] = [old, new].map(|page| owner_words(place(page)));
    if from[0].load(Ordering::Acquire) != old + 1 || to[0].load(Ordering::Relaxed) != 0 {
        return;
    }
    // Thread and site.
    to[1].store(from[1].load(Ordering::Relaxed), Ordering::Relaxed);
    to[0].store(new + 1, Ordering::Release);
    let run = place(new) / RUN;
    runs()[run / 64].fetch_or(1 << (run % 64), Ordering::Relaxed);
}

/// Ends what was counted for the page at a place, if that page is in a range.
fn end_page(place: usize, range: core::ops::Range<u64>) {
    let owner = owner_words(place);
    let page = owner[0].load(Ordering::Acquire);
    if page == 0 || !range.contains(&(page - 1)) {
        return;
    }
    for (index, map) in grants::live() {
        if is_touched(runs_of(map), place / RUN) {
            end_use(index, map, place);
        }
    }
    let words: [u64; OWNER_WORDS] = core::array::from_fn(|k| owner[k].load(Ordering::Relaxed));
    add(page, 0, &words[1..], 0);
    owner.iter().rev().for_each(|word| word.store(0, Ordering::Release));
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
