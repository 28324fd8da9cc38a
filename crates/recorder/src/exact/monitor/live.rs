//! A program in windows of exact recording, read while it runs: for placing it meanwhile.
//!
//! Nothing is kept of the time before the last reading: there is one time slice, in which the cells
//! of the matrix only grow, and differences are what is new. Neighbours: `switching` opens and
//! closes the windows, `monitor` looks at threads in the same way for profiles, `record` prepares
//! what both need.

use super::Process;
use crate::child::{Ended, Launch, Streams};
use crate::clock::monotonic_ns;
use crate::counts::Counts;
use crate::error::RecorderError;
use crate::memory::Mapping;
use crate::record::{Prepared, check_recorded};
use crate::session::{Session, SessionOptions};
use crate::switching::{Code, Done, Switching};
use crate::target::Target;
use profile::Counted;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::Duration;
use types::CommKind;
use windows::Dial;
use wire::session::{Header, MAX_SEGMENTS, MAX_THREADS, state};
use wire::windows::TRACKED_OF;

/// How long to rest while the program has not begun.
const REST: Duration = Duration::from_millis(1);

/// What is new since the last reading.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reading {
    /// Transfers between threads (kernel's numbers), in windows.
    pub events: Vec<(u32, u32, u64)>,
    /// Time in which events were counted, ns.
    pub counted_ns: u64,
    /// Instructions between windows, of all threads.
    pub instructions: u64,
    /// The time of these, ns.
    pub between_ns: u64,
}

/// Starts `target` under the exact engine, and reads it in another thread, by `read`, until it
/// ends. `read` is told the program's process.
///
/// # Errors
/// When the program cannot be started, or the engine did not take it over.
pub fn launch<T: Send>(
    target: &Target,
    dial: Dial,
    read: impl FnOnce(u32, Reader<'_>, &dyn Fn() -> bool) -> T + Send,
) -> Result<(Ended, T), RecorderError> {
    let options = SessionOptions {
        counted: Counted::Matrix,
        slice: Duration::ZERO,
        objects: false,
        windows: Some(dial),
        ..SessionOptions::default()
    };
    let program = Program { target, options, streams: Streams::Inherited, adopt_orphans: false };
    launch_with(program, dial, read)
}

/// A program, and how it is started and recorded.
pub(super) struct Program<'a> {
    pub target: &'a Target,
    /// With windows as the dial says.
    pub options: SessionOptions,
    pub streams: Streams,
    /// As in [`Launch`].
    pub adopt_orphans: bool,
}

/// As [`launch`].
pub(super) fn launch_with<T: Send>(
    program: Program<'_>,
    dial: Dial,
    read: impl FnOnce(u32, Reader<'_>, &dyn Fn() -> bool) -> T + Send,
) -> Result<(Ended, T), RecorderError> {
    let Program { target, options, streams, adopt_orphans } = program;
    let mut prepared = Prepared::new(target, options)?;
    let environment = std::mem::take(&mut prepared.environment);
    let session = &prepared.session;
    let launch = Launch { adopt_orphans, ..Launch::new(target, environment, &[], streams) };
    let running = launch.start()?;
    let pid = running.pid() as u32;
    let over = AtomicBool::new(false);
    let (ended, read) = thread::scope(|scope| {
        let reading = scope.spawn(|| {
            crate::signals::block_signals();
            Reader::new(session, dial).map(|reader| read(pid, reader, &|| over.load(Acquire)))
        });
        let ended = running.wait(|| ());
        over.store(true, Release);
        (ended, reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let ended = ended?;
    check_recorded(&session.header()?.records()[0], &ended)?;
    prepared.keep_code()?;
    Ok((ended, read?))
}

/// Switches the windows of a program and reads what they count.
pub struct Reader<'a> {
    session: &'a Session,
    first: Mapping<'a, Header>,
    dial: Dial,
    processes: Vec<Process<'a>>,
    done: Done,
    /// `None` until the program has begun, then with the time when it did.
    switching: Option<(i64, Switching<'a>)>,
    /// Since when events have been counted, if they are now.
    counting_since: Option<u64>,
    counted_ns: u64,
    /// Instructions of all processes while events were counted, and up to the last switch.
    counted: u64,
    instructions: u64,
    /// By process and threads: events that have been read already, and late ones.
    known: HashMap<(u32, u32, u32), [u64; 2]>,
    /// Work between windows that has been read already: instructions, ns.
    between: (u64, u64),
}

impl<'a> Reader<'a> {
    fn new(session: &'a Session, dial: Dial) -> Result<Self, RecorderError> {
        Ok(Self {
            session,
            first: session.header_of(0)?,
            dial,
            processes: Vec::new(),
            done: Done::default(),
            switching: None,
            counting_since: None,
            counted_ns: 0,
            counted: 0,
            instructions: 0,
            known: HashMap::new(),
            between: (0, 0),
        })
    }

    /// Switches windows for so long, or until `enough` says so.
    ///
    /// # Errors
    /// When threads cannot be told that a window opens.
    pub fn wait(&mut self, most: Duration, enough: &dyn Fn() -> bool) -> Result<(), RecorderError> {
        let deadline = monotonic_ns() + most.as_nanos() as i64;
        loop {
            let now = monotonic_ns();
            let next = match &self.switching {
                Some((origin, switching)) => origin + switching.next_ns() as i64,
                None => now + REST.as_nanos() as i64,
            };
            let until = next.min(deadline);
            if until > now {
                thread::sleep(Duration::from_nanos((until - now) as u64));
            }
            self.turn()?;
            if monotonic_ns() >= deadline || enough() {
                return Ok(());
            }
        }
    }

    fn turn(&mut self) -> Result<(), RecorderError> {
        self.open_new();
        if self.switching.is_none() {
            let header = &self.first.records()[0];
            if header.state.load(Acquire) != state::RUNNING {
                return Ok(());
            }
            let switching = Switching::new(
                self.session.memory(),
                self.session.header_of(0)?,
                self.dial,
                false,
            )?;
            self.switching = Some((monotonic_ns(), switching));
        }
        let Some((origin, switching)) = &mut self.switching else { return Ok(()) };
        let now_ns = (monotonic_ns() - *origin).max(0) as u64;
        if now_ns < switching.until_ns() {
            switching.ask(now_ns);
            return Ok(());
        }
        let (ran, counted) = (switching.ran(), switching.is_counting());
        let place = switching.place(0);
        self.done.active = 0;
        for (process, segment) in self.processes.iter_mut().zip(0..) {
            process.note_threads(0);
            process.add_done(&mut self.done, place, ran);
            if counted && ran.is_some() {
                process.choose_growing(self.session, segment, 0);
            }
            process.seen.samples.clear();
            process.look();
        }
        let before = std::mem::replace(&mut self.instructions, self.done.instructions);
        if let Some(since) = self.counting_since.take() {
            self.counted_ns += now_ns - since;
            self.counted += self.instructions.saturating_sub(before);
        }
        switching.turn(now_ns, self.done);
        self.counting_since = switching.is_counting().then_some(now_ns);
        let failed = |error| RecorderError::SharedMemory { what: "recording", error, hint: "" };
        let shown = switching.show();
        if switching.code() != Code::Native {
            self.processes.iter().for_each(Process::call_home);
        }
        shown.map_err(failed)
    }

    fn open_new(&mut self) {
        let count = self.first.records()[0].segments.load(Relaxed).clamp(1, MAX_SEGMENTS);
        while self.processes.len() < count as usize {
            let Ok(process) = Process::open(self.session, self.processes.len() as u32) else {
                return;
            };
            self.processes.push(process);
        }
    }

    pub(super) fn session(&self) -> &'a Session {
        self.session
    }

    /// By number; more may come, none goes.
    pub(super) fn processes(&self) -> &[Process<'a>] {
        &self.processes
    }

    /// Instructions of all processes so far, and those while events were counted.
    pub(super) fn work(&self) -> (u64, u64) {
        (self.instructions, self.counted)
    }

    /// How long events have been counted so far, ns.
    pub(super) fn counted_ns(&self) -> u64 {
        self.counted_ns
    }

    /// Whether there are no windows now, as one thread is alone.
    pub(super) fn is_alone(&self) -> bool {
        self.switching.as_ref().is_some_and(|(_, switching)| switching.is_alone())
    }

    /// How many events of all blocks a late event stands for, in as much work as windows counted.
    pub(super) fn late_weight(&self) -> f64 {
        let late = self.switching.as_ref().map_or(0, |(_, switching)| switching.late_work());
        if late > 0 { TRACKED_OF as f64 * self.counted as f64 / late as f64 } else { 0.0 }
    }

    /// The time that the program would have taken alone, as a part of the time that it took, if
    /// that can be told.
    pub(super) fn alone(&self) -> Option<f64> {
        let [_, likely, _] = self.switching.as_ref()?.1.alone()?;
        Some(likely)
    }

    /// What is new since the last reading.
    ///
    /// # Errors
    /// When the recording cannot be read.
    pub fn read(&mut self) -> Result<Reading, RecorderError> {
        let mut reading = Reading { counted_ns: self.counted_ns, ..Reading::default() };
        self.counted_ns = 0;
        if let Some((_, switching)) = &self.switching {
            let spent = switching.between();
            let (instructions, ns) = std::mem::replace(&mut self.between, (spent.work, spent.wall));
            reading.instructions = spent.work.saturating_sub(instructions);
            reading.between_ns = spent.wall.saturating_sub(ns);
        }
        if reading.counted_ns == 0 {
            return Ok(reading);
        }
        for segment in 0..self.processes.len() {
            if self.processes[segment].shared.is_some() {
                self.read_events(segment as u32, &mut reading)?;
            }
        }
        Ok(reading)
    }

    fn read_events(&mut self, segment: u32, reading: &mut Reading) -> Result<(), RecorderError> {
        let weight = self.late_weight();
        let Some(shared) = &self.processes[segment as usize].shared else { return Ok(()) };
        let threads = (shared.header().threads.load(Acquire) as usize).min(MAX_THREADS);
        let areas = shared.areas.records();
        let counts = Counts::read_windows(&self.session.of_segment(segment), threads)?;
        let mut sums: HashMap<(u32, u32), [u64; 2]> = HashMap::new();
        let of = |kind| matches!(kind, CommKind::Raw | CommKind::Waw);
        for (which, rows) in [&counts.comm, &counts.late].into_iter().enumerate() {
            for row in rows.iter().filter(|row| of(row.kind)) {
                let sum = &mut sums.entry((row.from.0, row.to.0)).or_default()[which];
                *sum = sum.saturating_add(row.count);
            }
        }
        let mut new: Vec<_> = sums.into_iter().collect();
        new.sort_unstable();
        for ((from, to), sum) in new {
            let known = self.known.entry((segment, from, to)).or_default();
            let [near, late] = [0, 1].map(|which| sum[which].saturating_sub(known[which]));
            let count = near + (late as f64 * weight).round() as u64;
            // Less than before: another program is executed, which counts anew.
            *known = sum;
            let tid = |thread: u32| areas[thread as usize].page.tid.load(Relaxed);
            if count > 0 && (from.max(to) as usize) < threads {
                reading.events.push((tid(from), tid(to), count));
            }
        }
        Ok(())
    }
}
