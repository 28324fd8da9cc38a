//! Follows the trace of a running program and replays it by the definitions.
//!
//! In the mode `TRACE` the agent writes every access into a ring (`wire::trace`); a thread of ours
//! reads it with [`follow`] until the program has ended, and hands each access to the crate
//! `reference`. Every process of a recording has a ring and a replay of its own.
//!
//! A thread that writes into the ring may be killed at any point: a record that was taken but never
//! filled is waited for while its process may still fill it, and skipped and counted when it
//! cannot.

use crate::error::RecorderError;
use crate::memory::{Mapping, SharedMemory};
use reference::{Reference, Tally, What};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};
use types::ThreadId;
use wire::session::{Header, MAX_SEGMENTS, SEGMENT_BYTES, TRACE_OFFSET};
use wire::trace::{Access, PAGE_SHIFT, RECORDS, THREAD_BITS, what};

/// What one process has done.
#[derive(Debug, Default)]
pub struct Traced {
    /// Its communication.
    pub tally: Tally,
    /// Accesses that a thread was about to do when it was killed, or that make no sense (a program
    /// that writes over the ring).
    pub missing: u64,
}

/// How long to rest when no ring has anything new: longer each time, up to the last.
const SHORTEST_REST: Duration = Duration::from_micros(50);
const LONGEST_REST: Duration = Duration::from_millis(4);

/// Longer than any live thread needs to fill its record, and the kernel to end threads at execve.
const GRACE: Duration = Duration::from_millis(500);

/// Most accesses taken from one ring before the next one has its turn.
const TURN: u64 = 1 << 16;

/// No access is larger: the user's half of the address space.
const MAX_BYTES: u64 = 1 << 47;

/// Reads the rings of all processes until `ended` is set and what they hold has been replayed, in
/// blocks of `block_bytes`. Returns one result for each process, by the number of its segment.
///
/// # Errors
/// Fails when the shared memory cannot be mapped.
pub fn follow(
    memory: &SharedMemory,
    block_bytes: u64,
    ended: &AtomicBool,
) -> Result<Vec<Traced>, RecorderError> {
    let first = memory.map::<Header>(0, 1)?;
    let mut rings: Vec<Ring<'_>> = Vec::new();
    let mut rest = SHORTEST_REST;
    loop {
        // Looked at before the rings: what was written before the end is found after it.
        let last = ended.load(Acquire);
        let segments = first.records()[0].segments.load(Relaxed).clamp(1, MAX_SEGMENTS);
        while rings.len() < segments as usize {
            rings.push(Ring::open(memory, rings.len() as u64, block_bytes)?);
        }
        let mut busy = false;
        for ring in &mut rings {
            busy |= ring.drain(TURN);
        }
        if busy {
            rest = SHORTEST_REST;
        } else if last {
            return Ok(rings.into_iter().map(Ring::finish).collect());
        } else {
            std::thread::sleep(rest);
            rest = (rest * 2).min(LONGEST_REST);
        }
    }
}

/// What a record says.
#[derive(Clone, Copy)]
struct Record {
    address: u64,
    bytes: u64,
    site: u32,
    thread_and_what: u32,
}

/// The ring of one process.
struct Ring<'a> {
    header: Mapping<'a, Header>,
    records: Mapping<'a, Access>,
    /// Number of the next record.
    next: u64,
    replay: Reference,
    missing: u64,
    /// Programs executed by the process, and how far the last of these has come.
    execs: u32,
    executing: Executing,
}

/// What is known of the last execve of a process.
#[derive(Clone, Copy, Debug)]
enum Executing {
    Nothing,
    Noticed(Instant),
    /// Records below `head` were taken before it, or are long filled.
    Done {
        head: u64,
        at: Instant,
    },
}

impl<'a> Ring<'a> {
    fn open(
        memory: &'a SharedMemory,
        segment: u64,
        block_bytes: u64,
    ) -> Result<Self, RecorderError> {
        let start = segment * SEGMENT_BYTES;
        Ok(Self {
            header: memory.map(start, 1)?,
            records: memory.map(start + TRACE_OFFSET, RECORDS)?,
            next: 0,
            replay: Reference::new(block_bytes),
            missing: 0,
            execs: 0,
            executing: Executing::Nothing,
        })
    }

    /// Replays what is there, at most `most` accesses; whether there was anything.
    fn drain(&mut self, most: u64) -> bool {
        let start = self.next;
        self.replay.set_slice(self.header().slice.load(Relaxed));
        while self.next - start < most && self.next < self.end() {
            match self.filled(self.next) {
                Some(access) => self.take(access),
                None if self.is_dead() => self.skip(),
                None => break,
            }
        }
        self.next != start
    }

    /// Replays what is left when no thread writes any more.
    fn finish(mut self) -> Traced {
        // Not looked at again: nothing beyond the ring can be filled, whatever the head says later.
        let end = self.end();
        while self.next < end {
            match self.filled(self.next) {
                Some(access) => self.take(access),
                None => self.skip(),
            }
        }
        Traced { tally: self.replay.finish(), missing: self.missing }
    }

    fn header(&self) -> &Header {
        &self.header.records()[0]
    }

    /// One past the last record that may have been filled, whatever the program says.
    fn end(&self) -> u64 {
        self.header().trace_head.load(Acquire).min(self.next + RECORDS as u64)
    }

    /// A record, once it is filled.
    fn filled(&self, number: u64) -> Option<Record> {
        let record = &self.records.records()[number as usize % RECORDS];
        if record.turn.load(Acquire) != number + 1 {
            return None;
        }
        let record: *const Access = record;
        // SAFETY: a record of our mapping; only a program gone wild writes to it now, and any
        // values will do.
        unsafe {
            Some(Record {
                address: (&raw const (*record).address).read_volatile(),
                bytes: (&raw const (*record).bytes).read_volatile(),
                site: (&raw const (*record).site).read_volatile(),
                thread_and_what: (*record).thread_and_what.load(Relaxed),
            })
        }
    }

    fn take(&mut self, record: Record) {
        let Record { address, bytes, site, thread_and_what } = record;
        let thread = thread_and_what & ((1 << THREAD_BITS) - 1);
        let what = match thread_and_what >> THREAD_BITS {
            what::READ => Some(What::Read),
            what::WRITE => Some(What::Write),
            what::FORGET => Some(What::Forget),
            what::COPY => {
                let page = u64::from(thread) << u32::BITS | u64::from(site);
                Some(What::Copy { to: page << PAGE_SHIFT })
                    .filter(|_| page < MAX_BYTES >> PAGE_SHIFT)
            }
            _ => None,
        };
        match what {
            Some(what) if bytes <= MAX_BYTES => {
                let thread = ThreadId(thread);
                self.replay.replay(&reference::Access { thread, what, address, bytes, site });
            }
            _ => self.missing += 1,
        }
        self.advance();
    }

    fn skip(&mut self) {
        self.missing += 1;
        self.advance();
    }

    fn advance(&mut self) {
        self.next += 1;
        self.header().trace_tail.store(self.next, Release);
    }

    /// Whether the next record will never be filled, because its thread was ended by another
    /// thread's execve. The count of these goes up shortly before the kernel ends the threads, so
    /// what they had taken by then is known a little later, and theirs for sure a little later
    /// again.
    fn is_dead(&mut self) -> bool {
        let execs = self.header().execs.load(Relaxed);
        if execs != self.execs {
            self.execs = execs;
            self.executing = Executing::Noticed(Instant::now());
        }
        match self.executing {
            Executing::Noticed(at) if at.elapsed() >= GRACE => {
                let head = self.header().trace_head.load(Acquire);
                self.executing = Executing::Done { head, at: Instant::now() };
                false
            }
            Executing::Done { head, at } => self.next < head && at.elapsed() >= GRACE,
            _ => false,
        }
    }
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
