//! What is known of a sampled process: its threads in order of start, its memory, and its hits.
//!
//! Neighbours: `follow` gives each process its records, `collect` makes the profile.

use crate::clock::spent_by;
use crate::regions::Regions;
use crate::running::Running;
use crate::sampled::files::Files;
use crate::sampled::handovers::Handovers;
use crate::sampled::heap::{HeapReader, Pids};
use crate::sampled::nodes::Nodes;
use crate::sampled::pages::Pages;
use crate::sampled::slices::Slices;
use crate::sampled::starts::Starts;
use crate::sampled::tasks::{is_kernels, tasks};
use crate::session::{ModuleFile, RawModule};
use crate::watched::WatchedProcess;
use access::Access;
use perf::{Mapping, Sample};
use rustc_hash::FxHashMap;
use sampling::{Hit, Hits, Matcher, Observed, Settings, Stream, Together};
use std::fs;
use std::time::{Duration, Instant};
use types::ThreadId;

/// First and longest time between two looks at a process's memory.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// What looking may cost: 1/`SHARE` of a processor.
const SHARE: u32 = 400;

/// Below, nothing can be mapped (`vm.mmap_min_addr`): an access there is one that fails, or was not
/// made.
const MIN_ADDRESS: u64 = 4096;

/// Samples whose access was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoded {
    pub samples: u64,
    /// Sum of their periods.
    pub period: u64,
}

/// A thread, from its start on.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    pub tid: u32,
    pub parent: Option<ThreadId>,
    pub name: String,
    /// CLOCK_MONOTONIC.
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    /// Sum of the periods of its samples.
    pub sampled: u64,
    pub decoded: Decoded,
    /// Highest stack pointer that was sampled; 0 without samples.
    pub stack: u64,
    /// Address of its start routine; 0 when unknown or initial.
    pub routine: u64,
}

/// What all processes of a recording share.
#[derive(Clone, Debug)]
pub struct Shared {
    pub stream: Stream,
    pub settings: Settings,
    pub files: Files,
    /// What a transfer of a line takes where samples weigh waiting, else 1.
    pub transfer_ns: f64,
    pub nodes: Nodes,
}

/// One process.
#[derive(Debug)]
pub struct Process {
    pub pid: u32,
    /// Number of the process that started it; `None` for those we started with.
    pub parent: Option<u32>,
    pub command: Vec<String>,
    /// By id.
    pub threads: Vec<Thread>,
    /// Threads that run, by the kernel's number.
    running: FxHashMap<u32, ThreadId>,
    pub modules: Vec<RawModule>,
    pub regions: Regions,
    /// Where its threads were seen.
    pub ran: Running,
    pub hits: Hits,
    pub pages: Pages,
    /// Samples, and those whose access was found, with their periods.
    pub samples: u64,
    pub decoded: u64,
    pub sampled: u64,
    pub decoded_period: u64,
    /// Programs it has executed since we know it.
    pub execs: u32,
    /// Who forked it, and when, as long as it has executed no program since.
    forked_by: Option<(u32, u64)>,
    pub ended_ns: Option<u64>,
    /// Hits of them that wait for what they stand for.
    pub handovers: Handovers,
    /// Hits that wait until it is known whether their writers ran.
    together: Together,
    /// How it was watched from inside, where it was.
    pub watched: Option<WatchedProcess>,
    shared: Shared,
    /// `None` once the process is gone.
    matcher: Option<Matcher>,
    look_at: Instant,
    look_after: Duration,
    /// Where start routines are, once found, and the modules known when they were looked for.
    starts: Option<Starts>,
    starts_among: usize,
    /// When to look for those of new threads, and not before when.
    starts_at: Option<Instant>,
    starts_rest: Instant,
}

impl Process {
    pub fn new(pid: u32, parent: Option<u32>, shared: Shared) -> Self {
        Self {
            pid,
            parent,
            command: Vec::new(),
            threads: Vec::new(),
            running: FxHashMap::default(),
            modules: Vec::new(),
            regions: Regions::default(),
            ran: Running::default(),
            hits: Hits::default(),
            pages: Pages::default(),
            samples: 0,
            decoded: 0,
            sampled: 0,
            decoded_period: 0,
            handovers: Handovers::default(),
            execs: 0,
            forked_by: None,
            ended_ns: None,
            watched: None,
            together: Together::default(),
            shared,
            matcher: None,
            look_at: Instant::now() + FIRST_LOOK,
            look_after: FIRST_LOOK,
            starts: None,
            starts_among: 0,
            starts_at: None,
            starts_rest: Instant::now(),
        }
    }

    /// A copy of `parent` that has just been made by its thread `tid`.
    pub fn forked(parent: &Process, number: u32, pid: u32, tid: u32, time_ns: u64) -> Self {
        let mut child = Self::new(pid, Some(number), parent.shared.clone());
        child.forked_by = Some((parent.pid, time_ns));
        child.command = parent.command.clone();
        child.modules = parent.modules.clone();
        child.regions = parent.regions.clone();
        let name = parent.running.get(&tid).map(|id| parent.threads[id.index()].name.clone());
        child.start(pid, None, name.unwrap_or_default(), time_ns);
        child
    }

    /// All that is there of a process that runs already.
    pub fn running(pid: u32, shared: Shared, now_ns: u64) -> Self {
        let mut process = Self::new(pid, None, shared);
        process.look();
        for (tid, name) in tasks(pid) {
            process.start(tid, None, name, now_ns);
        }
        process.find_starts();
        process
    }

    /// A new program in the process: all that was known is void.
    pub fn execute(&mut self, name: String, time_ns: u64) {
        let (parent, execs) = (self.parent, self.execs + 1);
        *self = Self { execs, ..Self::new(self.pid, parent, self.shared.clone()) };
        self.start(self.pid, None, name, time_ns);
    }

    /// Looks where its threads run, for the moment `at_ns` after the start of the recording.
    pub fn look_at_threads(&mut self, at_ns: u64) {
        for (&tid, id) in &self.running {
            self.ran.look(self.pid, tid, id.0, at_ns);
        }
    }

    /// A new thread.
    pub fn start(
        &mut self,
        tid: u32,
        parent_tid: Option<u32>,
        name: String,
        time_ns: u64,
    ) -> ThreadId {
        if let Some(&known) = self.running.get(&tid) {
            return known;
        }
        let parent = parent_tid.and_then(|tid| self.running.get(&tid).copied());
        let name = match parent {
            Some(parent) if name.is_empty() => self.threads[parent.index()].name.clone(),
            _ => name,
        };
        let id = ThreadId(self.threads.len() as u32);
        self.threads.push(Thread { tid, parent, name, started_ns: time_ns, ..Thread::default() });
        self.running.insert(tid, id);
        if id != ThreadId(0) {
            let soon = (Instant::now() + FIRST_LOOK).max(self.starts_rest);
            self.starts_at.get_or_insert(soon);
        }
        id
    }

    /// Finds threads whose start was not told.
    pub fn find_threads(&mut self, time_ns: u64) {
        for (tid, name) in tasks(self.pid) {
            let id = self.start(tid, None, name.clone(), time_ns);
            let known = &mut self.threads[id.index()].name;
            if known.is_empty() {
                *known = name;
            }
        }
    }

    pub fn rename(&mut self, tid: u32, name: String) {
        if is_kernels(self.pid, tid, &name) && self.withdraw(tid) {
            return;
        }
        if let Some(id) = self.running.get(&tid) {
            self.threads[id.index()].name = name;
        }
    }

    /// Takes back a thread that none of the program has turned out to be, by the name that it gives
    /// itself as soon as it runs. Not where others, started since, have been seen doing something
    /// under their numbers.
    fn withdraw(&mut self, tid: u32) -> bool {
        let Some(&id) = self.running.get(&tid) else { return true };
        let later = |other: ThreadId| other.0 >= id.0;
        let sampled = self.threads[id.index()..].iter().any(|thread| thread.sampled > 0);
        if sampled || self.hits.cells.keys().any(|cell| later(cell.from) || later(cell.to)) {
            return false;
        }
        let moved = |other: ThreadId| ThreadId(other.0 - u32::from(other.0 > id.0));
        self.running.remove(&tid);
        self.running.values_mut().for_each(|other| *other = moved(*other));
        self.threads.remove(id.index());
        self.threads.iter_mut().for_each(|thread| thread.parent = thread.parent.map(moved));
        if let Some(matcher) = &mut self.matcher {
            matcher.withdrawn(id);
        }
        true
    }

    /// A thread is gone; with the last one the process is.
    pub fn end(&mut self, tid: u32, time_ns: u64) {
        if let Some(id) = self.running.remove(&tid) {
            self.threads[id.index()].ended_ns = Some(time_ns);
            if let Some(matcher) = &mut self.matcher {
                matcher.ended(id);
            }
        }
        if self.running.is_empty() && !self.threads.is_empty() {
            self.ended_ns = Some(time_ns);
            self.judge();
            self.matcher = None;
        }
    }

    /// By which numbers its heap is known.
    pub fn heap_pids(&self) -> Pids {
        Pids { pid: self.pid, parent: self.forked_by }
    }

    /// Numbers of the threads that run.
    pub fn tids(&self) -> impl Iterator<Item = u32> {
        self.running.keys().copied()
    }

    /// The thread that had this number at that time.
    pub fn thread_at(&self, tid: u32, time_ns: u64) -> Option<ThreadId> {
        let was = |thread: &Thread| {
            thread.tid == tid && thread.ended_ns.is_none_or(|ended_ns| time_ns <= ended_ns)
        };
        let of_then = || (0..).zip(&self.threads).find(|(_, thread)| was(thread));
        match self.running.get(&tid) {
            Some(&id) if self.threads[id.index()].started_ns <= time_ns => Some(id),
            _ => of_then().map(|(id, _)| ThreadId(id)),
        }
    }

    pub fn is_gone(&self) -> bool {
        self.ended_ns.is_some()
    }

    /// Takes in a sample with the accesses that it may be about, the likeliest first, none if they
    /// are not known; what it shows goes into `hits`.
    pub fn sample(&mut self, sample: &Sample, accesses: &[Access], hits: &mut Vec<Hit>) {
        let thread = match self.running.get(&sample.tid) {
            Some(&thread) => thread,
            // Its start was lost.
            None => self.start(sample.tid, None, String::new(), sample.time_ns),
        };
        self.samples += 1;
        self.sampled += sample.period;
        let known = &mut self.threads[thread.index()];
        known.sampled += sample.period;
        if let Some(registers) = &sample.registers {
            known.stack = known.stack.max(registers.0[7]);
        }
        let Shared { stream, settings, .. } = self.shared;
        let matcher = self.matcher.get_or_insert_with(|| Matcher::new(settings));
        if accesses.first().is_none_or(|access| access.address < MIN_ADDRESS) {
            matcher.runs(thread, sample.time_ns);
            return;
        }
        self.decoded += 1;
        self.decoded_period += sample.period;
        let decoded = &mut self.threads[thread.index()].decoded;
        decoded.samples += 1;
        decoded.period += sample.period;
        let Sample { time_ns, period, .. } = *sample;
        let observed = Observed { time_ns, thread, accesses, period };
        matcher.observe(stream_of(stream, sample), &observed, hits);
    }

    /// Adds hits to the tables, those of waiting once it is known whether their writers ran by
    /// `now_ns`. What a thread waited for arrays says little: those wait for
    /// [`settle`](Self::settle).
    pub fn add(&mut self, hits: &[Hit], now_ns: u64, slices: &Slices) {
        let waiting = self.shared.stream == Stream::Waiting;
        for &hit in hits {
            let waits = waiting && hit.weight > 0.0;
            let ready = match hit.array {
                true if waits => self.handovers.take(hit),
                false if waits => {
                    self.together.take(hit);
                    None
                }
                _ => Some(hit),
            };
            let known = ready.and_then(|hit| self.judged(hit));
            known.into_iter().for_each(|hit| add_hit(&mut self.hits, &hit, slices));
        }
        let hits = &mut self.hits;
        match &self.matcher {
            Some(matcher) => {
                self.together.settle(now_ns, matcher, |hit| add_hit(hits, &hit, slices));
            }
            None => self.together.end(|hit| add_hit(hits, &hit, slices)),
        }
        if self.handovers.is_full() {
            self.settle_arrays(slices);
        }
    }

    /// A hit, weighing the part of it that is communication by what is known now; `None`: it is
    /// not.
    fn judged(&self, hit: Hit) -> Option<Hit> {
        let part = self.matcher.as_ref().map_or(1.0, |matcher| matcher.part(&hit));
        (part > 0.0).then_some(Hit { weight: hit.weight * part, ..hit })
    }

    /// The same for all that wait to be measured.
    fn judge(&mut self) {
        if let Some(matcher) = &self.matcher {
            self.handovers.judge(|hit| matcher.part(hit));
        }
    }

    /// Counts the page of what a sample is about.
    pub fn use_page(
        &mut self,
        slice: u32,
        sample: &Sample,
        accesses: &[Access],
        heap: Option<&HeapReader<'_>>,
    ) {
        let accessed = accesses.first().filter(|access| access.address >= MIN_ADDRESS);
        let thread = self.running.get(&sample.tid).copied();
        let Some((access, thread)) = accessed.zip(thread) else { return };
        let at = (thread, slice, self.shared.nodes.of_cpu(sample.cpu));
        let new = self.pages.sample(at, sample, accesses, self.shared.stream);
        if let Some((page, heap)) = new.zip(heap) {
            let block = heap.block_at(self.heap_pids(), access.address, sample.time_ns);
            block.into_iter().for_each(|block| self.pages.lies_on(page, block));
        }
    }

    /// Asks on which nodes pages lie, when it is time.
    pub fn look_for_pages(&mut self, now: Instant) {
        self.pages.look_if_due(self.pid, &self.shared.nodes, now);
    }

    /// Adds hits that were seen inside the program.
    pub fn add_watched(&mut self, hits: &[Hit], slices: &Slices) {
        hits.iter().for_each(|hit| add_hit(&mut self.hits, hit, slices));
    }

    /// Adds all hits that wait.
    pub fn settle(&mut self, slices: &Slices) {
        self.together.end(|hit| add_hit(&mut self.hits, &hit, slices));
        self.settle_arrays(slices);
    }

    /// Adds hits on arrays, weighing what they stand for by all that is known by now.
    fn settle_arrays(&mut self, slices: &Slices) {
        self.judge();
        for hit in self.handovers.settle(self.shared.transfer_ns) {
            add_hit(&mut self.hits, &hit, slices);
        }
    }

    /// Code that has been mapped, or still is; whether its file is at its path, if that is known
    /// already.
    pub fn map(&mut self, mapping: &Mapping<'_>, is_at_path: Option<bool>) {
        let name = mapping.name().to_string_lossy();
        if !name.starts_with('/') {
            return;
        }
        let (start, end) = (mapping.start, mapping.end);
        let same = |m: &&mut RawModule| (m.start, m.end, m.path.as_str()) == (start, end, &name);
        let files = &self.shared.files;
        match self.modules.iter_mut().find(same) {
            // Deleted since: from now on only the process leads to it.
            Some(known) if known.file == ModuleFile::AtPath && mapping.path != mapping.name() => {
                known.file = files.find(self.pid, mapping, is_at_path);
            }
            Some(_) => {}
            None => self.modules.push(RawModule {
                start,
                end,
                file_offset: mapping.offset,
                path: name.into_owned(),
                file: files.find(self.pid, mapping, is_at_path),
            }),
        }
    }

    /// Looks at the process's memory and name when it is time.
    pub fn look_if_due(&mut self, now: Instant) {
        if self.is_gone() {
            return;
        }
        if now >= self.look_at {
            let spent = spent_by(|| self.look());
            self.look_at = now + self.look_after.max(spent * SHARE);
            self.look_after = (self.look_after * 2).min(LONGEST_LOOK);
        }
        if self.starts_at.is_some_and(|at| now >= at) {
            let spent = spent_by(|| self.find_starts());
            self.starts_rest = Instant::now() + spent * SHARE;
        }
    }

    /// Finds start routines of threads that run.
    fn find_starts(&mut self) {
        self.starts_at = None;
        let unknown = |id: &&ThreadId| id.index() != 0 && self.threads[id.index()].routine == 0;
        if !self.running.values().any(|id| unknown(&id)) {
            return;
        }
        // What was not found will not be as long as nothing else is mapped.
        if self.starts.is_none() && self.starts_among != self.modules.len() {
            self.starts_among = self.modules.len();
            self.starts = Starts::find(self.pid, &self.modules);
        }
        let Some(starts) = &self.starts else { return };
        for (tid, routine) in starts.read(self.pid) {
            if let Some(id) = self.running.get(&tid).filter(|id| id.index() != 0) {
                self.threads[id.index()].routine = routine;
            }
        }
    }

    /// Looks at once.
    pub fn look(&mut self) {
        let Ok(maps) = fs::read(format!("/proc/{}/maps", self.pid)) else { return };
        self.regions.note(&String::from_utf8_lossy(&maps));
        Mapping::executable(&maps).for_each(|mapping| self.map(&mapping, None));
        // The kernel may show it before the program has set it, and the program may change it.
        if self.command.is_empty() {
            self.command = command(self.pid);
        }
        self.find_starts();
    }
}

fn add_hit(hits: &mut Hits, hit: &Hit, slices: &Slices) {
    hits.add(slices.at(hit.time_ns).unwrap_or(0), hit);
}

/// What a sample stands for: precise ones say where the line came from.
fn stream_of(stream: Stream, sample: &Sample) -> Stream {
    match sample.precise.map(|precise| precise.from) {
        Some(perf::From::OtherCoreModified) if stream == Stream::Accesses => Stream::Transfers,
        Some(perf::From::Own | perf::From::Shared | perf::From::Memory) => Stream::Context,
        _ => stream,
    }
}

/// A process's command line, lossily.
pub fn command(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Shared {
        let (stream, settings) = (Stream::Waiting, Settings::default());
        Shared {
            stream,
            settings,
            files: Files::default(),
            transfer_ns: 1.0,
            nodes: Nodes::default(),
        }
    }

    fn process() -> Process {
        Process::new(10, None, shared())
    }

    #[test]
    fn threads_are_numbered_in_order_of_start_and_numbers_come_again() {
        let mut process = process();
        process.start(10, None, "app".into(), 1);
        assert_eq!(process.start(11, Some(10), String::new(), 2), ThreadId(1));
        // Told twice: by /proc and by the kernel.
        assert_eq!(process.start(11, Some(10), String::new(), 3), ThreadId(1));
        process.rename(11, "worker".into());
        process.end(11, 4);
        assert_eq!(process.start(11, Some(10), String::new(), 5), ThreadId(2));
        let told: Vec<_> =
            process.threads.iter().map(|t| (t.parent, t.name.as_str(), t.ended_ns)).collect();
        let initial = Some(ThreadId(0));
        assert_eq!(
            told,
            [(None, "app", None), (initial, "worker", Some(4)), (initial, "app", None)]
        );
        process.end(10, 6);
        assert!(!process.is_gone());
        process.end(11, 7);
        assert_eq!(process.ended_ns, Some(7));
    }

    #[test]
    fn workers_of_the_kernel_are_no_threads_of_the_program() {
        let mut process = process();
        process.start(10, None, "app".into(), 1);
        process.start(11, Some(10), String::new(), 2);
        process.start(12, Some(10), String::new(), 3);
        process.start(13, Some(12), String::new(), 4);
        // None of them runs any more: what they call themselves decides.
        process.rename(11, "iou-wrk-10".into());
        process.rename(12, "worker".into());
        let told: Vec<_> = process.threads.iter().map(|t| (t.tid, t.parent)).collect();
        assert_eq!(told, [(10, None), (12, Some(ThreadId(0))), (13, Some(ThreadId(1)))]);
        assert_eq!(process.threads[1].name, "worker");
        process.end(11, 5);
        process.end(13, 6);
        assert_eq!(process.threads[2].ended_ns, Some(6));
        // Seen at work: it stays.
        process.threads[1].sampled = 1;
        process.rename(12, "iou-wrk-12".into());
        assert_eq!(process.threads.len(), 3);
    }

    #[test]
    fn another_program_makes_everything_void() {
        let mut process = process();
        process.start(10, None, "sh".into(), 1);
        process.start(11, Some(10), String::new(), 2);
        process.execute("app".into(), 9);
        assert_eq!((process.threads.len(), process.execs), (1, 1));
        assert_eq!((process.threads[0].name.as_str(), process.threads[0].started_ns), ("app", 9));
    }

    #[test]
    fn our_own_threads_and_code_are_found() {
        let pid = std::process::id();
        let me = Process::running(pid, shared(), 0);
        assert_eq!(me.threads[0].tid, pid);
        assert!(me.threads.len() >= 2, "{:?}", me.threads);
        let code = our_own_threads_and_code_are_found as *const () as u64;
        let exe = std::env::current_exe().unwrap();
        let module = me.modules.iter().find(|m| (m.start..m.end).contains(&code)).unwrap();
        assert_eq!(module.path, exe.to_str().unwrap());
        assert_eq!(me.command, std::env::args().collect::<Vec<_>>());
    }
}
