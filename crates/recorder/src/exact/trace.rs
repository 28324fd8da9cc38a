//! Keeps every access of a recorded program in a trace (`simulation::TraceWriter`).
//!
//! Neighbours: `reference.rs` reads the accesses from the program's ring and passes them on here.

use crate::record::Recording;
use crate::reference::{Following, Tee};
use reference::What;
use simulation::{Access, TraceEnd, TraceWriter, TracedThread};
use std::fs::File;
use std::io::{self, BufWriter};

/// A trace that is being written.
pub struct Trace {
    writer: TraceWriter<BufWriter<File>>,
}

impl Trace {
    /// An empty trace in `file`, of at most about `max_bytes`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(file: File, max_bytes: u64) -> io::Result<Self> {
        let writer = TraceWriter::new(BufWriter::with_capacity(1 << 20, file), max_bytes)?;
        Ok(Self { writer })
    }

    /// Has a recording by reference write into the trace, and count nothing unless it `counts`.
    pub fn following(&mut self, counts: bool) -> Following<'_> {
        let writer = &mut self.writer;
        let tee: Box<Tee<'_>> = Box::new(move |access: &reference::Access| {
            let given = |what, address| Access {
                thread: access.thread.0,
                what,
                address,
                bytes: access.bytes,
                site: access.site,
            };
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
        Following { only_tee: !counts, tee: Some(tee) }
    }

    /// Completes the trace with what is known of the recording.
    ///
    /// # Errors
    /// When not even the end can be written.
    pub fn finish(self, recording: &Recording) -> io::Result<(File, TraceEnd)> {
        let (file, end) = self.writer.finish(|end| {
            let profile = &recording.profile;
            end.shared_accesses = recording.shared_accesses;
            end.command = profile.meta.command.clone();
            end.threads = profile.threads.iter().map(traced_thread).collect();
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
