//! The watching library's side of a recording: the memory that it reports in, and what it has seen.
//!
//! [`WatchMemory`] goes into a program's environment when that is started; a [`Watcher`] reads it
//! meanwhile, every tenth of a second or more often, and once more when the program has ended.
//! Neighbours: `wire::watch` has the layout, crate `watch` is the library, `sampling` sums up the
//! hits.

use crate::error::RecorderError;
use crate::inject::{self, PRELOAD};
use crate::memory::{Mapping, SharedMemory};
use profile::NotWatched;
use sampling::{Hit, Side};
use std::ffi::OsString;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use types::{CommKind, Evidence, Sharing, ThreadId};
use wire::watch::{
    BYTES, ENV, EVEN, Header, LINE, MAGIC, RECORDS, REGISTERS, Record, SEGMENTS, Segment, VERSION,
    how, kind, mode, reason, segment_offset, state,
};

/// The watching library, in the file system.
pub const WATCH: &str = "libthreadtalk_watch.so";

/// What the library is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchOptions {
    /// `perf_event_attr.type` and `config` of the event that is sampled in each thread.
    pub event: (u32, u64),
    /// Events, or nanoseconds of a clock, from sample to sample of a thread.
    pub period: u64,
    /// Debug registers to use at most.
    pub registers: usize,
    /// Watch exactly what was published instead of random pieces of its line: true sharing only.
    pub published_only: bool,
    /// Watch child processes, too.
    pub follow: bool,
    /// What it costs that a sampled thread gets a processor and loses it again, ns; 0: not known.
    pub switch_ns: u32,
}

impl Default for WatchOptions {
    /// The processor's time of each thread, every millisecond: works on every machine.
    fn default() -> Self {
        Self {
            event: (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK),
            period: 1_000_000,
            registers: REGISTERS,
            published_only: false,
            follow: true,
            switch_ns: 0,
        }
    }
}

/// Of the kernel's perf_event.h.
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;

/// One side of what was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Kernel id of the thread.
    pub tid: u32,
    /// Address of the instruction; 0: not known.
    pub site: u64,
    /// Bytes of the line, bit i = byte i.
    pub bytes: u64,
}

/// `from` has stored to a line that `to` has accessed afterwards.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen {
    /// Process.
    pub pid: u32,
    /// CLOCK_MONOTONIC, when `to` accessed and when `from` had stored.
    pub time_ns: u64,
    /// When `from` had stored; CLOCK_MONOTONIC, ns.
    pub from_ns: u64,
    /// Address of the line of 64 bytes.
    pub line: u64,
    /// The store.
    pub from: End,
    /// The access that followed.
    pub to: End,
    /// Whether `to` read.
    pub reads: bool,
    /// Whether `to` wrote.
    pub writes: bool,
    /// Debug registers that watched and bytes that each watched; `None`: two samples met.
    pub watched: Option<(u32, u32)>,
    /// What the access to the line is worth, in units of the sampled event (ComDetective, 3.3: the
    /// period times L / (D · M) where D registers watch M bytes each of a line of L).
    pub weight: f64,
    /// What `to` did is exactly known, not only where it came to.
    pub exact: bool,
}

/// How one process was watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WatchedProcess {
    /// Process id.
    pub pid: u32,
    /// Who forked it; itself for a program that was executed.
    pub parent: u32,
    /// When the library was loaded, or the process forked; CLOCK_MONOTONIC, ns.
    pub began_ns: u64,
    /// Threads that were watched, and those that could not be.
    pub threads: u64,
    /// Threads that could not be watched.
    pub unwatched: u64,
    /// Fewest debug registers that a thread got; `None`: none has wanted any.
    pub fewest_registers: Option<u32>,
    /// Samples taken.
    pub samples: u64,
    /// Samples with an access.
    pub decoded: u64,
    /// Samples not looked at: come late, or with no place free to work at.
    pub late: u64,
    /// Samples not looked at because all places to work at were taken.
    pub skipped: u64,
    /// Stores published.
    pub published: u64,
    /// Accesses to what another thread has published.
    pub matches: u64,
    /// How often lines were watched.
    pub armed: u64,
    /// Accesses that trapped.
    pub trapped: u64,
    /// Traps of a line that was not watched any more.
    pub stale: u64,
    /// Reports that found no room.
    pub lost: u64,
    /// Time in the handlers, ns, without what the kernel needs around them.
    pub handler_ns: u64,
    /// Samples after which fewer debug registers were armed than there are, because that would have
    /// cost too much.
    pub spared: u64,
    state: u32,
    reason: u32,
    error: u32,
}

impl WatchedProcess {
    /// Whether something could not be watched because the program has all the files open that it
    /// may.
    pub fn is_out_of_files(&self) -> bool {
        matches!(self.error as i32, libc::EMFILE | libc::ENFILE)
    }

    /// Why it is not watched, or not any more; `None` while it is.
    pub fn complaint(&self) -> Option<NotWatched> {
        let error = self.error as i32;
        Some(match (self.state, self.reason) {
            (state::WATCHING, _) if self.threads == 0 && self.unwatched > 0 => match error {
                libc::EINVAL | libc::E2BIG => NotWatched::NoSignals,
                libc::EACCES | libc::EPERM => NotWatched::Forbidden { error },
                _ => NotWatched::Failed { error },
            },
            (state::WATCHING, _) | (state::STEPPED_BACK, reason::STOPPED) => return None,
            (state::VERSION_MISMATCH, _) => NotWatched::OtherVersion,
            (state::STEPPED_BACK, reason::OWN_HANDLER) => NotWatched::OwnHandler,
            (state::STEPPED_BACK, reason::GO) => NotWatched::Go,
            (state::STEPPED_BACK, reason::SECCOMP) => NotWatched::Seccomp,
            (state::STEPPED_BACK, reason::NO_ROOM) => NotWatched::NoRoom,
            _ => NotWatched::Unknown,
        })
    }
}

/// Memory that a program reports in.
pub struct WatchMemory {
    memory: SharedMemory,
    options: WatchOptions,
}

impl WatchMemory {
    /// Creates the memory and its header; no program reports yet.
    ///
    /// # Errors
    /// Fails when the kernel grants no such memory.
    pub fn create(options: WatchOptions) -> Result<Self, RecorderError> {
        let memory = SharedMemory::create("watching library", c"threadtalk-watch", BYTES)?;
        {
            let header = memory.map::<Header>(0, 1)?;
            let header = &header.records()[0];
            header.event_type.store(options.event.0, Relaxed);
            header.event_config.store(options.event.1, Relaxed);
            header.switch_ns.store(options.switch_ns, Relaxed);
            header.period.store(options.period.max(1), Relaxed);
            header.registers.store(options.registers.min(REGISTERS) as u32, Relaxed);
            let what = if options.published_only { mode::PUBLISHED } else { mode::PIECES };
            header.mode.store(what, Relaxed);
            header.follow.store(options.follow.into(), Relaxed);
            header.version.store(VERSION, Relaxed);
            header.magic.store(MAGIC, Release);
        }
        Ok(Self { memory, options })
    }

    /// The options that it was created with.
    pub fn options(&self) -> WatchOptions {
        self.options
    }

    /// What a program's environment needs; `library` is where [`inject::find_library`] finds
    /// [`WATCH`].
    pub fn environment(&self, library: &std::path::Path) -> Vec<(&'static str, OsString)> {
        let preload = inject::preload(library, std::env::var_os(PRELOAD).as_deref());
        inject::even_out(vec![(PRELOAD, preload), (ENV, self.memory.path())], EVEN)
    }

    /// Reads it while the program runs and afterwards.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn watcher(&self) -> Result<Watcher<'_>, RecorderError> {
        Ok(Watcher { memory: &self.memory, header: self.memory.map(0, 1)?, segments: Vec::new() })
    }
}

/// One process's segment, mapped, and the next position of its queue.
struct Reading<'a> {
    segment: Mapping<'a, Segment>,
    records: Mapping<'a, Record>,
    head: u64,
}

/// Reads what programs report.
pub struct Watcher<'a> {
    memory: &'a SharedMemory,
    header: Mapping<'a, Header>,
    segments: Vec<Reading<'a>>,
}

impl Watcher<'_> {
    /// Everything that was reported since the last call. `over`: the programs have ended, so what
    /// they have begun and not finished will never be.
    ///
    /// # Errors
    /// Fails when the memory cannot be mapped.
    pub fn read(&mut self, over: bool) -> Result<Vec<Seen>, RecorderError> {
        let taken = (self.header.records()[0].taken.load(Acquire) as usize).min(SEGMENTS);
        while self.segments.len() < taken {
            let offset = segment_offset(self.segments.len());
            let segment = self.memory.map(offset, 1)?;
            let records = self.memory.map(offset + size_of::<Segment>() as u64, RECORDS)?;
            self.segments.push(Reading { segment, records, head: 0 });
        }
        let mut seen = Vec::new();
        for reading in &mut self.segments {
            reading.drain(over, &mut seen);
        }
        Ok(seen)
    }

    /// Tells all processes that nothing is to be watched any more; each thread does so at its next
    /// sample.
    pub fn stop(&self) {
        self.header.records()[0].stop.store(1, Release);
    }

    /// The processes so far, in the order in which they came, and how many more found no room.
    pub fn processes(&self) -> (Vec<WatchedProcess>, usize) {
        let taken = self.header.records()[0].taken.load(Acquire) as usize;
        let known = self.segments.iter().map(|reading| process(&reading.segment.records()[0]));
        (known.filter(|process| process.pid != 0).collect(), taken.saturating_sub(SEGMENTS))
    }
}

fn process(segment: &Segment) -> WatchedProcess {
    let fewest = segment.fewest_registers.load(Relaxed);
    WatchedProcess {
        pid: segment.pid.load(Acquire),
        parent: segment.parent.load(Relaxed),
        began_ns: segment.began_ns.load(Relaxed) as u64,
        threads: segment.threads.load(Relaxed),
        unwatched: segment.unwatched.load(Relaxed),
        fewest_registers: (fewest != u32::MAX).then_some(fewest),
        samples: segment.samples.load(Relaxed),
        decoded: segment.decoded.load(Relaxed),
        late: segment.late.load(Relaxed),
        skipped: segment.skipped.load(Relaxed),
        published: segment.published.load(Relaxed),
        matches: segment.matches.load(Relaxed),
        armed: segment.armed.load(Relaxed),
        trapped: segment.trapped.load(Relaxed),
        stale: segment.stale.load(Relaxed),
        lost: segment.lost.load(Relaxed),
        handler_ns: segment.handler_ns.load(Relaxed),
        spared: segment.spared.load(Relaxed),
        state: segment.state.load(Acquire),
        reason: segment.reason.load(Relaxed),
        error: segment.unwatched_error.load(Relaxed),
    }
}

impl Reading<'_> {
    fn drain(&mut self, over: bool, seen: &mut Vec<Seen>) {
        let segment = &self.segment.records()[0];
        let over = over || segment.left.load(Acquire) == 1;
        let (pid, tail) = (segment.pid.load(Relaxed), segment.tail.load(Acquire));
        while self.head < tail {
            let lap = self.head / RECORDS as u64;
            let record = &self.records.records()[(self.head % RECORDS as u64) as usize];
            match record.turn.load(Acquire) == 2 * lap + 1 {
                true => seen.extend(read(pid, record)),
                false if over => {}
                false => return,
            }
            record.turn.store(2 * (lap + 1), Release);
            self.head += 1;
        }
    }
}

/// What a record says; none if that cannot be (the program may have written there).
fn read(pid: u32, record: &Record) -> Option<Seen> {
    let access = record.kind.load(Relaxed);
    let (registers, length) = (record.registers.load(Relaxed), record.length.load(Relaxed));
    let trapped = record.how.load(Relaxed) == how::TRAP;
    let period = record.period.load(Relaxed) as f64;
    let pieces = trapped && record.mode.load(Relaxed) == mode::PIECES;
    if access > kind::UPDATE || (trapped && (registers == 0 || length == 0)) {
        return None;
    }
    let part = if pieces { f64::from(registers * length) / LINE as f64 } else { 1.0 };
    let end = |tid: u32, site: u64, bytes: u64| End { tid, site, bytes };
    let load = |field: &std::sync::atomic::AtomicU64| field.load(Relaxed);
    let (from, to) = (record.from.load(Relaxed), record.to.load(Relaxed));
    Some(Seen {
        pid,
        time_ns: load(&record.time_ns),
        from_ns: load(&record.from_ns),
        line: load(&record.line),
        from: end(from, load(&record.from_site), load(&record.from_bytes)),
        to: end(to, load(&record.to_site), load(&record.to_bytes)),
        reads: access != kind::STORE,
        writes: access != kind::LOAD,
        watched: trapped.then_some((registers, length)),
        weight: period / part.min(1.0),
        exact: record.exact.load(Relaxed) == 1,
    })
}

impl Seen {
    /// Whether both touched the same bytes.
    pub fn sharing(&self) -> Sharing {
        if self.from.bytes & self.to.bytes != 0 { Sharing::True } else { Sharing::False }
    }

    /// The hits that it is, one of each kind; `from` and `to` are the threads' logical ids.
    pub fn hits(&self, from: ThreadId, to: ThreadId) -> impl Iterator<Item = Hit> + use<> {
        let side = |thread, end: End| Side { thread, site: end.site, bytes: end.bytes };
        let hit = |kind| Hit {
            time_ns: self.time_ns,
            block: self.line,
            kind,
            sharing: self.sharing(),
            from: side(from, self.from),
            to: side(to, self.to),
            weight: self.weight,
            array: false,
            evidence: Evidence::Sampled,
            object: 0,
        };
        let raw = self.reads.then(|| hit(CommKind::Raw));
        let waw = self.writes.then(|| hit(CommKind::Waw));
        [raw, waw].into_iter().flatten()
    }
}

#[cfg(test)]
#[path = "watched_tests.rs"]
mod tests;
