//! How the threads use an object: MemProf's questions (section 2.1), answered from the flow of
//! events and from the blocks.
//!
//! How often it changes hands, whether threads use it at the same time or one after the other,
//! whether others than the one that allocated it use it, on other memory nodes, whether it is
//! mostly read, and whether its false sharing comes from blocks that share a line. What too little
//! is known of is `None`. Neighbours: `objects` holds the result, `export` writes it as a table.

use crate::lines::moves_a_line;
use crate::ran::Nodes;
use profile::{BlockRow, EventRow, FlowRow, Profile};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use ts_rs::TS;
use types::numbers::percent;
use types::{CommKind, Sharing, ThreadId};

/// Least number of events, or of samples of them, and of stretches of time.
const MIN_EVENTS: u64 = 50;
const MIN_STRETCHES: usize = 5;
/// Stretches into which samples are put, ns.
const STRETCH_NS: u64 = 10_000_000;
/// From this share of reads on, an object is mostly read.
const MOSTLY: f64 = 0.9;
const LINE_BYTES: u64 = 64;

/// How the threads use an object.
#[derive(Clone, PartialEq, Debug, Default, Serialize, TS)]
pub struct Usage {
    /// Part of the events that are reads, 0 to 1.
    pub reads: f64,
    /// Average time from one access by another thread to the next, ns of the recorded run.
    pub between_ns: Option<f64>,
    /// Part of the events in stretches of time in which several threads took it, 0 to 1.
    pub concurrent: Option<f64>,
    /// Threads that allocated its blocks, ordered by id; empty where that is not known.
    pub allocated_by: Vec<u32>,
    /// Part of the events in which a thread that has not allocated the block takes it.
    pub by_others: Option<f64>,
    /// The same on another memory node than the one where it was allocated.
    pub remote: Option<f64>,
    /// Part of the false sharing between blocks of memory that lie on one line.
    pub packed: Option<f64>,
}

/// What usage is found from.
pub(crate) struct Source<'a> {
    nodes: Option<Nodes>,
    flow: BTreeMap<u32, Vec<&'a FlowRow>>,
    /// By start.
    blocks: Vec<&'a BlockRow>,
    largest: u64,
}

impl<'a> Source<'a> {
    pub(crate) fn new(profile: &'a Profile) -> Self {
        let mut flow: BTreeMap<u32, Vec<&FlowRow>> = BTreeMap::new();
        profile.flow.iter().for_each(|row| flow.entry(row.object).or_default().push(row));
        let mut blocks: Vec<&BlockRow> = profile.blocks.iter().collect();
        blocks.sort_by_key(|block| block.start);
        let largest = blocks.iter().map(|block| block.bytes).max().unwrap_or(0);
        Self { nodes: Nodes::of(profile), flow, blocks, largest }
    }

    /// How an object is used, of which these are the RAW and WAW events.
    pub(crate) fn usage(&self, object: u32, events: &[&EventRow]) -> Usage {
        let sum = |wanted: &dyn Fn(&EventRow) -> bool| -> u64 {
            let wanted = events.iter().filter(|event| moves_a_line(event) && wanted(event));
            wanted.fold(0, |sum, event| sum.saturating_add(event.count))
        };
        let all = sum(&|_| true).max(1);
        let allocated_by: BTreeSet<u32> =
            self.own(object).filter_map(|b| b.thread).map(|t| t.0).collect();
        let (by_others, remote) = self.elsewhere(object, events);
        Usage {
            reads: sum(&|event| event.kind == CommKind::Raw) as f64 / all as f64,
            between_ns: self.between(object),
            concurrent: self.concurrent(object),
            allocated_by: allocated_by.into_iter().collect(),
            by_others,
            remote,
            packed: self.packed(events),
        }
    }

    /// Blocks of an object.
    fn own(&self, object: u32) -> impl Iterator<Item = &BlockRow> {
        self.blocks.iter().copied().filter(move |block| block.object == object)
    }

    /// The flow of an object, if it says enough.
    fn enough(&self, object: u32) -> Option<&[&'a FlowRow]> {
        let rows = self.flow.get(&object)?;
        let shown: u64 =
            rows.iter().map(|row| if row.hits > 0 { row.hits } else { row.count }).sum();
        (shown >= MIN_EVENTS).then_some(rows)
    }

    fn between(&self, object: u32) -> Option<f64> {
        let rows = self.enough(object)?;
        let events: f64 = rows.iter().map(|row| row.count as f64).sum();
        let mut spans: Vec<(u64, u64)> =
            rows.iter().map(|row| (row.start_ns, row.end_ns)).collect();
        let samples = rows.iter().all(|row| row.start_ns == row.end_ns);
        if samples {
            spans = vec![(spans.first()?.0, spans.last()?.1)];
        }
        spans.sort_unstable();
        let (mut active, mut upto) = (0, 0);
        for (start, end) in spans {
            active += end.saturating_sub(start.max(upto));
            upto = upto.max(end);
        }
        (active > 0).then(|| active as f64 / events)
    }

    fn concurrent(&self, object: u32) -> Option<f64> {
        let mut stretches: BTreeMap<u64, (BTreeSet<ThreadId>, f64)> = BTreeMap::new();
        for row in self.enough(object)? {
            let of =
                if row.start_ns == row.end_ns { row.start_ns / STRETCH_NS } else { row.start_ns };
            let (takers, events) = stretches.entry(of).or_default();
            takers.insert(row.thread);
            *events += row.count as f64;
        }
        let all: f64 = stretches.values().map(|(_, events)| events).sum();
        let several = stretches.values().filter(|(takers, _)| takers.len() > 1);
        let several: f64 = several.map(|(_, events)| events).sum();
        (stretches.len() >= MIN_STRETCHES).then(|| several / all)
    }

    /// Parts of the events by others than the thread that allocated the block, and on another node.
    fn elsewhere(&self, object: u32, events: &[&EventRow]) -> (Option<f64>, Option<f64>) {
        let allocators: BTreeSet<ThreadId> = self.own(object).filter_map(|b| b.thread).collect();
        let (mut known, mut others, mut placed, mut remote) = (0_u64, 0_u64, 0_u64, 0_u64);
        for event in events {
            let by = match allocators.len() {
                1 => allocators.first().copied(),
                _ => self.block_at(object, event).and_then(|block| block.thread),
            };
            let Some(by) = by else { continue };
            known += event.count;
            others += if by == event.to { 0 } else { event.count };
            // Where threads were seen last says where they mostly ran.
            let node = |thread| self.nodes.as_ref().and_then(|nodes| nodes.at(thread, u32::MAX));
            if let (Some(a), Some(b)) = (node(by), node(event.to)) {
                placed += event.count;
                remote += if a == b { 0 } else { event.count };
            }
        }
        let part = |of: u64, all: u64| (all >= MIN_EVENTS).then(|| of as f64 / all as f64);
        (part(others, known), part(remote, placed))
    }

    /// The one block of an object that an event's taking thread has used.
    fn block_at(&self, object: u32, event: &EventRow) -> Option<&BlockRow> {
        let mut found = self.in_line(event.line).filter(|block| {
            block.object == object && bytes_of(block, event.line) & event.to_bytes != 0
        });
        let first = found.next();
        first.filter(|_| found.next().is_none())
    }

    fn in_line(&self, line: u64) -> impl Iterator<Item = &BlockRow> {
        let first = self.blocks.partition_point(|b| b.start < line.saturating_sub(self.largest));
        let around = self.blocks[first..].iter().copied();
        let around = around.take_while(move |block| block.start < line.saturating_add(LINE_BYTES));
        around.filter(move |block| line != 0 && block.start.saturating_add(block.bytes) > line)
    }

    fn packed(&self, events: &[&EventRow]) -> Option<f64> {
        let falsely = events.iter().filter(|e| e.sharing == Sharing::False && e.line != 0);
        let (mut all, mut packed) = (0_u64, 0_u64);
        for event in falsely {
            let block = |bytes: u64| {
                let mut of =
                    self.in_line(event.line).filter(|b| bytes_of(b, event.line) & bytes != 0);
                of.next().map(|block| block.start)
            };
            let (Some(from), Some(to)) = (block(event.from_bytes), block(event.to_bytes)) else {
                continue;
            };
            all += event.count;
            packed += if from == to { 0 } else { event.count };
        }
        (all >= MIN_EVENTS).then(|| packed as f64 / all as f64)
    }
}

/// The bytes of a line in which a block lies.
fn bytes_of(block: &BlockRow, line: u64) -> u64 {
    let first = block.start.saturating_sub(line).min(LINE_BYTES);
    let end = block.start.saturating_add(block.bytes).saturating_sub(line).min(LINE_BYTES);
    let below = |bits: u64| if bits >= LINE_BYTES { u64::MAX } else { (1 << bits) - 1 };
    below(end) & !below(first)
}

/// `251 ns`, `1.2 µs`.
fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

impl Usage {
    /// What is worth saying, in sentences.
    pub fn sentences(&self) -> Vec<String> {
        let mut list = Vec::new();
        if let Some(between) = self.between_ns {
            let how = match self.concurrent {
                Some(part) if part >= 0.5 => ", several of them at the same time",
                Some(_) => ", one after the other",
                None => "",
            };
            list.push(format!("Threads take it from each other every {}{how}.", time(between)));
        }
        if self.reads >= MOSTLY {
            list.push(format!("{} of the events are reads.", percent(self.reads)));
        }
        match (self.remote, self.by_others, self.allocated_by.as_slice()) {
            (Some(part), _, [by]) if part >= 0.5 => list.push(format!(
                "T{by} allocated it, and {} of its use is on another memory node.",
                percent(part)
            )),
            (_, Some(part), [by]) if part >= MOSTLY => list.push(format!(
                "T{by} allocated it, and {} of the events are by others.",
                percent(part)
            )),
            _ => {}
        }
        if self.packed.is_some_and(|part| part >= 0.5) {
            list.push("Blocks of different threads lie on one line.".into());
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::shared;

    fn row(start_ns: u64, end_ns: u64, thread: u32, count: u64, hits: u64) -> FlowRow {
        FlowRow {
            start_ns,
            end_ns,
            thread: ThreadId(thread),
            from: ThreadId(0),
            kind: CommKind::Raw,
            sharing: Sharing::True,
            object: 1,
            line: 0,
            site: 0,
            count,
            hits,
        }
    }

    fn usage(change: impl Fn(&mut Profile)) -> Usage {
        let mut profile = shared();
        change(&mut profile);
        let on = |e: &&EventRow| e.line == 0x40_40c0;
        let events: Vec<EventRow> = profile.events.iter().filter(on).copied().collect();
        Source::new(&profile).usage(1, &events.iter().collect::<Vec<_>>())
    }

    #[test]
    fn alternating_and_concurrent_use_and_the_time_between() {
        // Ten stretches of 1 µs: T1 and T2 together, or in turn.
        let together = |p: &mut Profile| {
            p.flow = (0..10)
                .flat_map(|i| [1, 2].map(|t| row(i * 1000, (i + 1) * 1000, t, 10, 0)))
                .collect();
        };
        let found = usage(together);
        assert_eq!((found.between_ns, found.concurrent), (Some(50.0), Some(1.0)));
        assert!(found.sentences()[0].ends_with("every 50 ns, several of them at the same time."));
        let in_turn = |p: &mut Profile| {
            p.flow =
                (0..10).map(|i| row(i * 1000, (i + 1) * 1000, 1 + i as u32 % 2, 10, 0)).collect();
        };
        let found = usage(in_turn);
        assert_eq!((found.between_ns, found.concurrent), (Some(100.0), Some(0.0)));
        assert!(found.sentences()[0].ends_with("every 100 ns, one after the other."));
        // Of ten samples nothing is said.
        let few = |p: &mut Profile| p.flow = (0..10).map(|i| row(i, i, 1, 1000, 1)).collect();
        assert_eq!((usage(few).between_ns, usage(few).concurrent), (None, None));
        let samples = |p: &mut Profile| {
            p.flow = (0..101)
                .map(|i| row(i * 1_000_000, i * 1_000_000, 1 + i as u32 % 2, 100, 1))
                .collect();
        };
        let found = usage(samples);
        // The last one is alone in its stretch.
        assert_eq!(found.between_ns.unwrap().round(), 9901.0);
        assert_eq!(found.concurrent, Some(100.0 / 101.0));
    }

    #[test]
    fn private_data_packed_on_a_line_and_data_of_another_thread() {
        let block = |start, ordinal, thread| BlockRow {
            object: 1,
            start,
            ordinal,
            bytes: 8,
            thread: Some(ThreadId(thread)),
            lifetime_ns: None,
        };
        // Each thread's counter is a block of its own, allocated by itself, or by T0.
        let own = |p: &mut Profile| {
            p.blocks = (0..4).map(|i| block(0x40_40c0 + 8 * i, i, i as u32 + 1)).collect();
        };
        let found = usage(own);
        assert_eq!((found.packed, found.by_others), (Some(1.0), Some(0.0)));
        assert_eq!(found.allocated_by, [1, 2, 3, 4]);
        assert!(found.sentences().contains(&"Blocks of different threads lie on one line.".into()));
        let by_main =
            |p: &mut Profile| p.blocks = vec![BlockRow { bytes: 64, ..block(0x40_40c0, 0, 0) }];
        let found = usage(by_main);
        assert_eq!((found.packed, found.by_others), (Some(0.0), Some(1.0)));
        assert_eq!((found.remote, found.reads), (None, 4000.0 / 4400.0));
        assert_eq!(usage(|_| {}).packed, None);
    }
}
