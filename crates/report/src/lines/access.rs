//! Sums up the events of one line by the code and by the threads that take part in them.
//!
//! Pure. Neighbour: `lines` supplies the events of a line.

use crate::lines::bytes::Bytes;
use crate::lines::moves_a_line;
use crate::lines::place::Place;
use profile::{EventRow, SiteRow};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use ts_rs::TS;
use types::{CommKind, Sharing};

/// What the code at one place does to a line.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Access {
    /// The place in the code.
    pub place: Place,
    /// Whether it reads, writes or both.
    pub kind: AccessKind,
    /// The bytes that it accesses; of a write that is only known as the giving side of events:
    /// those that its thread had written by then.
    pub bytes: Bytes,
    /// Threads that read, and that write, here; ordered by id.
    pub readers: Vec<u32>,
    /// Threads that write here; ordered by id.
    pub writers: Vec<u32>,
    /// Events in which it took the line from another thread.
    pub takes: u64,
    /// Of these, with false sharing.
    pub takes_false: u64,
    /// Events in which another thread took the line after this had written it.
    pub gives: u64,
    /// Of these, with false sharing.
    pub gives_false: u64,
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// Both: `x += 1`, an atomic operation.
    Update,
}

impl AccessKind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Update => "update",
        }
    }
}

impl Access {
    /// Events that it takes part in on either side.
    pub fn events(&self) -> u64 {
        self.takes.saturating_add(self.gives)
    }
}

/// What one thread does to a line.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct ByteUse {
    /// Id of the thread.
    pub thread: u32,
    /// Bytes that it wrote.
    pub written: Bytes,
    /// Bytes that it read.
    pub read: Bytes,
    /// Events in which it took the line, and in which it was taken from it.
    pub takes: u64,
    /// Events in which the line was taken from it.
    pub gives: u64,
}

/// Sums over the events of a line.
pub(super) struct LineEvents<'a> {
    sites: &'a [SiteRow],
    by_site: BTreeMap<u32, Sums>,
    by_thread: BTreeMap<u32, Sums>,
}

/// Sums of one place, or of one thread.
#[derive(Default)]
struct Sums {
    readers: BTreeSet<u32>,
    writers: BTreeSet<u32>,
    read: u64,
    /// Bytes of writes that took the line: what the write itself accessed.
    written: u64,
    /// Bytes that the giving side had written by the time it gave: more than one write, maybe.
    written_by_then: u64,
    takes: u64,
    takes_false: u64,
    gives: u64,
    gives_false: u64,
}

impl Sums {
    fn give(&mut self, event: &EventRow) {
        self.writers.insert(event.from.0);
        self.written_by_then |= event.from_bytes;
        add(&mut self.gives, &mut self.gives_false, event);
    }

    fn take(&mut self, event: &EventRow) {
        match event.kind {
            CommKind::Waw => {
                self.writers.insert(event.to.0);
                self.written |= event.to_bytes;
            }
            _ => {
                self.readers.insert(event.to.0);
                self.read |= event.to_bytes;
            }
        }
        add(&mut self.takes, &mut self.takes_false, event);
    }

    fn merge(&mut self, other: Sums) {
        self.readers.extend(other.readers);
        self.writers.extend(other.writers);
        self.read |= other.read;
        self.written |= other.written;
        self.written_by_then |= other.written_by_then;
        self.takes = self.takes.saturating_add(other.takes);
        self.takes_false = self.takes_false.saturating_add(other.takes_false);
        self.gives = self.gives.saturating_add(other.gives);
        self.gives_false = self.gives_false.saturating_add(other.gives_false);
    }

    /// The bytes written, as exactly as the events tell.
    fn bytes_written(&self) -> u64 {
        if self.written != 0 { self.written } else { self.written_by_then }
    }
}

fn add(all: &mut u64, falsely: &mut u64, event: &EventRow) {
    *all = all.saturating_add(event.count);
    if event.sharing == Sharing::False {
        *falsely = falsely.saturating_add(event.count);
    }
}

impl<'a> LineEvents<'a> {
    pub(super) fn new(sites: &'a [SiteRow]) -> Self {
        Self { sites, by_site: BTreeMap::new(), by_thread: BTreeMap::new() }
    }

    /// Counts RAW and WAW events; others move no line to another thread.
    pub(super) fn add(&mut self, event: &EventRow) {
        if !moves_a_line(event) {
            return;
        }
        self.by_site.entry(event.from_site).or_default().give(event);
        self.by_site.entry(event.to_site).or_default().take(event);
        self.by_thread.entry(event.from.0).or_default().give(event);
        self.by_thread.entry(event.to.0).or_default().take(event);
    }

    pub(super) fn finish(self) -> (Vec<Access>, Vec<ByteUse>) {
        let mut by_place: BTreeMap<Place, Sums> = BTreeMap::new();
        for (site, sums) in self.by_site {
            let place = match self.sites.get(site as usize) {
                Some(row) => Place::of(row),
                None => Place::of(&SiteRow::default()),
            };
            by_place.entry(place).or_default().merge(sums);
        }
        let mut accesses: Vec<Access> =
            by_place.into_iter().map(|(place, sums)| access(place, sums)).collect();
        // Stable: equal ones stay in the order of their places.
        accesses.sort_by_key(|access| Reverse(access.events()));
        let threads = self.by_thread.into_iter().map(|(thread, sums)| ByteUse {
            thread,
            // A thread's writes that others take are as much its own as those that took.
            written: Bytes(sums.written | sums.written_by_then),
            read: Bytes(sums.read),
            takes: sums.takes,
            gives: sums.gives,
        });
        (accesses, threads.collect())
    }
}

fn access(place: Place, sums: Sums) -> Access {
    Access {
        place,
        kind: match (sums.readers.is_empty(), sums.writers.is_empty()) {
            (_, true) => AccessKind::Read,
            (true, false) => AccessKind::Write,
            (false, false) => AccessKind::Update,
        },
        bytes: Bytes(sums.read | sums.bytes_written()),
        readers: sums.readers.into_iter().collect(),
        writers: sums.writers.into_iter().collect(),
        takes: sums.takes,
        takes_false: sums.takes_false,
        gives: sums.gives,
        gives_false: sums.gives_false,
    }
}
