//! Who has accessed which page, as the exact engine has counted it, out of its session.
//!
//! Neighbours: `wire::pages` has the layout, the agent writes it, `reference` gives the same from a
//! replay, `page_history` says when, `pages` makes tables of the result.

use crate::allocated::RawBlock;
use crate::error::RecorderError;
use crate::session::Session;
use reference::{Counts as PageCounts, Page, PageAccesses, Touched as TouchedLines};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Acquire;
use types::ThreadId;
use wire::pages::{
    COUNTERS_BYTES, Counters, MAX_PAST, MAX_SLOTS, OWNER_WORDS, OWNERS_OFFSET, Owner, PAST_OFFSET,
    PLACES, Past, SLOT_BYTES, SLOTS_OFFSET, THREADS_OFFSET, TOUCHED_BYTES, Touched,
};
use wire::session::{Header, PAGES_OFFSET};

/// Words of the records, and counts of a thread at a place: reads, writes.
pub const PAST: usize = size_of::<Past>() / 8;
pub const PAIR: usize = 2;
const _: () = assert!(size_of::<Counters>() == 8 * PAIR && size_of::<Touched>() == 8 * PAIR);

/// What is said of a page, as words of `wire::pages::Owner` behind the first one.
type Told = [u64; OWNER_WORDS - 1];

/// What was counted by page of a process.
pub struct PageUses {
    /// All accesses, in the first time slice.
    pub accesses: PageAccesses,
    /// A block on each page where there are allocated ones.
    pub blocks: HashMap<Page, RawBlock>,
    /// The pages, in the order in which they ended; those that are left come last.
    pub lives: Vec<Page>,
}

/// Reads what was counted.
///
/// # Errors
/// Fails when the session cannot be read.
pub fn read(session: &Session, header: &Header) -> Result<PageUses, RecorderError> {
    let mut reading = Reading::default();
    reading.past(session, header)?;
    let mut owners: HashMap<u32, (u64, Told)> = HashMap::new();
    let bytes = (PLACES * size_of::<Owner>()) as u64;
    session.for_each_word(PAGES_OFFSET + OWNERS_OFFSET, bytes, |k, word| {
        let place = (k / OWNER_WORDS) as u32;
        match (k % OWNER_WORDS, owners.get_mut(&place)) {
            (0, _) => {
                owners.insert(place, (word - 1, Told::default()));
            }
            (which, Some((_, told))) => told[which - 1] = word,
            _ => {}
        }
    })?;
    for (number, told) in owners.values() {
        reading.told(*number, told);
        reading.lives.push(reading.page(*number));
    }
    let owners = owners.into_iter().map(|(place, (page, _))| (place, page)).collect();
    let slots = session.words(PAGES_OFFSET + THREADS_OFFSET, MAX_SLOTS.div_ceil(2))?;
    let threads = slots.iter().flat_map(|pair| [*pair as u32, (*pair >> 32) as u32]);
    for (slot, thread) in threads.enumerate().filter(|(_, thread)| *thread != 0) {
        reading.slot(session, slot as u64, ThreadId(thread - 1), &owners)?;
    }
    let Reading { accesses, blocks, lives, .. } = reading;
    Ok(PageUses { accesses, blocks, lives })
}

#[derive(Default)]
struct Reading {
    accesses: PageAccesses,
    blocks: HashMap<Page, RawBlock>,
    lives: Vec<Page>,
    /// Lives of pages that have ended, by the page's number; 0 for others.
    ended: HashMap<u64, u32>,
}

impl Reading {
    /// The page as it is at present.
    fn page(&self, number: u64) -> Page {
        Page { number, life: self.ended.get(&number).copied().unwrap_or(0) }
    }

    /// Who accessed the page first, and which block lies there.
    fn told(&mut self, number: u64, told: &Told) {
        let [first, group, start, bytes, ordinal] = *told;
        let (page, thread, site) = (self.page(number), first as u32, (first >> 32) as u32);
        if thread != 0 {
            self.accesses.first.insert(page, (ThreadId(thread - 1), site));
        }
        let (group, thread) = (group as u32, (group >> 32) as u32);
        if group != 0 && bytes != 0 {
            self.blocks
                .insert(page, RawBlock { start, bytes, ordinal, group, thread, lifetime_ns: None });
        }
    }

    fn accesses(&mut self, number: u64, thread: ThreadId, which: usize, count: u64) {
        let counts = self.accesses.counts.entry((self.page(number), 0, thread));
        let PageCounts { reads, writes } = counts.or_default();
        *(if which == 0 { reads } else { writes }) += count;
    }

    /// Between windows, accesses are counted and their lines mostly not noted.
    fn lines(&mut self, number: u64, thread: ThreadId, which: usize, lines: u64) {
        if lines == 0 {
            return;
        }
        let touched = self.accesses.touched.entry((self.page(number), thread));
        let TouchedLines { lines: all, written } = touched.or_default();
        *(if which == 0 { all } else { written }) |= lines;
    }

    /// What pages and threads have left that are gone, in the order in which they went.
    fn past(&mut self, session: &Session, header: &Header) -> Result<(), RecorderError> {
        let count = (header.past.load(Acquire) as usize).min(MAX_PAST);
        let words = session.words(PAGES_OFFSET + PAST_OFFSET, count * PAST)?;
        for record in words.chunks_exact(PAST).filter(|record| record[0] != 0) {
            let (number, what) = (record[0] - 1, &record[2..]);
            let Some(thread) = record[1].checked_sub(1) else {
                self.told(number, &std::array::from_fn(|k| what[k]));
                self.lives.push(self.page(number));
                *self.ended.entry(number).or_default() += 1;
                continue;
            };
            let (thread, [reads, writes, lines, written]) =
                (ThreadId(thread as u32), [0, 1, 2, 3].map(|k| what[k]));
            for (which, (count, lines)) in [(reads, lines), (writes, written)].iter().enumerate() {
                self.accesses(number, thread, which, *count);
                self.lines(number, thread, which, *lines);
            }
        }
        Ok(())
    }

    /// What the thread in a slot has counted.
    fn slot(
        &mut self,
        session: &Session,
        slot: u64,
        thread: ThreadId,
        owners: &HashMap<u32, u64>,
    ) -> Result<(), RecorderError> {
        let start = PAGES_OFFSET + SLOTS_OFFSET + slot * SLOT_BYTES;
        let owner = |k: usize| owners.get(&((k / PAIR) as u32)).copied();
        session.for_each_word(start, TOUCHED_BYTES, |k, lines| {
            if let Some(page) = owner(k) {
                self.lines(page, thread, k % PAIR, lines);
            }
        })?;
        session.for_each_word(start + TOUCHED_BYTES, COUNTERS_BYTES, |k, count| {
            if let Some(page) = owner(k) {
                self.accesses(page, thread, k % PAIR, count);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionOptions;
    use std::sync::atomic::Ordering::Release;

    #[test]
    fn who_was_seen_on_no_line_of_a_page_that_is_gone_touched_none() {
        let session = Session::create(SessionOptions::default()).unwrap();
        // Page and thread, plus one each; reads, writes, lines, those written; nothing.
        let records: [[u64; PAST]; 2] = [[6, 1, 6, 0, 0, 0, 0], [6, 2, 6, 1, 0b11, 0b01, 0]];
        let bytes: Vec<u8> = records.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        session.write_at(&bytes, PAGES_OFFSET + PAST_OFFSET);
        let header = session.header().unwrap();
        let header = &header.records()[0];
        header.past.store(records.len() as u64, Release);
        let accesses = read(&session, header).unwrap().accesses;
        let page = Page { number: 5, life: 0 };
        let counts = |thread| accesses.counts[&(page, 0, ThreadId(thread))];
        assert_eq!(counts(0), PageCounts { reads: 6, writes: 0 });
        assert_eq!(counts(1), PageCounts { reads: 6, writes: 1 });
        let touched: Vec<_> = accesses.touched.iter().collect();
        let lines = TouchedLines { lines: 0b11, written: 0b01 };
        assert_eq!(touched, [(&(page, ThreadId(1)), &lines)]);
    }
}
