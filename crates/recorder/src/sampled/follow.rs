//! Reads the records of a recording and gives each to its process.
//!
//! Neighbours: `launch` and `attach` have a sampler, `process` keeps what is found, `collect` makes
//! profiles of it.

use crate::clock::cpu_time;
use crate::running::Looks;
use crate::sampled::breaks::Breaks;
use crate::sampled::elapsed::Elapsed;
use crate::sampled::files::Files;
use crate::sampled::heap::{HeapOf, HeapReader};
use crate::sampled::nodes::Nodes;
use crate::sampled::process::{Process, Shared};
use crate::sampled::rest::{Rest, Way};
use crate::sampled::slices::Slices;
use crate::sampled::visiting::Visiting;
use crate::sampled::watching;
use crate::sampled::{Choice, SampleOptions};
use crate::watched::Watcher;
use perf::{Accesses, Rate, Record, Sample, Sampler, SamplerTotals};
use profile::{Basis, Note};
use rustc_hash::FxHashMap;
use sampling::{Hit, Settings, Stream};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Most processes that are kept apart; more are counted.
const MAX_PROCESSES: usize = 1024;

/// Everything that was found out.
pub struct Follower<'a> {
    /// In order of appearance; the first is the program.
    pub processes: Vec<Process>,
    /// Those that run, by the kernel's number.
    running: FxHashMap<u32, usize>,
    /// Processes that were too many.
    pub beyond: u64,
    pub slices: Slices,
    accesses: Accesses,
    shared: Shared,
    follow: bool,
    hits: Vec<Hit>,
    /// Records were lost, maybe of new threads.
    lost: bool,
    /// What is seen inside the programs, where it is watched; samples from outside then show
    /// nothing.
    watcher: Option<Watcher<'a>>,
    /// The blocks of the heap, where they are followed.
    heap: Option<HeapReader<'a>>,
    /// Processor time of reading so far.
    spent: Duration,
    breaks: Breaks,
    rest: Rest,
    visiting: Visiting,
    looks: Looks,
    per_second: f64,
    /// Where samples stand for time, but do not say how much.
    elapsed: Option<Elapsed>,
}

/// Who looks on while records are read.
pub trait Onlooker {
    /// Called many times a second; true ends the sampling.
    fn look(&mut self, follower: &mut Follower<'_>, sampler: &Sampler) -> bool;

    /// When it wants to be called next, if not sooner.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// What can be read when sampling is over, if anything says so.
    fn over(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Called once when everything has been read.
    fn end(&mut self, _: &mut Follower<'_>, _: &Sampler) {}
}

/// An onlooker that only waits for the end.
pub struct Nobody;

impl Onlooker for Nobody {
    fn look(&mut self, _: &mut Follower<'_>, _: &Sampler) -> bool {
        false
    }
}

/// What is known when sampling is over, or so far.
pub struct Followed {
    pub processes: Vec<Process>,
    pub beyond: u64,
    pub slices: Slices,
    pub totals: SamplerTotals,
    /// What the sampled event has counted, if it did.
    pub counted: f64,
    pub reader: Duration,
    /// What is to be said about breaks.
    pub breaks: Vec<Note>,
    /// CLOCK_MONOTONIC.
    pub ended_ns: u64,
    /// Blocks of the heap, by the kernel's number of their process; `None`: not followed.
    pub heaps: Option<HashMap<u32, HeapOf>>,
}

impl<'a> Follower<'a> {
    /// With `accesses` as [`prepare`] makes them.
    pub fn new(
        options: &SampleOptions,
        watcher: Option<Watcher<'a>>,
        heap: Option<HeapReader<'a>>,
        accesses: Accesses,
    ) -> Self {
        let interval_ns = interval_ns(&options.choice);
        let settings = Settings { interval_ns, ..Settings::default() };
        let watches_nothing = watcher.is_none();
        Self {
            processes: Vec::new(),
            running: FxHashMap::default(),
            beyond: 0,
            slices: Slices::new(perf::now_ns(), options.slice),
            accesses,
            shared: Shared {
                stream: options.choice.stream,
                settings,
                files: Files::default(),
                transfer_ns: match options.choice.basis {
                    Basis::Latency { transfer_ns, .. } => transfer_ns.max(1.0),
                    _ => 1.0,
                },
                nodes: Nodes::here(),
            },
            follow: options.follow,
            hits: Vec::new(),
            lost: false,
            watcher,
            heap,
            spent: Duration::ZERO,
            breaks: Breaks::new(&options.choice),
            rest: Rest::default(),
            visiting: Visiting::new(
                watches_nothing && options.choice.stream == Stream::Waiting,
                options.choice.armed,
            ),
            looks: Looks::new(Instant::now()),
            per_second: options.choice.per_second,
            elapsed: (options.choice.stream == Stream::Waiting && !options.choice.event.is_clock())
                .then(|| Elapsed::new(options.choice.per_second)),
        }
    }

    /// A process that we start, before it executes the program.
    pub fn expect(&mut self, pid: u32) {
        self.add(Process::new(pid, None, self.shared.clone()));
    }

    /// A process that runs already.
    pub fn found(&mut self, pid: u32) {
        let process = Process::running(pid, self.shared.clone(), self.slices.origin_ns);
        self.breaks.found(process.tids().map(|tid| (pid, tid)));
        self.add(process);
    }

    /// Reads until `onlooker` has enough or nothing can come any more.
    pub fn run(mut self, mut sampler: Sampler, onlooker: &mut dyn Onlooker) -> Followed {
        come_first();
        self.rest = Rest::new(sampler.room(), self.per_second, self.watcher.is_some());
        while !onlooker.look(&mut self, &sampler) && !sampler.is_over() {
            let begun = cpu_time();
            let due = onlooker.due().into_iter().chain(self.breaks.due());
            let due = due.chain(self.visiting.due()).chain([self.looks.due()]);
            let due = due.chain(self.heap.as_ref().and_then(HeapReader::due)).min();
            match self.rest.way(Instant::now(), due) {
                Way::Listen(most) => sampler.wait_for(most, onlooker.over()),
                Way::Sleep(length) => sampler.sleep(length, onlooker.over()),
            }
            self.read_heap();
            sampler.drain(|record| self.take(record));
            self.take_watched(false);
            self.look();
            self.visiting.turn(Instant::now(), perf::now_ns(), &mut self.processes);
            self.take_turn(&mut sampler);
            // What the onlooker does is not reading.
            self.spent += cpu_time().saturating_sub(begun);
            self.look_at_threads();
        }
        let begun = cpu_time();
        sampler.stop();
        self.read_heap();
        sampler.drain_all(|record| self.take(record));
        self.take_watched(true);
        self.processes.iter_mut().filter(|process| !process.is_gone()).for_each(Process::look);
        self.spent += cpu_time().saturating_sub(begun);
        onlooker.end(&mut self, &sampler);
        let heaps = self.heap.take().map(HeapReader::finish);
        Followed { heaps, ..self.followed(&sampler) }
    }

    /// Switches the clock on or off when it is time.
    fn take_turn(&mut self, sampler: &mut Sampler) {
        let Self { breaks, running, processes, .. } = self;
        let of =
            |process: &Process| process.tids().map(|tid| (process.pid, tid)).collect::<Vec<_>>();
        let threads = || running.values().flat_map(|&index| of(&processes[index]));
        let now = Instant::now();
        match breaks.turn(now, self.spent, threads) {
            Some(false) if breaks.may_end() && sampler.observe_processors().is_ok() => {
                breaks.end(now);
            }
            Some(on) => sampler.pause(!on),
            None => {}
        }
    }

    /// Shows what was found so far.
    pub fn so_far<T>(&mut self, sampler: &Sampler, show: impl FnOnce(&mut Followed) -> T) -> T {
        let mut followed = self.followed(sampler);
        let shown = show(&mut followed);
        self.processes = followed.processes;
        shown
    }

    /// Moves everything that was found out of here.
    fn followed(&mut self, sampler: &Sampler) -> Followed {
        let Self { slices, .. } = self;
        self.processes.iter_mut().for_each(|process| process.settle(slices));
        Followed {
            processes: std::mem::take(&mut self.processes),
            beyond: self.beyond,
            slices: self.slices,
            totals: sampler.totals(),
            counted: sampler.counts().last().map_or(0.0, |count| count.scaled()),
            reader: self.spent,
            breaks: self.breaks.notes(),
            ended_ns: perf::now_ns(),
            heaps: None,
        }
    }

    fn read_heap(&mut self) {
        if let Some(heap) = &mut self.heap {
            heap.read();
        }
    }

    /// Whether all processes are gone.
    pub fn is_over(&self) -> bool {
        self.running.is_empty()
    }

    fn add(&mut self, process: Process) {
        if self.processes.len() >= MAX_PROCESSES {
            self.beyond += 1;
            return;
        }
        self.running.insert(process.pid, self.processes.len());
        self.processes.push(process);
    }

    fn look(&mut self) {
        let now = Instant::now();
        let lost = std::mem::take(&mut self.lost).then(perf::now_ns);
        for &index in self.running.values() {
            if let Some(time_ns) = lost {
                self.processes[index].find_threads(time_ns);
            }
            let process = &mut self.processes[index];
            process.look_if_due(now);
            process.look_for_pages(now);
        }
    }

    /// Looks where threads run when it is time, which has a bound of its own.
    fn look_at_threads(&mut self) {
        let Self { looks, running, processes, slices, .. } = self;
        let look =
            |at_ns| running.values().for_each(|&index| processes[index].look_at_threads(at_ns));
        looks.turn(Instant::now(), slices.since(perf::now_ns()), look);
    }

    fn process(&mut self, pid: u32) -> Option<&mut Process> {
        self.running.get(&pid).map(|&index| &mut self.processes[index])
    }

    /// Takes in what was seen inside the programs. `over`: nothing more is wanted.
    fn take_watched(&mut self, over: bool) {
        let Some(mut watcher) = self.watcher.take() else { return };
        if over {
            watcher.stop();
        }
        // What cannot be mapped is out of sight, and the program's own memory is short.
        let seen = watcher.read(over).unwrap_or_default();
        if let Some(last) = seen.iter().map(|seen| seen.time_ns).max() {
            self.make_room(last);
        }
        watching::add(&seen, &mut self.processes, self.heap.as_mut(), &self.slices);
        if over {
            watching::note(&watcher.processes().0, &mut self.processes);
        }
        self.watcher = Some(watcher);
    }

    fn take(&mut self, record: Record) {
        let is_at_path = self.accesses.note(&record);
        match record {
            Record::Sample(sample) => self.sample(sample),
            Record::Forked { time_ns, pid, tid, parent_pid, parent_tid } => {
                self.rest.news();
                if pid == parent_pid {
                    if let Some(process) = self.process(pid) {
                        process.start(tid, Some(parent_tid), String::new(), time_ns);
                    }
                } else if self.follow
                    && !self.running.contains_key(&pid)
                    && let Some(&parent) = self.running.get(&parent_pid)
                {
                    let number = parent as u32;
                    let parent = &self.processes[parent];
                    self.add(Process::forked(parent, number, pid, parent_tid, time_ns));
                }
            }
            Record::Exited { time_ns, pid, tid } => {
                self.rest.end();
                if let Some(process) = self.process(pid) {
                    process.end(tid, time_ns);
                    if process.is_gone() {
                        self.running.remove(&pid);
                    }
                }
            }
            Record::Named { time_ns, pid, tid, name, exec } => {
                if exec {
                    self.rest.news();
                }
                if let Some(process) = self.process(pid) {
                    match exec {
                        true => process.execute(name, time_ns),
                        false => process.rename(tid, name),
                    }
                }
            }
            Record::Mapped { pid, .. } => {
                if let (Some(mapping), Some(process)) = (record.mapping(), self.process(pid)) {
                    process.map(&mapping, is_at_path);
                }
            }
            Record::Lost { .. } => self.lost = true,
            Record::Throttled { .. } => {}
        }
    }

    fn sample(&mut self, mut sample: Sample) {
        let Some(&index) = self.running.get(&sample.pid) else { return };
        self.make_room(sample.time_ns);
        self.hits.clear();
        if let Some(elapsed) = &mut self.elapsed {
            sample.period = elapsed.since_last(&sample);
        }
        sample.period = (sample.period as f64 * self.breaks.weight()) as u64;
        let accesses = self.accesses.of(&sample).unwrap_or_default();
        let process = &mut self.processes[index];
        process.sample(&sample, accesses, &mut self.hits);
        let slice = self.slices.at(sample.time_ns).unwrap_or(0);
        process.use_page(slice, &sample, accesses, self.heap.as_ref());
        if self.watcher.is_none() {
            if let Some(heap) = self.heap.as_mut().filter(|_| !self.hits.is_empty()) {
                let own = process.heap_pids();
                let name = |hit: &mut Hit| hit.object = heap.group_of(own, hit);
                self.hits.iter_mut().for_each(name);
            }
            process.add(&self.hits, sample.time_ns, &self.slices);
        }
    }

    /// Joins slices while there would be too many.
    fn make_room(&mut self, time_ns: u64) {
        while self.slices.at(time_ns).is_none() {
            self.slices.join();
            self.processes.iter_mut().for_each(|process| {
                process.hits.join_slices();
                process.pages.join_slices();
            });
        }
    }
}

/// Does before sampling begins what takes time once: makes the tables of the decoder, and has the
/// standard library ask the processor for its features, which is a tenth of a millisecond in a
/// virtual machine.
pub fn prepare(options: &SampleOptions) -> Accesses {
    std::hint::black_box(std::is_x86_feature_detected!("avx2"));
    Accesses::of_event(&options.choice.event)
}

/// Lets the calling thread run as soon as there is something to read, before programs that keep all
/// processors busy; where that is not allowed, records may get lost, which is counted.
fn come_first() {
    const MAX: i32 = -20;
    // SAFETY: plain numbers; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, MAX) };
}

/// Usual time between two samples of a running thread.
fn interval_ns(choice: &Choice) -> u64 {
    match choice.rate {
        Rate::Period(period) if choice.event.is_clock() => period,
        _ => (1e9 / choice.per_second.max(1.0)) as u64,
    }
}
