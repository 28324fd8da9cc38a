//! What plans are made from: who communicates with whom, and who accesses which page.
//!
//! One pass over a stream, before it is simulated. Communication is counted as the exact engine
//! counts it (docs/glossary.md): read after write and write after write, by cache line. Of a
//! filtered stream, accesses to pages are those that are in it. Neighbours: `placement` makes plans
//! of it.

use crate::stream::{Access, Stream, StreamError, What};
use placement::Page;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use types::{CommMatrix, ThreadId};

const PAGE_SHIFT: u32 = crate::prepare::PAGE_SHIFT;
const NOBODY: u32 = u32::MAX;
/// Lines and pages that are found without a search, if they were asked for lately.
const RECENT: usize = 1 << 12;

#[derive(Clone, Debug)]
struct Line {
    writer: u32,
    /// Who has read it since.
    readers: SmallVec<[u16; 4]>,
}

impl Default for Line {
    fn default() -> Self {
        Self { writer: NOBODY, readers: SmallVec::new() }
    }
}

#[derive(Debug)]
struct PageUsage {
    number: u64,
    life: u32,
    first: u32,
    accesses: SmallVec<[(u32, u64); 2]>,
}

/// What a stream uses.
#[derive(Debug)]
pub struct Usage {
    line_shift: u32,
    lines: Vec<Line>,
    /// Where in the list a line is; and those asked for lately, by their last bits.
    numbers: FxHashMap<u64, u32>,
    recent: Vec<(u64, u32)>,
    pages: Vec<PageUsage>,
    known: FxHashMap<u64, u32>,
    /// Pages that were given back at an address.
    ended: FxHashMap<u64, u32>,
    recent_pages: Vec<(u64, u32)>,
    /// Events from the thread that wrote a line to the one that took it.
    pub matrix: CommMatrix,
    /// Accesses of each thread.
    pub accesses: Vec<u64>,
    events: FxHashMap<(u32, u32), u64>,
}

impl Usage {
    /// Of a stream, in lines of `line_bytes`.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn of(stream: &mut dyn Stream, line_bytes: u64) -> Result<Self, StreamError> {
        let (lines, numbers, pages, known, ended, accesses, events) = Default::default();
        let mut usage = Self {
            line_shift: line_bytes.trailing_zeros(),
            lines,
            numbers,
            recent: vec![(u64::MAX, 0); RECENT],
            pages,
            known,
            ended,
            recent_pages: vec![(u64::MAX, 0); RECENT],
            matrix: CommMatrix::new(0),
            accesses,
            events,
        };
        let mut batch = Vec::new();
        while stream.read(&mut batch)? {
            batch.drain(..).for_each(|access| usage.access(&access));
        }
        usage.matrix = CommMatrix::new(usage.accesses.len());
        let mut events: Vec<_> = usage.events.drain().collect();
        events.sort_unstable();
        for ((from, to), count) in events {
            usage.matrix.add(ThreadId(from), ThreadId(to), count);
        }
        (usage.lines, usage.numbers) = Default::default();
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
        if access.skipped > 0 {
            self.count(t, access.skipped);
        }
        if access.bytes == 0 {
            return;
        }
        let last = access.address.saturating_add(access.bytes - 1);
        let lines = access.address >> self.line_shift..=last >> self.line_shift;
        if access.what == What::Forget {
            self.forget_pages(access.address, access.bytes);
            // Only what lies wholly in it; a range of gigabytes has few lines that are known.
            let known = &mut self.lines;
            let mut renew = |number: u32| known[number as usize] = Line::default();
            if lines.end() - lines.start() >= self.numbers.len() as u64 {
                let numbers = self.numbers.iter().filter(|(line, _)| lines.contains(line));
                numbers.for_each(|(_, number)| renew(*number));
            } else {
                lines.filter_map(|line| self.numbers.get(&line)).for_each(|number| renew(*number));
            }
            return;
        }
        self.count(t, 1);
        for page in access.address >> PAGE_SHIFT..=last >> PAGE_SHIFT {
            self.page(t, page);
        }
        for line in lines {
            self.line(t, line, access.what == What::Write);
        }
    }

    /// Pages that lie wholly in memory that is new have ended.
    fn forget_pages(&mut self, address: u64, bytes: u64) {
        let first = address.div_ceil(1 << PAGE_SHIFT);
        let end = address.saturating_add(bytes) >> PAGE_SHIFT;
        let gone: Vec<u64> = match end.saturating_sub(first) < self.known.len() as u64 {
            true => (first..end).filter(|page| self.known.contains_key(page)).collect(),
            false => {
                self.known.keys().copied().filter(|page| (first..end).contains(page)).collect()
            }
        };
        for page in gone {
            self.known.remove(&page);
            *self.ended.entry(page).or_default() += 1;
            let recent = &mut self.recent_pages[page as usize % RECENT];
            *recent = if recent.0 == page { (u64::MAX, 0) } else { *recent };
        }
    }

    fn count(&mut self, t: u32, accesses: u64) {
        if self.accesses.len() <= t as usize {
            self.accesses.resize(t as usize + 1, 0);
        }
        self.accesses[t as usize] += accesses;
    }

    fn line(&mut self, t: u32, number: u64, writes: bool) {
        let recent = &mut self.recent[number as usize % RECENT];
        if recent.0 != number {
            let lines = &mut self.lines;
            let at = *self.numbers.entry(number).or_insert_with(|| {
                lines.push(Line::default());
                lines.len() as u32 - 1
            });
            *recent = (number, at);
        }
        let line = &mut self.lines[recent.1 as usize];
        let foreign = line.writer != t && line.writer != NOBODY;
        let event = match writes {
            true => foreign,
            false => foreign && !line.readers.contains(&(t as u16)),
        };
        if event {
            *self.events.entry((line.writer, t)).or_default() += 1;
        }
        if writes {
            line.writer = t;
            line.readers.clear();
        } else if foreign && event {
            line.readers.push(t as u16);
        }
    }

    fn page(&mut self, t: u32, number: u64) {
        let recent = &mut self.recent_pages[number as usize % RECENT];
        if recent.0 != number {
            let pages = &mut self.pages;
            let at = *self.known.entry(number).or_insert_with(|| {
                let life = self.ended.get(&number).copied().unwrap_or(0);
                pages.push(PageUsage { number, life, first: t, accesses: SmallVec::new() });
                pages.len() as u32 - 1
            });
            *recent = (number, at);
        }
        let accesses = &mut self.pages[recent.1 as usize].accesses;
        match accesses.iter_mut().find(|(thread, _)| *thread == t) {
            Some((_, count)) => *count += 1,
            None => accesses.push((t, 1)),
        }
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
        let usage = Usage::of(&mut list.into_iter(), 64).unwrap();
        assert_eq!(usage.matrix.to_dense(), [0, 1, 1, 0, 0, 0, 1, 0, 0]);
        let pages = usage.pages();
        assert_eq!((pages[0].number, pages[0].first_touch), (1, 0));
        assert_eq!(pages[0].accesses, [2, 2, 2]);
        assert_eq!((pages[1].number, pages[1].first_touch), (3, 1));
        assert_eq!(pages[2].accesses, [1, 0, 0]);
        assert_eq!(usage.lives().collect::<Vec<_>>(), [(1, 0), (3, 0), (1, 1)]);
    }
}
