//! Who uses which page of memory, as far as samples show it, and on which NUMA node each lies.
//!
//! A sample counts for the likeliest of the accesses that it may be about. What it stands for
//! depends on what is sampled: accesses, transfers, or, of a clock, only itself, since samples of
//! time come the more, the longer accesses take. Whether an access was local, each sample tells:
//! the node of its processor is compared with the node on which the page lies when the kernel is
//! asked next, or was found not long before. Neighbours: `follow` has the samples, `nodes` asks,
//! `heap` knows blocks, `crate::pages` makes the tables of exact recordings, `collect` adds these
//! to a profile.

use crate::clock::cpu_time;
use crate::sampled::heap::Life;
use crate::sampled::nodes::Nodes;
use access::Access;
use perf::{From, Sample};
use profile::{
    AccessRow, NodesSeen, PAGE_BYTES, PAGE_SHIFT, PageRow, PageTables, PageUse, TouchedRow,
};
use rustc_hash::FxHashMap;
use sampling::Stream;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use types::ThreadId;

/// Most pages, and most cells of page, time slice and thread, of a process.
const MAX_PAGES: usize = 1 << 20;
const MAX_CELLS: usize = 1 << 21;
/// Most stretches of time that accesses are told apart by.
const MAX_STRETCHES: u32 = 64;
/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;
/// Pages whose node is asked for at once.
const AT_ONCE: usize = 512;
/// Asking for nodes takes at most 1/`SHARE` of a processor, and this time at first; it happens this
/// often at most.
const SHARE: u32 = 200;
const AT_FIRST: Duration = Duration::from_millis(200);
const ASK_EVERY: Duration = Duration::from_millis(5);
/// How long a page is taken to be where it was found: it may be moved at any time.
const FRESH_NS: u64 = 1_000_000_000;

/// A thread on a page in a time slice, and the node from which it accessed the page, where there
/// are several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Place {
    page: u64,
    slice: u32,
    thread: ThreadId,
    node: Option<u32>,
}

/// What its samples add up to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Cell {
    hits: u64,
    reads: f64,
    writes: f64,
    /// Of both, those of which it is known that they came from beyond the private caches.
    missed: f64,
    /// Hits of which it is known where the data came from.
    told: u64,
    /// Hits of which it is known whether the page was on the thread's node.
    seen: NodesSeen,
}

impl Cell {
    fn join(&mut self, more: &Self) {
        self.hits += more.hits;
        self.reads += more.reads;
        self.writes += more.writes;
        self.missed += more.missed;
        self.told += more.told;
        self.seen.local += more.seen.local;
        self.seen.remote += more.seen.remote;
    }

    /// All hits that wait for it were found to be on a page on this node.
    fn settle(&mut self, own: Option<u32>, node: u32) {
        let waiting = self.hits - self.seen.all();
        match own == Some(node) {
            true => self.seen.local += waiting,
            false => self.seen.remote += waiting,
        }
    }
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The first block of the heap that was sampled there.
    block: Option<Life>,
    node: Option<u32>,
    /// When it was found there.
    found_ns: u64,
}

impl Known {
    /// The node, if it was found not long before.
    fn node_at(&self, time_ns: u64) -> Option<u32> {
        self.node.filter(|_| time_ns < self.found_ns + FRESH_NS)
    }
}

/// The pages of one process.
#[derive(Clone, Debug)]
pub struct Pages {
    cells: FxHashMap<Place, Cell>,
    /// Lines that a thread has accessed, and written.
    touched: FxHashMap<(u64, ThreadId), (u64, u64)>,
    known: FxHashMap<u64, Known>,
    /// Pages whose node is to be asked for.
    unasked: Vec<u64>,
    /// By page: what has hits that wait for the answer.
    waiting: FxHashMap<u64, Vec<Place>>,
    began: Instant,
    asked_at: Instant,
    /// Time that asking took.
    asking: Duration,
    lost: u64,
}

impl Default for Pages {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            cells: FxHashMap::default(),
            touched: FxHashMap::default(),
            known: FxHashMap::default(),
            unasked: Vec::new(),
            waiting: FxHashMap::default(),
            began: now,
            asked_at: now,
            asking: Duration::ZERO,
            lost: 0,
        }
    }
}

impl Pages {
    /// Counts a sample of a thread in a time slice on a processor of this node, with the accesses
    /// that it may be about, the likeliest first. Returns the number of the page if it is a new
    /// one.
    pub fn sample(
        &mut self,
        (thread, slice, node): (ThreadId, u32, Option<u32>),
        sample: &Sample,
        accesses: &[Access],
        stream: Stream,
    ) -> Option<u64> {
        let first = accesses.first()?;
        let page = first.address >> PAGE_SHIFT;
        let is_new = !self.known.contains_key(&page);
        let place = Place { page, slice, thread, node };
        let cells = self.cells.len();
        if is_new && self.known.len() >= MAX_PAGES
            || cells >= MAX_CELLS && !self.cells.contains_key(&place)
        {
            self.lost += 1;
            return None;
        }
        let stands_for = match stream {
            Stream::Waiting => 1.0,
            Stream::Accesses | Stream::Transfers | Stream::Context => sample.period as f64,
        };
        let kinds = u8::from(first.kind.reads()) + u8::from(first.kind.writes());
        let missed = match sample.precise.map(|precise| precise.from) {
            None | Some(From::Unknown) => None,
            Some(From::Own) => Some(0.0),
            Some(From::Shared | From::OtherCore | From::OtherCoreModified | From::Memory) => {
                Some(stands_for * f64::from(kinds))
            }
        };
        let known = self.known.get(&page).and_then(|known| known.node_at(sample.time_ns));
        let cell = self.cells.entry(place).or_default();
        cell.join(&Cell {
            hits: 1,
            reads: if first.kind.reads() { stands_for } else { 0.0 },
            writes: if first.kind.writes() { stands_for } else { 0.0 },
            missed: missed.unwrap_or(0.0),
            told: u64::from(missed.is_some()),
            seen: NodesSeen::default(),
        });
        match (node, known) {
            (None, _) => {}
            (Some(_), Some(found)) if !self.waiting.contains_key(&page) => cell.settle(node, found),
            _ => self.wait(place),
        }
        if is_new {
            self.known.insert(page, Known::default());
            self.unasked.push(page);
        }
        // The thread has made all of them; of other pages the samples there tell.
        for access in accesses.iter().filter(|access| access.address >> PAGE_SHIFT == page) {
            let lines = lines(access);
            let touched = self.touched.entry((page, thread)).or_default();
            touched.0 |= lines;
            touched.1 |= if access.kind.writes() { lines } else { 0 };
        }
        is_new.then_some(page)
    }

    /// A hit waits for the node of its page.
    fn wait(&mut self, place: Place) {
        let waiting = self.waiting.entry(place.page).or_default();
        if waiting.is_empty() && self.known.contains_key(&place.page) {
            self.unasked.push(place.page);
        }
        if !waiting.contains(&place) {
            waiting.push(place);
        }
    }

    /// A block of the heap lies on a page.
    pub fn lies_on(&mut self, page: u64, block: Life) {
        if let Some(known) = self.known.get_mut(&page) {
            known.block.get_or_insert(block);
        }
    }

    /// Time slices are joined two by two.
    pub fn join_slices(&mut self) {
        let joined = |place: Place| Place { slice: place.slice / 2, ..place };
        for (place, cell) in std::mem::take(&mut self.cells) {
            self.cells.entry(joined(place)).or_default().join(&cell);
        }
        for waiting in self.waiting.values_mut() {
            waiting.iter_mut().for_each(|place| *place = joined(*place));
            waiting.sort_unstable_by_key(|place| (place.slice, place.thread, place.node));
            waiting.dedup();
        }
    }

    /// Asks on which nodes pages lie, when it is time.
    pub fn look_if_due(&mut self, pid: u32, nodes: &Nodes, now: Instant) {
        let may_take = AT_FIRST + now.saturating_duration_since(self.began) / SHARE;
        let is_due = now >= self.asked_at + ASK_EVERY && self.asking < may_take;
        if self.unasked.is_empty() || !is_due {
            return;
        }
        let from = self.unasked.len().saturating_sub(AT_ONCE);
        let asked = self.unasked.split_off(from);
        let (found_ns, before) = (perf::now_ns(), cpu_time());
        for (page, node) in nodes.of_pages(pid, &asked) {
            self.found(page, node, found_ns);
        }
        // The rest is not there any more; whoever accesses it again waits for another answer.
        asked.iter().for_each(|page| drop(self.waiting.remove(page)));
        self.asked_at = now;
        self.asking += cpu_time().saturating_sub(before);
    }

    /// A page was found on a node.
    fn found(&mut self, page: u64, node: u32, found_ns: u64) {
        let Some(known) = self.known.get_mut(&page) else { return };
        (known.node, known.found_ns) = (Some(node), found_ns);
        for place in self.waiting.remove(&page).unwrap_or_default() {
            if let Some(cell) = self.cells.get_mut(&place) {
                cell.settle(place.node, node);
            }
        }
    }

    /// What the tables rest on.
    pub fn page_use(&self) -> PageUse {
        PageUse { estimated: true, private_bytes: 0, lost: self.lost }
    }

    /// The tables, in a run of which `slice_of` names the slices, `slices` of them. `scale` is what
    /// a unit of each thread's samples stands for; `thread_of` tells who has allocated a block. An
    /// object is the number of a group of blocks of the heap, 0 for what is none.
    pub fn tables(
        &self,
        (slices, slice_of): (usize, impl Fn(u32) -> u32),
        scale: impl Fn(ThreadId) -> f64,
        thread_of: impl Fn(&Life) -> Option<ThreadId>,
    ) -> PageTables {
        let mut pages: Vec<u64> = self.cells.keys().map(|place| place.page).collect();
        pages.sort_unstable();
        pages.dedup();
        let numbers: FxHashMap<u64, u32> = pages.iter().copied().zip(0..).collect();
        let stretch = (slices as u32).div_ceil(MAX_STRETCHES).max(1);
        let mut sums: BTreeMap<(u32, u32, ThreadId), Sum> = BTreeMap::new();
        for (place, cell) in &self.cells {
            let slice = slice_of(place.slice) / stretch * stretch;
            sums.entry((numbers[&place.page], slice, place.thread)).or_default().add(place, cell);
        }
        let mut intervals: HashMap<u64, (f64, f64)> = HashMap::new();
        let access = |((page, slice, thread), sum): (&(u32, u32, ThreadId), &Sum)| {
            let hits = sum.all.hits;
            let interval = *intervals.entry(hits).or_insert_with(|| statistics::poisson(hits));
            let row = access_row(&sum.all, scale(*thread), interval);
            let node = sum.mostly();
            let seen = node.map(|_| sum.all.seen);
            AccessRow { page: *page, slice: *slice, thread: *thread, node, seen, ..row }
        };
        let accesses = sums.iter().map(access).collect();
        let mut touched: Vec<TouchedRow> = self
            .touched
            .iter()
            .filter_map(|((page, thread), (lines, written))| {
                let (page, lines, written) = (*numbers.get(page)?, *lines, *written);
                Some(TouchedRow { page, thread: *thread, lines, written })
            })
            .collect();
        touched.sort_unstable_by_key(TouchedRow::key);
        let page_row = |page: &u64| {
            let Known { block, node, .. } = self.known.get(page).copied().unwrap_or_default();
            let address = page << PAGE_SHIFT;
            let begins = |block: Life| block.start / PAGE_BYTES * PAGE_BYTES;
            PageRow {
                address,
                object: block.map_or(0, |block| block.group),
                ordinal: block.map_or(0, |block| block.ordinal),
                offset: block.map_or(0, |block| address.saturating_sub(begins(block))),
                allocated_by: block.and_then(|block| thread_of(&block)),
                node,
                ..PageRow::default()
            }
        };
        PageTables { pages: pages.iter().map(page_row).collect(), accesses, touched }
    }
}

/// Cells of a thread on a page, from all nodes and in several slices.
#[derive(Default)]
struct Sum {
    all: Cell,
    by_node: BTreeMap<u32, u64>,
}

impl Sum {
    fn add(&mut self, place: &Place, cell: &Cell) {
        self.all.join(cell);
        if let Some(node) = place.node {
            *self.by_node.entry(node).or_default() += cell.hits;
        }
    }

    /// The node with most hits, of several the first.
    fn mostly(&self) -> Option<u32> {
        let most =
            self.by_node.iter().max_by_key(|(node, hits)| (**hits, std::cmp::Reverse(**node)));
        most.map(|(node, _)| *node)
    }
}

/// The lines of its page that an access touches, bit i = line i.
fn lines(access: &Access) -> u64 {
    let first = access.address % PAGE_BYTES;
    let last = (first + u64::from(access.bytes.max(1)) - 1).min(PAGE_BYTES - 1);
    (first / LINE_BYTES..=last / LINE_BYTES).fold(0, |lines, line| lines | 1 << line)
}

fn access_row(cell: &Cell, scale: f64, (low, high): (f64, f64)) -> AccessRow {
    let hits = cell.hits.max(1) as f64;
    let reads = (cell.reads * scale).round() as u64;
    let writes = (cell.writes * scale).round() as u64;
    let reads = if reads + writes == 0 { 1 } else { reads };
    let total = reads.saturating_add(writes);
    let of = |bound: f64| total as f64 * bound / hits;
    AccessRow {
        reads,
        writes,
        low: (of(low).floor() as u64).min(total),
        high: (of(high).ceil() as u64).max(total),
        hits: cell.hits,
        missed: (cell.told == cell.hits).then(|| ((cell.missed * scale).round() as u64).min(total)),
        ..AccessRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use access::AccessKind;

    fn sample(period: u64) -> Sample {
        Sample {
            time_ns: 1,
            pid: 1,
            tid: 1,
            cpu: 0,
            event: 0,
            ip: 0,
            period,
            registers: None,
            precise: None,
        }
    }

    fn access(address: u64, kind: AccessKind) -> Access {
        Access { address, bytes: 8, kind, site: 0 }
    }

    fn tables(pages: &Pages) -> PageTables {
        pages.tables((4, |slice| slice), |_| 1.0, |_| None)
    }

    #[test]
    fn samples_add_up_by_page_slice_and_thread() {
        let mut pages = Pages::default();
        let (t0, t1) = (ThreadId(0), ThreadId(1));
        let mut see = |thread, slice, address, kind| {
            let seen = [access(address, kind), access(address + 64, AccessKind::Load)];
            pages.sample((thread, slice, None), &sample(1000), &seen, Stream::Accesses)
        };
        assert_eq!(see(t0, 0, 0x5000, AccessKind::Load), Some(5));
        assert_eq!(see(t0, 0, 0x5008, AccessKind::Load), None);
        assert_eq!(see(t1, 3, 0x5040, AccessKind::Update), None);
        assert_eq!(see(t1, 1, 0x2fc0, AccessKind::Store), Some(2));
        let tables = tables(&pages);
        assert_eq!(tables.pages.iter().map(|p| p.address).collect::<Vec<_>>(), [0x2000, 0x5000]);
        let rows: Vec<_> = tables
            .accesses
            .iter()
            .map(|r| (r.page, r.slice, r.thread.0, r.reads, r.writes, r.hits, r.missed))
            .collect();
        assert_eq!(
            rows,
            [
                (0, 1, 1, 0, 1000, 1, None),
                (1, 0, 0, 2000, 0, 2, None),
                (1, 3, 1, 1000, 1000, 1, None)
            ]
        );
        // Two samples: 0.24 to 7.2 where 2 were seen (Garwood).
        let row = tables.accesses[1];
        assert!((240..250).contains(&row.low) && (7220..7230).contains(&row.high), "{row:?}");
        // The neighbouring access lies on the next page.
        let lines: Vec<_> = tables.touched.iter().map(|r| (r.page, r.lines, r.written)).collect();
        assert_eq!(lines, [(0, 1 << 63, 1 << 63), (1, 0b11, 0), (1, 0b110, 0b10)]);
    }

    #[test]
    fn samples_of_time_stand_for_themselves() {
        let mut pages = Pages::default();
        for slice in [0, 1, 2, 3] {
            let seen = [access(0x1000, AccessKind::Load)];
            let at = (ThreadId(0), slice, None);
            pages.sample(at, &sample(1_000_000), &seen, Stream::Waiting);
        }
        pages.join_slices();
        let rows: Vec<_> = tables(&pages).accesses.iter().map(|r| (r.slice, r.reads)).collect();
        assert_eq!(rows, [(0, 2), (1, 2)]);
    }

    /// Slice, node of the thread, local and remote hits.
    type ByNode = (u32, Option<u32>, Option<(u64, u64)>);

    fn by_nodes(pages: &Pages) -> Vec<ByNode> {
        let seen = |row: &AccessRow| row.seen.map(|seen| (seen.local, seen.remote));
        tables(pages).accesses.iter().map(|row| (row.slice, row.node, seen(row))).collect()
    }

    #[test]
    fn each_sample_is_local_or_remote_by_where_its_page_is_found_next() {
        let mut pages = Pages::default();
        let see = |pages: &mut Pages, slice, node, time_ns| {
            let at = (ThreadId(0), slice, node);
            let sample = Sample { time_ns, ..sample(1) };
            pages.sample(at, &sample, &[access(0x1000, AccessKind::Load)], Stream::Waiting);
        };
        see(&mut pages, 0, Some(0), 1);
        see(&mut pages, 0, Some(1), 2);
        see(&mut pages, 0, Some(1), 3);
        assert_eq!(by_nodes(&pages), [(0, Some(1), Some((0, 0)))]);
        pages.found(1, 1, 10);
        assert_eq!(by_nodes(&pages), [(0, Some(1), Some((2, 1)))]);
        // Found not long ago.
        see(&mut pages, 1, Some(0), 20);
        assert_eq!(by_nodes(&pages)[1], (1, Some(0), Some((0, 1))));
        assert_eq!(pages.unasked, [1]);
        pages.unasked.clear();
        // It may have been moved since: asked again, it was.
        see(&mut pages, 2, Some(0), FRESH_NS + 10);
        see(&mut pages, 2, Some(0), FRESH_NS + 11);
        assert_eq!(by_nodes(&pages)[2], (2, Some(0), Some((0, 0))));
        assert_eq!(pages.unasked, [1]);
        pages.join_slices();
        pages.found(1, 0, FRESH_NS + 20);
        assert_eq!(by_nodes(&pages), [(0, Some(0), Some((2, 2))), (1, Some(0), Some((2, 0)))]);
        assert_eq!(tables(&pages).pages[0].node, Some(0));
        // Of a machine with one node nothing is said.
        let mut one = Pages::default();
        see(&mut one, 0, None, 1);
        one.found(1, 0, 2);
        assert_eq!(by_nodes(&one), [(0, None, None)]);
    }
}
