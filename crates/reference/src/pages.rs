//! Accesses to pages, counted in the most obvious way.

use crate::{Access, What};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use types::ThreadId;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;

/// A page at an address, and how often what lay there has gone before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Page {
    /// Its address divided by [`PAGE_BYTES`].
    pub number: u64,
    /// How often memory at this address was unmapped or became new before.
    pub life: u32,
}

/// What a thread has done with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
}

/// The lines of a page that a thread has accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// Bit i: it accessed line i.
    pub lines: u64,
    /// Bit i: it wrote to line i.
    pub written: u64,
}

/// All accesses to pages. An access to two pages counts for both; one of more bytes than a line has
/// counts once for each line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageAccesses {
    /// By page, time slice and thread.
    pub counts: BTreeMap<(Page, u32, ThreadId), Counts>,
    /// By page and thread, over all time.
    pub touched: BTreeMap<(Page, ThreadId), Touched>,
    /// Who accessed a page first, and at which code site.
    pub first: HashMap<Page, (ThreadId, u32)>,
    /// Lives that have ended, by number of the page; 0 for others.
    ended: HashMap<u64, u32>,
    /// Numbers of pages that came from elsewhere.
    moved: BTreeSet<u64>,
}

impl PageAccesses {
    /// Counts an access in a time slice.
    pub fn access(&mut self, slice: u32, access: &Access) {
        match access.what {
            What::Forget => self.forget(access.address, access.bytes),
            What::Copy { to } => self.copy(access, to),
            What::Read | What::Write => self.count(slice, access),
        }
    }

    fn count(&mut self, slice: u32, access: &Access) {
        let writes = access.what == What::Write;
        for part in access.parts(PAGE_BYTES) {
            let page = self.page(part.block);
            self.first.entry(page).or_insert((access.thread, access.site));
            let counts = self.counts.entry((page, slice, access.thread)).or_default();
            let last = (part.first + part.bytes - 1) / LINE_BYTES;
            let each_line = access.bytes > LINE_BYTES;
            let times = if each_line { last - part.first / LINE_BYTES + 1 } else { 1 };
            *(if writes { &mut counts.writes } else { &mut counts.reads }) += times;
            let lines = (part.first / LINE_BYTES..=last).fold(0, |lines, line| lines | 1 << line);
            let touched = self.touched.entry((page, access.thread)).or_default();
            touched.lines |= lines;
            if writes {
                touched.written |= lines;
            }
        }
    }

    fn page(&self, number: u64) -> Page {
        Page { number, life: self.ended.get(&number).copied().unwrap_or(0) }
    }

    /// The range's whole pages move to `to`. They keep the thread that accessed them first.
    fn copy(&mut self, access: &Access, to: u64) {
        self.forget(to, access.bytes);
        let (from, to) = (access.address / PAGE_BYTES, to / PAGE_BYTES);
        for page in 0..access.bytes / PAGE_BYTES {
            if let Some(first) = self.first.get(&self.page(from + page)).copied() {
                self.first.insert(self.page(to + page), first);
                self.moved.insert(to + page);
            }
        }
    }

    /// What lies in pages wholly in the range has gone, where anything was there.
    fn forget(&mut self, address: u64, bytes: u64) {
        let range = address.div_ceil(PAGE_BYTES)..address.saturating_add(bytes) / PAGE_BYTES;
        let all = |number| Page { number, life: 0 };
        let none = ThreadId(0);
        let from = (all(range.start), none);
        let end = (all(range.end.max(range.start)), none);
        let mut gone: Vec<u64> =
            self.touched.range(from..end).map(|((page, _), _)| page.number).collect();
        gone.extend(self.moved.range(range.start..range.end.max(range.start)));
        gone.sort_unstable();
        gone.dedup();
        for number in gone {
            let life = self.ended.entry(number).or_default();
            // A life in which nothing was accessed leaves no trace.
            let used = self.first.contains_key(&Page { number, life: *life });
            *life += u32::from(used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(thread: u32, what: What, address: u64, bytes: u64) -> Access {
        Access { thread: ThreadId(thread), what, address, bytes, site: thread + 7 }
    }

    fn counts(replayed: &PageAccesses) -> Vec<(u64, u32, u32, u32, u64, u64)> {
        let row = |((page, slice, thread), counts): (&(Page, u32, ThreadId), &Counts)| {
            (page.number, page.life, *slice, thread.0, counts.reads, counts.writes)
        };
        replayed.counts.iter().map(row).collect()
    }

    #[test]
    fn accesses_count_for_each_page_that_they_touch() {
        let mut replayed = PageAccesses::default();
        replayed.access(0, &access(1, What::Write, 0x1000, 8));
        replayed.access(0, &access(0, What::Read, 0x1ffc, 8));
        replayed.access(2, &access(1, What::Read, 0x1040, 65));
        assert_eq!(
            counts(&replayed),
            [(1, 0, 0, 0, 1, 0), (1, 0, 0, 1, 0, 1), (1, 0, 2, 1, 2, 0), (2, 0, 0, 0, 1, 0)]
        );
        let page = Page { number: 1, life: 0 };
        assert_eq!(replayed.first[&page], (ThreadId(1), 8));
        assert_eq!(replayed.touched[&(page, ThreadId(1))], Touched { lines: 0b111, written: 1 });
        assert_eq!(replayed.touched[&(page, ThreadId(0))], Touched { lines: 1 << 63, written: 0 });
    }

    #[test]
    fn what_moves_was_accessed_first_where_it_was() {
        let mut replayed = PageAccesses::default();
        replayed.access(0, &access(3, What::Write, 0x1000, 8));
        replayed.access(0, &access(0, What::Copy { to: 0x5000 }, 0x1000, 0x2000));
        replayed.access(0, &access(0, What::Forget, 0x1000, 0x2000));
        replayed.access(0, &access(1, What::Read, 0x5000, 8));
        replayed.access(0, &access(1, What::Read, 0x6000, 8));
        let first = |number, life| replayed.first[&Page { number, life }].0;
        assert_eq!((first(5, 0), first(6, 0)), (ThreadId(3), ThreadId(1)));
        // What came there and went again is no longer there.
        replayed.access(0, &access(0, What::Copy { to: 0x9000 }, 0x5000, 0x1000));
        replayed.access(0, &access(0, What::Forget, 0x9000, 0x1000));
        replayed.access(0, &access(2, What::Read, 0x9000, 8));
        assert_eq!(replayed.first[&Page { number: 9, life: 1 }].0, ThreadId(2));
    }

    #[test]
    fn what_comes_to_lie_at_an_address_later_is_another_page() {
        let mut replayed = PageAccesses::default();
        // Nothing was there yet.
        replayed.access(0, &access(0, What::Forget, 0, 1 << 40));
        replayed.access(0, &access(0, What::Write, 0x1000, 1));
        replayed.access(0, &access(0, What::Write, 0x2000, 1));
        // A part of a page stays.
        replayed.access(0, &access(0, What::Forget, 0x1000, 0x1800));
        replayed.access(0, &access(0, What::Forget, 0x1000, 0x1000));
        replayed.access(0, &access(1, What::Read, 0x1000, 1));
        replayed.access(0, &access(1, What::Read, 0x2000, 1));
        assert_eq!(
            counts(&replayed),
            [(1, 0, 0, 0, 0, 1), (1, 1, 0, 1, 1, 0), (2, 0, 0, 0, 0, 1), (2, 0, 0, 1, 1, 0)]
        );
    }
}
