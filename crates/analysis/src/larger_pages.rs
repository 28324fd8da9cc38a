//! Page use at the sizes that machines and the thesis know, from one recording of 4 KiB pages.
//!
//! A larger page is the sum of the small ones in it, of all that ever lay there. Its first touch is
//! that of the small page that was accessed in the earliest time slice, of several the one with the
//! lowest address. What it names once (object, node) is that of the small page with the most
//! accesses. Pure. Neighbours: `pages` has the metrics, `profile` the tables.

use profile::{AccessRow, PAGE_SHIFT, PageRow, PageTables};
use types::ThreadId;

/// A size of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PageSize {
    /// 4 KiB, the smallest of x86-64.
    #[default]
    K4,
    /// 64 KiB, of other architectures and of large folios.
    K64,
    /// 2 MiB, huge pages of x86-64.
    M2,
    /// 64 MiB, how the thesis extrapolates (4.4.1.1).
    M64,
}

impl PageSize {
    /// All, the smallest first.
    pub const ALL: [PageSize; 4] = [PageSize::K4, PageSize::K64, PageSize::M2, PageSize::M64];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PageSize::K4 => "4KiB",
            PageSize::K64 => "64KiB",
            PageSize::M2 => "2MiB",
            PageSize::M64 => "64MiB",
        }
    }

    /// What has such pages, as a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            PageSize::K4 => "as recorded",
            PageSize::K64 => "pages of other architectures, large folios",
            PageSize::M2 => "huge pages",
            PageSize::M64 => "to see how larger pages would do",
        }
    }

    /// log2 of its bytes.
    pub fn shift(self) -> u32 {
        match self {
            PageSize::K4 => PAGE_SHIFT,
            PageSize::K64 => 16,
            PageSize::M2 => 21,
            PageSize::M64 => 26,
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> u64 {
        1 << self.shift()
    }
}

/// The tables as if pages had this size. Lines that threads touched are known for 4 KiB pages only,
/// and left out of others.
pub fn larger_pages(tables: &PageTables, size: PageSize) -> PageTables {
    if size == PageSize::K4 {
        return tables.clone();
    }
    summed(tables, size)
}

/// The tables as if pages had this size, and as if an address had one life.
pub fn pages_by_address(tables: &PageTables, size: PageSize) -> PageTables {
    summed(tables, size)
}

fn summed(tables: &PageTables, size: PageSize) -> PageTables {
    let mut earliest = vec![u32::MAX; tables.pages.len()];
    let mut totals = vec![0_u64; tables.pages.len()];
    for row in &tables.accesses {
        let page = row.page as usize;
        earliest[page] = earliest[page].min(row.slice);
        totals[page] = totals[page].saturating_add(row.total());
    }
    let number = |page: &PageRow| page.address >> size.shift();
    let mut pages: Vec<PageRow> = Vec::new();
    let mut of_page: Vec<u32> = Vec::with_capacity(tables.pages.len());
    let mut from = 0;
    for parts in tables.pages.chunk_by(|a, b| number(a) == number(b)) {
        let range = from..from + parts.len();
        from = range.end;
        let first = range.clone().min_by_key(|&page| (earliest[page], page)).unwrap_or(range.start);
        let most = range.clone().rev().max_by_key(|&page| totals[page]).unwrap_or(range.start);
        of_page.extend(range.map(|_| pages.len() as u32));
        pages.push(whole(parts, &tables.pages[first], &tables.pages[most], size));
    }
    PageTables { pages, accesses: summed_accesses(tables, &of_page), touched: Vec::new() }
}

/// A larger page of `parts`, of which `first` was touched first and `most` is used most.
fn whole(parts: &[PageRow], first: &PageRow, most: &PageRow, size: PageSize) -> PageRow {
    PageRow {
        address: parts[0].address >> size.shift() << size.shift(),
        touched_by: first.touched_by,
        touched_site: first.touched_site,
        blocks: parts.iter().fold(0, |sum, part| sum.saturating_add(part.blocks)),
        ..*most
    }
}

fn summed_accesses(tables: &PageTables, of_page: &[u32]) -> Vec<AccessRow> {
    let page = |row: &AccessRow| of_page[row.page as usize];
    let mut sums = Vec::new();
    // Parts of a page stand together.
    for parts in tables.accesses.chunk_by(|a, b| page(a) == page(b)) {
        let mut parts: Vec<&AccessRow> = parts.iter().collect();
        parts.sort_by_key(|row| (row.slice, row.thread));
        for same in parts.chunk_by(|a, b| (a.slice, a.thread) == (b.slice, b.thread)) {
            let mut sum = Sum::default();
            same.iter().for_each(|row| sum.add(row));
            sums.push(sum.row(page(same[0]), same[0].slice, same[0].thread));
        }
    }
    sums
}

/// Of several rows. The ends of intervals add up as those of independent estimates.
#[derive(Default)]
struct Sum {
    row: AccessRow,
    below: f64,
    above: f64,
    misses_unknown: bool,
    /// Of the row whose node it has.
    most_hits: u64,
}

impl Sum {
    fn add(&mut self, row: &AccessRow) {
        self.row.reads = self.row.reads.saturating_add(row.reads);
        self.row.writes = self.row.writes.saturating_add(row.writes);
        self.row.hits = self.row.hits.saturating_add(row.hits);
        self.below += (row.total().saturating_sub(row.low) as f64).powi(2);
        self.above += (row.high.saturating_sub(row.total()) as f64).powi(2);
        self.misses_unknown |= row.missed.is_none();
        let missed = self.row.missed.unwrap_or(0).saturating_add(row.missed.unwrap_or(0));
        self.row.missed = Some(missed);
        if row.hits > self.most_hits || self.row.node.is_none() {
            (self.row.node, self.most_hits) = (row.node.or(self.row.node), row.hits);
        }
        if let Some(seen) = row.seen {
            let sum = self.row.seen.get_or_insert_default();
            sum.local = sum.local.saturating_add(seen.local);
            sum.remote = sum.remote.saturating_add(seen.remote);
        }
    }

    fn row(self, page: u32, slice: u32, thread: ThreadId) -> AccessRow {
        let total = self.row.total();
        AccessRow {
            page,
            slice,
            thread,
            low: total.saturating_sub(self.below.sqrt().floor() as u64),
            high: total.saturating_add(self.above.sqrt().ceil() as u64),
            missed: self.row.missed.filter(|_| !self.misses_unknown),
            ..self.row
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_page_is_the_sum_of_its_parts() {
        let small = profile::sample::pages();
        assert_eq!(larger_pages(&small, PageSize::K4), small);
        let large = larger_pages(&small, PageSize::K64);
        assert_eq!(large.pages.len(), 1);
        let page = &large.pages[0];
        // The second page has more accesses.
        assert_eq!((page.address, page.blocks, page.node), (0x40000, 2, None));
        let rows: Vec<_> =
            large.accesses.iter().map(|r| (r.slice, r.thread.0, r.reads, r.writes)).collect();
        assert_eq!(rows, [(0, 0, 0, 1024), (1, 0, 64, 0), (1, 1, 900, 100), (1, 2, 50, 0)]);
        assert_eq!(large.accesses[0].missed, Some(1024));
        let estimate = large.accesses[3];
        assert_eq!((estimate.low, estimate.high, estimate.missed), (13, 121, None));
        let all = |tables: &PageTables| tables.accesses.iter().map(AccessRow::total).sum::<u64>();
        for size in PageSize::ALL {
            assert_eq!(all(&larger_pages(&small, size)), all(&small), "{}", size.name());
            assert_eq!(1_u64 << size.shift(), size.bytes());
        }
    }

    #[test]
    fn the_earliest_part_is_touched_first() {
        let mut small = profile::sample::pages();
        small.pages[0].touched_by = Some(ThreadId(2));
        for row in small.accesses.iter_mut().filter(|row| row.page == 0) {
            row.slice += 3;
        }
        let large = larger_pages(&small, PageSize::M2);
        assert_eq!(large.pages[0].touched_by, Some(ThreadId(0)));
    }
}
