//! Hot lines: the lines of memory on which threads meet, the hottest first, with who does what to
//! which of their bytes from where. What `perf c2c report` samples, counted.
//!
//! Problem: of maybe a hundred thousand lines with events, show the few that matter. **Events**
//! here are RAW and WAW events: the two ways in which a thread takes a line from another one. Every
//! event has a side that *gives* (the write that made the line the giver's) and a side that *takes*
//! (the read or write that fetched it). Sharing is true when the bytes taken overlap those that the
//! giver had written, else false. Neighbours: `findings` holds the result; `lines/access.rs` sums
//! up the events of a line, `lines/place.rs` names code, `lines/bytes.rs` bytes; `causes` says
//! what follows.

mod access;
mod bytes;
mod place;

pub use access::{Access, AccessKind, ByteUse};
pub use bytes::Bytes;
pub use place::Place;
pub(crate) use place::{base_name, short_name};

use crate::evidence::{self, EvidenceShare};
use crate::lines::access::LineEvents;
use profile::{EventRow, LineRow, Mode, Profile};
use serde::Serialize;
use std::cmp::Reverse;
use ts_rs::TS;
use types::CommKind;

/// The lines of memory on which threads met.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Lines {
    /// Lines with events that the profile knows; `list` holds the hottest of them.
    pub all: u64,
    /// RAW and WAW events of the whole profile.
    pub events: u64,
    /// Events on no line of the profile: there were too many lines to keep them apart.
    pub elsewhere: u64,
    /// Share of `events` on the lines of `list`, 0 to 1.
    pub listed_share: f64,
    /// Most events first.
    pub list: Vec<HotLine>,
}

/// One line of memory.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct HotLine {
    /// Address of its first byte, `0x4040c0`.
    pub address: String,
    /// What kind of memory it lies in: `static`, `heap`, `stack` and so on.
    pub region: String,
    /// The symbols in it with the offsets that the line covers, or empty.
    pub object: String,
    /// RAW and WAW events.
    pub events: u64,
    /// Share of all RAW and WAW events of the profile, 0 to 1.
    pub share: f64,
    /// Samples that showed one of the events; `None`: they were counted.
    pub hits: Option<u64>,
    /// What shows the events.
    pub evidence: Vec<EvidenceShare>,
    /// Events by sharing: reads of what another thread wrote, and writes over it.
    pub raw: Split,
    /// WAW events.
    pub waw: Split,
    /// What the code does to it, the most events first.
    pub accesses: Vec<Access>,
    /// What each thread does to it, ordered by id.
    pub threads: Vec<ByteUse>,
}

/// Events by sharing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, TS)]
pub struct Split {
    /// Events with true sharing.
    #[serde(rename = "true")]
    pub truly: u64,
    /// Events with false sharing.
    #[serde(rename = "false")]
    pub falsely: u64,
    /// Not told apart.
    pub unknown: u64,
}

impl Split {
    /// All events, also those whose sharing is not known.
    pub fn total(&self) -> u64 {
        self.truly.saturating_add(self.falsely).saturating_add(self.unknown)
    }
}

impl HotLine {
    /// Events with false sharing.
    pub fn falsely(&self) -> u64 {
        self.raw.falsely.saturating_add(self.waw.falsely)
    }

    /// Events with true sharing.
    pub fn truly(&self) -> u64 {
        self.raw.truly.saturating_add(self.waw.truly)
    }

    /// `counters+0x40..0x80 (app)`, or what is known instead.
    pub fn name(&self) -> &str {
        if self.object.is_empty() { &self.region } else { &self.object }
    }
}

/// The `most` hottest lines of a profile; `None` when it was recorded without lines.
pub(crate) fn lines(profile: &Profile, most: usize) -> Option<Lines> {
    if profile.lines.is_empty() {
        return None;
    }
    let ranked = hottest(profile);
    let totals = &profile.meta.totals;
    let on_lines = ranked.iter().map(|line| events_of(line)).fold(0, u64::saturating_add);
    let events = totals.raw.saturating_add(totals.waw).max(on_lines);
    let share = |count: u64| if events > 0 { count as f64 / events as f64 } else { 0.0 };
    let list: Vec<HotLine> =
        ranked.iter().take(most).map(|row| hot_line(profile, row, share(events_of(row)))).collect();
    Some(Lines {
        all: ranked.len() as u64,
        events,
        elsewhere: events - on_lines,
        listed_share: list.iter().map(|line| line.share).sum(),
        list,
    })
}

/// The lines with events, most events first, equal ones by address; without the line 0, which
/// stands for those that were not kept.
pub(crate) fn hottest(profile: &Profile) -> Vec<&LineRow> {
    let known = profile.lines.iter().filter(|row| row.line != 0 && events_of(row) > 0);
    let mut ranked: Vec<&LineRow> = known.collect();
    ranked.sort_by_key(|row| (Reverse(events_of(row)), row.line));
    ranked
}

/// RAW and WAW events of a line.
pub(crate) fn events_of(row: &LineRow) -> u64 {
    raw_of(row).total().saturating_add(waw_of(row).total())
}

pub(crate) fn raw_of(row: &LineRow) -> Split {
    Split { truly: row.raw_true, falsely: row.raw_false, unknown: row.raw_any }
}

pub(crate) fn waw_of(row: &LineRow) -> Split {
    Split { truly: row.waw_true, falsely: row.waw_false, unknown: row.waw_any }
}

/// Whether an event takes a line from one thread to another.
pub(crate) fn moves_a_line(event: &EventRow) -> bool {
    matches!(event.kind, CommKind::Raw | CommKind::Waw)
}

/// The events of one line; the table is ordered by line.
pub(crate) fn events_on(profile: &Profile, line: u64) -> &[EventRow] {
    let start = profile.events.partition_point(|event| event.line < line);
    let length = profile.events[start..].partition_point(|event| event.line == line);
    &profile.events[start..start + length]
}

fn hot_line(profile: &Profile, row: &LineRow, share: f64) -> HotLine {
    let mut sums = LineEvents::new(&profile.sites);
    let events = events_on(profile, row.line);
    events.iter().for_each(|event| sums.add(event));
    let moving = events.iter().filter(|event| moves_a_line(event));
    let (accesses, threads) = sums.finish();
    HotLine {
        address: format!("{:#x}", row.line),
        region: row.region.clone(),
        object: row.object.clone(),
        events: events_of(row),
        share,
        hits: (profile.meta.mode != Mode::Exact).then_some(row.hits),
        evidence: evidence::of_events(moving),
        raw: raw_of(row),
        waw: waw_of(row),
        accesses,
        threads,
    }
}

#[cfg(test)]
mod tests;
