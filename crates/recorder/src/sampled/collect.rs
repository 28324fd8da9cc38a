//! From what was sampled to profiles: estimates, names, notes.
//!
//! Neighbours: `follow` has found it, `sampling` estimates, `places` names code and memory.

use crate::allocated::RawBlock;
use crate::child::{Ended, Ending};
use crate::collect::{host, how_it_ended};
use crate::counts;
use crate::known_names;
use crate::objects::{self, Allocated, Objects};
use crate::places::{Places, start_routine};
use crate::processes::short_name;
use crate::sampled::follow::Followed;
use crate::sampled::heap::{HeapOf, Life};
use crate::sampled::process::{Process, Thread};
use crate::sampled::scale::Scale;
use crate::sampled::watching;
use crate::sampled::{Choice, SampleOptions, SampledRecording};
use crate::session::RawThread;
use crate::signals::{self, signal_name};
use crate::unnamed;
use profile::schema::PROCESSES_FOLDER;
use profile::{
    Basis, CommRow, Counted, Detector, EventRow, FlowRow, HeapUnnamed, Meta, Mode, Note,
    PageTables, Parameters, ProcessRow, Profile, SCHEMA_VERSION, Sampled, Sampling, ThreadRow,
    Totals,
};
use sampling::{BLOCK_BYTES, Cell, Estimator, Hit, Stream, Sum};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};
use symbols::Resolver;
use types::{Evidence, ThreadId, ThreadIdentity};

/// Hits below which shape and sharing say little.
const FEW_HITS: u64 = 100;
/// Part of the samples below whose access was found worth a word.
const LOW_YIELD: f64 = 0.3;

/// What is known of a recording besides samples.
pub struct Origin<'a> {
    pub options: &'a SampleOptions,
    pub topology_xml: String,
    pub started: SystemTime,
    /// `None`: the processes ran before.
    pub ended: Option<Ended>,
    pub command: Vec<String>,
}

/// Makes the profiles.
pub fn recording(followed: Followed, origin: Origin<'_>) -> SampledRecording {
    let resolver = RefCell::new(known_names::resolver(origin.options.cached));
    let maker = Maker { followed: &followed, origin: &origin, resolver: &resolver };
    let rows: Vec<ProcessRow> =
        (1..followed.processes.len()).map(|number| maker.process_row(number)).collect();
    let children = rows
        .iter()
        .filter_map(|row| Some((row.profile.clone()?, maker.profile(row.number as usize))))
        .collect();
    let mut profile = maker.profile(0);
    if rows.iter().any(|row| row.threads > 1) {
        profile.meta.warnings.retain(|note| *note != Note::OneThread);
    }
    profile.meta.warnings.extend(maker.warnings_of_all());
    profile.meta.processes = rows;
    SampledRecording { profile, children, ended: origin.ended }
}

/// Makes the profile of the process `number` alone. The `resolver` keeps what it has read for the
/// next.
pub fn profile_of(
    followed: &Followed,
    origin: &Origin<'_>,
    resolver: &RefCell<Resolver>,
    number: usize,
) -> Profile {
    Maker { followed, origin, resolver }.profile(number)
}

struct Maker<'a> {
    followed: &'a Followed,
    origin: &'a Origin<'a>,
    resolver: &'a RefCell<Resolver>,
}

impl Maker<'_> {
    fn choice(&self) -> &Choice {
        &self.origin.options.choice
    }

    /// The process's end, or that of sampling, CLOCK_MONOTONIC.
    fn end_of(&self, process: &Process) -> u64 {
        process.ended_ns.unwrap_or(self.followed.ended_ns)
    }

    fn process_row(&self, number: usize) -> ProcessRow {
        let process = &self.followed.processes[number];
        let name = short_name(&self.command(number));
        ProcessRow {
            number: number as u32,
            parent: process.parent.unwrap_or(0),
            named: process.parent.is_none(),
            pid: process.pid,
            command: self.command(number),
            threads: process.threads.len() as u32,
            exit_code: None,
            exit_signal: None,
            profile: Some(format!("{PROCESSES_FOLDER}/{number}-{name}.tt")),
            unrecorded: None,
        }
    }

    /// The command line; the name where the process was gone before it could be read.
    fn command(&self, number: usize) -> Vec<String> {
        let process = &self.followed.processes[number];
        let name = || process.threads.first().map(|thread| vec![thread.name.clone()]);
        match (number, process.command.is_empty()) {
            (0, _) if !self.origin.command.is_empty() => self.origin.command.clone(),
            (_, false) => process.command.clone(),
            (_, true) => name().unwrap_or_default(),
        }
    }

    fn profile(&self, number: usize) -> Profile {
        let process = &self.followed.processes[number];
        let slices = &self.followed.slices;
        let end_ns = slices.since(self.end_of(process));
        let threads = self.threads(process, end_ns);
        let start_ns = threads.first().map_or(0, |thread| thread.started_ns);
        let (first, slice_rows) = slices.rows(start_ns, end_ns);
        let comm = self.comm(process, first, slice_rows.len() as u32 - 1);
        let (events, addresses) = self.events(process);
        let mut profile = Profile::new(self.meta(number, &threads, &comm), threads, comm);
        let last = slice_rows.len() as u32 - 1;
        let slice_in = |slice: u32| slice.saturating_sub(first).min(last);
        let slice_at = |ns| {
            let (slice, _) = slices.rows(ns, ns);
            slice_in(slice)
        };
        profile.running = process.ran.rows(profile.threads.len(), slice_at);
        profile.slices = slice_rows;
        profile.pages = self.pages(process, profile.slices.len(), slice_in);
        self.name(&mut profile, process, events, &addresses);
        profile
    }

    /// Adds events with the names of code and memory.
    fn name(
        &self,
        profile: &mut Profile,
        process: &Process,
        mut events: Vec<EventRow>,
        addresses: &[u64],
    ) {
        let raw: Vec<RawThread> = process.threads.iter().zip(0..).map(raw_thread).collect();
        // Of a thread alone nothing is shown that would have a name.
        let named = !events.is_empty() || profile.threads.len() > 1;
        let modules = if named { &process.modules[..] } else { &[] };
        let mut places = Places::new(modules, &raw, Some(&process.regions), self.resolver);
        profile.sites = places.sites(addresses, &mut events);
        // SAFETY: no arguments, cannot fail.
        let needs_root = unsafe { libc::geteuid() } != 0;
        let unnamed = unnamed::what_lacks_names(&process.modules, &profile.sites, needs_root);
        profile.meta.warnings.extend(unnamed);
        let (blocks, threads) = (self.allocated(process), profile.threads.len());
        let objects = objects::name(
            (&mut events, &mut profile.pages),
            &blocks,
            threads,
            &mut places,
            &mut profile.sites,
        );
        counts::sum_events(&mut events);
        profile.lines = places.lines(&events, &objects.texts);
        let Objects { rows, blocks, fields, .. } = objects;
        (profile.objects, profile.blocks, profile.fields) = (rows, blocks, fields);
        profile.meta.warnings.extend(self.heap_warning(process, profile, &events));
        profile.flow = self.flow(process, profile, &events);
        profile.events = events;
    }

    /// What the library inside the process knows of it; a child that has allocated nothing has its
    /// parent's.
    fn heap(&self, process: &Process) -> Option<&HeapOf> {
        let heaps = self.followed.heaps.as_ref()?;
        let started_ns = process.threads.first().map_or(0, |thread| thread.started_ns);
        let pids = process.heap_pids();
        let own = heaps.get(&pids.pid).filter(|heap| heap.began_ns >= started_ns);
        own.or_else(|| pids.parent.and_then(|(pid, _)| heaps.get(&pid)))
    }

    /// That places which allocate are not known, where it matters.
    fn heap_warning(&self, process: &Process, profile: &Profile, e: &[EventRow]) -> Option<Note> {
        let unnamed = |event: &EventRow| {
            let object = &profile.objects[event.object as usize];
            object.name.is_empty() && ["heap", "anonymous"].contains(&object.region.as_str())
        };
        if !self.origin.options.objects || !e.iter().any(unnamed) {
            return None;
        }
        let reason = match self.heap(process) {
            None if self.origin.ended.is_none() => HeapUnnamed::Attached,
            None => HeapUnnamed::NotLoaded,
            Some(HeapOf { own_allocator: true, .. }) => HeapUnnamed::OwnAllocator,
            Some(HeapOf { skipped: 0, .. }) => return None,
            Some(HeapOf { skipped, blocks, .. }) => {
                return Some(Note::BlocksSkipped { skipped: *skipped, blocks: *blocks });
            }
        };
        Some(Note::HeapUnnamed { reason })
    }

    /// The blocks of the heap with hits, and who allocated them.
    fn allocated(&self, process: &Process) -> Allocated {
        let Some(heap) = self.heap(process) else { return Allocated::default() };
        let thread = |life: &Life| process.thread_at(life.tid, life.began_ns);
        let block = |life: &Life| RawBlock {
            start: life.start,
            bytes: life.bytes,
            ordinal: life.ordinal,
            group: life.group,
            thread: thread(life).map_or(u32::MAX, |thread| thread.0),
            lifetime_ns: None,
        };
        Allocated::new(heap.groups.clone(), heap.hit.iter().map(block).collect())
    }

    /// The hits that were kept with their time.
    fn flow(&self, process: &Process, profile: &Profile, events: &[EventRow]) -> Vec<FlowRow> {
        let sites: HashMap<u64, u32> =
            profile.sites.iter().map(|site| site.address).zip(0..).collect();
        let objects: HashMap<u64, u32> = events.iter().map(|e| (e.line, e.object)).collect();
        let (scale, kept) = (self.scale(process), &process.hits.kept);
        let known =
            |hit: &&Hit| hit.from.thread.index().max(hit.to.thread.index()) < profile.threads.len();
        let row = |hit: &Hit| {
            let time_ns = self.followed.slices.since(hit.time_ns);
            let once = u64::from(hit.weight == 0.0);
            let sum = Sum { hits: 1, weight: hit.weight, once, ..Sum::default() };
            FlowRow {
                start_ns: time_ns,
                end_ns: time_ns,
                thread: hit.to.thread,
                from: hit.from.thread,
                kind: hit.kind,
                sharing: hit.sharing,
                object: objects.get(&hit.block).copied().unwrap_or(0),
                line: hit.block,
                site: sites.get(&hit.to.site).copied().unwrap_or(0),
                count: sum.events(scale.to(hit.to.thread)).saturating_mul(kept.every),
                hits: 1,
            }
        };
        let mut rows: Vec<FlowRow> = kept.hits.iter().filter(known).map(row).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    fn threads(&self, process: &Process, end_ns: u64) -> Vec<ThreadRow> {
        let clock = self.choice().event.is_clock();
        let since = |time_ns| self.followed.slices.since(time_ns);
        let resolver = &mut self.resolver.borrow_mut();
        let mut seen: HashMap<(Option<ThreadId>, String), u32> = HashMap::new();
        let row = |(thread, id): (&Thread, u32)| {
            let (start_routine, start_symbol) =
                start_routine(&process.modules, thread.routine, resolver);
            let ordinal = seen.entry((thread.parent, start_routine.clone())).or_insert(0);
            let identity = ThreadIdentity {
                start_routine,
                parent: thread.parent,
                ordinal: *ordinal,
                name: thread.name.clone(),
            };
            *ordinal += 1;
            let started_ns = since(thread.started_ns);
            ThreadRow {
                id: ThreadId(id),
                identity,
                start_symbol,
                os_tid: thread.tid,
                started_ns,
                ended_ns: thread.ended_ns.map_or(end_ns, since).max(started_ns),
                instructions: 0,
                loads: 0,
                stores: 0,
                cpu_ns: if clock { thread.sampled } else { 0 },
            }
        };
        process.threads.iter().zip(0..).map(row).collect()
    }

    /// Events that hits stand for.
    fn scale(&self, process: &Process) -> Scale {
        Scale::of(self.choice(), self.followed, process)
    }

    /// Who uses which page; objects are groups of blocks as yet.
    fn pages(&self, process: &Process, slices: usize, slice_in: impl Fn(u32) -> u32) -> PageTables {
        let scale = self.scale(process);
        // Samples of time stand for themselves: what a transfer takes says nothing of accesses.
        let is_time = self.choice().stream == Stream::Waiting;
        let scale = |thread| if is_time { 1.0 } else { scale.to(thread) };
        let thread_of = |life: &Life| process.thread_at(life.tid, life.began_ns);
        process.pages.tables((slices, slice_in), scale, thread_of)
    }

    fn comm(&self, process: &Process, first: u32, last: u32) -> Vec<CommRow> {
        let mut cells: BTreeMap<Cell, Sum> = BTreeMap::new();
        for (cell, sum) in &process.hits.cells {
            let slice = cell.slice.saturating_sub(first).min(last);
            cells.entry(Cell { slice, ..*cell }).or_default().join(sum);
        }
        let mut estimator = Estimator::new(process.hits.largest, stands_for(process));
        let scale = self.scale(process);
        let row = |(cell, sum): (Cell, Sum)| {
            let Cell { slice, kind, from, to, sharing, evidence } = cell;
            let estimate = estimator.estimate(&sum, scale.to(to));
            let sampled = Sampled { hits: sum.hits, low: estimate.low, high: estimate.high };
            let (count, sampled) = (estimate.events, Some(sampled));
            CommRow { slice, from, to, kind, sharing, count, sampled, evidence }
        };
        cells.into_iter().map(row).collect()
    }

    /// The events, their sites being places in the list of addresses.
    fn events(&self, process: &Process) -> (Vec<EventRow>, Vec<u64>) {
        let sites = process.hits.events.keys().flat_map(|event| [event.from_site, event.to_site]);
        let mut addresses: Vec<u64> = sites.chain([0]).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let number = |address: u64| addresses.binary_search(&address).unwrap_or(0) as u32;
        let scale = self.scale(process);
        let rows = process.hits.events.iter().map(|(event, sum)| EventRow {
            line: event.line,
            from: event.from,
            to: event.to,
            kind: event.kind,
            sharing: event.sharing,
            from_site: number(event.from_site),
            to_site: number(event.to_site),
            count: sum.sum.events(scale.to(event.to)),
            from_bytes: sum.from_bytes,
            to_bytes: sum.to_bytes,
            hits: sum.sum.hits,
            evidence: event.evidence,
            object: event.object,
            gap: None,
            streamed: 0,
        });
        (rows.collect(), addresses)
    }

    fn meta(&self, number: usize, threads: &[ThreadRow], comm: &[CommRow]) -> Meta {
        let process = &self.followed.processes[number];
        let start_ns = process.threads.first().map_or(0, |thread| thread.started_ns);
        let life = Duration::from_nanos(self.end_of(process).saturating_sub(start_ns));
        let cpu = Duration::from_nanos(threads.iter().map(|thread| thread.cpu_ns).sum());
        let ended = self.origin.ended.filter(|_| number == 0);
        let (exit_code, exit_signal) = match ended.map(|ended| ended.ending) {
            Some(Ending::Exited(code)) => (Some(code), None),
            Some(Ending::Killed(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let offset = Duration::from_nanos(self.followed.slices.since(start_ns));
        let started = self.origin.started + if number == 0 { Duration::ZERO } else { offset };
        let directory = std::env::current_dir().unwrap_or_default();
        // A process of one thread has nothing to place: hundreds of them need not carry the
        // machine.
        let placeable = number == 0 || threads.len() > 1;
        Meta {
            schema_version: SCHEMA_VERSION,
            tool: concat!("threadtalk ", env!("CARGO_PKG_VERSION")).into(),
            command: self.command(number),
            directory: directory.to_string_lossy().into_owned(),
            started: humantime::format_rfc3339_seconds(started).to_string(),
            wall_seconds: ended.map_or(life, |ended| ended.wall).as_secs_f64(),
            cpu_seconds: ended.map_or(cpu, |ended| ended.cpu).as_secs_f64(),
            system_seconds: ended.map_or(0.0, |ended| ended.system.as_secs_f64()),
            host: host(),
            topology_xml: if placeable { self.origin.topology_xml.clone() } else { String::new() },
            mode: Mode::Sampled,
            parameters: Parameters {
                block_bytes: BLOCK_BYTES,
                slice_ns: self.followed.slices.length_ns,
                counted: Counted::Detail,
            },
            totals: Totals::of(threads, comm),
            warnings: self.warnings(process, number, threads.len(), comm),
            exit_code,
            exit_signal,
            cache_flushes: 0,
            blocks: 0,
            blocks_stored: 0,
            processes: Vec::new(),
            together: None,
            sampled: Some(self.sampling(process)),
            windows: None,
            own_time: None,
            slowed: None,
            page_use: Some(process.pages.page_use()),
        }
    }

    fn sampling(&self, process: &Process) -> Sampling {
        let Followed { totals, reader, .. } = self.followed;
        let choice = self.choice();
        let period = match choice.rate {
            perf::Rate::Period(period) if !choice.event.is_clock() => period,
            _ => 0,
        };
        Sampling {
            source: choice.event.name.clone(),
            detectors: vec![choice.detector],
            reason: choice.reason.clone(),
            rate: choice.per_second,
            period,
            samples: process.samples,
            decoded: process.decoded,
            hits: process.hits.count(),
            inferred: process.hits.count_by(Evidence::Inferred),
            hit_events: stands_for(process) * self.scale(process).common(),
            lost: totals.lost,
            throttled: totals.throttled,
            basis: choice.basis.clone(),
            named: choice.named,
            attached: self.origin.ended.is_none(),
            reader_seconds: reader.as_secs_f64(),
        }
    }

    /// What this process's profile does not hold.
    fn warnings(
        &self,
        process: &Process,
        number: usize,
        threads: usize,
        comm: &[CommRow],
    ) -> Vec<Note> {
        let mut list = Vec::new();
        // A program that we start, and most children, execute one first: nothing new.
        let usual = u32::from(self.origin.ended.is_some() || process.parent.is_some());
        let execs = process.execs.saturating_sub(usual);
        if execs > 0 {
            list.push(Note::ProgramReplaced { count: execs.into() });
        }
        if let Some(ended) = self.origin.ended.filter(|_| number == 0) {
            list.extend(how_it_ended(&ended));
        }
        list.extend(self.how_long(process, number));
        let hits = process.hits.count();
        let Process { samples, decoded, .. } = *process;
        if threads <= 1 {
            list.push(Note::OneThread);
        } else if samples == 0 {
            list.push(Note::NeverSampled);
        } else if comm.is_empty() {
            list.push(Note::NoHits { accesses: decoded });
        } else if hits < FEW_HITS {
            list.push(Note::FewHits { hits });
        }
        if self.choice().detector == Detector::Watchpoints {
            list.extend(watching::warnings(process));
        }
        if samples >= FEW_HITS && (decoded as f64) < LOW_YIELD * samples as f64 {
            list.push(Note::LowYield { samples, decoded });
        }
        let unmeasured = process.handovers.unmeasured;
        list.extend((unmeasured > 0).then_some(Note::ArraysUnmeasured { hits: unmeasured }));
        let elsewhere = process.hits.without_line;
        list.extend((elsewhere > 0).then_some(Note::HitsWithoutLine { hits: elsewhere }));
        list
    }

    /// That a program which we started went on after the time for which it was to be sampled.
    fn how_long(&self, process: &Process, number: usize) -> Option<Note> {
        let duration_ns = self.origin.options.duration?.as_nanos() as u64;
        let went_on = number == 0 && self.origin.ended.is_some() && !process.is_gone();
        went_on.then_some(Note::DurationOver { duration_ns })
    }

    /// That there is a count, but no sample that would say whose it is; or nothing at all.
    fn counted_only(&self) -> Option<Note> {
        let Basis::Counters { event } = &self.choice().basis else { return None };
        let event = event.clone();
        let Followed { totals, counted, .. } = self.followed;
        match (counted.round() as u64, self.choice().rate) {
            _ if totals.stand_for > 0 => None,
            (0, _) => Some(Note::EventNotCounted { event }),
            (count, perf::Rate::Period(period)) => {
                Some(Note::EventNotSampled { event, count, period })
            }
            _ => None,
        }
    }

    /// What the recording as a whole does not hold.
    fn warnings_of_all(&self) -> Vec<Note> {
        let Followed { totals, beyond, slices, breaks, .. } = self.followed;
        let choice = self.choice();
        let mut list: Vec<Note> = choice.warning.iter().cloned().collect();
        list.extend(self.counted_only());
        list.extend(breaks.iter().cloned());
        list.extend(self.lost());
        if totals.throttled > 0 {
            list.push(Note::Throttled { count: totals.throttled });
        }
        let watches = choice.detector == Detector::Watchpoints;
        if let Some(slow) = choice.armed.filter(|armed| watches && armed.is_slow()) {
            list.push(Note::SlowStores { times: slow.stores });
        }
        if *beyond > 0 {
            list.push(Note::ChildrenBeyond { count: *beyond, limit: None });
        }
        let wanted_ns = self.origin.options.slice.as_nanos() as u64;
        if slices.length_ns > wanted_ns {
            list.push(Note::SlicesLonger { slice_ns: slices.length_ns, wanted_ns });
        }
        if let (None, Some(signal)) = (self.origin.ended, signals::ended_by()) {
            list.push(Note::SamplingInterrupted { signal: signal_name(signal) });
        }
        list
    }

    /// That records were lost.
    fn lost(&self) -> Option<Note> {
        let Followed { totals, processes, .. } = self.followed;
        let samples: u64 = processes.iter().map(|process| process.samples).sum();
        let share = totals.lost as f64 / (totals.lost + samples).max(1) as f64;
        // A counter goes on where no sample finds room.
        let counted = matches!(self.choice().basis, Basis::Counters { .. });
        let (count, named) = (totals.lost, self.choice().named);
        (count > 0).then_some(Note::RecordsLost { count, share, counted, named })
    }
}

/// The most that a hit weighs: what a sample stands for, be it that none has been one.
fn stands_for(process: &Process) -> f64 {
    let usual = process.decoded_period as f64 / process.decoded.max(1) as f64;
    usual.max(process.hits.largest)
}

/// What `places` needs of a thread. The initial one's stack has a name of its own.
fn raw_thread((thread, id): (&Thread, u32)) -> RawThread {
    let stack = if id == 0 { 0 } else { thread.stack };
    RawThread { tid: thread.tid, stack, ..RawThread::default() }
}
