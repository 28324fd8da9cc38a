//! What a replay has counted: matrices by time slice, and events by line and code site.

use crate::ByteSet;
use crate::directed::Communication;
use crate::streams::Streams;
use std::collections::BTreeMap;
use types::{CommKind, CommMatrix, Sharing, ThreadId};

/// Bytes of the lines by which events are kept, whatever the size of a block.
pub const LINE_BYTES: u64 = 64;

/// A cell of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cell {
    /// Number of the time slice.
    pub slice: u32,
    /// What is counted.
    pub kind: CommKind,
    /// True or false sharing.
    pub sharing: Sharing,
    /// Of undirected pairs, the lower id.
    pub from: ThreadId,
    /// The thread that takes; of undirected pairs, the higher id.
    pub to: ThreadId,
}

/// What events have in common that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Event {
    /// Address of the 64-byte line in which the access begins within its block.
    pub line: u64,
    /// What is counted.
    pub kind: CommKind,
    /// True or false sharing.
    pub sharing: Sharing,
    /// The thread that gives.
    pub from: ThreadId,
    /// The thread that takes.
    pub to: ThreadId,
    /// Code site of the thread that gives.
    pub from_site: u32,
    /// Code site of the thread that takes.
    pub to_site: u32,
}

/// Events that are counted together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventSum {
    /// Number of events.
    pub count: u64,
    /// Bytes of the line, bit i = byte i, over all these events: what the source had written since
    /// it took the block (of an invalidation: writes), and what the destination accesses.
    pub from_bytes: u64,
    /// Bytes of the line that the destination accesses, bit i = byte i.
    pub to_bytes: u64,
    /// How many of these events [followed](types::streams) another one of the same thread.
    pub streamed: u64,
}

/// All that was counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Directed events and undirected pairs.
    pub cells: BTreeMap<Cell, u64>,
    /// Directed events by line and site.
    pub events: BTreeMap<Event, EventSum>,
    /// Accesses replayed.
    pub accesses: u64,
}

impl Replayed {
    /// Counts directed communication whose access begins `first` bytes into the block at `block`.
    pub(crate) fn directed(
        &mut self,
        slice: u32,
        (block, first): (u64, u64),
        c: &Communication,
        streams: &mut Streams,
    ) {
        let cell = Cell { slice, kind: c.kind, sharing: c.sharing, from: c.from, to: c.to };
        *self.cells.entry(cell).or_insert(0) += 1;
        let line = (block + first) / LINE_BYTES * LINE_BYTES;
        let event = Event {
            line,
            kind: c.kind,
            sharing: c.sharing,
            from: c.from,
            to: c.to,
            from_site: c.from_site,
            to_site: c.to_site,
        };
        let sum = self.events.entry(event).or_default();
        sum.count += 1;
        sum.streamed += u64::from(streams.follows(c.to, line, c.kind));
        sum.from_bytes |= bytes_of_line(&c.from_bytes, block, line);
        sum.to_bytes |= bytes_of_line(&c.to_bytes, block, line);
    }

    /// Counts an undirected pair.
    pub(crate) fn pair(&mut self, slice: u32, a: ThreadId, b: ThreadId) {
        let (from, to) = (a.min(b), a.max(b));
        let cell = Cell { slice, kind: CommKind::Undirected, sharing: Sharing::Any, from, to };
        *self.cells.entry(cell).or_insert(0) += 1;
    }

    /// The matrix of a kind over all time, all sharing together; undirected pairs stand at
    /// (lower, higher).
    pub fn matrix(&self, kind: CommKind) -> CommMatrix {
        self.matrix_where(kind, |_| true)
    }

    /// The matrix of a kind's events of one sort of sharing.
    pub fn matrix_of(&self, kind: CommKind, sharing: Sharing) -> CommMatrix {
        self.matrix_where(kind, |is| is == sharing)
    }

    fn matrix_where(&self, kind: CommKind, wanted: impl Fn(Sharing) -> bool) -> CommMatrix {
        let mut matrix = CommMatrix::default();
        for (cell, count) in &self.cells {
            if cell.kind == kind && wanted(cell.sharing) {
                matrix.add(cell.from, cell.to, *count);
            }
        }
        matrix
    }
}

/// Bytes of the line at `line` that are in a set of bytes of the block at `block`, bit i = byte i.
fn bytes_of_line(set: &ByteSet, block: u64, line: u64) -> u64 {
    let is_in = |address: u64| address >= block && set.contains(address - block);
    (0..LINE_BYTES).filter(|i| is_in(line + i)).fold(0, |bits, i| bits | 1 << i)
}
