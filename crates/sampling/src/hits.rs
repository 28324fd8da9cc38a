//! Hits by pair of threads and time slice, and by line of memory and code site.
//!
//! Neighbours: `matching` and watchpoints make the hits, `estimate` makes events of the sums.

use crate::observed::Hit;
use std::collections::BTreeMap;
use types::{CommKind, Evidence, Sharing, ThreadId};

/// Most events by line and site that are kept; those of further lines are summed up as line 0.
const MAX_EVENTS: usize = 1 << 20;

/// Most hits that are kept with their time.
const MAX_KEPT: usize = 1 << 15;

/// Hits with their time: all, or of many every second, fourth and so on.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// In the order in which they came.
    pub hits: Vec<Hit>,
    /// How many each stands for.
    pub every: u64,
    seen: u64,
}

impl Default for Kept {
    fn default() -> Self {
        Self { hits: Vec::new(), every: 1, seen: 0 }
    }
}

impl Kept {
    fn add(&mut self, hit: &Hit) {
        if self.seen.is_multiple_of(self.every) {
            if self.hits.len() >= MAX_KEPT {
                self.thin();
            }
            if self.seen.is_multiple_of(self.every) {
                self.hits.push(*hit);
            }
        }
        self.seen += 1;
    }

    /// Adds what others have kept; those of which more stand for one decide.
    fn join(&mut self, more: &Self) {
        while self.every < more.every {
            self.thin();
        }
        more.hits
            .iter()
            .step_by((self.every / more.every) as usize)
            .for_each(|h| self.hits.push(*h));
        while self.hits.len() > MAX_KEPT {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let mut place = 0;
        self.hits.retain(|_| {
            place += 1;
            place % 2 == 1
        });
        self.every *= 2;
    }
}

/// What hits add up to.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sum {
    /// Number of hits.
    pub hits: u64,
    /// Of these, those that stand for themselves only.
    pub once: u64,
    /// Sum of the weights of the others, and of their squares.
    pub weight: f64,
    /// Sum of the squares of these weights.
    pub squares: f64,
}

impl Sum {
    /// Events that it stands for when a unit of weight is `factor` events, at least 1.
    pub fn events(&self, factor: f64) -> u64 {
        (self.weight * factor + self.once as f64).round().max(1.0) as u64
    }

    /// Adds another sum.
    pub fn join(&mut self, more: &Self) {
        self.hits += more.hits;
        self.once += more.once;
        self.weight += more.weight;
        self.squares += more.squares;
    }

    fn add(&mut self, weight: f64) {
        self.hits += 1;
        self.once += u64::from(weight == 0.0);
        self.weight += weight;
        self.squares += weight * weight;
    }
}

/// A cell of the matrices; ordered as a profile's table `comm` is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell {
    /// Number of the time slice.
    pub slice: u32,
    /// What is counted.
    pub kind: CommKind,
    /// The thread that gives.
    pub from: ThreadId,
    /// The thread that takes.
    pub to: ThreadId,
    /// True or false sharing.
    pub sharing: Sharing,
    /// What shows it.
    pub evidence: Evidence,
}

/// What tells events apart; ordered by line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Event {
    /// Address of the line; 0: lines that were too many to keep.
    pub line: u64,
    /// What is counted.
    pub kind: CommKind,
    /// The thread that gives.
    pub from: ThreadId,
    /// The thread that takes.
    pub to: ThreadId,
    /// True or false sharing.
    pub sharing: Sharing,
    /// Addresses of the instructions.
    pub from_site: u64,
    /// Address of the instruction that takes.
    pub to_site: u64,
    /// What shows it.
    pub evidence: Evidence,
    /// What lies there: [`Hit::object`].
    pub object: u32,
}

/// Hits of an event, and the bytes that they touched, bit i = byte i of the line.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct EventSum {
    /// Its hits.
    pub sum: Sum,
    /// Bytes that the giving thread touched.
    pub from_bytes: u64,
    /// Bytes that the taking thread touched.
    pub to_bytes: u64,
}

/// All hits of a recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Hits {
    /// Hits by cell of the matrices.
    pub cells: BTreeMap<Cell, Sum>,
    /// Hits by line and code sites.
    pub events: BTreeMap<Event, EventSum>,
    /// Hits on lines that were too many to keep.
    pub without_line: u64,
    /// The largest weight of all hits.
    pub largest: f64,
    /// Hits with their time.
    pub kept: Kept,
}

impl Hits {
    /// Adds a hit in time slice `slice`.
    pub fn add(&mut self, slice: u32, hit: &Hit) {
        let Hit { kind, sharing, from, to, weight, evidence, .. } = *hit;
        let cell = Cell { slice, kind, from: from.thread, to: to.thread, sharing, evidence };
        self.cells.entry(cell).or_default().add(weight);
        self.largest = self.largest.max(weight);
        self.kept.add(hit);
        let mut event = Event {
            line: hit.block,
            kind,
            from: from.thread,
            to: to.thread,
            sharing,
            from_site: from.site,
            to_site: to.site,
            evidence,
            object: hit.object,
        };
        let full = self.events.len() >= MAX_EVENTS && !self.events.contains_key(&event);
        if full {
            self.without_line += 1;
            (event.line, event.from_site, event.to_site) = (0, 0, 0);
        }
        let sum = self.events.entry(event).or_default();
        sum.sum.add(weight);
        if !full {
            sum.from_bytes |= from.bytes;
            sum.to_bytes |= to.bytes;
        }
    }

    /// Adds others.
    pub fn join(&mut self, more: &Self) {
        for (cell, sum) in &more.cells {
            self.cells.entry(*cell).or_default().join(sum);
        }
        for (event, sum) in &more.events {
            let all = self.events.entry(*event).or_default();
            all.sum.join(&sum.sum);
            all.from_bytes |= sum.from_bytes;
            all.to_bytes |= sum.to_bytes;
        }
        self.without_line += more.without_line;
        self.largest = self.largest.max(more.largest);
        self.kept.join(&more.kept);
    }

    /// Hits of all kinds.
    pub fn count(&self) -> u64 {
        self.cells.values().map(|sum| sum.hits).sum()
    }

    /// Hits with this evidence.
    pub fn count_by(&self, evidence: Evidence) -> u64 {
        let cells = self.cells.iter().filter(|(cell, _)| cell.evidence == evidence);
        cells.map(|(_, sum)| sum.hits).sum()
    }

    /// Joins time slices two by two.
    pub fn join_slices(&mut self) {
        for (cell, sum) in std::mem::take(&mut self.cells) {
            self.cells.entry(Cell { slice: cell.slice / 2, ..cell }).or_default().join(&sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::Side;

    fn hit(from: u32, to: u32, block: u64, weight: f64) -> Hit {
        let side = |thread, bytes| Side { thread: ThreadId(thread), site: 0x1000, bytes };
        let (kind, sharing) = (CommKind::Raw, Sharing::True);
        let (from, to, evidence) = (side(from, 1), side(to, 2), Evidence::Sampled);
        Hit {
            time_ns: 0,
            block,
            kind,
            sharing,
            from,
            to,
            weight,
            array: false,
            evidence,
            object: 0,
        }
    }

    #[test]
    fn hits_add_up_by_pair_and_by_line() {
        let mut hits = Hits::default();
        for (slice, hit) in
            [(0, hit(0, 1, 64, 2.0)), (1, hit(0, 1, 64, 3.0)), (3, hit(0, 1, 128, 0.0))]
        {
            hits.add(slice, &hit);
        }
        assert_eq!((hits.cells.len(), hits.events.len(), hits.count()), (3, 2, 3));
        let first = hits.events.values().next().unwrap();
        assert_eq!((first.sum.hits, first.sum.weight, first.sum.squares), (2, 5.0, 13.0));
        assert_eq!((first.from_bytes, first.to_bytes, hits.largest), (1, 2, 3.0));
        hits.join_slices();
        let slices: Vec<_> = hits.cells.iter().map(|(c, s)| (c.slice, s.hits, s.once)).collect();
        assert_eq!(slices, [(0, 2, 0), (1, 1, 1)]);
    }

    #[test]
    fn hits_of_different_evidence_stay_apart() {
        let mut hits = Hits::default();
        let seen = hit(0, 1, 64, 2.0);
        let inferred = Hit { evidence: Evidence::Inferred, sharing: Sharing::Any, ..seen };
        [seen, inferred, inferred].iter().for_each(|hit| hits.add(0, hit));
        assert_eq!((hits.cells.len(), hits.events.len(), hits.count()), (2, 2, 3));
        assert_eq!((hits.count_by(Evidence::Inferred), hits.count_by(Evidence::Exact)), (2, 0));
    }
}
