//! Keeps the accesses of a recorded program in a trace (`simulation::TraceWriter`).
//!
//! Neighbours: `reference.rs` reads the accesses from the program's ring and passes them on here;
//! `trace_names.rs` names the code that they come from.

use crate::record::Recording;
use crate::reference::{Filtered, Following, Tee};
use crate::trace_names;
use placement::DataUse;
use reference::What;
use simulation::{Access, TraceEnd, TraceWriter, TracedThread};
use std::fs::File;
use std::io::{self, BufWriter};

/// Ways of the filter where nothing is known of the machines that will be simulated: half of what
/// most innermost caches have.
pub const FILTER_WAYS: u32 = wire::trace::MAX_WAYS;

/// A trace that is being written.
pub struct Trace {
    writer: TraceWriter<BufWriter<File>>,
    /// Accesses of each thread that are in the trace, or that it says were not.
    accounted: Vec<u64>,
    /// Whether accesses come from each code site.
    sites: Vec<bool>,
    filter_ways: u32,
}

impl Trace {
    /// An empty trace in `file`, of at most about `max_bytes`, without what hits in a filter of
    /// `filter_ways` ways.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(file: File, max_bytes: u64, filter_ways: u32) -> io::Result<Self> {
        let writer = TraceWriter::new(BufWriter::with_capacity(1 << 20, file), max_bytes)?;
        Ok(Self { writer, accounted: Vec::new(), sites: Vec::new(), filter_ways })
    }

    /// The same for a trace that is not kept: faster, and larger.
    #[must_use]
    pub fn not_kept(self) -> Self {
        Self { writer: self.writer.without_compression(), ..self }
    }

    /// Has a recording write into the trace.
    pub fn following(&mut self) -> Following<'_> {
        let Self { writer, accounted, sites, .. } = self;
        let tee: Box<Tee<'_>> = Box::new(move |access: &reference::Access, filtered: Filtered| {
            let given = |what, address| Access {
                thread: access.thread.0,
                what,
                address,
                bytes: access.bytes,
                site: access.site,
                skipped: filtered.skipped,
                held: filtered.held,
            };
            if matches!(access.what, What::Read | What::Write) {
                let thread = access.thread.0 as usize;
                if accounted.len() <= thread {
                    accounted.resize(thread + 1, 0);
                }
                accounted[thread] += 1 + filtered.skipped;
                let site = access.site as usize;
                if sites.len() <= site {
                    sites.resize(site + 1, false);
                }
                sites[site] = true;
            }
            match access.what {
                What::Read => writer.access(&given(simulation::What::Read, access.address)),
                What::Write => writer.access(&given(simulation::What::Write, access.address)),
                What::Forget => writer.access(&given(simulation::What::Forget, access.address)),
                What::Copy { to } => {
                    writer.access(&given(simulation::What::Forget, access.address));
                    writer.access(&given(simulation::What::Forget, to));
                }
            }
        });
        Following { only_tee: true, tee: Some(tee) }
    }

    /// Completes the trace with what is known of the recording, and of what lies on pages.
    ///
    /// # Errors
    /// When not even the end can be written, or the recording cannot be read.
    pub fn finish(
        mut self,
        recording: &Recording,
        pages: Option<&DataUse>,
    ) -> io::Result<(File, TraceEnd)> {
        let profile = &recording.profile;
        let sites =
            trace_names::sites(&recording.processes, &self.sites).map_err(io::Error::other)?;
        for (thread, row) in profile.threads.iter().enumerate() {
            let known = self.accounted.get(thread).copied().unwrap_or(0);
            let skipped = (row.loads + row.stores).saturating_sub(known);
            if skipped > 0 {
                let rest = Access::new(thread as u32, simulation::What::Read, 0, 0, 0);
                self.writer.access(&Access { skipped, ..rest });
            }
        }
        let (file, end) = self.writer.finish(|end| {
            end.filter_sets = wire::trace::SETS;
            end.filter_ways = self.filter_ways;
            end.shared_accesses = recording.shared_accesses;
            end.command = profile.meta.command.clone();
            end.threads = profile.threads.iter().map(traced_thread).collect();
            end.sites = sites;
            if let Some(pages) = pages {
                end.name_pages(pages);
            }
        })?;
        Ok((file.into_inner().map_err(io::IntoInnerError::into_error)?, end))
    }
}

fn traced_thread(row: &profile::ThreadRow) -> TracedThread {
    TracedThread {
        name: row.identity.name.clone(),
        instructions: (row.instructions > 0).then_some(row.instructions),
        accesses: row.loads + row.stores,
        start_routine: row.identity.start_routine.clone(),
        parent: row.identity.parent.map(|parent| parent.0),
        ordinal: row.identity.ordinal,
    }
}
