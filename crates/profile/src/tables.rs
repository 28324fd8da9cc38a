//! The rows of a profile's tables in memory; `schema.rs` documents the columns.

pub mod footprints;
pub mod pages;
pub mod returns;

use statistics::{Weighted, poisson};
use std::collections::{BTreeMap, BTreeSet};
use types::{CommKind, Evidence, EvidenceSet, GapClass, Sharing, ThreadId, ThreadIdentity};

/// One thread of the recorded program.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadRow {
    /// Its id.
    pub id: ThreadId,
    /// What identifies it in another run.
    pub identity: ThreadIdentity,
    /// Demangled name of the start routine; empty when it has none.
    pub start_symbol: String,
    /// The kernel's thread id.
    pub os_tid: u32,
    /// Nanoseconds after the start of the recording.
    pub started_ns: u64,
    /// When it ended, nanoseconds after the start of the recording.
    pub ended_ns: u64,
    /// Instructions executed; 0 when they were not counted.
    pub instructions: u64,
    /// Load and store operands executed.
    pub loads: u64,
    /// Stores executed.
    pub stores: u64,
    /// Processor time, nanoseconds; 0 when it is not known.
    pub cpu_ns: u64,
}

/// The bounds of a time slice, nanoseconds after the start of the recording; its number is its
/// place in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SliceRow {
    /// Its start.
    pub start_ns: u64,
    /// Equal to `start_ns` for a slice that the machine was too late for.
    pub end_ns: u64,
}

/// What a thread executed in a time slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActivityRow {
    /// Number of the time slice.
    pub slice: u32,
    /// The thread.
    pub thread: ThreadId,
    /// Instructions executed.
    pub instructions: u64,
    /// Loads executed.
    pub loads: u64,
    /// Stores executed.
    pub stores: u64,
}

/// Where a thread was seen in a time slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunningRow {
    /// Number of the time slice.
    pub slice: u32,
    /// The thread.
    pub thread: ThreadId,
    /// The PU, by the kernel's number.
    pub pu: u32,
    /// Processor time up to where it was seen there, nanoseconds.
    pub cpu_ns: u64,
    /// Time in which it waited for a processor, nanoseconds.
    pub waited_ns: u64,
}

impl RunningRow {
    /// What rows are ordered by, and no two rows share.
    pub fn key(&self) -> (u32, ThreadId, u32) {
        (self.slice, self.thread, self.pu)
    }
}

/// Events of one kind between two threads in a time slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommRow {
    /// Number of the time slice.
    pub slice: u32,
    /// The thread that gives; of invalidations, the writer; of undirected pairs, the lower id.
    pub from: ThreadId,
    /// The thread that takes; of invalidations, the reader; of undirected pairs, the higher id.
    pub to: ThreadId,
    /// What was counted.
    pub kind: CommKind,
    /// True or false sharing, where that is known.
    pub sharing: Sharing,
    /// Number of events.
    pub count: u64,
    /// What `count` was estimated from; `None`: it was counted.
    pub sampled: Option<Sampled>,
    /// What shows these events.
    pub evidence: Evidence,
}

/// How well an estimated count is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampled {
    /// Samples that showed one of the events, at least 1.
    pub hits: u64,
    /// The 95 % interval of the count, around it.
    pub low: u64,
    /// The upper end of the interval.
    pub high: u64,
}

/// How far a sum from windows may be off even if the windows agree, as a part of it: half of a 95 %
/// interval. Scaling events by work is a model, and not exactly true. At budgets of 2x and by
/// default, the intervals of 77 % of the cells of stencil, spmv, cg and radix held the exact count
/// without it, and 86 % with it; 0.08 gave 88 %.
const DOUBT: f64 = 0.05;

impl Sampled {
    /// How well the sum of estimated counts is known: the interval of a sum of weights, each hit
    /// weighing what its row's interval says that one may. Rows that were counted add no doubt;
    /// where there is more above one of them, that was not observed, and no window saw any of it.
    /// No sum from windows is known better than to [`DOUBT`].
    /// `alike` is [`Windows::alike`](crate::Windows::alike), 0 without windows. `None` if a row is
    /// exact, or there is none.
    pub fn of_sum<'a>(rows: impl Iterator<Item = &'a CommRow>, alike: f64) -> Option<Self> {
        let (mut below, mut above) = (Weighted::default(), Weighted::default());
        let (mut hits, mut count, mut surely, mut counted) = (0, 0_u64, 0_u64, 0_u64);
        let none = poisson(0).1;
        let mut known: BTreeMap<u64, f64> = BTreeMap::new();
        let mut in_windows = InWindows::default();
        for row in rows {
            let sampled = row.sampled?;
            count = count.saturating_add(row.count);
            let most = *known.entry(sampled.hits).or_insert_with(|| poisson(sampled.hits).1);
            let may_weigh = sampled.high as f64 / most;
            if sampled.is_counted(row) {
                hits += sampled.hits;
                counted = counted.saturating_add(row.count);
                let unseen = (sampled.high - row.count) as f64 / none;
                above.largest = above.largest.max(unseen);
            } else if row.evidence == Evidence::Window {
                in_windows.add(row, may_weigh);
            } else {
                hits += sampled.hits;
                surely = surely.saturating_add(sampled.low);
                below.add(sampled.hits, row.count as f64 / sampled.hits.max(1) as f64);
                above.add(sampled.hits, may_weigh);
            }
        }
        let doubt = DOUBT * in_windows.sum;
        hits += in_windows.add_to([&mut below, &mut above], alike);
        let low = below.sum - (below.sum - below.low()).hypot(doubt);
        let high = above.sum + (above.high() - above.sum).hypot(doubt);
        let low = counted.saturating_add(low.floor() as u64).max(surely).min(count);
        let high = counted.saturating_add(high.ceil() as u64).max(count);
        (hits > 0).then_some(Self { hits, low, high })
    }

    /// Whether the events of this row were counted, while everything was recorded.
    pub fn is_counted(&self, row: &CommRow) -> bool {
        row.evidence == Evidence::Window && self.low == row.count
    }
}

/// Rows of windows. Many small ones may be parts of a few hits.
#[derive(Default)]
struct InWindows {
    sum: f64,
    largest: f64,
    /// Variance by the two threads.
    variances: BTreeMap<(ThreadId, ThreadId), f64>,
}

impl InWindows {
    fn add(&mut self, row: &CommRow, hit: f64) {
        self.sum += row.count as f64;
        self.largest = self.largest.max(hit);
        *self.variances.entry((row.from, row.to)).or_default() += row.count as f64 * hit;
    }

    /// Adds the rows to both sums. Returns how many independent hits they tell as much as.
    fn add_to(self, sums: [&mut Weighted; 2], alike: f64) -> u64 {
        if self.sum <= 0.0 {
            return 0;
        }
        let variance: f64 = self.variances.values().sum();
        let together = self.variances.values().map(|one| one.sqrt()).sum::<f64>().powi(2);
        let hit = (variance + alike * (together - variance)) / self.sum;
        for weighted in sums {
            weighted.add_part(self.sum, hit);
            weighted.largest = weighted.largest.max(self.largest);
        }
        ((self.sum / hit).round() as u64).max(1)
    }
}

impl CommRow {
    /// Events of a whole run, not told apart further.
    pub fn whole(from: ThreadId, to: ThreadId, kind: CommKind, count: u64) -> Self {
        let (sharing, evidence) = (Sharing::Any, Evidence::Exact);
        Self { slice: 0, from, to, kind, sharing, count, sampled: None, evidence }
    }

    /// What rows are ordered by, and no two rows share.
    pub fn key(&self) -> (u32, CommKind, ThreadId, ThreadId, Sharing, Evidence) {
        (self.slice, self.kind, self.from, self.to, self.sharing, self.evidence)
    }
}

/// An instruction that took part in events; its number is its place in the table, and 0 is the
/// unknown site, all fields empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SiteRow {
    /// Address in the program as it ran.
    pub address: u64,
    /// Path of the mapped file; empty when the address lies in none.
    pub module: String,
    /// Offset in that file, bytes.
    pub offset: u64,
    /// Demangled name of the innermost function (inlined ones included), or empty.
    pub function: String,
    /// Source file as the compiler knew it, or empty.
    pub file: String,
    /// Line in that file, from 1; 0 = unknown.
    pub line: u32,
    /// The functions into which `function` was inlined, innermost first, with the place of the
    /// call in each: `g at f.c:10; h at f.c:20`. Empty when nothing was inlined.
    pub inlined: String,
}

/// What memory with events was for: a variable, what one place in the program has allocated, a
/// stack, a file. Its number is its place in the table, and 0 is what is not known, all fields
/// empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectRow {
    /// What kind of memory it is, see `schema.rs`.
    pub region: String,
    /// The variable, whose stack, which file; of allocated memory the function and the place in it
    /// that allocated it, library code left out; or empty.
    pub name: String,
    /// Site of the call that allocated it; 0 = none, or unknown.
    pub site: u32,
    /// Who called the function in which that is, innermost first, as far as known: `g at f.c:10`.
    pub callers: String,
    /// How many blocks were allocated there; 0 = not allocated.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Type of one element, empty where it is not known.
    pub element: String,
    /// Bytes from one element to the next; 0 = not known.
    pub stride: u64,
    /// How many of the blocks were freed; `None` where that is not known.
    pub freed: Option<u64>,
    /// How long those that were freed had been there, on average, ns of the recorded run.
    pub lifetime_ns: Option<u64>,
    /// How many functions, from that in `name` on, only allocate for their callers.
    pub wrappers: u32,
}

/// A block that was allocated, or a variable, on a line of the table of lines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockRow {
    /// The object that it is, or is one of.
    pub object: u32,
    /// Address of its first byte.
    pub start: u64,
    /// How many blocks of the object were allocated before it.
    pub ordinal: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Who allocated it, where that is known.
    pub thread: Option<ThreadId>,
    /// How long it was there until it was freed, ns of the recorded run; `None` where it was not
    /// freed, or that is not known.
    pub lifetime_ns: Option<u64>,
}

/// A field of an object's elements.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FieldRow {
    /// The object.
    pub object: u32,
    /// Offset in an element, bytes.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Its name with those of the fields around it: `lock.owner`.
    pub name: String,
}

/// A way in which the program came to a code site.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallRow {
    /// The site.
    pub site: u32,
    /// Who called its function, innermost first: `f at a.c:10; g at a.c:20`.
    pub path: String,
    /// For how many accesses it stands that took a line from other threads: an estimate.
    pub count: u64,
}

/// Events of one thread on one object in a stretch of time, or at the moment of a sample.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowRow {
    /// Nanoseconds after the start of the recording.
    pub start_ns: u64,
    /// The end of the stretch; `start_ns` for a sample.
    pub end_ns: u64,
    /// The thread that accessed the object.
    pub thread: ThreadId,
    /// The thread that had written what it accessed.
    pub from: ThreadId,
    /// RAW: it read; WAW: it overwrote.
    pub kind: CommKind,
    /// True or false sharing, where that is known.
    pub sharing: Sharing,
    /// The object; 0 = not known.
    pub object: u32,
    /// The line; 0 = not told apart.
    pub line: u64,
    /// Site of the access; 0 = unknown.
    pub site: u32,
    /// Number of events.
    pub count: u64,
    /// Samples that showed them; 0: counted.
    pub hits: u64,
}

/// A 64-byte line of memory on which threads met.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LineRow {
    /// Address of its first byte; 0 stands for all lines that were too many to keep.
    pub line: u64,
    /// What kind of memory it lies in, see `schema.rs`.
    pub region: String,
    /// What lies there: symbols with offsets, whose stack, which file; or empty.
    pub object: String,
    /// Number of threads that wrote and that read in events.
    pub writers: u32,
    /// Threads that read it, as a number.
    pub readers: u32,
    /// RAW events with true sharing.
    pub raw_true: u64,
    /// RAW events with false sharing.
    pub raw_false: u64,
    /// Events whose sharing was not told apart.
    pub raw_any: u64,
    /// WAW events with true sharing.
    pub waw_true: u64,
    /// WAW events with false sharing.
    pub waw_false: u64,
    /// WAW events whose sharing is not known.
    pub waw_any: u64,
    /// Samples that showed its events; 0 where these were counted.
    pub hits: u64,
    /// What shows its events.
    pub evidence: EvidenceSet,
}

impl LineRow {
    /// The sums of the events of one line; region and object are left empty.
    pub fn of(events: &[EventRow]) -> Self {
        let mut row = LineRow { line: events.first().map_or(0, |e| e.line), ..Self::default() };
        let (mut writers, mut readers) = (BTreeSet::<ThreadId>::new(), BTreeSet::new());
        for event in events {
            let sum = match (event.kind, event.sharing) {
                (CommKind::Raw, Sharing::True) => &mut row.raw_true,
                (CommKind::Raw, Sharing::False) => &mut row.raw_false,
                (CommKind::Raw, Sharing::Any) => &mut row.raw_any,
                (CommKind::Waw, Sharing::True) => &mut row.waw_true,
                (CommKind::Waw, Sharing::False) => &mut row.waw_false,
                (CommKind::Waw, Sharing::Any) => &mut row.waw_any,
                (CommKind::Invalidation | CommKind::Undirected, _) => &mut 0,
            };
            *sum = sum.wrapping_add(event.count);
            row.hits = row.hits.wrapping_add(event.hits);
            row.evidence.insert(event.evidence);
            match event.kind {
                CommKind::Raw | CommKind::Invalidation => {
                    writers.insert(event.from);
                    readers.insert(event.to);
                }
                CommKind::Waw => writers.extend([event.from, event.to]),
                CommKind::Undirected => {}
            }
        }
        (row.writers, row.readers) = (writers.len() as u32, readers.len() as u32);
        row
    }
}

/// Events of one kind between two code sites on a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventRow {
    /// The line in [`LineRow::line`].
    pub line: u64,
    /// The thread that gives.
    pub from: ThreadId,
    /// The thread that takes.
    pub to: ThreadId,
    /// What was counted.
    pub kind: CommKind,
    /// True or false sharing, where that is known.
    pub sharing: Sharing,
    /// Sites of the accesses by `from` and by `to`.
    pub from_site: u32,
    /// Site of the access that takes.
    pub to_site: u32,
    /// Number of events.
    pub count: u64,
    /// Bytes of the line, bit i = byte i: those that `from` had written since it took the line and
    /// those that `to` accessed, over all these events.
    pub from_bytes: u64,
    /// Bytes that the taking thread accessed, bit i = byte i of the line.
    pub to_bytes: u64,
    /// Samples from which `count` was estimated; 0: it was counted.
    pub hits: u64,
    /// What shows these events.
    pub evidence: Evidence,
    /// What the line was for then; 0 = not known.
    pub object: u32,
    /// How long before the line was last written; `None` where that is not known.
    pub gap: Option<GapClass>,
    /// Of the events that were seen (`hits`, or `count` where these are 0), how many
    /// [followed](types::streams) another one of the taking thread.
    pub streamed: u64,
}

impl EventRow {
    /// What rows are ordered by, and no two rows share.
    pub fn key(&self) -> impl Ord + use<> {
        let Self { line, object, from, to, kind, sharing, from_site, to_site, .. } = *self;
        let shown = (self.evidence, self.gap);
        (line, object, kind, from, to, sharing, (from_site, to_site), shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell of `hits` hits that weigh `weight` each.
    fn cell(hits: u64, weight: u64) -> CommRow {
        let (low, high) = poisson(hits);
        let end = |hits: f64| hits * weight as f64;
        let (low, high) = (end(low).floor() as u64, end(high).ceil() as u64);
        let (sampled, evidence) = (Some(Sampled { hits, low, high }), Evidence::Sampled);
        let whole = CommRow::whole(ThreadId(0), ThreadId(1), CommKind::Raw, hits * weight);
        CommRow { sampled, evidence, ..whole }
    }

    /// However hits are spread over time slices, kinds and sharing, they tell as much about their
    /// sum.
    #[test]
    fn a_sum_of_cells_has_the_interval_of_all_its_hits() {
        for hits in [1, 2, 3, 10, 200] {
            let apart: Vec<CommRow> = (0..hits).map(|_| cell(1, 1_000_000)).collect();
            let sum = Sampled::of_sum(apart.iter(), 0.0).unwrap();
            let (low, high) = poisson(hits);
            assert_eq!(sum.hits, hits);
            let near = |found: u64, exact: f64| (found as f64 / 1e6 / exact - 1.0).abs() < 1e-3;
            assert!(near(sum.low, low) && near(sum.high, high), "{hits} hits: {sum:?}");
        }
    }

    #[test]
    fn what_surely_happened_stays_in_the_sum() {
        let once = CommRow { sampled: Some(Sampled { hits: 1, low: 1, high: 5572 }), ..cell(1, 1) };
        let sum = Sampled::of_sum([once; 4].iter(), 0.0).unwrap();
        assert_eq!((sum.hits, sum.low), (4, 4));
        // 10.24 × 1000.
        assert!((sum.high as f64 / 10_241.0 - 1.0).abs() < 1e-3, "{sum:?}");
        assert_eq!(Sampled::of_sum([].iter(), 0.0), None);
    }

    /// Five clusters of a thousand events, spread over fifty rows.
    #[test]
    fn parts_of_hits_tell_no_more_than_the_hits() {
        let (low, high) = poisson(1);
        let high = (1000.0 * high).ceil() as u64;
        let sampled = Some(Sampled { hits: 1, low: low as u64, high });
        let part = CommRow { sampled, evidence: Evidence::Window, count: 100, ..cell(1, 1) };
        let sum = Sampled::of_sum([part; 50].iter(), 0.0).unwrap();
        let (low, high) = poisson(5);
        let near = |found: u64, exact: f64| (found as f64 / 1e3 / exact - 1.0).abs() < 1e-2;
        assert!(near(sum.low, low) && near(sum.high, high), "{sum:?}");
    }

    /// The less two pairs of threads vary on their own, the less their sum evens out.
    #[test]
    fn pairs_that_are_alike_tell_no_more_than_one() {
        let of_pair = |to: u32| {
            let (low, high) = poisson(25);
            let end = |hits: f64| (1000.0 * hits) as u64;
            let sampled = Some(Sampled { hits: 25, low: end(low), high: end(high) });
            CommRow { to: ThreadId(to), sampled, evidence: Evidence::Window, ..cell(25, 1000) }
        };
        let rows: Vec<CommRow> = (1..=9).map(of_pair).collect();
        let width = |pairs: usize, alike: f64| {
            let sum = Sampled::of_sum(rows[..pairs].iter(), alike).unwrap();
            (sum.high - sum.low) as f64 / (pairs * 25_000) as f64
        };
        assert!((width(9, 1.0) / width(1, 0.0) - 1.0).abs() < 0.02);
        assert!((width(9, 0.0) * 3.0 / width(1, 0.0) - 1.0).abs() < 0.1);
        assert!(width(9, 0.0) < width(9, 0.5) && width(9, 0.5) < width(9, 1.0));
    }

    #[test]
    fn windows_that_agree_may_all_be_off() {
        let sampled = Some(Sampled { hits: 1_000_000, low: 998_000, high: 1_002_000 });
        let row = CommRow { sampled, evidence: Evidence::Window, ..cell(1_000_000, 1) };
        let sum = Sampled::of_sum([row].iter(), 0.0).unwrap();
        let part = |end: u64| (end as f64 / 1e6 - 1.0).abs() / DOUBT;
        assert!((1.0..1.1).contains(&part(sum.low)) && (1.0..1.1).contains(&part(sum.high)));
    }

    #[test]
    fn what_was_counted_adds_no_doubt() {
        let counted = |count: u64, unseen: u64| {
            let sampled = Some(Sampled { hits: count, low: count, high: count + unseen });
            CommRow { sampled, evidence: Evidence::Window, count, ..cell(1, 1) }
        };
        let sum = |rows: &[CommRow]| Sampled::of_sum(rows.iter(), 0.0).unwrap();
        let ends = |rows: &[CommRow]| (sum(rows).low, sum(rows).high);
        assert_eq!(ends(&[counted(100, 0), counted(1, 0)]), (101, 101));
        // Nothing was seen of any of them: together they had no more than one of them may have.
        assert_eq!(ends(&[counted(100, 3689), counted(50, 3689)]), (150, 3839));
        let (low, high) = ends(&[counted(1_000_000, 0), cell(4, 1000)]);
        assert_eq!((low, high), (1_000_000 + 1089, 1_000_000 + 10_242));
    }

    /// Of sums of cells whose hits are drawn, the interval holds the truth in 95 % of the cases or
    /// more.
    #[test]
    fn intervals_of_sums_cover_the_truth() {
        let mut random = fastrand::Rng::with_seed(11);
        let mut drawn = |mean: f64| {
            let (mut hits, mut left) = (0, mean);
            while left > 0.0 {
                left += random.f64().max(f64::MIN_POSITIVE).ln();
                hits += u64::from(left > 0.0);
            }
            hits
        };
        // Means of single cells from 0 to 3 hits and of a few more, with weights that differ.
        for means in [&[0.2; 10][..], &[0.5, 1.0, 2.0, 3.0], &[1.0; 40], &[0.1, 5.0]] {
            let weight = |place: usize| 1000 * (1 + place as u64 % 3);
            let truth: f64 =
                means.iter().enumerate().map(|(place, mean)| mean * weight(place) as f64).sum();
            const RUNS: usize = 2000;
            let covered = (0..RUNS).filter(|_| {
                let rows: Vec<CommRow> = means
                    .iter()
                    .enumerate()
                    .map(|(place, &mean)| (drawn(mean), weight(place)))
                    .filter(|&(hits, _)| hits > 0)
                    .map(|(hits, weight)| cell(hits, weight))
                    .collect();
                match Sampled::of_sum(rows.iter(), 0.0) {
                    Some(sum) => (sum.low as f64..=sum.high as f64).contains(&truth),
                    // Without hits: up to 3.69 of the largest weight.
                    None => truth <= 3.69 * 3000.0,
                }
            });
            let part = covered.count() as f64 / RUNS as f64;
            assert!(part >= 0.94, "{means:?}: {part}");
        }
    }
}
