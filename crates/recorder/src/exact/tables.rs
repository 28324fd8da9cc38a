//! The tables of a profile that come from counting: slices, activity, matrices, sites, objects,
//! lines, events.
//!
//! Neighbours: `counts` sums what the agent counted, or `reference` replays it; `timeline` says
//! when; `places` says what lies at addresses; `collect` puts the tables into a profile.

use crate::collect::Found;
use crate::counts::{self, Counts, Side};
use crate::error::RecorderError;
use crate::exact::footprints;
use crate::exact::switching::Followed;
use crate::flows::{self, Flow, Names, Stretch};
use crate::monitor::Seen;
use crate::objects::{self, Allocated, Objects};
use crate::page_uses::{self, PageUses};
use crate::pages::{self, ByPage};
use crate::paths;
use crate::places::Places;
use crate::reference::Traced;
use crate::session::{RawModule, RawThread, Session, SessionOptions};
use crate::stack_variables::StackVariables;
use crate::timeline::{Sample, Timeline, activity_rows, join_samples};
use crate::windowed::{self, Windowed};
use profile::{
    ActivityRow, CallRow, CommRow, Counted, EventRow, FlowRow, FootprintRow, LineRow, Meta,
    PageTables, Parameters, Profile, ReturnRow, RunningRow, SiteRow, SliceRow, ThreadRow,
};
use reference::Replayed;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use types::{CommKind, Evidence, ThreadId};
use wire::session::{Header, mode};

/// The tables, and what the counts in them depend on.
pub struct Tables {
    pub parameters: Parameters,
    pub slices: Vec<SliceRow>,
    pub activity: Vec<ActivityRow>,
    pub running: Vec<RunningRow>,
    pub comm: Vec<CommRow>,
    pub sites: Vec<SiteRow>,
    pub objects: Objects,
    pub lines: Vec<LineRow>,
    pub events: Vec<EventRow>,
    pub calls: Vec<CallRow>,
    pub flow: Vec<FlowRow>,
    pub pages: PageTables,
    pub returns: Vec<ReturnRow>,
    pub footprints: Vec<FootprintRow>,
    /// Counts that made no sense and were left out.
    pub damaged: u64,
    /// What windows were good for, if accesses were observed in windows only.
    pub windowed: Option<Windowed>,
}

impl Tables {
    /// Reads what the threads of a process have counted; `threads` are rows of the profile, `raw`
    /// the same threads as the agent left them.
    pub fn read(
        session: &Session,
        header: &Header,
        options: SessionOptions,
        found: &Found,
        timeline: &Timeline,
        threads: &[ThreadRow],
        (raw, modules): (&[RawThread], &[RawModule]),
    ) -> Result<Self, RecorderError> {
        let known = threads.len();
        let mut counts = read_counts(session, options, found, timeline, known)?;
        // The counts may be coarser than the timeline.
        let mut timeline = timeline.clone();
        let coarser = counts.joined - timeline.joined();
        (0..coarser).for_each(|_| timeline.join());
        let seen = found.monitored.processes.get(session.segment() as usize);
        let mut samples = seen.map(|seen| seen.samples.clone()).unwrap_or_default();
        join_samples(&mut samples, coarser);

        let (start_ns, end_ns) = lived(threads);
        let windowed = estimate((&mut counts, &mut samples, &mut timeline), found, raw, end_ns);
        let (first, slices) = timeline.between(start_ns, end_ns);
        let last = slices.len() as u32 - 1;
        let slice_of = |slice: u32| slice.saturating_sub(first).min(last);
        let activity = activity_rows(&samples, threads, |ns| slice_of(timeline.at(ns)), slice_of);
        let running = seen.map(|seen| seen.running.rows(known, |ns| slice_of(timeline.at(ns))));
        counts.comm.iter_mut().for_each(|row| row.slice = slice_of(row.slice));
        counts::sum_comm(&mut counts.comm);

        let flow = flow(found, session, &counts.events, (start_ns, end_ns));
        let by_page = read_pages(session, header, options, found, (start_ns, end_ns), &timeline)?;
        let is_known = |thread: ThreadId| thread.index() < known;
        let (mut pages, lying) = pages::tables(&by_page, slices.len(), slice_of, is_known);
        // Without events and pages there is nothing to name, and no file to read.
        let modules = if counts.events.len() + pages.pages.len() == 0 { &[] } else { modules };
        let mut places = places((session, header), (modules, raw), seen, found)?;
        let addresses = session.sites(header.sites.load(Relaxed) as usize + 1)?;
        let mut sites = places.sites(&addresses, &mut counts.events);
        counts::sum_events(&mut counts.events);
        let calls = paths::name(&paths::read(session, header)?, &addresses, &sites, &places);
        let allocated = allocated(session, header, found)?.with_pages(lying);
        let before = counts.events.clone();
        let objects = objects::name(
            (&mut counts.events, &mut pages),
            &allocated,
            known,
            &mut places,
            &mut sites,
        );
        pages::name_sites(&mut pages, &addresses, &mut sites, &places);
        let names = Names::new(&sites, &before, &counts.events);
        let flow = flows::rows(&flow, &names, &addresses, known);
        counts.sum_named_events();
        let lines = places.lines(&counts.events, &objects.texts);
        let Counts { comm, events, returns, damaged, .. } = counts;
        Ok(Self {
            parameters: parameters(header, options, &timeline),
            slices,
            activity,
            running: running.unwrap_or_default(),
            comm,
            sites,
            objects,
            lines,
            events,
            calls,
            flow,
            pages,
            returns,
            footprints: footprints::rows(raw, 0, options.block_bytes),
            damaged,
            windowed,
        })
    }

    /// The profile that they make.
    pub fn into_profile(self, meta: Meta, threads: Vec<ThreadRow>) -> Profile {
        let Self { slices, activity, running, comm, sites, lines, events, calls, .. } = self;
        let Self { flow, pages, returns, footprints, .. } = self;
        let Objects { rows: objects, blocks, fields, .. } = self.objects;
        Profile {
            meta,
            threads,
            slices,
            activity,
            running,
            comm,
            sites,
            objects,
            blocks,
            fields,
            lines,
            events,
            calls,
            flow,
            pages,
            returns,
            footprints,
        }
    }
}

/// Names for the addresses of a process.
fn places<'a>(
    (session, header): (&Session, &Header),
    (modules, raw): (&'a [RawModule], &[RawThread]),
    seen: Option<&'a Seen>,
    found: &'a Found,
) -> Result<Places<'a>, RecorderError> {
    let places = Places::new(modules, raw, seen.map(|seen| &seen.regions), &found.resolver);
    Ok(places.with_stacks(StackVariables::read(session, header)?))
}

/// When the events of a process were counted, which `ran` from one moment to the other.
fn flow(found: &Found, session: &Session, events: &[EventRow], ran: (u64, u64)) -> Vec<Stretch> {
    let flow = found.monitored.flows.get(session.segment() as usize);
    flow.unwrap_or(&Flow::default()).whole(events, ran)
}

/// Makes estimates of what was counted in windows, if there were any.
fn estimate(
    (counts, samples, timeline): (&mut Counts, &mut Vec<Sample>, &mut Timeline),
    found: &Found,
    raw: &[RawThread],
    end_ns: u64,
) -> Option<Windowed> {
    let late_blocks = raw.iter().map(|thread| thread.late_blocks).sum();
    let switched = found.monitored.switched.as_ref()?;
    Some(windowed::estimate(counts, samples, timeline, (switched, late_blocks), end_ns))
}

/// When the first of the threads began, and when the last one ended, ns.
fn lived(threads: &[ThreadRow]) -> (u64, u64) {
    let start_ns = threads.first().map_or(0, |thread| thread.started_ns);
    (start_ns, threads.iter().map(|thread| thread.ended_ns).max().unwrap_or(start_ns))
}

/// Accesses by page of a process, as the agent or the replay of its trace has counted them, and an
/// allocated block on each page, where one is known. The process `ran` from one moment to the
/// other.
fn read_pages<'a>(
    session: &Session,
    header: &Header,
    options: SessionOptions,
    found: &'a Found,
    ran: (u64, u64),
    timeline: &Timeline,
) -> Result<ByPage<'a>, RecorderError> {
    if options.counts_pages() || options.names_pages() {
        let PageUses { mut accesses, blocks, lives } = page_uses::read(session, header)?;
        if let Some(history) = found.monitored.histories.get(session.segment() as usize) {
            history.tell_apart(&mut accesses, &lives, ran, |ns| timeline.at(ns));
        }
        return Ok((Cow::Owned(accesses), blocks));
    }
    let replayed = found.traced.get(session.segment() as usize);
    let accesses = replayed.map_or_else(Default::default, |own| Cow::Borrowed(&own.pages));
    Ok((accesses, HashMap::new()))
}

fn parameters(header: &Header, options: SessionOptions, timeline: &Timeline) -> Parameters {
    let counted = match header.mode.load(Relaxed) {
        // The blocks are too large for more.
        mode::MATRIX => Counted::Matrix,
        _ => options.counted,
    };
    let (block_bytes, slice_ns) = (options.block_bytes, timeline.length_ns());
    Parameters { block_bytes, slice_ns, counted }
}

/// What the process has allocated. How long blocks were there is known only if all that was freed
/// was seen, natively, too.
pub fn allocated(
    session: &Session,
    header: &Header,
    found: &Found,
) -> Result<Allocated, RecorderError> {
    let allocated = Allocated::read(session, header)?;
    let unseen = found.monitored.switched.as_ref().is_some_and(|switched| {
        let no_door = header.functions_without_door.load(Relaxed) != 0;
        switched.followed != Followed::All || switched.native_ns > 0 && no_door
    });
    Ok(if unseen { allocated.without_lives() } else { allocated })
}

/// What was counted, by the agent or by the replay of its trace.
pub fn read_counts(
    session: &Session,
    options: SessionOptions,
    found: &Found,
    timeline: &Timeline,
    threads: usize,
) -> Result<Counts, RecorderError> {
    if options.counted == Counted::Reference {
        let none = Replayed::default();
        let own = found.traced.get(session.segment() as usize).map_or(&none, |own| &own.replayed);
        let own = counts_of_replay(own, timeline.joined(), threads);
        return add_shared(own, &found.traced_shared, &session.sharers()?, session, threads);
    }
    if found.monitored.switched.is_some() {
        return Counts::read_windows(session, threads);
    }
    Counts::read(session, threads, timeline.joined())
}

/// What a replay has counted, as if the agent had.
fn counts_of_replay(replayed: &Replayed, joined: u32, threads: usize) -> Counts {
    let known = |id: types::ThreadId| id.index() < threads;
    let mut counts = Counts { joined, ..Counts::default() };
    for cell in &replayed.cells {
        let row = comm_row(cell, joined);
        if known(row.from) && known(row.to) {
            counts.comm.push(row);
        } else {
            counts.damaged += 1;
        }
    }
    let events = replayed.events.iter().map(event_row);
    counts.events.extend(events.filter(|row| known(row.from) && known(row.to)));
    counts
}

/// Adds what the process of `session` has counted in shared memory: events of the thread that
/// reads, or overwrites, or invalidates.
fn add_shared(
    mut counts: Counts,
    traced: &Traced,
    sharers: &[[u32; 3]],
    session: &Session,
    threads: usize,
) -> Result<Counts, RecorderError> {
    let execs = session.header()?.records()[0].execs.load(Relaxed);
    let own = |id: ThreadId| match sharers.get(id.index()) {
        Some([segment, program, thread]) => {
            let own = *segment == session.segment() && *program == execs;
            (own && (*thread as usize) < threads).then_some(ThreadId(*thread))
        }
        None => None,
    };
    for cell in &traced.replayed.cells {
        let mut row = comm_row(cell, counts.joined);
        let Some(side) = side_of(row.kind, own, row.from, row.to) else { continue };
        match ends(own, &mut row.from, &mut row.to, side) {
            true => counts.comm.push(row),
            false => counts.between.comm.push((row, side)),
        }
    }
    for event in &traced.replayed.events {
        let mut row = event_row(event);
        let Some(side) = side_of(row.kind, own, row.from, row.to) else { continue };
        let counting = if side == Side::From { row.from } else { row.to };
        row.line = traced.lines.get(&(counting, row.line)).copied().unwrap_or(row.line);
        match ends(own, &mut row.from, &mut row.to, side) {
            true => counts.events.push(row),
            false => counts.between.events.push((row, side)),
        }
    }
    counts::sum_comm(&mut counts.comm);
    counts::sum_events(&mut counts.events);
    Ok(counts)
}

/// The end of an event that counts it, if that is a thread of the process.
fn side_of(
    kind: CommKind,
    own: impl Fn(ThreadId) -> Option<ThreadId>,
    from: ThreadId,
    to: ThreadId,
) -> Option<Side> {
    match kind {
        CommKind::Invalidation => own(from).map(|_| Side::From),
        _ => own(to).map(|_| Side::To),
    }
}

/// Names the process's own threads in an event as it does; whether both are.
fn ends(
    own: impl Fn(ThreadId) -> Option<ThreadId>,
    from: &mut ThreadId,
    to: &mut ThreadId,
    side: Side,
) -> bool {
    match (own(*from), own(*to)) {
        (Some(first), Some(second)) => {
            (*from, *to) = (first, second);
            true
        }
        (first, second) => {
            match side {
                Side::From => *from = first.unwrap_or(*from),
                Side::To => *to = second.unwrap_or(*to),
            }
            false
        }
    }
}

fn comm_row((cell, &count): (&reference::Cell, &u64), joined: u32) -> CommRow {
    let reference::Cell { slice, kind, sharing, from, to } = *cell;
    let (sampled, evidence) = (None, Evidence::Exact);
    CommRow { slice: slice >> joined, from, to, kind, sharing, count, sampled, evidence }
}

fn event_row((event, sum): (&reference::Event, &reference::EventSum)) -> EventRow {
    let reference::Event { line, kind, sharing, from, to, from_site, to_site } = *event;
    let reference::EventSum { count, from_bytes, to_bytes, streamed } = *sum;
    EventRow {
        line,
        from,
        to,
        kind,
        sharing,
        from_site,
        to_site,
        count,
        from_bytes,
        to_bytes,
        hits: 0,
        evidence: Evidence::Exact,
        object: 0,
        gap: None,
        streamed,
    }
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
