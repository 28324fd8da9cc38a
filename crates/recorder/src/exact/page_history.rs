//! When pages were accessed: what threads have counted so far, read now and then while they run.
//!
//! The agent counts accesses to pages without looking at a clock. The differences between two
//! readings say what was accessed between them. Nothing is lost by that: what was counted in all
//! ([`page_uses`]) is told apart by time, and what no reading has seen came after the last one.
//! Bounded: beyond a number of rows, stretches of time are joined two by two; of a program with
//! more pages and threads than can be remembered, nothing is told about time.
//!
//! Counts are read by the places that pages have (`wire::pages`). Pages that have the same place
//! have it one after the other, so that their counts follow each other there. Neighbours: `turns`
//! says when to read, `page_uses` has the sums.
//!
//! [`page_uses`]: crate::page_uses

use crate::error::RecorderError;
use crate::page_uses::{PAIR, PAST};
use crate::session::Session;
use crate::turns::Turns;
use reference::{Counts, Page, PageAccesses};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;
use types::ThreadId;
use wire::pages::{
    COUNTERS_BYTES, MAX_PAST, MAX_SLOTS, PAST_OFFSET, SLOT_BYTES, SLOTS_OFFSET, THREADS_OFFSET,
    TOUCHED_BYTES, place,
};
use wire::session::PAGES_OFFSET;

/// Least time between two readings.
const MIN_REST: Duration = Duration::from_millis(10);
/// Most rows of a process; with more, stretches are joined.
const MAX_ROWS: usize = 1 << 20;
/// Most places by thread of which counts are remembered.
const MAX_CELLS: usize = 1 << 21;

/// Reads or writes of a thread at a place: place, thread, which ([`Counts`] in this order).
type Cell = (u32, u32, u8);

/// What all processes of a recording have accessed when.
#[derive(Debug, Default)]
pub struct Histories {
    /// By segment.
    of: Vec<History>,
    turns: Turns,
}

impl Histories {
    /// Reads one of the processes that are `live`, if it is time.
    pub fn turn(
        &mut self,
        session: &Session,
        processes: usize,
        live: impl Fn(usize) -> bool,
        now_ns: u64,
    ) {
        self.of.resize_with(processes.max(self.of.len()), History::default);
        let of = &mut self.of;
        self.turns.turn(processes, live, |segment| {
            let history = &mut of[segment];
            // What cannot be read now is in a later stretch.
            let _ = history.read(&session.of_segment(segment as u32), now_ns);
            MIN_REST * (1 << history.joined.min(10))
        });
    }

    /// By segment.
    pub fn finish(self) -> Vec<History> {
        self.of
    }
}

/// What one process has accessed when.
#[derive(Debug, Default)]
pub struct History {
    /// Programs that the process had executed before this one.
    execs: u32,
    /// Ends of the stretches, ns after the start of the recording.
    ends_ns: Vec<u64>,
    /// Accesses by stretch, ascending.
    rows: Vec<(u32, Cell, u64)>,
    /// What was counted so far, of which `past` for pages and threads that are gone.
    seen: HashMap<Cell, u64>,
    past: HashMap<Cell, u64>,
    /// Records of the past that were read.
    past_read: usize,
    /// How often stretches were joined.
    joined: u32,
    /// There is too much to remember.
    is_given_up: bool,
}

impl History {
    /// Adds what was counted since the last reading, up to `now_ns`.
    fn read(&mut self, session: &Session, now_ns: u64) -> Result<(), RecorderError> {
        let header = session.header()?;
        let header = &header.records()[0];
        let execs = header.execs.load(Relaxed);
        if execs != self.execs {
            *self = Self { execs, ..Self::default() };
        }
        if self.is_given_up {
            return Ok(());
        }
        // In this order: what becomes part of the past in between is found at the next reading.
        let past = (header.past.load(Acquire) as usize).min(MAX_PAST);
        self.read_past(session, past)?;
        let mut now = self.past.clone();
        let slots = session.words(PAGES_OFFSET + THREADS_OFFSET, MAX_SLOTS.div_ceil(2))?;
        let threads = slots.iter().flat_map(|pair| [*pair as u32, (*pair >> 32) as u32]);
        for (slot, thread) in threads.enumerate().filter(|(_, thread)| *thread != 0) {
            let start = PAGES_OFFSET + SLOTS_OFFSET + slot as u64 * SLOT_BYTES + TOUCHED_BYTES;
            session.for_each_word(start, COUNTERS_BYTES, |k, count| {
                let cell = ((k / PAIR) as u32, thread - 1, (k % PAIR) as u8);
                *now.entry(cell).or_default() += count;
            })?;
        }
        self.add(now, now_ns);
        Ok(())
    }

    fn read_past(&mut self, session: &Session, count: usize) -> Result<(), RecorderError> {
        let (first, new) = (self.past_read, count.saturating_sub(self.past_read));
        let start = PAGES_OFFSET + PAST_OFFSET + (first * PAST * 8) as u64;
        let words = session.words(start, new * PAST)?;
        for record in words.chunks_exact(PAST) {
            let ([page, thread], what) = ([record[0], record[1]], &record[2..]);
            if page != 0 && thread != 0 {
                for (which, count) in (0..).zip(&what[..PAIR]) {
                    let cell = (place(page - 1) as u32, thread as u32 - 1, which);
                    *self.past.entry(cell).or_default() += count;
                }
            }
        }
        self.past_read = count;
        Ok(())
    }

    /// Adds a stretch that ends at `now_ns`, at which so much has been counted.
    fn add(&mut self, now: HashMap<Cell, u64>, now_ns: u64) {
        let stretch = self.ends_ns.len() as u32;
        let before = self.rows.len();
        for (cell, count) in now {
            let seen = self.seen.entry(cell).or_default();
            if count > *seen {
                self.rows.push((stretch, cell, count - *seen));
                *seen = count;
            }
        }
        self.rows[before..].sort_unstable();
        self.ends_ns.push(now_ns.max(self.ends_ns.last().copied().unwrap_or(0)));
        while self.rows.len() > MAX_ROWS && self.ends_ns.len() > 1 {
            self.join();
        }
        if self.seen.len() > MAX_CELLS {
            *self = Self { execs: self.execs, is_given_up: true, ..Self::default() };
        }
    }

    /// Joins stretches two by two.
    fn join(&mut self) {
        self.joined += 1;
        let last = self.ends_ns.len() - 1;
        let kept = |stretch: usize| stretch % 2 == 1 || stretch == last;
        let ends = self.ends_ns.iter().enumerate().filter(|(stretch, _)| kept(*stretch));
        self.ends_ns = ends.map(|(_, end)| *end).collect();
        self.rows.iter_mut().for_each(|row| row.0 /= 2);
        self.rows.sort_unstable();
        self.rows.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
    }

    /// Tells apart by time what was counted in all: `lives` are the pages in the order in which
    /// they ended, `slice_at` gives the slice of a moment (ns after the start), and the process
    /// ran from `start_ns` to `end_ns`.
    pub fn tell_apart(
        &self,
        accesses: &mut PageAccesses,
        lives: &[Page],
        (start_ns, end_ns): (u64, u64),
        slice_at: impl Fn(u64) -> u32,
    ) {
        if self.ends_ns.is_empty() {
            return;
        }
        let starts = std::iter::once(start_ns).chain(self.ends_ns.iter().copied());
        let ends = self.ends_ns.iter().copied().chain([end_ns]);
        let middle = |(start, end): (u64, u64)| start + end.saturating_sub(start) / 2;
        let slices: Vec<u32> = starts.zip(ends).map(middle).map(slice_at).collect();
        let mut rows: HashMap<Cell, VecDeque<(u32, u64)>> = HashMap::new();
        for (stretch, cell, count) in &self.rows {
            rows.entry(*cell).or_default().push_back((*stretch, *count));
        }
        let last = slices.len() as u32 - 1;
        for page in lives {
            let all = (*page, 0, ThreadId(0))..=(*page, u32::MAX, ThreadId(u32::MAX));
            let all: Vec<_> =
                accesses.counts.range(all).map(|(key, counts)| (*key, *counts)).collect();
            for (key, Counts { reads, writes }) in all {
                accesses.counts.remove(&key);
                for (which, count) in [(0, reads), (1, writes)] {
                    let cell = (place(page.number) as u32, key.2.0, which);
                    for (stretch, count) in taken(rows.get_mut(&cell), count, last) {
                        let key = (*page, slices[stretch as usize], key.2);
                        let Counts { reads, writes } = accesses.counts.entry(key).or_default();
                        *(if which == 0 { reads } else { writes }) += count;
                    }
                }
            }
        }
    }
}

/// Takes `count` from the first rows (stretch, count); what they do not have is in stretch `last`.
fn taken(rows: Option<&mut VecDeque<(u32, u64)>>, mut count: u64, last: u32) -> Vec<(u32, u64)> {
    let mut taken = Vec::new();
    if let Some(rows) = rows {
        while let Some((stretch, left)) = rows.front_mut().filter(|_| count > 0) {
            let part = count.min(*left);
            taken.push((*stretch, part));
            (*left, count) = (*left - part, count - part);
            if *left == 0 {
                rows.pop_front();
            }
        }
    }
    taken.extend((count > 0).then_some((last, count)));
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 5;
    const READS: Cell = (PAGE as u32, 0, 0);

    fn accesses(pages: &[(u32, u64)]) -> (PageAccesses, Vec<Page>) {
        let mut accesses = PageAccesses::default();
        let lives = pages.iter().map(|(life, reads)| {
            let page = Page { number: PAGE, life: *life };
            let counts = Counts { reads: *reads, writes: 0 };
            accesses.counts.insert((page, 0, ThreadId(0)), counts);
            page
        });
        let lives = lives.collect();
        (accesses, lives)
    }

    /// Reads by slice of 100 ns, and life of the page.
    fn by_slice(history: &History, pages: &[(u32, u64)]) -> Vec<(u32, u32, u64)> {
        let (mut accesses, lives) = accesses(pages);
        history.tell_apart(&mut accesses, &lives, (0, 400), |ns| (ns / 100) as u32);
        let cells = accesses.counts.into_iter();
        cells.map(|((page, slice, _), counts)| (page.life, slice, counts.reads)).collect()
    }

    fn history(readings: &[(u64, u64)]) -> History {
        let mut history = History::default();
        for (now_ns, count) in readings {
            history.add(HashMap::from([(READS, *count)]), *now_ns);
        }
        history
    }

    #[test]
    fn what_was_counted_between_two_readings_was_accessed_then() {
        let history = history(&[(100, 7), (200, 7), (300, 10)]);
        assert_eq!(by_slice(&history, &[(0, 12)]), [(0, 0, 7), (0, 2, 3), (0, 3, 2)]);
    }

    #[test]
    fn sums_hold_whatever_was_read_while_counts_moved() {
        // Too much was read once, then less.
        let history = history(&[(100, 9), (200, 4)]);
        assert_eq!(by_slice(&history, &[(0, 6)]), [(0, 0, 6)]);
    }

    #[test]
    fn lives_of_a_page_follow_each_other() {
        let history = history(&[(100, 5), (200, 8)]);
        let told = by_slice(&history, &[(0, 6), (1, 4)]);
        assert_eq!(told, [(0, 0, 5), (0, 1, 1), (1, 1, 2), (1, 3, 2)]);
    }

    #[test]
    fn without_readings_nothing_is_told_about_time() {
        assert_eq!(by_slice(&History::default(), &[(0, 6)]), [(0, 0, 6)]);
    }

    #[test]
    fn joined_stretches_keep_all_accesses() {
        let mut history = history(&[(100, 1), (200, 3), (300, 6)]);
        history.join();
        assert_eq!(history.ends_ns, [200, 300]);
        assert_eq!(history.rows, [(0, READS, 3), (1, READS, 3)]);
    }
}
