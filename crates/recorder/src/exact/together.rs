//! The processes of a recording that communicate with each other, as one profile: all threads of
//! all processes that communicate, and every event among them.
//!
//! Each process counts its events with threads of other processes beside its own; those threads are
//! named by their numbers as sharers (`wire::shared`). Here they get the numbers that they have
//! among all threads. Neighbours: `counts` reads, `collect` makes the profile of a single process.

use crate::collect::{self, Found};
use crate::counts::{self, Between, Counts, Side};
use crate::error::RecorderError;
use crate::exact::footprints;
use crate::objects::{self, Allocated, Member, Objects};
use crate::paths::{self, RawPath};
use crate::places::Places;
use crate::processes;
use crate::session::{RawModule, RawThread, Session, SessionOptions};
use crate::stack_variables::StackVariables;
use crate::tables;
use crate::timeline::{Sample, Timeline, activity_rows, join_samples};
use crate::windowed::{self, Windowed};
use profile::{
    CallRow, CommRow, EventRow, FootprintRow, LineRow, Note, ProcessRow, Profile, ReturnRow,
    RunningRow, SiteRow, ThreadRow, Totals, Windows,
};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use types::{CommKind, ThreadId};
use wire::session::Header;

/// Most lines of memory of which fields are looked up, the hottest.
const MAX_FIELDS: usize = 4096;

/// A process and what it has counted.
struct Process {
    segment: u32,
    execs: u32,
    raw: Vec<RawThread>,
    modules: Vec<RawModule>,
    threads: Vec<ThreadRow>,
    samples: Vec<Sample>,
    /// Program addresses of its code sites, and the call paths to them.
    sites: Vec<u64>,
    paths: Vec<RawPath>,
    allocated: Allocated,
    stacks: StackVariables,
    counts: Counts,
    /// Number of its first thread among all.
    first: u32,
}

/// Makes the profile; `of_first` is that of the first process, `rows` are the others. `None` if no
/// process communicates with another.
///
/// # Errors
/// Fails when the session cannot be read.
pub fn profile(
    session: &Session,
    options: SessionOptions,
    found: &Found,
    of_first: &Profile,
    rows: &[ProcessRow],
) -> Result<Option<Profile>, RecorderError> {
    let header = session.header()?;
    let alone = Timeline::new(header.records()[0].started_ns.load(Relaxed), options.slice);
    let timeline = found.monitored.timeline.as_ref().unwrap_or(&alone);
    let recorded = rows.iter().filter(|row| row.profile.is_some()).map(|row| row.number);
    let mut processes = Vec::new();
    for segment in std::iter::once(0).chain(recorded) {
        processes.push(Process::read(session, segment, options, found, timeline)?);
    }
    if processes.iter().all(|process| process.counts.between.is_empty()) {
        return Ok(None);
    }
    let mut all = All::new(processes, session.sharers()?);
    let mut timeline = timeline.clone();
    let (mut counts, mut samples) = all.counts(&timeline);
    let coarser = counts.joined - timeline.joined();
    (0..coarser).for_each(|_| timeline.join());
    let threads = all.threads();
    let end_ns = threads.iter().map(|thread| thread.ended_ns).max().unwrap_or(0);
    let windowed = found.monitored.switched.as_ref().map(|switched| {
        let switched = (switched, all.late_blocks());
        windowed::estimate(&mut counts, &mut samples, &mut timeline, switched, end_ns)
    });
    let (first, slices) = timeline.between(0, end_ns);
    let last = slices.len() as u32 - 1;
    let slice_of = |slice: u32| slice.saturating_sub(first).min(last);
    let activity = activity_rows(&samples, &threads, |ns| slice_of(timeline.at(ns)), slice_of);
    let running = all.running(found, |ns| slice_of(timeline.at(ns)));
    counts.comm.iter_mut().for_each(|row| row.slice = slice_of(row.slice));
    counts::sum_comm(&mut counts.comm);
    let (sites, lines, objects, calls) = all.names(&mut counts.events, found, threads.len());
    let mut meta = of_first.meta.clone();
    meta.processes = Vec::new();
    meta.parameters.slice_ns = timeline.length_ns();
    meta.totals = Totals::of(&threads, &counts.comm);
    meta.warnings.retain(|note| !matches!(note, Note::OneThread | Note::NoCommunication));
    meta.warnings.extend(session.shared_notes()?);
    if let (Some(windows), Some(windowed)) = (&mut meta.windows, windowed) {
        tell_windows(windows, windowed);
    }
    counts.keep_named_returns();
    let Counts { comm, events, returns, .. } = counts;
    let Objects { rows: objects, blocks, fields, .. } = objects;
    Ok(Some(Profile {
        slices,
        activity,
        running,
        sites,
        objects,
        blocks,
        fields,
        lines,
        calls,
        events,
        returns,
        footprints: all.footprints(options.block_bytes),
        ..Profile::new(meta, threads, comm)
    }))
}

/// What the windows were good for, of all processes.
fn tell_windows(windows: &mut Windows, windowed: Windowed) {
    let Windowed { windows: used, too_short, observed, whole, missed, alike, false_share } =
        windowed;
    (windows.windows, windows.too_short) = (used, too_short);
    (windows.observed, windows.whole) = (observed, whole);
    (windows.missed, windows.alike) = (missed, alike);
    windows.false_share = false_share;
}

impl Between {
    fn is_empty(&self) -> bool {
        self.comm.is_empty()
    }
}

impl Process {
    fn read(
        session: &Session,
        segment: u32,
        options: SessionOptions,
        found: &Found,
        timeline: &Timeline,
    ) -> Result<Self, RecorderError> {
        let session = session.of_segment(segment);
        let mapping = session.header()?;
        let header = &mapping.records()[0];
        let raw = session.threads(header.threads.load(Relaxed) as usize)?;
        let modules = session.modules(header.modules.load(Relaxed) as usize)?;
        let since_start = |ns| timeline.since_start(ns);
        let ended_ns = match header.ended_ns.load(Relaxed) {
            0 => found.ended_ns(),
            ended_ns => ended_ns,
        };
        let mut threads = {
            let resolver = &mut found.resolver.borrow_mut();
            collect::thread_rows(&raw, &modules, since_start, ended_ns, resolver)
        };
        if let Some(initial) = threads.first_mut() {
            name_initial(initial, segment, header);
        }
        let counts = tables::read_counts(&session, options, found, timeline, raw.len())?;
        let seen = found.monitored.processes.get(segment as usize);
        found.monitored.add_native(segment, &mut threads);
        Ok(Self {
            segment,
            execs: header.execs.load(Relaxed),
            threads,
            samples: seen.map(|seen| seen.samples.clone()).unwrap_or_default(),
            sites: session.sites(header.sites.load(Relaxed) as usize + 1)?,
            paths: paths::read(&session, header)?,
            allocated: tables::allocated(&session, header, found)?,
            stacks: StackVariables::read(&session, header)?,
            counts,
            raw,
            modules,
            first: 0,
        })
    }

    fn communicates(&self) -> bool {
        !self.counts.comm.is_empty() || !self.counts.between.is_empty()
    }
}

/// Initial threads are told apart by their programs.
fn name_initial(thread: &mut ThreadRow, segment: u32, header: &Header) {
    thread.start_symbol = format!("process {segment}");
    if segment != 0 {
        let command = processes::command(header);
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy().into()).collect();
        thread.identity.start_routine = processes::short_name(&words);
    }
}

/// The processes that communicate.
struct All {
    processes: Vec<Process>,
    /// Segment, number of the program and thread of each sharer.
    sharers: Vec<[u32; 3]>,
    /// Place of each segment in `processes`.
    places: HashMap<u32, usize>,
    /// Numbers of code sites, by process and address, and the other way round; the first is
    /// unknown.
    site_numbers: HashMap<(usize, u64), u32>,
    sites: Vec<(usize, u64)>,
    /// The same of objects, by process and what it calls them.
    object_numbers: HashMap<(usize, u32), u32>,
    objects: Vec<(usize, u32)>,
    /// The processes that may know what a line of memory is: the one that has counted an event on
    /// it, and the other one.
    lines: HashMap<u64, [usize; 2]>,
}

impl All {
    fn new(mut processes: Vec<Process>, sharers: Vec<[u32; 3]>) -> Self {
        // What others have counted with them counts, too.
        let named: Vec<u32> = processes
            .iter()
            .flat_map(|process| process.counts.between.comm.iter())
            .filter_map(|(row, side)| sharers.get(other_of(row.from, row.to, *side).index()))
            .map(|[segment, ..]| *segment)
            .collect();
        processes.retain(|process| process.communicates() || named.contains(&process.segment));
        let mut first = 0;
        for process in &mut processes {
            process.first = first;
            first += process.threads.len() as u32;
        }
        let places = processes.iter().enumerate().map(|(k, process)| (process.segment, k));
        let places = places.collect();
        let (site_numbers, object_numbers, objects, lines) = Default::default();
        let sites = vec![(0, 0)];
        Self { processes, sharers, places, site_numbers, sites, object_numbers, objects, lines }
    }

    /// The process of a sharer, by its place, and the sharer's number among all threads; `None` if
    /// its program has been replaced.
    fn sharer(&self, number: ThreadId) -> Option<(usize, ThreadId)> {
        let [segment, execs, thread] = *self.sharers.get(number.index())?;
        let place = *self.places.get(&segment)?;
        let process = &self.processes[place];
        let known = process.execs == execs && (thread as usize) < process.threads.len();
        known.then_some((place, ThreadId(process.first + thread)))
    }

    /// Both ends of a row among all threads, with the places of their processes.
    fn ends(
        &self,
        place: usize,
        (from, to, side): (ThreadId, ThreadId, Side),
    ) -> Option<[(usize, ThreadId); 2]> {
        let own = |id: ThreadId| (place, ThreadId(self.processes[place].first + id.0));
        let other = self.sharer(other_of(from, to, side))?;
        Some(match side {
            Side::From => [own(from), other],
            Side::To => [other, own(to)],
        })
    }

    /// All threads, by their numbers among all.
    fn threads(&self) -> Vec<ThreadRow> {
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut all = Vec::new();
        for process in &self.processes {
            for (id, thread) in process.threads.iter().enumerate() {
                let mut thread = thread.clone();
                thread.id = ThreadId(process.first + id as u32);
                let identity = &mut thread.identity;
                identity.parent = identity.parent.map(|p| ThreadId(process.first + p.0));
                if id == 0 {
                    let count = known.entry(identity.start_routine.clone()).or_insert(0);
                    identity.ordinal = *count;
                    *count += 1;
                }
                all.push(thread);
            }
        }
        all
    }

    /// All events among all threads, and what all have executed. [`All::names`] says what the sites
    /// of events are.
    fn counts(&mut self, timeline: &Timeline) -> (Counts, Vec<Sample>) {
        let joined = self.processes.iter().map(|process| process.counts.joined).max().unwrap_or(0);
        let mut all = Counts { joined, ..Counts::default() };
        let mut samples = Vec::new();
        for place in 0..self.processes.len() {
            let counts = std::mem::take(&mut self.processes[place].counts);
            let (first, coarser) = (self.processes[place].first, joined - counts.joined);
            let own = |id: ThreadId| ThreadId(first + id.0);
            for mut row in counts.comm {
                (row.from, row.to, row.slice) = (own(row.from), own(row.to), row.slice >> coarser);
                all.comm.push(row);
            }
            self.comm(place, coarser, counts.between.comm, &mut all.comm);
            self.comm(place, coarser, counts.between.partly, &mut all.partly);
            all.partly.extend(counts.partly.into_iter().map(|mut row| {
                (row.from, row.to, row.slice) = (own(row.from), own(row.to), row.slice >> coarser);
                row
            }));
            all.returns.extend(
                counts.returns.into_iter().map(|row| ReturnRow { thread: own(row.thread), ..row }),
            );
            all.late.extend(counts.late.into_iter().map(|mut row| {
                (row.from, row.to) = (own(row.from), own(row.to));
                row
            }));
            self.events(place, (counts.late_events, Vec::new()), &mut all.late_events);
            self.events(place, (counts.events, counts.between.events), &mut all.events);
            let process = &mut self.processes[place];
            let mut own_samples = std::mem::take(&mut process.samples);
            join_samples(&mut own_samples, joined - timeline.joined());
            own_samples.iter_mut().for_each(|sample| sample.thread += first);
            samples.extend(own_samples);
        }
        counts::sum_comm(&mut all.comm);
        all.returns.sort_unstable_by_key(ReturnRow::key);
        samples.sort_by_key(|sample| (sample.slice, sample.thread));
        (all, samples)
    }

    /// Adds the events of a process with others.
    fn comm(
        &self,
        place: usize,
        coarser: u32,
        between: Vec<(CommRow, Side)>,
        all: &mut Vec<CommRow>,
    ) {
        for (mut row, side) in between {
            let Some(ends) = self.ends(place, (row.from, row.to, side)) else { continue };
            (row.from, row.to) = in_order(row.kind, ends);
            row.slice >>= coarser;
            all.push(row);
        }
    }

    /// Tracked blocks of all processes in which there were late events.
    fn late_blocks(&self) -> u64 {
        self.processes.iter().flat_map(|process| &process.raw).map(|raw| raw.late_blocks).sum()
    }

    /// How much memory all threads come to.
    fn footprints(&self, block_bytes: u64) -> Vec<FootprintRow> {
        let of = |process: &Process| footprints::rows(&process.raw, process.first, block_bytes);
        let mut rows: Vec<FootprintRow> = self.processes.iter().flat_map(of).collect();
        rows.sort_unstable_by_key(FootprintRow::key);
        rows
    }

    /// Where all threads ran.
    fn running(&self, found: &Found, slice_at: impl Fn(u64) -> u32) -> Vec<RunningRow> {
        let mut rows = Vec::new();
        for process in &self.processes {
            let Some(seen) = found.monitored.processes.get(process.segment as usize) else {
                continue;
            };
            for mut row in seen.running.rows(process.threads.len(), &slice_at) {
                row.thread.0 += process.first;
                rows.push(row);
            }
        }
        rows.sort_unstable_by_key(RunningRow::key);
        rows
    }

    /// Adds the events by line and site of a process.
    fn events(
        &mut self,
        place: usize,
        (within, between): (Vec<EventRow>, Vec<(EventRow, Side)>),
        all: &mut Vec<EventRow>,
    ) {
        let own = |id: ThreadId, first: u32| (place, ThreadId(first + id.0));
        let first = self.processes[place].first;
        let within = within.into_iter().map(|row| {
            let ends = [own(row.from, first), own(row.to, first)];
            (row, Some(ends))
        });
        let between: Vec<_> = between
            .into_iter()
            .map(|(row, side)| (row, self.ends(place, (row.from, row.to, side))))
            .collect();
        for (mut row, ends) in within.chain(between) {
            let Some([from, to]) = ends else { continue };
            row.object = self.number_of_object(place, row.object);
            row.from_site = self.number_of_site(from.0, row.from_site);
            row.to_site = self.number_of_site(to.0, row.to_site);
            (row.from, row.to) = (from.1, to.1);
            if row.from > row.to && row.kind == CommKind::Undirected {
                std::mem::swap(&mut row.from, &mut row.to);
                std::mem::swap(&mut row.from_site, &mut row.to_site);
            }
            let other = if from.0 == place { to.0 } else { from.0 };
            self.lines.entry(row.line).or_insert([place, other]);
            all.push(row);
        }
    }

    /// The number among all of what a process calls an object.
    fn number_of_object(&mut self, place: usize, object: u32) -> u32 {
        let next = self.objects.len() as u32;
        let number = *self.object_numbers.entry((place, object)).or_insert(next);
        if number == next {
            self.objects.push((place, object));
        }
        number
    }

    /// The number among all of a process's code site.
    fn number_of_site(&mut self, place: usize, site: u32) -> u32 {
        let address = self.processes[place].sites.get(site as usize).copied().unwrap_or(0);
        if address == 0 {
            return 0;
        }
        let next = self.sites.len() as u32;
        let number = *self.site_numbers.entry((place, address)).or_insert(next);
        if number == next {
            self.sites.push((place, address));
        }
        number
    }

    /// What the code sites, lines and objects of the events are. Sites that processes have in
    /// common get one number.
    fn names(
        &mut self,
        events: &mut Vec<EventRow>,
        found: &Found,
        threads: usize,
    ) -> (Vec<SiteRow>, Vec<LineRow>, Objects, Vec<CallRow>) {
        let taken: Vec<(Allocated, StackVariables)> = self
            .processes
            .iter_mut()
            .map(|of| (std::mem::take(&mut of.allocated), std::mem::take(&mut of.stacks)))
            .collect();
        let mut members: Vec<Member<'_>> = self
            .processes
            .iter()
            .zip(taken)
            .map(|(process, (allocated, stacks))| {
                let seen = found.monitored.processes.get(process.segment as usize);
                let regions = seen.map(|seen| &seen.regions);
                let places = Places::new(&process.modules, &process.raw, regions, &found.resolver);
                let places = places
                    .counted_from(process.first)
                    .with_stacks(stacks.counted_from(process.first));
                Member::new(allocated, places, process.first)
            })
            .collect();
        let mut rows = vec![SiteRow::default()];
        let mut known: HashMap<(u64, String), u32> = HashMap::new();
        let numbers: Vec<u32> = std::iter::once(0)
            .chain(self.sites[1..].iter().map(|(place, address)| {
                let row = members[*place].places().site(*address);
                let next = rows.len() as u32;
                let number = *known.entry((row.address, row.module.clone())).or_insert(next);
                if number == next {
                    rows.push(row);
                }
                number
            }))
            .collect();
        for event in events.iter_mut() {
            event.from_site = numbers[event.from_site as usize];
            event.to_site = numbers[event.to_site as usize];
        }
        counts::sum_events(events);
        let objects =
            objects::name_together(events, &self.objects, &mut members, threads, &mut rows);
        counts::sum_events(events);
        let calls = self.calls(&mut members, &numbers);
        let groups: Vec<&[EventRow]> = events.chunk_by(|a, b| a.line == b.line).collect();
        let lines = groups.iter().map(|group| {
            let line = group[0].line;
            let candidates = self.lines.get(&line).copied().unwrap_or_default();
            // What was read by process_vm_readv lies in the other process.
            let has_line = |place: &usize| {
                let seen = found.monitored.processes.get(self.processes[*place].segment as usize);
                seen.is_some_and(|seen| seen.regions.find(line).is_some())
            };
            let place = candidates.into_iter().find(has_line).unwrap_or(candidates[0]);
            let row = members[place].places().line(group, groups.len() <= MAX_FIELDS);
            match objects.texts.get(&line) {
                Some((region, object)) => {
                    LineRow { region: region.clone(), object: object.clone(), ..row }
                }
                None => row,
            }
        });
        let lines = lines.collect();
        (rows, lines, objects, calls)
    }

    /// Call paths to code sites, of which `rows` has the row by their numbers.
    fn calls(&self, members: &mut [Member<'_>], rows: &[u32]) -> Vec<CallRow> {
        let mut sums = paths::Sums::default();
        for (place, (process, member)) in self.processes.iter().zip(members).enumerate() {
            let row_of = |site: u32| {
                let address = *process.sites.get(site as usize)?;
                let number = self.site_numbers.get(&(place, address))?;
                rows.get(*number as usize).copied()
            };
            sums.add(&process.paths, row_of, member.places());
        }
        sums.rows()
    }
}

/// The thread of another process in a row.
fn other_of(from: ThreadId, to: ThreadId, side: Side) -> ThreadId {
    match side {
        Side::From => to,
        Side::To => from,
    }
}

/// Both threads of a row; of those that are not directed, the lower one first.
fn in_order(kind: CommKind, [from, to]: [(usize, ThreadId); 2]) -> (ThreadId, ThreadId) {
    let (from, to) = (from.1, to.1);
    if kind == CommKind::Undirected { (from.min(to), from.max(to)) } else { (from, to) }
}
