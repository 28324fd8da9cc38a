//! The tables of a profile as CSV and JSON, for what reads no Parquet.
//!
//! Names and meanings are those of the profile's schema (`profile::schema`), with two differences
//! that suit text: addresses are hexadecimal (`0x4040c0`; JSON numbers lose digits beyond 2^53),
//! and sets of bytes come as ranges of offsets (`0-7 16`, in `…_bytes`) and as a bit set (`0x…`, in
//! `…_mask`). CSV is RFC 4180: a line of names first, fields with commas, quotes or line breaks in
//! quotes, lines ended by CR LF. JSON is an array of objects, one a line.

use super::rows::{Field, Rows, TableFormat};
use super::{flows, objects, pages};
use crate::lines::{Bytes, events_of};
use profile::Profile;
use std::cmp::Reverse;
use std::io::{self, Write};

/// A table of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProfileTable {
    /// Threads.
    Threads,
    /// Time slices.
    Slices,
    /// What each thread executed in each time slice.
    Activity,
    /// Where each thread ran in each time slice.
    Running,
    /// Events by time slice, threads, kind and sharing.
    Comm,
    /// Code sites.
    Sites,
    /// What memory with events was for.
    Objects,
    /// The single blocks and variables.
    Blocks,
    /// What their elements consist of.
    Fields,
    /// Most events first.
    Lines,
    /// Events by cache line, code sites and threads.
    Events,
    /// Events by thread and object over time.
    Flow,
    /// How the threads use each object.
    Usage,
    /// How the program came to code sites.
    Calls,
    /// Pages of memory and who touched them first.
    Pages,
    /// Accesses to pages by time and thread.
    Accesses,
    /// Lines of pages that threads accessed.
    Touched,
    /// How often threads come back to lines.
    Returns,
    /// How much memory threads come to in as long as a gap.
    Footprints,
}

impl ProfileTable {
    /// All tables.
    pub const ALL: [ProfileTable; 19] = [
        ProfileTable::Objects,
        ProfileTable::Blocks,
        ProfileTable::Fields,
        ProfileTable::Usage,
        ProfileTable::Flow,
        ProfileTable::Lines,
        ProfileTable::Sites,
        ProfileTable::Calls,
        ProfileTable::Events,
        ProfileTable::Comm,
        ProfileTable::Slices,
        ProfileTable::Activity,
        ProfileTable::Running,
        ProfileTable::Threads,
        ProfileTable::Pages,
        ProfileTable::Accesses,
        ProfileTable::Touched,
        ProfileTable::Returns,
        ProfileTable::Footprints,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProfileTable::Threads => "threads",
            ProfileTable::Slices => "slices",
            ProfileTable::Activity => "activity",
            ProfileTable::Running => "running",
            ProfileTable::Comm => "comm",
            ProfileTable::Sites => "sites",
            ProfileTable::Objects => "objects",
            ProfileTable::Blocks => "blocks",
            ProfileTable::Fields => "fields",
            ProfileTable::Lines => "lines",
            ProfileTable::Events => "events",
            ProfileTable::Flow => "flow",
            ProfileTable::Usage => "usage",
            ProfileTable::Calls => "calls",
            ProfileTable::Pages => "pages",
            ProfileTable::Accesses => "accesses",
            ProfileTable::Touched => "touched",
            ProfileTable::Returns => "returns",
            ProfileTable::Footprints => "footprints",
        }
    }

    /// What it holds, as a phrase.
    pub fn summary(self) -> &'static str {
        match self {
            ProfileTable::Threads => "the threads",
            ProfileTable::Slices => "bounds of the time slices",
            ProfileTable::Activity => {
                "instructions, loads and stores of each thread in each time slice"
            }
            ProfileTable::Running => {
                "PUs on which each thread ran in each time slice, and how long"
            }
            ProfileTable::Comm => "the matrices as a list, by time slice, kind and sharing",
            ProfileTable::Sites => "instructions in events, with function, file and line",
            ProfileTable::Objects => "variables, allocated memory and other objects with events",
            ProfileTable::Blocks => "where allocated blocks and variables with events were",
            ProfileTable::Fields => "fields of the objects whose type is known",
            ProfileTable::Lines => "shared cache lines, most events first",
            ProfileTable::Events => "events by cache line, threads and code sites, with the bytes",
            ProfileTable::Flow => "which thread took which object when, from whom, by time",
            ProfileTable::Usage => "how threads use each object: how often, at once, remotely",
            ProfileTable::Calls => "call paths of code sites with events, sampled",
            ProfileTable::Pages => "pages of memory: what lies there, and who touched them first",
            ProfileTable::Accesses => "reads and writes of pages by time and thread",
            ProfileTable::Touched => "which lines of a page each thread accessed",
            ProfileTable::Returns => "how often threads come back to shared lines, a sample",
            ProfileTable::Footprints => "how much memory threads come to in as long as a gap",
        }
    }
}

/// Writes one table.
///
/// # Errors
/// Those of `out`.
pub fn write_table(
    profile: &Profile,
    table: ProfileTable,
    format: TableFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut rows = Rows::new(table.names(), format, out);
    rows.start()?;
    match table {
        ProfileTable::Threads => threads(profile, &mut rows),
        ProfileTable::Slices => slices(profile, &mut rows),
        ProfileTable::Activity => activity(profile, &mut rows),
        ProfileTable::Running => running(profile, &mut rows),
        ProfileTable::Comm => comm(profile, &mut rows),
        ProfileTable::Sites => sites(profile, &mut rows),
        ProfileTable::Objects => objects::objects(profile, &mut rows),
        ProfileTable::Blocks => objects::blocks(profile, &mut rows),
        ProfileTable::Fields => objects::fields(profile, &mut rows),
        ProfileTable::Lines => lines(profile, &mut rows),
        ProfileTable::Events => events(profile, &mut rows),
        ProfileTable::Flow => flows::flow(profile, &mut rows),
        ProfileTable::Usage => flows::usage(profile, &mut rows),
        ProfileTable::Calls => calls(profile, &mut rows),
        ProfileTable::Pages => pages::pages(profile, &mut rows),
        ProfileTable::Accesses => pages::accesses(profile, &mut rows),
        ProfileTable::Touched => pages::touched(profile, &mut rows),
        ProfileTable::Returns => returns(profile, &mut rows),
        ProfileTable::Footprints => footprints(profile, &mut rows),
    }?;
    rows.finish()
}

impl ProfileTable {
    /// The columns, in order.
    #[allow(clippy::too_many_lines, reason = "a table")]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            ProfileTable::Threads => &[
                "thread",
                "parent",
                "start_routine",
                "start_symbol",
                "ordinal",
                "name",
                "os_tid",
                "started_ns",
                "ended_ns",
                "instructions",
                "loads",
                "stores",
                "cpu_ns",
            ],
            ProfileTable::Slices => &["slice", "start_ns", "end_ns"],
            ProfileTable::Activity => &["slice", "thread", "instructions", "loads", "stores"],
            ProfileTable::Running => &["slice", "thread", "pu", "cpu_ns", "waited_ns"],
            ProfileTable::Comm => &[
                "slice", "from", "to", "kind", "sharing", "count", "hits", "low", "high",
                "evidence",
            ],
            ProfileTable::Sites => {
                &["site", "address", "module", "offset", "function", "file", "line", "inlined"]
            }
            ProfileTable::Calls => &["site", "path", "count"],
            ProfileTable::Objects => &objects::OBJECTS,
            ProfileTable::Blocks => &objects::BLOCKS,
            ProfileTable::Fields => &objects::FIELDS,
            ProfileTable::Flow => &flows::FLOW,
            ProfileTable::Usage => &flows::USAGE,
            ProfileTable::Pages => &pages::PAGES,
            ProfileTable::Accesses => &pages::ACCESSES,
            ProfileTable::Touched => &pages::TOUCHED,
            ProfileTable::Returns => &["line", "thread", "returns", "writes", "instructions"],
            ProfileTable::Footprints => &["thread", "gap", "bytes", "windows"],
            ProfileTable::Lines => &[
                "line",
                "region",
                "object",
                "writers",
                "readers",
                "raw_true",
                "raw_false",
                "raw_any",
                "waw_true",
                "waw_false",
                "waw_any",
                "hits",
                "evidence",
            ],
            ProfileTable::Events => &[
                "line",
                "from",
                "to",
                "kind",
                "sharing",
                "from_site",
                "to_site",
                "count",
                "from_bytes",
                "from_mask",
                "to_bytes",
                "to_mask",
                "hits",
                "evidence",
                "object",
                "gap",
                "streamed",
            ],
        }
    }
}

fn threads(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.threads {
        rows.row(&[
            row.id.0.into(),
            row.identity.parent.map_or(Field::Nothing, |parent| parent.0.into()),
            (&row.identity.start_routine).into(),
            (&row.start_symbol).into(),
            row.identity.ordinal.into(),
            (&row.identity.name).into(),
            row.os_tid.into(),
            row.started_ns.into(),
            row.ended_ns.into(),
            row.instructions.into(),
            row.loads.into(),
            row.stores.into(),
            row.cpu_ns.into(),
        ])?;
    }
    Ok(())
}

fn slices(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for (slice, row) in profile.slices.iter().enumerate() {
        rows.row(&[(slice as u64).into(), row.start_ns.into(), row.end_ns.into()])?;
    }
    Ok(())
}

fn activity(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.activity {
        rows.row(&[
            row.slice.into(),
            row.thread.0.into(),
            row.instructions.into(),
            row.loads.into(),
            row.stores.into(),
        ])?;
    }
    Ok(())
}

fn running(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.running {
        rows.row(&[
            row.slice.into(),
            row.thread.0.into(),
            row.pu.into(),
            row.cpu_ns.into(),
            row.waited_ns.into(),
        ])?;
    }
    Ok(())
}

fn comm(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.comm {
        rows.row(&[
            row.slice.into(),
            row.from.0.into(),
            row.to.0.into(),
            row.kind.name().into(),
            row.sharing.name().into(),
            row.count.into(),
            row.sampled.map_or(0, |sampled| sampled.hits).into(),
            row.sampled.map_or(row.count, |sampled| sampled.low).into(),
            row.sampled.map_or(row.count, |sampled| sampled.high).into(),
            row.evidence.name().into(),
        ])?;
    }
    Ok(())
}

fn sites(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for (site, row) in profile.sites.iter().enumerate() {
        rows.row(&[
            (site as u64).into(),
            format!("{:#x}", row.address).into(),
            (&row.module).into(),
            format!("{:#x}", row.offset).into(),
            (&row.function).into(),
            (&row.file).into(),
            row.line.into(),
            (&row.inlined).into(),
        ])?;
    }
    Ok(())
}

fn calls(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.calls {
        rows.row(&[row.site.into(), (&row.path).into(), row.count.into()])?;
    }
    Ok(())
}

fn lines(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    let mut lines: Vec<_> = profile.lines.iter().collect();
    lines.sort_by_key(|row| (Reverse(events_of(row)), row.line));
    for row in lines {
        rows.row(&[
            format!("{:#x}", row.line).into(),
            (&row.region).into(),
            (&row.object).into(),
            row.writers.into(),
            row.readers.into(),
            row.raw_true.into(),
            row.raw_false.into(),
            row.raw_any.into(),
            row.waw_true.into(),
            row.waw_false.into(),
            row.waw_any.into(),
            row.hits.into(),
            row.evidence.to_string().into(),
        ])?;
    }
    Ok(())
}

fn events(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.events {
        let (from, to) = (Bytes(row.from_bytes), Bytes(row.to_bytes));
        rows.row(&[
            format!("{:#x}", row.line).into(),
            row.from.0.into(),
            row.to.0.into(),
            row.kind.name().into(),
            row.sharing.name().into(),
            row.from_site.into(),
            row.to_site.into(),
            row.count.into(),
            from.ranges().into(),
            from.mask().into(),
            to.ranges().into(),
            to.mask().into(),
            row.hits.into(),
            row.evidence.name().into(),
            row.object.into(),
            row.gap.map_or(0, |gap| u32::from(gap.number())).into(),
            row.streamed.into(),
        ])?;
    }
    Ok(())
}

fn returns(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.returns {
        rows.row(&[
            format!("{:#x}", row.line).into(),
            row.thread.0.into(),
            row.returns.into(),
            row.writes.into(),
            row.instructions.into(),
        ])?;
    }
    Ok(())
}

fn footprints(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.footprints {
        rows.row(&[
            row.thread.0.into(),
            u32::from(row.gap.number()).into(),
            row.bytes.into(),
            row.windows.into(),
        ])?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
