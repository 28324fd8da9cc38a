//! Pools filled by hand.

use super::*;
use crate::session::SessionOptions;

/// What each event of these tests stands for.
const WEIGHT: u64 = 16;

/// A chunk as an agent fills it.
pub(crate) struct Filled(Vec<u8>);

impl Filled {
    pub(crate) fn new(thread: u32, holds: u32) -> Self {
        let mut bytes = vec![0; CHUNK_BYTES as usize];
        bytes[..4].copy_from_slice(&thread.to_le_bytes());
        bytes[4..8].copy_from_slice(&holds.to_le_bytes());
        Self(bytes)
    }

    fn entry(&mut self, bytes: usize) -> &mut [u8] {
        let used = u32_at(&self.0, 8);
        self.0[8..12].copy_from_slice(&(used + 1).to_le_bytes());
        let at = HEAD_BYTES as usize + used as usize * bytes;
        &mut self.0[at..at + bytes]
    }

    pub(crate) fn cell(mut self, slice: u32, other: u16, kind: u8, count: u64) -> Self {
        let entry = self.entry(size_of::<Cell>());
        entry[..4].copy_from_slice(&slice.to_le_bytes());
        entry[4..6].copy_from_slice(&other.to_le_bytes());
        entry[6] = kind;
        entry[8..16].copy_from_slice(&count.to_le_bytes());
        self
    }

    /// `own` and `other` are (site, bytes).
    pub(crate) fn event(
        mut self,
        line: u64,
        thread: u16,
        kind: u8,
        count: u64,
        (own, other): ((u32, u64), (u32, u64)),
    ) -> Self {
        let entry = self.entry(size_of::<Event>());
        entry[..8].copy_from_slice(&line.to_le_bytes());
        entry[8..12].copy_from_slice(&own.0.to_le_bytes());
        entry[12..16].copy_from_slice(&other.0.to_le_bytes());
        entry[16..18].copy_from_slice(&thread.to_le_bytes());
        entry[18] = kind;
        entry[24..32].copy_from_slice(&count.to_le_bytes());
        entry[32..40].copy_from_slice(&(WEIGHT * count).to_le_bytes());
        entry[40..48].copy_from_slice(&own.1.to_le_bytes());
        entry[48..56].copy_from_slice(&other.1.to_le_bytes());
        self
    }

    fn returns(mut self, line: u64, [returns, writes]: [u64; 2], instructions: u64) -> Self {
        let entry = self.entry(size_of::<Returns>());
        for (at, value) in [line, returns, writes, instructions].into_iter().enumerate() {
            entry[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
        }
        self
    }

    pub(crate) fn store(&self, session: &Session, chunk: u64) {
        let at = wire::session::POOL_OFFSET + chunk * CHUNK_BYTES;
        session.write_at(&self.0, at);
    }
}

fn session() -> Session {
    Session::create(SessionOptions::default()).unwrap()
}

fn comm(slice: u32, from: u32, to: u32, kind: CommKind, sharing: Sharing, count: u64) -> CommRow {
    let whole = CommRow::whole(ThreadId(from), ThreadId(to), kind, count);
    CommRow { slice, sharing, ..whole }
}

#[test]
fn cells_are_summed_and_have_their_direction() {
    let session = session();
    let first = Filled::new(1, holds::CELLS)
        .cell(0, 2, code::RAW_TRUE, 5)
        .cell(3, 2, code::WAW_FALSE, 6)
        .cell(3, 2, code::INVALIDATION, 7)
        .cell(3, 2, code::UNDIRECTED, 8);
    let second = Filled::new(1, holds::CELLS)
        .cell(0, 2, code::RAW_TRUE, 50)
        .cell(0, 2, code::RAW, 1)
        .cell(0, 2, code::RAW_FALSE, 0);
    let third = Filled::new(2, holds::CELLS).cell(3, 1, code::UNDIRECTED, 80);
    // Chunks that no thread has taken lie between.
    for (chunk, at) in [(first, 2), (second, 900_000), (third, 5)] {
        chunk.store(&session, at);
    }
    let counts = Counts::read(&session, 3, 0).unwrap();
    assert_eq!(
        counts.comm,
        [
            comm(0, 2, 1, CommKind::Raw, Sharing::Any, 1),
            comm(0, 2, 1, CommKind::Raw, Sharing::True, 55),
            comm(3, 2, 1, CommKind::Waw, Sharing::False, 6),
            comm(3, 1, 2, CommKind::Invalidation, Sharing::Any, 7),
            comm(3, 1, 2, CommKind::Undirected, Sharing::Any, 88),
        ]
    );
    assert_eq!((counts.joined, counts.damaged), (0, 0));
}

#[test]
fn true_sharing_of_partly_known_bytes_is_told_apart() {
    let session = session();
    Filled::new(1, holds::CELLS)
        .cell(3, 2, code::RAW_TRUE, 5)
        .cell(3, 2, code::RAW_TRUE + code::PARTLY, 6)
        .cell(3, 7, code::WAW_TRUE + code::PARTLY + code::OTHER_PROCESS, 7)
        .cell(3, 2, code::RAW_FALSE + code::PARTLY, 8)
        .cell(3, 2, code::RAW_TRUE + code::PARTLY + code::LATE, 9)
        .store(&session, 0);
    let counts = Counts::read_windows(&session, 3).unwrap();
    assert_eq!(counts.comm, [comm(3, 2, 1, CommKind::Raw, Sharing::True, 11)]);
    assert_eq!(counts.partly, [comm(3, 2, 1, CommKind::Raw, Sharing::True, 6)]);
    let between = (comm(3, 7, 1, CommKind::Waw, Sharing::True, 7), Side::To);
    assert_eq!(counts.between.comm, [between]);
    assert_eq!(counts.between.partly, [between]);
    assert_eq!(counts.damaged, 2);
}

#[test]
fn events_are_summed_and_their_bytes_united() {
    let session = session();
    Filled::new(1, holds::EVENTS)
        .event(0x40, 0, code::RAW_TRUE, 2, ((7, 0x0f), (8, 0xff)))
        .event(0x40, 0, code::RAW_TRUE, 3, ((7, 0xf0), (8, 0x01)))
        .event(0x00, 0, code::INVALIDATION, 4, ((7, 1), (0, 2)))
        .store(&session, 0);
    let counts = Counts::read(&session, 2, 0).unwrap();
    let (zero, one) = (ThreadId(0), ThreadId(1));
    let event = EventRow {
        line: 0x40,
        from: zero,
        to: one,
        kind: CommKind::Raw,
        sharing: Sharing::True,
        from_site: 8,
        to_site: 7,
        count: 5,
        from_bytes: 0xff,
        to_bytes: 0xff,
        hits: 0,
        evidence: types::Evidence::Exact,
        object: 0,
        gap: None,
        streamed: 0,
    };
    let invalidation = EventRow {
        line: 0,
        from: one,
        to: zero,
        kind: CommKind::Invalidation,
        sharing: Sharing::Any,
        from_site: 7,
        to_site: 0,
        count: 4,
        from_bytes: 1,
        to_bytes: 2,
        hits: 0,
        evidence: types::Evidence::Exact,
        object: 0,
        gap: None,
        streamed: 0,
    };
    assert_eq!(counts.events, [invalidation, event]);
    let windows = Counts::read_windows(&session, 2).unwrap();
    let weighed = |row: EventRow| EventRow { count: WEIGHT * row.count, hits: row.count, ..row };
    assert_eq!(windows.events, [invalidation, event].map(weighed));
}

#[test]
fn returns_are_those_of_the_thread_that_looked() {
    let session = session();
    // A line that was just chosen has none yet.
    let first = Filled::new(1, holds::RETURNS).returns(0x80, [32, 5], 900).returns(0xc0, [0, 0], 0);
    let second = Filled::new(0, holds::RETURNS).returns(0x80, [0, 0], 7).returns(0, [1, 0], 1);
    first.store(&session, 3);
    second.store(&session, 9);
    let counts = Counts::read(&session, 2, 0).unwrap();
    let row = |thread, [returns, writes]: [u64; 2], instructions| ReturnRow {
        line: 0x80,
        thread: ThreadId(thread),
        returns,
        writes,
        instructions,
    };
    assert_eq!(counts.returns, [row(0, [0, 0], 7), row(1, [32, 5], 900)]);
    assert_eq!(counts.damaged, 1, "a line at no address");
}

#[test]
fn nonsense_is_left_out_and_counted() {
    let session = session();
    Filled::new(1, holds::CELLS)
        .cell(0, 9, code::RAW, 1)
        .cell(0, 1, code::RAW, 1)
        .cell(0, 0, 99, 1)
        .cell(0, 0, code::RAW, 1)
        .store(&session, 0);
    let mut full = Filled::new(0, holds::CELLS).cell(0, 1, code::RAW, 3);
    // More than fit: what lies behind is not read.
    full.0[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    full.store(&session, 1);
    Filled::new(0, 77).cell(0, 1, code::RAW, 3).store(&session, 2);
    let counts = Counts::read(&session, 2, 0).unwrap();
    assert_eq!(counts.damaged, 3);
    assert_eq!(counts.comm.iter().map(|row| row.count).sum::<u64>(), 4);
    assert_eq!(Counts::read(&session, 0, 0).unwrap().comm, []);
}

#[test]
fn slices_are_joined_when_there_are_too_many_rows() {
    let mut reading =
        Reading { counts: Counts::default(), threads: 3, max_rows: 10, has_hits: false };
    for slice in 0..100 {
        let chunk = Filled::new(0, holds::CELLS).cell(slice, 1, code::RAW, 1).cell(
            slice,
            2,
            code::RAW,
            u64::from(slice),
        );
        reading.chunk(&chunk.0);
    }
    let counts = reading.finish();
    assert!(counts.comm.len() <= 10, "{}", counts.comm.len());
    assert_eq!(counts.joined, 5);
    assert_eq!(counts.comm[0], comm(0, 1, 0, CommKind::Raw, Sharing::Any, 32));
    assert_eq!(counts.comm[7], comm(3, 2, 0, CommKind::Raw, Sharing::Any, 96 + 97 + 98 + 99));
    assert_eq!(counts.comm.len(), 8);
    let total: u64 = counts.comm.iter().map(|row| row.count).sum();
    assert_eq!(total, 100 + 99 * 100 / 2);
}

#[test]
fn what_is_known_of_rows_that_become_one_is_added_up() {
    let row = |count| CommRow {
        slice: 0,
        from: ThreadId(0),
        to: ThreadId(1),
        kind: CommKind::Raw,
        sharing: Sharing::Any,
        count,
        sampled: Some(profile::Sampled { hits: 1, low: count / 2, high: 2 * count }),
        evidence: Evidence::Window,
    };
    let mut rows = vec![row(10), row(30)];
    sum_comm(&mut rows);
    let sampled = Some(profile::Sampled { hits: 2, low: 20, high: 80 });
    assert_eq!(rows, [CommRow { count: 40, sampled, ..row(40) }]);
}
