//! What the threads of a process have counted, out of its session's pool of chunks.
//!
//! Threads add an entry for what they have not counted before, so keys may occur more than once, in
//! any order; here they are summed. Neighbours: `wire::detail` has the layout, [`session`] finds
//! the chunks, `collect` makes tables of the result, `reference` gives the same from a replay.
//!
//! [`session`]: crate::session

use crate::error::RecorderError;
use crate::session::Session;
use profile::{CommRow, EventRow, ReturnRow};
use std::mem::offset_of;
use types::{CommKind, Evidence, GapClass, Sharing, ThreadId};
use wire::detail::{
    CELLS, CHUNK_BYTES, Cell, ChunkHead, EVENTS, Event, HEAD_BYTES, RETURNS, Returns, gap, holds,
    kind as code,
};

/// Most rows of the matrices that are kept; beyond, time slices are joined two by two.
const MAX_ROWS: usize = 4 << 20;

/// Everything a process has counted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Counts {
    /// Ordered by [`CommRow::key`], one row for each.
    pub comm: Vec<CommRow>,
    /// Ordered by [`EventRow::key`], one row for each; sites are those of the session.
    pub events: Vec<EventRow>,
    /// How often slices were joined two by two, so that row and slice `n` stands for the session's
    /// slices from `n << joined`.
    pub joined: u32,
    /// The same of late events, of a sample of blocks; their slices are never joined.
    pub late: Vec<CommRow>,
    /// And by code, in any order.
    pub late_events: Vec<EventRow>,
    /// The part of `comm` that is true sharing of writers who may have begun to write before the
    /// window; in any order.
    pub partly: Vec<CommRow>,
    /// Entries that make no sense: the program has written over them.
    pub damaged: u64,
    /// Events with threads of other processes, in any order.
    pub between: Between,
    /// How often threads came back to lines, ordered by [`ReturnRow::key`].
    pub returns: Vec<ReturnRow>,
}

/// Events of a process's threads with threads of other processes, which stand in the rows by their
/// numbers as sharers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Between {
    pub comm: Vec<(CommRow, Side)>,
    /// See [`Counts::partly`].
    pub partly: Vec<(CommRow, Side)>,
    pub events: Vec<(EventRow, Side)>,
}

/// Which end of a row is the process's own thread, which has counted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    From,
    To,
}

impl Counts {
    /// Reads the pool of a session with `threads` threads, with slices joined `joined` times at
    /// least.
    pub fn read(session: &Session, threads: usize, joined: u32) -> Result<Self, RecorderError> {
        Self::read_rows(session, threads, joined, MAX_ROWS, false)
    }

    /// The same for a recording with windows: slices are not joined. The counts of events are their
    /// weights, and their hits how many were counted.
    pub fn read_windows(session: &Session, threads: usize) -> Result<Self, RecorderError> {
        Self::read_rows(session, threads, 0, usize::MAX, true)
    }

    fn read_rows(
        session: &Session,
        threads: usize,
        joined: u32,
        max_rows: usize,
        has_hits: bool,
    ) -> Result<Self, RecorderError> {
        let counts = Self { joined, ..Self::default() };
        let mut reading = Reading { counts, threads, max_rows, has_hits };
        session.for_each_chunk(|chunk| reading.chunk(chunk))?;
        Ok(reading.finish())
    }
}

impl Counts {
    /// Sums events whose sites and objects have been named; keeps returns to their lines.
    pub fn sum_named_events(&mut self) {
        sum_events(&mut self.events);
        self.keep_named_returns();
    }

    /// Keeps returns to the lines that events name, which are in order.
    pub fn keep_named_returns(&mut self) {
        let events = &self.events;
        let is_named = |row: &ReturnRow| events.binary_search_by_key(&row.line, |e| e.line).is_ok();
        self.returns.retain(is_named);
    }
}

/// The events that a process which still runs has counted so far, in any order.
///
/// # Errors
/// Fails when the session cannot be read.
pub fn events_so_far(session: &Session, threads: usize) -> Result<Vec<EventRow>, RecorderError> {
    Ok(read_events(session, threads)?.events)
}

/// Which lines its threads have written: line, thread, bytes, and events.
///
/// # Errors
/// As [`events_so_far`].
pub fn writes_so_far(
    session: &Session,
    threads: usize,
) -> Result<Vec<(u64, u32, u64, u64)>, RecorderError> {
    let Counts { events, late_events, between, .. } = read_events(session, threads)?;
    let own = events.iter().chain(&late_events).map(|row| (row, [true; 2]));
    let shared =
        between.events.iter().map(|(row, side)| (row, [*side == Side::From, *side == Side::To]));
    let writes = own.chain(shared).flat_map(|(row, [from, to])| {
        let &EventRow { line, count, .. } = row;
        let gives =
            (from && row.kind != CommKind::Undirected).then_some((row.from, row.from_bytes));
        let takes = (to && row.kind == CommKind::Waw).then_some((row.to, row.to_bytes));
        gives.into_iter().chain(takes).map(move |(thread, bytes)| (line, thread.0, bytes, count))
    });
    Ok(writes.collect())
}

fn read_events(session: &Session, threads: usize) -> Result<Counts, RecorderError> {
    let (counts, max_rows) = (Counts::default(), usize::MAX);
    let mut reading = Reading { counts, threads, max_rows, has_hits: false };
    session.for_each_chunk(|chunk| {
        if u32_at(chunk, offset_of!(ChunkHead, holds)) == holds::EVENTS {
            reading.chunk(chunk);
        }
    })?;
    Ok(reading.counts)
}

/// Adds rows with equal keys together; the result is ordered by key.
pub fn sum_comm(rows: &mut Vec<CommRow>) {
    rows.sort_unstable_by_key(CommRow::key);
    rows.dedup_by(|next, kept| {
        let same = next.key() == kept.key();
        if same {
            kept.count = kept.count.saturating_add(next.count);
            if let (Some(kept), Some(next)) = (&mut kept.sampled, next.sampled) {
                kept.hits += next.hits;
                kept.low = kept.low.saturating_add(next.low);
                kept.high = kept.high.saturating_add(next.high);
            }
        }
        same
    });
}

/// The same for events; their bytes are united.
pub fn sum_events(rows: &mut Vec<EventRow>) {
    rows.sort_unstable_by_key(EventRow::key);
    rows.dedup_by(|next, kept| {
        let same = next.key() == kept.key();
        if same {
            kept.count = kept.count.saturating_add(next.count);
            kept.hits = kept.hits.saturating_add(next.hits);
            kept.streamed = kept.streamed.saturating_add(next.streamed);
            kept.from_bytes |= next.from_bytes;
            kept.to_bytes |= next.to_bytes;
        }
        same
    });
}

struct Reading {
    counts: Counts,
    threads: usize,
    max_rows: usize,
    /// Whether events shall tell how many were counted beside their weights.
    has_hits: bool,
}

impl Reading {
    fn chunk(&mut self, bytes: &[u8]) {
        let owner = u32_at(bytes, offset_of!(ChunkHead, thread));
        let used = u32_at(bytes, offset_of!(ChunkHead, used)) as usize;
        let entries = &bytes[HEAD_BYTES as usize..];
        match u32_at(bytes, offset_of!(ChunkHead, holds)) {
            holds::CELLS => {
                let entries = entries.chunks_exact(size_of::<Cell>()).take(used.min(CELLS));
                entries.for_each(|entry| self.cell(owner, entry));
            }
            holds::EVENTS => {
                let entries = entries.chunks_exact(size_of::<Event>()).take(used.min(EVENTS));
                entries.for_each(|entry| self.event(owner, entry));
            }
            holds::RETURNS => {
                let entries = entries.chunks_exact(size_of::<Returns>()).take(used.min(RETURNS));
                entries.for_each(|entry| self.returns(owner, entry));
            }
            _ => {}
        }
        // Summed now and then, so that what is summed at most doubles what is kept.
        if self.counts.comm.len() / 2 >= self.max_rows {
            self.sum();
        }
    }

    fn cell(&mut self, owner: u32, entry: &[u8]) {
        let count = u64_at(entry, offset_of!(Cell, count));
        let other = u16_at(entry, offset_of!(Cell, other));
        let Some(pair) = self.pair(owner, other, entry[offset_of!(Cell, kind)], count) else {
            return;
        };
        let slice = u32_at(entry, offset_of!(Cell, slice)) >> self.counts.joined;
        let Pair { from, to, kind, sharing, .. } = pair;
        let (sampled, evidence) = (None, Evidence::Exact);
        let row = CommRow { slice, from, to, kind, sharing, count, sampled, evidence };
        match (pair.is_between, pair.partly) {
            (true, true) => self.counts.between.partly.push((row, pair.side())),
            (false, true) => self.counts.partly.push(row),
            _ => {}
        }
        match pair.is_between {
            true => self.counts.between.comm.push((row, pair.side())),
            false if pair.late => self.counts.late.push(row),
            false => self.counts.comm.push(row),
        }
    }

    fn event(&mut self, owner: u32, entry: &[u8]) {
        let count = u64_at(entry, offset_of!(Event, count));
        let other = u16_at(entry, offset_of!(Event, other));
        let Some(pair) = self.pair(owner, other, entry[offset_of!(Event, kind)], count) else {
            return;
        };
        let own = (
            u32_at(entry, offset_of!(Event, own_site)),
            u64_at(entry, offset_of!(Event, own_bytes)),
        );
        let other = (
            u32_at(entry, offset_of!(Event, other_site)),
            u64_at(entry, offset_of!(Event, other_bytes)),
        );
        let object = u32_at(entry, offset_of!(Event, object));
        let (from, to) = if pair.owner_is_from { (own, other) } else { (other, own) };
        let row = EventRow {
            line: u64_at(entry, offset_of!(Event, line)),
            from: pair.from,
            to: pair.to,
            kind: pair.kind,
            sharing: pair.sharing,
            from_site: from.0,
            to_site: to.0,
            count: if self.has_hits { u64_at(entry, offset_of!(Event, weight)) } else { count },
            from_bytes: from.1,
            to_bytes: to.1,
            hits: if self.has_hits { count } else { 0 },
            evidence: Evidence::Exact,
            object,
            gap: GapClass::of_number(entry[offset_of!(Event, gap)].into()),
            streamed: u64_at(entry, offset_of!(Event, streamed)).min(count),
        };
        match pair.is_between {
            true => self.counts.between.events.push((row, pair.side())),
            false if pair.late => self.counts.late_events.push(row),
            false => self.counts.events.push(row),
        }
    }

    fn returns(&mut self, owner: u32, entry: &[u8]) {
        let row = ReturnRow {
            line: u64_at(entry, offset_of!(Returns, line)),
            thread: ThreadId(owner),
            returns: u64_at(entry, offset_of!(Returns, returns)),
            writes: u64_at(entry, offset_of!(Returns, writes)),
            instructions: u64_at(entry, offset_of!(Returns, instructions)),
        };
        if row.line == 0 || owner as usize >= self.threads || row.writes > row.returns {
            self.counts.damaged += 1;
        } else if row.instructions > 0 {
            self.counts.returns.push(row);
        }
    }

    /// Who did what to whom; `None` for what was not counted yet and for nonsense.
    fn pair(&mut self, owner: u32, other: u16, kind: u8, count: u64) -> Option<Pair> {
        if count == 0 {
            return None;
        }
        let (other, threads) = (u32::from(other), self.threads as u32);
        let is_between = kind & code::OTHER_PROCESS != 0;
        let known = owner < threads && (is_between || other < threads && owner != other);
        let pair = match Pair::of(owner, other, kind & !code::OTHER_PROCESS) {
            Some(pair) if known => Some(Pair { is_between, ..pair }),
            _ => None,
        };
        if pair.is_none() {
            self.counts.damaged += 1;
        }
        pair
    }

    fn sum(&mut self) {
        sum_comm(&mut self.counts.comm);
        while self.counts.comm.len() > self.max_rows && self.last_slice() > 0 {
            self.counts.joined += 1;
            self.counts.comm.iter_mut().for_each(|row| row.slice >>= 1);
            sum_comm(&mut self.counts.comm);
        }
    }

    fn last_slice(&self) -> u32 {
        self.counts.comm.iter().map(|row| row.slice).max().unwrap_or(0)
    }

    fn finish(mut self) -> Counts {
        self.sum();
        sum_comm(&mut self.counts.late);
        sum_events(&mut self.counts.events);
        self.counts.returns.sort_unstable_by_key(ReturnRow::key);
        self.counts
    }
}

/// The threads of an entry and what it counts.
struct Pair {
    kind: CommKind,
    sharing: Sharing,
    from: ThreadId,
    to: ThreadId,
    owner_is_from: bool,
    late: bool,
    /// Whether some bytes that the writer has written may be unknown, of true sharing.
    partly: bool,
    /// Whether the other thread is one of another process.
    is_between: bool,
}

impl Pair {
    /// See [`wire::detail::kind`] for who is who; `None` for an unknown kind.
    fn of(owner: u32, other: u32, kind: u8) -> Option<Self> {
        let late = kind & code::LATE != 0;
        let partly = kind & code::PARTLY != 0;
        let (kind, sharing) = match kind & !(code::LATE | code::PARTLY) {
            code::RAW => (CommKind::Raw, Sharing::Any),
            code::RAW_TRUE => (CommKind::Raw, Sharing::True),
            code::RAW_FALSE => (CommKind::Raw, Sharing::False),
            code::WAW => (CommKind::Waw, Sharing::Any),
            code::WAW_TRUE => (CommKind::Waw, Sharing::True),
            code::WAW_FALSE => (CommKind::Waw, Sharing::False),
            code::INVALIDATION => (CommKind::Invalidation, Sharing::Any),
            code::UNDIRECTED => (CommKind::Undirected, Sharing::Any),
            _ => return None,
        };
        if partly && (late || sharing != Sharing::True) {
            return None;
        }
        let owner_is_from = match kind {
            CommKind::Raw | CommKind::Waw => false,
            CommKind::Invalidation => true,
            CommKind::Undirected => owner < other,
        };
        let (from, to) = if owner_is_from { (owner, other) } else { (other, owner) };
        let (from, to) = (ThreadId(from), ThreadId(to));
        Some(Self { kind, sharing, from, to, owner_is_from, late, partly, is_between: false })
    }

    fn side(&self) -> Side {
        if self.owner_is_from { Side::From } else { Side::To }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

const _: () = assert!(CHUNK_BYTES > HEAD_BYTES);
const _: () = assert!(GapClass::WITHIN.len() == gap::LAST as usize);

#[cfg(test)]
#[path = "counts_tests.rs"]
pub(crate) mod tests;
