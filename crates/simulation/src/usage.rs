//! What plans are made from: who communicates with whom, and who accesses which page.
//!
//! One pass over a stream, before it is simulated. Communication is counted as the exact engine
//! counts it (docs/glossary.md): read after write and write after write, by cache line. Of a
//! filtered stream, accesses to pages are those that are in it. Neighbours: `placement` makes plans
//! of it.

use crate::ahead::{AT_ONCE, fetch};
use crate::beside::Beside;
use crate::counts::scaled;
use crate::stream::{Access, Part, Progress, Stream, StreamError, What};
use placement::Page;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::RangeInclusive;
use types::{CommMatrix, ThreadId};

const PAGE_SHIFT: u32 = crate::prepare::PAGE_SHIFT;
const NOBODY: u16 = u16::MAX;
/// Pages that are found without a search, if they were asked for lately.
const RECENT: usize = 1 << 12;

/// Readers that are kept with a line; more are kept apart.
const FEW: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Line {
    writer: u16,
    /// Who has read it since, and then [`NOBODY`].
    readers: [u16; FEW],
}

const NEW: Line = Line { writer: NOBODY, readers: [NOBODY; FEW] };

#[derive(Debug)]
struct PageUsage {
    number: u64,
    life: u32,
    first: u32,
    accesses: SmallVec<[(u32, u64); 2]>,
    lines: Box<[Line]>,
}

/// What a stream uses.
#[derive(Debug)]
pub struct Usage {
    line_shift: u32,
    pages: Vec<PageUsage>,
    /// Where in the list a page is; and those asked for lately, by their last bits.
    known: FxHashMap<u64, u32>,
    recent: Vec<(u64, u32)>,
    /// Of lines with more readers than a few: the others, by the line's number.
    many: FxHashMap<u64, Vec<u16>>,
    /// Pages that were given back at an address.
    ended: FxHashMap<u64, u32>,
    /// Events from the thread that wrote a line to the one that took it.
    pub matrix: CommMatrix,
    /// Accesses of each thread that are in the stream, or that it says were left out.
    pub accesses: Vec<u64>,
    /// Those that a thread made while others made some; all where no two did.
    pub beside: Vec<u64>,
    met: Beside,
    events: Events,
    progress: Progress,
    /// What came before the first window.
    whole: Option<Whole>,
}

/// Events by the threads between which they were.
type Events = FxHashMap<(u32, u32), u64>;

/// What was counted before the first window.
#[derive(Debug)]
struct Whole {
    events: Events,
    accesses: u64,
    /// Of the pages that there were, by thread.
    pages: Vec<SmallVec<[(u32, u64); 2]>>,
}

impl Usage {
    /// Of a stream, in lines of `line_bytes`. If it has windows only, they stand for what is
    /// between them, the run having made `run` accesses in all.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn of(stream: &mut dyn Stream, line_bytes: u64, run: u64) -> Result<Self, StreamError> {
        let (pages, known, many, ended, accesses, events, progress, whole) = Default::default();
        let (beside, met) = Default::default();
        let mut usage = Self {
            line_shift: line_bytes.trailing_zeros().min(PAGE_SHIFT),
            pages,
            known,
            recent: vec![(u64::MAX, 0); RECENT],
            many,
            ended,
            matrix: CommMatrix::new(0),
            accesses,
            beside,
            met,
            events,
            progress,
            whole,
        };
        let mut batch = Vec::new();
        while stream.read(&mut batch)? {
            for some in batch.chunks(AT_ONCE) {
                usage.fetch(some);
                some.iter().for_each(|access| usage.access(access));
            }
            batch.clear();
        }
        let met = std::mem::take(&mut usage.met).finish(usage.accesses.len());
        usage.beside = met.unwrap_or_else(|| usage.accesses.clone());
        usage.scale(run);
        usage.matrix = CommMatrix::new(usage.accesses.len());
        let mut events: Vec<_> = usage.events.drain().collect();
        events.sort_unstable();
        for ((from, to), count) in events {
            usage.matrix.add(ThreadId(from), ThreadId(to), count);
        }
        usage.pages.iter_mut().for_each(|page| page.lines = Box::default());
        Ok(usage)
    }

    /// Number of threads: those that accessed memory, and all numbered below them.
    pub fn threads(&self) -> usize {
        self.accesses.len()
    }

    /// The pages in the order of their first accesses, with threads for columns. Memory that was
    /// given back and taken again is other pages.
    pub fn pages(&self) -> Vec<Page> {
        let page = |page: &PageUsage| {
            let mut accesses = vec![0; self.threads()];
            page.accesses.iter().for_each(|&(thread, count)| accesses[thread as usize] = count);
            Page { number: page.number, first_touch: page.first as usize, accesses }
        };
        self.pages.iter().map(page).collect()
    }

    /// For each page its address, divided by the page size, and how many there were before it.
    pub fn lives(&self) -> impl Iterator<Item = (u64, u32)> {
        self.pages.iter().map(|page| (page.number, page.life))
    }

    fn access(&mut self, access: &Access) {
        let t = access.thread;
        if let What::Window(part) = access.what {
            self.count(t, access.skipped);
            return self.enter(access.address, part);
        }
        if access.skipped > 0 {
            self.count(t, access.skipped);
        }
        if access.bytes == 0 {
            return;
        }
        let last = access.address.saturating_add(access.bytes - 1);
        if access.what == What::Forget {
            return self.forget(access.address, access.bytes);
        }
        self.count(t, 1);
        let mut page = (u64::MAX, 0);
        for line in access.address >> self.line_shift..=last >> self.line_shift {
            let number = line << self.line_shift >> PAGE_SHIFT;
            if page.0 != number {
                page = (number, self.page(t, number));
                self.pages[page.1 as usize].count(t, 1);
            }
            self.line(t, page.1, line, access.what == What::Write);
        }
    }

    /// Fetches what is kept of the accesses' memory. Pages that are new stay so.
    fn fetch(&self, accesses: &[Access]) {
        let known = |access: &Access| {
            if !access.is_real() {
                return None;
            }
            let number = access.address >> PAGE_SHIFT;
            let recent = &self.recent[number as usize % RECENT];
            if recent.0 == number { Some(recent.1) } else { self.known.get(&number).copied() }
        };
        let mut pages = [None; AT_ONCE];
        for (page, access) in pages.iter_mut().zip(accesses) {
            *page = known(access).map(|at| &self.pages[at as usize]);
            page.iter().for_each(|page| fetch(*page));
        }
        for (page, access) in pages.iter().zip(accesses) {
            let line = (access.address & ((1 << PAGE_SHIFT) - 1)) >> self.line_shift;
            page.iter().for_each(|page| fetch(&page.lines[line as usize]));
        }
    }

    /// A thread is the first one in a part of a window. What is known of lines stays, as in caches:
    /// the warm-up brings it up to date.
    fn enter(&mut self, window: u64, part: Part) {
        let is_first = self.progress.part().is_none();
        if !self.progress.enter(window, part) {
            return;
        }
        if is_first {
            self.whole = Some(Whole {
                events: std::mem::take(&mut self.events),
                accesses: self.accesses.iter().sum(),
                pages: self
                    .pages
                    .iter_mut()
                    .map(|page| std::mem::take(&mut page.accesses))
                    .collect(),
            });
        }
    }

    /// Lets windows stand for what is between them.
    fn scale(&mut self, run: u64) {
        let Some(whole) = self.whole.take() else { return };
        let seen = self.accesses.iter().sum::<u64>() - whole.accesses;
        let factor = run.saturating_sub(whole.accesses).max(seen) as f64 / seen.max(1) as f64;
        self.events.values_mut().for_each(|count| *count = scaled(*count, factor));
        for (pair, count) in whole.events {
            *self.events.entry(pair).or_default() += count;
        }
        for page in &mut self.pages {
            page.accesses.iter_mut().for_each(|(_, count)| *count = scaled(*count, factor));
        }
        for (page, accesses) in self.pages.iter_mut().zip(whole.pages) {
            accesses.into_iter().for_each(|(thread, count)| page.count(thread, count));
        }
    }

    /// The memory is new: nobody has written its lines, and pages that lie wholly in it have ended.
    fn forget(&mut self, address: u64, bytes: u64) {
        let last = address.saturating_add(bytes - 1);
        let within = address >> PAGE_SHIFT..=last >> PAGE_SHIFT;
        // A range of gigabytes has few pages that are known.
        let some: Vec<u64> = match within.end() - within.start() < self.known.len() as u64 {
            true => within.filter(|page| self.known.contains_key(page)).collect(),
            false => self.known.keys().copied().filter(|page| within.contains(page)).collect(),
        };
        for page in some {
            let start = page << PAGE_SHIFT;
            let end = start + ((1 << PAGE_SHIFT) - 1);
            let lines = start.max(address) >> self.line_shift..=end.min(last) >> self.line_shift;
            self.forget_lines(page, lines);
            if address <= start && end <= last {
                self.end_page(page);
            }
        }
    }

    fn forget_lines(&mut self, page: u64, lines: RangeInclusive<u64>) {
        let lines_of_page = &mut self.pages[self.known[&page] as usize].lines;
        for number in lines {
            let line = &mut lines_of_page[number as usize % lines_of_page.len()];
            if line.is_full() {
                self.many.remove(&number);
            }
            *line = NEW;
        }
    }

    fn end_page(&mut self, page: u64) {
        if let Some(at) = self.known.remove(&page) {
            self.pages[at as usize].lines = Box::default();
        }
        *self.ended.entry(page).or_default() += 1;
        let recent = &mut self.recent[page as usize % RECENT];
        *recent = if recent.0 == page { (u64::MAX, 0) } else { *recent };
    }

    fn count(&mut self, t: u32, accesses: u64) {
        if self.accesses.len() <= t as usize {
            self.accesses.resize(t as usize + 1, 0);
        }
        self.accesses[t as usize] += accesses;
        self.met.add(t, accesses);
    }

    fn line(&mut self, t: u32, page: u32, number: u64, writes: bool) {
        let lines = &mut self.pages[page as usize].lines;
        let line = &mut lines[number as usize % lines.len()];
        let (reader, many) = (t as u16, &mut self.many);
        let foreign = line.writer != reader && line.writer != NOBODY;
        let counts = self.progress.part().is_none_or(|part| part == Part::Counted);
        let is_event =
            foreign && (writes || line.is_new_to(reader, || many.entry(number).or_default()));
        if is_event && counts {
            *self.events.entry((u32::from(line.writer), t)).or_default() += 1;
        }
        if writes {
            if line.is_full() {
                many.remove(&number);
            }
            *line = Line { writer: reader, ..NEW };
        }
    }

    /// Where in the list the page is, which `t` accesses.
    fn page(&mut self, t: u32, number: u64) -> u32 {
        let recent = &mut self.recent[number as usize % RECENT];
        if recent.0 != number {
            let (pages, lines) = (&mut self.pages, 1 << (PAGE_SHIFT - self.line_shift));
            let at = *self.known.entry(number).or_insert_with(|| {
                let life = self.ended.get(&number).copied().unwrap_or(0);
                let (accesses, lines) = (SmallVec::new(), vec![NEW; lines].into());
                pages.push(PageUsage { number, life, first: t, accesses, lines });
                pages.len() as u32 - 1
            });
            *recent = (number, at);
        }
        recent.1
    }
}

impl PageUsage {
    fn count(&mut self, t: u32, more: u64) {
        match self.accesses.iter_mut().find(|(thread, _)| *thread == t) {
            Some((_, count)) => *count += more,
            None => self.accesses.push((t, more)),
        }
    }
}

impl Line {
    /// Whether there is no room for another reader.
    fn is_full(&self) -> bool {
        self.readers[FEW - 1] != NOBODY
    }

    /// Whether the thread has not read it since it was written; now it has. `others` are the
    /// readers that there is no room for.
    fn is_new_to<'a>(&mut self, reader: u16, others: impl FnOnce() -> &'a mut Vec<u16>) -> bool {
        for known in &mut self.readers {
            if *known == reader {
                return false;
            }
            if *known == NOBODY {
                *known = reader;
                return true;
            }
        }
        let others = others();
        let new = !others.contains(&reader);
        if new {
            others.push(reader);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_pages_are_counted() {
        let access = |thread, what, address| Access::new(thread, what, address, 8, 0);
        let list = [
            access(0, What::Write, 0x1000),
            access(1, What::Read, 0x1008),
            access(1, What::Read, 0x1000),
            access(2, What::Write, 0x1000),
            access(2, What::Read, 0x1000),
            access(1, What::Read, 0x3000),
            access(0, What::Read, 0x1000),
            Access { bytes: 0x1800, ..access(0, What::Forget, 0x0800) },
            access(0, What::Write, 0x1000),
        ];
        let usage = Usage::of(&mut list.into_iter(), 64, 0).unwrap();
        assert_eq!(usage.matrix.to_dense(), [0, 1, 1, 0, 0, 0, 1, 0, 0]);
        let pages = usage.pages();
        assert_eq!((pages[0].number, pages[0].first_touch), (1, 0));
        assert_eq!(pages[0].accesses, [2, 2, 2]);
        assert_eq!((pages[1].number, pages[1].first_touch), (3, 1));
        assert_eq!(pages[2].accesses, [1, 0, 0]);
        assert_eq!(usage.lives().collect::<Vec<_>>(), [(1, 0), (3, 0), (1, 1)]);
    }
}
