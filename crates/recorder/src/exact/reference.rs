//! Follows the trace of a running program and replays it by the definitions.
//!
//! In the mode `TRACE` the agent writes every access into a ring (`wire::trace`), and in others,
//! for a filtered trace, those that are not quiet, which are not replayed; a thread of ours reads
//! it with [`follow`] until the program has ended, and hands each access to the crate `reference`.
//! Every process of a recording has a ring and a replay of its own.
//!
//! A thread that writes into the ring may be killed at any point: a record that was taken but never
//! filled is waited for while its process may still fill it, and skipped and counted when it
//! cannot.

use crate::error::RecorderError;
use crate::memory::{Mapping, SharedMemory};
use crate::session::SessionOptions;
use reference::{PageAccesses, Reference, Replayed, What};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use types::ThreadId;
use wire::session::{Header, MAX_SEGMENTS, SEGMENT_BYTES, TRACE_OFFSET};
use wire::shared::{self, Shared};
use wire::trace::{
    Access, PAGE_SHIFT, RECORDS, SHARED_BYTES_BITS, SKIPPED_SHIFT, THREAD_BITS, WAYS_SHIFT, seen,
    what,
};

/// What one process has done.
#[derive(Debug, Default)]
pub struct Traced {
    /// Its communication.
    pub replayed: Replayed,
    /// Who accessed which page, where that was asked for.
    pub pages: PageAccesses,
    /// Accesses that a thread was about to do when it was killed, or that make no sense (a program
    /// that writes over the ring).
    pub missing: u64,
    /// Where sharers had the lines of shared memory at first: by sharer and line.
    pub lines: HashMap<(ThreadId, u64), u64>,
}

/// How long to rest when no ring has anything new: longer each time, up to the last.
const SHORTEST_REST: Duration = Duration::from_micros(50);
const LONGEST_REST: Duration = Duration::from_millis(4);

/// Longer than any live thread needs to fill its record, and the kernel to end threads at execve.
const GRACE: Duration = Duration::from_millis(500);

/// How long a record for shared memory is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Most accesses taken from one ring before the next one has its turn.
const TURN: u64 = 1 << 16;

/// Records after which the program is told that they have been taken: each time costs it a miss.
const TOLD: u64 = 1 << 10;

/// Bytes of the lines in events.
const LINE_BYTES: u64 = 64;

/// No access is larger: the user's half of the address space.
const MAX_BYTES: u64 = 1 << 47;

/// What a filtered trace tells of an access besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filtered {
    /// Accesses of the thread since the one before that are not in the trace.
    pub skipped: u64,
    /// From now on, the thread's accesses to the line need not be in the trace.
    pub held: bool,
    /// Where the lines come in the cache that the filter stands for, as above
    /// [`WAYS_SHIFT`](wire::trace::WAYS_SHIFT).
    pub ways: u8,
    /// It is no access: from here on, the thread is observed in another way. The window, and how.
    pub window: Option<(u64, Seen)>,
}

/// How a thread is observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Its accesses are not in the trace.
    Not,
    /// They are, but do not count yet.
    WarmUp,
    /// They are, and count.
    Counted,
}

/// What accesses are given to, besides being replayed, with the number of their process; those of a
/// process come in order.
pub type Tee<'a> = dyn FnMut(u32, &reference::Access, Filtered) + Send + 'a;

/// Whether accesses are replayed, and who else is given them.
#[derive(Default)]
pub struct Following<'a> {
    /// They are not replayed: nothing is counted.
    pub only_tee: bool,
    /// Who else is given them.
    pub tee: Option<Box<Tee<'a>>>,
}

/// Reads the rings of all processes until `ended` is set and what they hold has been replayed, in
/// blocks, and with pages, as `options` say. Returns one result for each process, by the number of
/// its segment.
///
/// # Errors
/// Fails when the shared memory cannot be mapped.
pub fn follow<'a>(
    memory: &'a SharedMemory,
    options: SessionOptions,
    ended: &AtomicBool,
    mut following: Following<'a>,
) -> Result<Vec<Traced>, RecorderError> {
    let first = memory.map::<Header>(0, 1)?;
    let mut rings: Vec<Ring<'a>> = Vec::new();
    let mut rest = SHORTEST_REST;
    loop {
        // Looked at before the rings: what was written before the end is found after it.
        let last = ended.load(Acquire);
        let segments = first.records()[0].segments.load(Relaxed).clamp(1, MAX_SEGMENTS);
        while rings.len() < segments as usize {
            let ring = Ring::open(memory, rings.len() as u32, options)?;
            let replays = !following.only_tee && !options.trace.is_some();
            rings.push(Ring { replays, ..ring });
        }
        let mut busy = false;
        for ring in &mut rings {
            busy |= ring.drain(TURN, &mut following.tee);
        }
        if busy {
            rest = SHORTEST_REST;
        } else if last {
            let finished = rings.into_iter().map(|ring| ring.finish(&mut following.tee));
            return Ok(finished.collect());
        } else {
            std::thread::sleep(rest);
            rest = (rest * 2).min(LONGEST_REST);
        }
    }
}

/// Reads the ring of accesses to shared memory until `ended` is set and what it holds has been
/// replayed. Threads in the result are numbered as sharers.
///
/// # Errors
/// Fails when the shared memory cannot be mapped.
pub fn follow_shared(
    memory: &SharedMemory,
    options: SessionOptions,
    ended: &AtomicBool,
) -> Result<Traced, RecorderError> {
    let mut ring = Ring::open_shared(memory, options)?;
    let mut rest = SHORTEST_REST;
    loop {
        let last = ended.load(Acquire);
        if ring.drain(u64::MAX, &mut None) {
            rest = SHORTEST_REST;
        } else if last {
            return Ok(ring.finish(&mut None));
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

/// The ring of one process, or of all for shared memory.
struct Ring<'a> {
    /// Number of the process; 0 for all.
    process: u32,
    /// Of the process; of the first one, where it is for all.
    header: Mapping<'a, Header>,
    shared: Option<Mapping<'a, Shared>>,
    /// The record that has been waited for, and since when.
    awaited: (u64, Instant),
    records: Mapping<'a, Access>,
    /// Number of the next record.
    next: u64,
    replay: Reference,
    replays: bool,
    /// Of a filtered trace, by thread: accesses that are not in it, to be told with the next one.
    skipped: Option<HashMap<u32, u64>>,
    missing: u64,
    lines: HashMap<(ThreadId, u64), u64>,
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
        process: u32,
        options: SessionOptions,
    ) -> Result<Self, RecorderError> {
        let start = u64::from(process) * SEGMENT_BYTES;
        let records = memory.map(start + TRACE_OFFSET, RECORDS)?;
        Ok(Self { process, ..Self::new(memory.map(start, 1)?, None, records, options) })
    }

    fn open_shared(
        memory: &'a SharedMemory,
        options: SessionOptions,
    ) -> Result<Self, RecorderError> {
        let shared = memory.map(shared::OFFSET, 1)?;
        let records = memory.map(shared::OFFSET + shared::TRACE_OFFSET, RECORDS)?;
        Ok(Self::new(memory.map(0, 1)?, Some(shared), records, options))
    }

    fn new(
        header: Mapping<'a, Header>,
        shared: Option<Mapping<'a, Shared>>,
        records: Mapping<'a, Access>,
        options: SessionOptions,
    ) -> Self {
        Self {
            process: 0,
            header,
            shared,
            awaited: (u64::MAX, Instant::now()),
            records,
            next: 0,
            replay: Reference::new(options.block_bytes).with_pages(options.pages),
            replays: true,
            skipped: options.trace.is_some().then(HashMap::new),
            missing: 0,
            lines: HashMap::new(),
            execs: 0,
            executing: Executing::Nothing,
        }
    }

    fn head(&self) -> &AtomicU64 {
        match &self.shared {
            Some(shared) => &shared.records()[0].trace_head,
            None => &self.header().trace_head,
        }
    }

    fn tail(&self) -> &AtomicU64 {
        match &self.shared {
            Some(shared) => &shared.records()[0].trace_tail,
            None => &self.header().trace_tail,
        }
    }

    /// Replays what is there, at most `most` accesses; whether there was anything.
    fn drain(&mut self, most: u64, tee: &mut Option<Box<Tee<'a>>>) -> bool {
        let start = self.next;
        self.replay.set_slice(self.header().slice.load(Relaxed));
        while self.next - start < most {
            match self.filled(self.next) {
                Some(access) => self.take(access, tee),
                None if self.next < self.end() && self.is_dead() => self.skip(),
                None => break,
            }
        }
        self.tell();
        self.next != start
    }

    /// Replays what is left when no thread writes any more.
    fn finish(mut self, tee: &mut Option<Box<Tee<'a>>>) -> Traced {
        // Not looked at again: nothing beyond the ring can be filled, whatever the head says later.
        let end = self.end();
        while self.next < end {
            match self.filled(self.next) {
                Some(access) => self.take(access, tee),
                None => self.skip(),
            }
        }
        let (replayed, pages) = self.replay.finish();
        Traced { replayed, pages, missing: self.missing, lines: self.lines }
    }

    fn header(&self) -> &Header {
        &self.header.records()[0]
    }

    /// One past the last record that may have been filled, whatever the program says.
    fn end(&self) -> u64 {
        self.head().load(Acquire).min(self.next + RECORDS as u64)
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

    fn take(&mut self, record: Record, tee: &mut Option<Box<Tee<'a>>>) {
        let Record { mut address, mut bytes, site, thread_and_what } = record;
        let thread = thread_and_what & ((1 << THREAD_BITS) - 1);
        let mut filtered = Filtered::default();
        let mut is = thread_and_what >> THREAD_BITS;
        if let Some(skipped) = &mut self.skipped {
            if is == what::SKIP {
                *skipped.entry(thread).or_default() += bytes;
                return self.advance();
            }
            filtered.held = is & what::HELD != 0;
            is &= !what::HELD;
            filtered.skipped = address >> SKIPPED_SHIFT;
            address &= (1 << SKIPPED_SHIFT) - 1;
            filtered.ways = (bytes >> WAYS_SHIFT) as u8;
            bytes &= (1 << WAYS_SHIFT) - 1;
            if matches!(is, what::READ | what::WRITE | what::WINDOW) && !skipped.is_empty() {
                filtered.skipped += skipped.remove(&thread).unwrap_or(0);
            }
            if is == what::WINDOW {
                let how = match bytes as u32 {
                    seen::COUNTED => Seen::Counted,
                    seen::WARM_UP => Seen::WarmUp,
                    _ => Seen::Not,
                };
                filtered.window = Some((address, how));
                (is, bytes) = (what::READ, 0);
            }
        }
        if self.shared.is_some() {
            let page = bytes >> SHARED_BYTES_BITS << PAGE_SHIFT;
            bytes &= (1 << SHARED_BYTES_BITS) - 1;
            self.note_lines(ThreadId(thread), page, address, bytes);
        }
        let what = match is {
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
                let access = reference::Access { thread, what, address, bytes, site };
                if let Some(tee) = tee {
                    tee(self.process, &access, filtered);
                }
                if self.replays {
                    self.replay.replay(&access);
                }
            }
            _ => self.missing += 1,
        }
        self.advance();
    }

    /// Notes where a thread has the lines of an access within one page.
    fn note_lines(&mut self, thread: ThreadId, page: u64, address: u64, bytes: u64) {
        let within = (1 << PAGE_SHIFT) - 1;
        let last = address.saturating_add(bytes.saturating_sub(1));
        for line in (address & !(LINE_BYTES - 1)..=last).step_by(LINE_BYTES as usize) {
            self.lines.entry((thread, line)).or_insert(page | line & within);
        }
    }

    fn skip(&mut self) {
        self.missing += 1;
        self.advance();
    }

    fn advance(&mut self) {
        self.next += 1;
        if self.next.is_multiple_of(TOLD) {
            self.tell();
        }
    }

    /// Records below the next one may be filled anew.
    fn tell(&self) {
        self.tail().store(self.next, Release);
    }

    /// Whether the next record will never be filled, because its thread was ended by another
    /// thread's execve. The count of these goes up shortly before the kernel ends the threads, so
    /// what they had taken by then is known a little later, and theirs for sure a little later
    /// again.
    fn is_dead(&mut self) -> bool {
        if self.shared.is_some() {
            // Any process may have been killed.
            if self.awaited.0 != self.next {
                self.awaited = (self.next, Instant::now());
            }
            return self.awaited.1.elapsed() >= PATIENCE;
        }
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
