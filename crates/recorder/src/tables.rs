//! The tables of a profile that come from counting: slices, activity, matrices, sites, objects,
//! lines, events.
//!
//! Neighbours: `counts` sums what the agent counted, or `reference` replays it; `timeline` says
//! when; `places` says what lies at addresses; `collect` puts the tables into a profile.

use crate::collect::Found;
use crate::counts::{self, Counts};
use crate::error::RecorderError;
use crate::objects::{self, Allocated};
use crate::places::Places;
use crate::session::{RawModule, RawThread, Session, SessionOptions};
use crate::timeline::{Timeline, activity_rows, join_samples};
use crate::windowed::{self, Windowed};
use profile::{
    ActivityRow, CommRow, Counted, EventRow, LineRow, ObjectRow, Parameters, SiteRow, SliceRow,
    ThreadRow,
};
use reference::Tally;
use std::sync::atomic::Ordering::Relaxed;
use types::Evidence;
use wire::session::{Header, mode};

/// The tables, and what the counts in them depend on.
pub struct Tables {
    pub parameters: Parameters,
    pub slices: Vec<SliceRow>,
    pub activity: Vec<ActivityRow>,
    pub comm: Vec<CommRow>,
    pub sites: Vec<SiteRow>,
    pub objects: Vec<ObjectRow>,
    pub lines: Vec<LineRow>,
    pub events: Vec<EventRow>,
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
        let mut counts = read_counts(session, options, found, timeline, threads.len())?;
        // The counts may be coarser than the timeline.
        let mut timeline = timeline.clone();
        let coarser = counts.joined - timeline.joined();
        (0..coarser).for_each(|_| timeline.join());
        let seen = found.watched.processes.get(session.segment() as usize);
        let mut samples = seen.map(|seen| seen.samples.clone()).unwrap_or_default();
        join_samples(&mut samples, coarser);

        let start_ns = threads.first().map_or(0, |thread| thread.started_ns);
        let end_ns = threads.iter().map(|thread| thread.ended_ns).max().unwrap_or(start_ns);
        let windowed = found.watched.switched.as_ref().map(|switched| {
            windowed::estimate(&mut counts, &mut samples, &mut timeline, switched, end_ns)
        });
        let (first, slices) = timeline.between(start_ns, end_ns);
        let last = slices.len() as u32 - 1;
        let slice_of = |slice: u32| slice.saturating_sub(first).min(last);
        let activity = activity_rows(&samples, threads, |ns| slice_of(timeline.at(ns)), slice_of);
        counts.comm.iter_mut().for_each(|row| row.slice = slice_of(row.slice));
        counts::sum_comm(&mut counts.comm);

        let regions = seen.map(|seen| &seen.regions);
        // Without events there is nothing to name, and no file to read.
        let modules = if counts.events.is_empty() { &[] } else { modules };
        let mut places = Places::new(modules, raw, regions, &found.resolver);
        let addresses = session.sites(header.sites.load(Relaxed) as usize + 1)?;
        let mut sites = places.sites(&addresses, &mut counts.events);
        counts::sum_events(&mut counts.events);
        let allocated = Allocated::read(session, header)?;
        let (objects, texts) =
            objects::name(&mut counts.events, &allocated, &mut places, &mut sites);
        counts::sum_events(&mut counts.events);
        let lines = places.lines(&counts.events, &texts);
        let slice_ns = timeline.length_ns();
        let counted = match header.mode.load(Relaxed) {
            // The blocks are too large for more.
            mode::MATRIX => Counted::Matrix,
            _ => options.counted,
        };
        let parameters = Parameters { block_bytes: options.block_bytes, slice_ns, counted };
        let Counts { comm, events, damaged, .. } = counts;
        Ok(Self {
            parameters,
            slices,
            activity,
            comm,
            sites,
            objects,
            lines,
            events,
            damaged,
            windowed,
        })
    }
}

/// What was counted, by the agent or by the replay of its trace.
fn read_counts(
    session: &Session,
    options: SessionOptions,
    found: &Found,
    timeline: &Timeline,
    threads: usize,
) -> Result<Counts, RecorderError> {
    if options.counted == Counted::Reference {
        let tally = found.traced.get(session.segment() as usize).map(|traced| &traced.tally);
        let none = Tally::default();
        let counts = counts_of_tally(tally.unwrap_or(&none), timeline.joined(), threads);
        return Ok(counts);
    }
    if found.watched.switched.is_some() {
        return Counts::read_unjoined(session, threads);
    }
    Counts::read(session, threads, timeline.joined())
}

/// What a replay has counted, as if the agent had.
fn counts_of_tally(tally: &Tally, joined: u32, threads: usize) -> Counts {
    let known = |id: types::ThreadId| id.index() < threads;
    let mut counts = Counts { joined, ..Counts::default() };
    for (cell, &count) in &tally.cells {
        let reference::Cell { slice, kind, sharing, from, to } = *cell;
        if known(from) && known(to) {
            let slice = slice >> joined;
            let (sampled, evidence) = (None, Evidence::Exact);
            let row = CommRow { slice, from, to, kind, sharing, count, sampled, evidence };
            counts.comm.push(row);
        } else {
            counts.damaged += 1;
        }
    }
    for (event, sum) in &tally.events {
        let reference::Event { line, kind, sharing, from, to, from_site, to_site } = *event;
        let reference::EventSum { count, from_bytes, to_bytes } = *sum;
        if known(from) && known(to) {
            counts.events.push(EventRow {
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
            });
        }
    }
    counts
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
