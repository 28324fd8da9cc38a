//! Monitors a recording while it runs: advances the time slices, notes what each thread has
//! executed in them, where they run, and what kinds of memory the processes have.
//!
//! One thread of ours, asleep most of the time. What it costs is bounded by measuring it: where
//! noting the threads takes more than a hundredth of a processor, slices are joined and so become
//! longer; `/proc/PID/maps` is read again after a hundred times as long as reading it took.
//! Neighbours: `record` starts it, [`timeline`], [`running`] and [`regions`] hold what it finds,
//! `collect` uses that.
//!
//! [`running`]: crate::running
//! [`timeline`]: crate::timeline
//! [`regions`]: crate::regions

mod costs;
mod done;
mod growing;
pub mod live;
mod look;
mod native;
mod seen;
pub mod view;

use crate::clock::{cpu_time, monotonic_ns};
use crate::error::RecorderError;
use crate::flows::Flows;
use crate::memory::Mapping;
use crate::page_history::Histories;
use crate::running::Looks;
use crate::session::{Session, SessionOptions};
use crate::signals::block_signals;
use crate::switching::{Code, Done, Place, Switching};
use crate::timeline::{Sample, Timeline, join_samples};
use costs::{Costs, SHARE};
use growing::Growing;
use look::{Look, Mark, mark, more};
use native::NativeTime;
pub use seen::{Monitored, Seen};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::{Duration, Instant};
use types::tally::{self, Executed, Meaning, work};
use windows::Ran;
use wire::session::{
    Calls, Header, MAX_SEGMENTS, MAX_THREADS, ThreadArea, ThreadPage, life, state,
};

/// How long to rest while the program has not begun: short at first, as most begin at once.
const SHORT_REST: Duration = Duration::from_micros(500);
const LONG_REST: Duration = Duration::from_millis(10);
/// First and longest time between two looks at a process's memory.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// How often it is looked for another thread while one is alone, and how long other processes
/// have waited by then.
const ALONE_REST: Duration = Duration::from_millis(5);
const QUIET: Duration = Duration::from_millis(500);
/// Most samples of a recording and most slices; beyond, slices are joined.
const MAX_SAMPLES: usize = 2 << 20;
const MAX_SLICES: usize = 1 << 18;

/// How the memory of a recording looks in `/proc/PID/maps`.
const OUR_MEMORY: &str = "/memfd:threadtalk-session";

/// Monitors until `ended` is set and the calling thread is unparked.
pub fn monitor(
    session: &Session,
    options: SessionOptions,
    ended: &AtomicBool,
) -> Result<Monitored, RecorderError> {
    block_signals();
    let Some(origin_ns) = wait_for_start(session, ended)? else { return Ok(Monitored::default()) };
    let switching = match options.windows {
        Some(dial) => {
            super::prompt::be_prompt();
            let first = session.header_of(0)?;
            let mut switching = Switching::new(session.memory(), first, dial, options.traces())?;
            switching.every_us(options.switch_us);
            if options.counts_pages() {
                switching.always_check();
            }
            Some(switching)
        }
        None => None,
    };
    let slice = if switching.is_some() { Duration::ZERO } else { options.slice };
    let mut monitor = Monitor {
        session,
        first: session.header_of(0)?,
        timeline: Timeline::new(origin_ns, slice),
        processes: Vec::new(),
        costs: Costs::new(),
        looks: Looks::new(Instant::now()),
        flows: Flows::default(),
        histories: options.counts_pages().then(Histories::default),
        done: Done::default(),
        switching,
    };
    while !ended.load(Acquire) {
        monitor.tick()?;
        thread::park_timeout(monitor.rest());
    }
    Ok(monitor.finish())
}

/// When the agent took the program over; `None` when the program ended before that.
fn wait_for_start(session: &Session, ended: &AtomicBool) -> Result<Option<i64>, RecorderError> {
    let header = session.header_of(0)?;
    let header = &header.records()[0];
    let earliest_ns = monotonic_ns();
    let mut rest = SHORT_REST;
    while !ended.load(Acquire) {
        if header.state.load(Acquire) == state::RUNNING {
            // What the program has written over is at least a moment of this recording.
            let (started_ns, now_ns) = (header.started_ns.load(Relaxed), monotonic_ns());
            return Ok(Some(started_ns.clamp(earliest_ns.min(now_ns), now_ns)));
        }
        thread::park_timeout(rest);
        rest = (rest + rest / 8).min(LONG_REST);
    }
    Ok(None)
}

struct Monitor<'a> {
    session: &'a Session,
    /// Of the first process, which knows how many there are.
    first: Mapping<'a, Header>,
    timeline: Timeline,
    processes: Vec<Process<'a>>,
    costs: Costs,
    looks: Looks,
    flows: Flows,
    /// Only where accesses are counted by page.
    histories: Option<Histories>,
    /// What all processes have done so far; only with windows.
    done: Done,
    switching: Option<Switching<'a>>,
}

impl Monitor<'_> {
    fn now_ns(&self) -> u64 {
        self.timeline.since_start(monotonic_ns())
    }

    fn tick(&mut self) -> Result<(), RecorderError> {
        self.open_new();
        let before = self.timeline.current();
        if self.switching.is_some() {
            self.turn()?;
        } else if self.timeline.advance(self.now_ns()) {
            let spent = cpu_time();
            self.publish();
            for process in self.processes.iter_mut() {
                process.note_threads(before);
            }
            self.costs.add(cpu_time().saturating_sub(spent));
            if self.too_much() {
                self.join();
            }
        }
        let now_ns = self.now_ns();
        let processes = &mut self.processes;
        let look = |at_ns| processes.iter_mut().for_each(|p| p.look_at_threads(at_ns));
        self.looks.turn(Instant::now(), now_ns, look);
        self.look_at_memory();
        let live = |segment: usize| self.processes[segment].shared.is_some();
        self.flows.turn(self.session, self.processes.len(), live, now_ns);
        if let Some(histories) = &mut self.histories {
            histories.turn(self.session, self.processes.len(), live, now_ns);
        }
        Ok(())
    }

    /// Goes on to the next phase of a window when it is time.
    fn turn(&mut self) -> Result<(), RecorderError> {
        let now_ns = self.now_ns();
        let Some(switching) = self.switching.as_mut() else { return Ok(()) };
        if switching.is_alone() && self.processes.iter().any(Process::has_new_threads) {
            switching.wake();
        }
        if now_ns < switching.until_ns() {
            switching.ask(now_ns);
            return Ok(());
        }
        let (ran, counted) = (switching.ran(), switching.is_counting());
        let before = self.timeline.current();
        let place = switching.place(before);
        let done = self.note_done(place, ran);
        if counted && ran.is_some() {
            let processes = self.processes.iter_mut().zip(0..);
            processes.for_each(|(process, segment)| {
                process.choose_growing(self.session, segment, before)
            });
        }
        if let Some(switching) = self.switching.as_mut() {
            switching.turn(now_ns, done);
            self.timeline.begin(now_ns);
            self.publish();
        }
        let Some(switching) = self.switching.as_mut() else { return Ok(()) };
        let executed = || self.processes.iter().flat_map(|p| p.executed(before)).collect();
        let failed = |error| RecorderError::SharedMemory { what: "recording", error, hint: "" };
        // Threads that are to wait find that they are when they are asked to leave their code, and
        // threads that go on see where to.
        let shown = match switching.code() {
            Code::Native => switching.show().inspect(|()| switching.show_solo(executed)),
            _ => {
                switching.show_solo(executed);
                switching.show()
            }
        };
        if switching.code() != Code::Native {
            self.processes.iter().for_each(Process::call_home);
        }
        shown.map_err(failed)
    }

    /// Notes what threads have done in the slice that is over, in which they all ran such code or
    /// some of each (`None`).
    fn note_done(&mut self, place: Place, ran: Option<Ran>) -> Done {
        self.done.active = 0;
        for process in self.processes.iter_mut() {
            process.note_threads(place.slice);
            process.add_done(&mut self.done, place, ran);
        }
        self.done.alone = self.is_one_alone();
        self.done
    }

    /// Whether one thread at the most has executed something lately, and no other could have met
    /// it. Processes that take turns may share memory.
    fn is_one_alone(&self) -> bool {
        let is_single = |process: &Process<'_>| process.live.len() <= 1;
        let is_active =
            |process: &&Process<'_>| process.executed_at.is_some_and(|at| at.elapsed() < QUIET);
        // Accesses to pages count even so.
        self.histories.is_none()
            && self.processes.iter().all(is_single)
            && self.processes.iter().filter(is_active).count() <= 1
    }

    /// Looks at the memory of processes when it is time, and closes those that are gone: with what
    /// they have done since the last slice, as that is not known later where they ran natively.
    fn look_at_memory(&mut self) {
        let slice = self.timeline.current();
        let place = self.switching.as_ref().map(|switching| switching.place(slice));
        for process in &mut self.processes {
            if !process.look() {
                continue;
            }
            if let Some(place) = place {
                process.note_threads(slice);
                process.add_done(&mut self.done, place, None);
            }
            process.close();
        }
    }

    /// Starts to monitor processes that have appeared.
    fn open_new(&mut self) {
        let count = self.first.records()[0].segments.load(Relaxed).clamp(1, MAX_SEGMENTS);
        while self.processes.len() < count as usize {
            // No room for its mappings: those of others go when they end.
            let Ok(process) = Process::open(self.session, self.processes.len() as u32) else {
                return;
            };
            process.publish(self.timeline.current_unjoined());
            self.processes.push(process);
        }
    }

    /// Tells all processes which slice it is.
    fn publish(&self) {
        let slice = self.timeline.current_unjoined();
        self.processes.iter().for_each(|process| process.publish(slice));
    }

    /// Whether there are too many slices, or too short ones, and they should be joined.
    fn too_much(&mut self) -> bool {
        let samples: usize = self.processes.iter().map(|process| process.seen.samples.len()).sum();
        if samples > MAX_SAMPLES || self.timeline.len() > MAX_SLICES {
            return true;
        }
        self.costs.too_much()
    }

    fn join(&mut self) {
        self.timeline.join();
        for process in self.processes.iter_mut() {
            join_samples(&mut process.seen.samples, 1);
        }
        self.publish();
    }

    /// Until something is to be done.
    fn rest(&self) -> Duration {
        let turn = self.switching.as_ref().map(Switching::next_ns);
        let next = turn.or_else(|| self.timeline.next_ns());
        let until_slice = next.map(|next| next.saturating_sub(self.now_ns()));
        let until_look = self.processes.iter().filter_map(Process::until_look).min();
        let until_slice = until_slice.map_or(LONGEST_LOOK, Duration::from_nanos);
        let is_alone = self.switching.as_ref().is_some_and(Switching::is_alone);
        let until_slice = if is_alone { until_slice.min(ALONE_REST) } else { until_slice };
        let until_threads = self.looks.due().saturating_duration_since(Instant::now());
        let until_looks = until_look.map_or(LONGEST_LOOK, |until| until.min(until_threads));
        until_slice.min(until_looks).min(LONGEST_LOOK)
    }

    fn finish(mut self) -> Monitored {
        let now_ns = self.now_ns();
        let slice = self.timeline.current();
        let place = self.switching.as_ref().map(|switching| switching.place(slice));
        let done = place.map_or(self.done, |place| self.note_done(place, None));
        let switched = self.switching.map(|switching| switching.finish(now_ns, done));
        let processes = self.processes.into_iter().map(Process::into_seen).collect();
        let flows = self.flows.finish();
        let histories = self.histories.map(Histories::finish).unwrap_or_default();
        Monitored { timeline: Some(self.timeline), processes, flows, histories, switched }
    }
}

/// A process that is recorded.
struct Process<'a> {
    /// `None` once it is gone: nothing more comes, and there may be thousands.
    shared: Option<Shared<'a>>,
    /// Programs it has executed.
    execs: u32,
    /// Threads that may still execute something, and how many have been seen.
    live: Vec<u32>,
    known: usize,
    /// What each thread was like when it was looked at last.
    last: Vec<Look>,
    seen: Seen,
    /// Calls of each thread when it was looked at where it runs.
    calls: Vec<u32>,
    /// Whether the process number is known to be that of the process.
    found: bool,
    /// Processor time that it had used when it was looked at last, ns.
    cpu_ns: u64,
    /// When it executed something last: the end of that slice.
    executed_at: Option<Instant>,
    /// Events, and what windows may have missed, since [`Process::add_done`]; and system calls.
    counted: Done,
    calls_made: u64,
    native_time: NativeTime,
    growing: Growing,
    /// When to look at its memory, and how long after the last look that is.
    look_at: Instant,
    look_after: Duration,
}

/// Whether a thread executes nothing any more.
fn is_over(life: u32) -> bool {
    matches!(life, life::EXITED | life::DETACHED)
}

/// What a process writes.
struct Shared<'a> {
    header: Mapping<'a, Header>,
    calls: Mapping<'a, Calls>,
    areas: Mapping<'a, ThreadArea>,
    meanings: Mapping<'a, AtomicU32>,
}

impl Shared<'_> {
    fn header(&self) -> &Header {
        &self.header.records()[0]
    }

    /// Sums up a thread's tallies, as many as there are now: what they mean, and the steps that it
    /// took to check and to count.
    fn tallied(&self) -> impl Fn(&ThreadArea) -> (Executed, [u64; 2]) {
        let used = (self.header().tallies.load(Acquire) as usize).min(tally::MAX);
        let meanings = &self.meanings.records()[..used];
        let meanings: Vec<_> =
            meanings.iter().map(|bits| Meaning::from_bits(bits.load(Relaxed))).collect();
        move |area: &ThreadArea| {
            let times = || area.tallies.iter().map(|times| times.load(Relaxed));
            let steps = tally::steps(meanings.iter().copied().zip(times()));
            (tally::sum(meanings.iter().copied().zip(times())), steps)
        }
    }

    /// What stands for a thread's counters, a few times faster than their sum: most threads of most
    /// programs sleep, and thousands of tallies each would be summed up for nothing.
    fn marks(&self) -> impl Fn(&ThreadArea) -> Mark {
        let used = (self.header().tallies.load(Acquire) as usize).min(tally::MAX);
        move |area: &ThreadArea| {
            let ThreadPage { folds, instructions, loads, stores, .. } = &area.page;
            let page = [folds, instructions, loads, stores].into_iter();
            mark(page.chain(&area.tallies[..used]).map(|count| count.load(Relaxed)))
        }
    }

    /// `/proc/PID/maps`; `None` when the process is gone.
    fn maps(&self) -> Option<String> {
        let maps = std::fs::read(format!("/proc/{}/maps", self.header().pid.load(Relaxed))).ok()?;
        let maps = String::from_utf8_lossy(&maps).into_owned();
        // Another process has got its number, or has it in our namespace.
        maps.contains(OUR_MEMORY).then_some(maps)
    }
}

impl<'a> Process<'a> {
    fn open(session: &'a Session, segment: u32) -> Result<Self, RecorderError> {
        let (header, calls) = (session.header_of(segment)?, session.calls_of(segment)?);
        let (areas, meanings) = (session.areas_of(segment)?, session.meanings_of(segment)?);
        Ok(Self {
            shared: Some(Shared { header, calls, areas, meanings }),
            execs: 0,
            live: Vec::new(),
            known: 0,
            last: Vec::new(),
            seen: Seen::default(),
            calls: Vec::new(),
            found: false,
            cpu_ns: 0,
            executed_at: None,
            counted: Done::default(),
            calls_made: 0,
            native_time: NativeTime::default(),
            growing: Growing::default(),
            look_at: Instant::now(),
            look_after: FIRST_LOOK,
        })
    }

    /// Whether it has threads that are in no slice yet; a new process has.
    fn has_new_threads(&self) -> bool {
        let threads = |shared: &Shared<'_>| shared.header().threads.load(Acquire) as usize;
        self.shared.as_ref().is_some_and(|shared| threads(shared) > self.known)
    }

    /// Work of threads in the slice that has been noted last, by kernel thread id.
    fn executed(&self, slice: u32) -> Vec<(u32, u64)> {
        let Some(shared) = &self.shared else { return Vec::new() };
        let samples = self.seen.samples.iter().rev().take_while(|sample| sample.slice == slice);
        let areas = shared.areas.records();
        let tid = |sample: &Sample| areas[sample.thread as usize].page.tid.load(Relaxed);
        samples.map(|sample| (tid(sample), work(&sample.executed))).collect()
    }

    fn publish(&self, slice: u32) {
        if let Some(shared) = &self.shared {
            shared.header().slice.store(slice, Relaxed);
        }
    }

    /// Notes what threads have executed in slice `slice`, which is over.
    fn note_threads(&mut self, slice: u32) {
        self.start_anew_after_exec();
        let Some(shared) = &self.shared else { return };
        let threads = (shared.header().threads.load(Acquire) as usize).min(MAX_THREADS);
        if threads > self.known {
            self.live.extend(self.known as u32..threads as u32);
            self.last.resize(threads, Default::default());
            self.known = threads;
        }
        let (calls, areas) = (shared.calls.records(), shared.areas.records());
        let (tallied, mark) = (shared.tallied(), shared.marks());
        let (last, samples) = (&mut self.last, &mut self.seen.samples);
        let (counted, calls_made) = (&mut self.counted, &mut self.calls_made);
        self.live.retain(|&thread| {
            let last = &mut last[thread as usize];
            // Before the counters: what a thread has executed before it waits is final for so long.
            let calls = calls[thread as usize].word.load(Acquire);
            if last.waits(calls) {
                return true;
            }
            // The lowest byte says whether the thread is in a call.
            *calls_made += u64::from((calls >> 8).wrapping_sub(last.calls >> 8) & 0xff_ffff);
            last.calls = calls;
            let area = &areas[thread as usize];
            let page = &area.page;
            // As above: what a thread has executed when it has ended.
            let life = page.life.load(Acquire);
            // Its tallies have been added up then, and no thread needs the memory.
            let is_folded = is_over(life) && page.folds.load(Relaxed) != 0;
            if !is_folded {
                let mark = mark(area);
                if mark == last.mark {
                    return !is_over(life);
                }
                last.mark = mark;
            }
            // A reading may be a little too high or low; time does not run backwards.
            let (sum, steps) =
                if is_folded { (Executed::default(), last.steps) } else { tallied(area) };
            let read = page.executed(|| sum);
            for (step, counted) in counted.steps.iter_mut().enumerate() {
                *counted += steps[step].saturating_sub(last.steps[step]);
                last.steps[step] = last.steps[step].max(steps[step]);
            }
            let now: Executed = std::array::from_fn(|i| read[i].max(last.executed[i]));
            if now != last.executed {
                let executed = std::array::from_fn(|i| now[i].wrapping_sub(last.executed[i]));
                samples.push(Sample { slice, thread, executed });
                last.executed = now;
            }
            counted.events += more(&mut last.events, &page.events);
            counted.hooks += more(&mut last.hooks, &page.allocating.hooks);
            counted.hook_ticks += more(&mut last.hook_ticks, &page.allocating.hook_ticks);
            counted.translating += more(&mut last.translating, &page.translating);
            let transfers = [&page.transfers, &page.far, &page.unknown].map(|of| of.load(Relaxed));
            let before = std::mem::replace(&mut last.transfers, transfers);
            let [more, far, unknown] =
                std::array::from_fn(|k| transfers[k].saturating_sub(before[k]));
            counted.transfers += more;
            counted.far += far;
            counted.unknown += unknown;
            !is_over(life)
        });
    }

    /// Looks where threads run, for the moment `at_ns`; those that have waited in one system call
    /// since the last look do not.
    fn look_at_threads(&mut self, at_ns: u64) {
        let Some(shared) = self.shared.as_ref().filter(|_| self.found) else { return };
        let header = shared.header();
        let threads = (header.threads.load(Acquire) as usize).min(MAX_THREADS);
        let pid = header.pid.load(Relaxed);
        self.calls.resize(threads.max(self.calls.len()), 0);
        let (words, areas) = (shared.calls.records(), shared.areas.records());
        for (thread, last) in self.calls.iter_mut().enumerate().take(threads) {
            let page = &areas[thread].page;
            let before = std::mem::replace(last, words[thread].word.load(Acquire));
            let waits = before == *last && before % 2 == 1;
            if !waits && !is_over(page.life.load(Relaxed)) {
                self.seen.running.look(pid, page.tid.load(Relaxed), thread as u32, at_ns);
            }
        }
    }

    fn into_seen(self) -> Seen {
        Seen { native: self.native_time.into_estimated(), ..self.seen }
    }

    /// A new program in the process: its threads are numbered and count from 0 again.
    fn start_anew_after_exec(&mut self) {
        let Some(shared) = &self.shared else { return };
        let execs = shared.header().execs.load(Relaxed);
        if execs != self.execs {
            self.execs = execs;
            self.live.clear();
            self.last.clear();
            self.calls.clear();
            self.known = 0;
            self.seen = Seen::default();
            self.native_time = NativeTime::default();
            self.growing = Growing::default();
            self.look_at = Instant::now();
            self.look_after = FIRST_LOOK;
        }
    }

    /// Looks at the process's memory when it is time; whether the process is gone.
    fn look(&mut self) -> bool {
        let start = Instant::now();
        let due = self.shared.as_ref().filter(|_| start >= self.look_at);
        let Some(shared) = due else { return false };
        match (shared.header().state.load(Acquire), shared.maps()) {
            // Not begun.
            (state::NOT_LOADED, _) => {}
            (state::RUNNING, Some(maps)) => {
                self.start_anew_after_exec();
                self.seen.regions.note(&maps);
                self.found = true;
                // Its number is the one by which we can send it signals.
                if let Some(shared) = &self.shared {
                    shared.header().may_go_native.store(1, Relaxed);
                }
            }
            // Gone, or never recorded.
            _ => return true,
        }
        let spent = start.elapsed();
        self.look_at = start + self.look_after.max(spent * SHARE);
        self.look_after = (self.look_after * 2).min(LONGEST_LOOK);
        false
    }

    /// Lets go of everything that a process needs only while it runs.
    fn close(&mut self) {
        self.shared = None;
        (self.live, self.last, self.calls) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// How long until its memory is to be looked at; `None`: never again.
    fn until_look(&self) -> Option<Duration> {
        self.shared.as_ref()?;
        Some(self.look_at.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
#[path = "monitor_tests.rs"]
mod tests;
