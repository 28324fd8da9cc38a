//! Keeps the accesses of a recorded program and of its child processes, each in a trace of its own
//! (`simulation::TraceWriter`).
//!
//! Neighbours: `reference.rs` reads the accesses from the processes' rings and passes them on here;
//! `trace_names.rs` names the code that they come from.

use crate::child::{Ended, Ending};
use crate::record::Recording;
use crate::reference::{Filtered, Following, Seen, Tee};
use crate::signals::signal_name;
use crate::trace_names;
use placement::DataUse;
use profile::Profile;
use reference::What;
use simulation::{Access, Part, Room, TraceEnd, TraceWriter, TracedThread};
use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;

pub use wire::trace::Filter;

/// Where nothing is known of the machines that will be simulated: half the ways that most innermost
/// caches have.
pub const FOR_ANY_MACHINE: Filter = Filter { ways: 4, lines: 4 };

/// Traces that are written at the same time, at most: of more processes, the one that has been
/// quiet for longest loses its trace.
const MAX_OPEN: usize = 64;

/// Makes the file for the trace of a process, by its number.
type Begin<'a> = dyn FnMut(u32) -> io::Result<File> + Send + 'a;

/// How traces are written.
struct Writing<'a> {
    begin: Box<Begin<'a>>,
    room: Arc<Room>,
    filter: Filter,
    compresses: bool,
}

/// The trace of a process.
enum OfProcess {
    /// It has made no access yet.
    None,
    Open(Box<Trace>),
    /// It is not kept. At least that many accesses were made by the process.
    GivenUp(u64),
}

/// Traces that are being written, by the numbers of their processes.
pub struct Traces<'a> {
    writing: Writing<'a>,
    processes: Vec<OfProcess>,
    /// Goes up with each access.
    time: u64,
    /// Why the first trace that could not be begun has no file.
    problem: Option<io::Error>,
}

/// A trace that is being written.
pub struct Trace {
    writer: TraceWriter<BufWriter<File>>,
    /// Accesses of each thread that are in the trace, or that it says were not.
    accounted: Vec<u64>,
    /// Whether accesses come from each code site.
    sites: Vec<bool>,
    /// Whether there are times in which accesses were not observed.
    has_windows: bool,
    filter: Filter,
    /// When the last access was made.
    last: u64,
}

impl<'a> Traces<'a> {
    /// Traces in files that `begin` makes, together of at most about `max_bytes`, without what
    /// `filter` leaves out. That of the first process is made at once.
    ///
    /// # Errors
    /// When its file cannot be written.
    pub fn new(
        max_bytes: u64,
        filter: Filter,
        begin: impl FnMut(u32) -> io::Result<File> + Send + 'a,
    ) -> io::Result<Self> {
        let room = Arc::new(Room::new(max_bytes));
        let mut writing = Writing { begin: Box::new(begin), room, filter, compresses: true };
        let processes = vec![OfProcess::Open(Box::new(writing.begin(0)?))];
        Ok(Self { writing, processes, time: 0, problem: None })
    }

    /// The same for traces that are not kept: faster, and larger.
    #[must_use]
    pub fn not_kept(mut self) -> Self {
        self.writing.compresses = false;
        for process in &mut self.processes {
            if let OfProcess::Open(trace) = std::mem::replace(process, OfProcess::None) {
                let writer = trace.writer.without_compression();
                *process = OfProcess::Open(Box::new(Trace { writer, ..*trace }));
            }
        }
        self
    }

    /// Has a recording write into the traces.
    pub fn following(&mut self) -> Following<'_> {
        let tee: Box<Tee<'_>> = Box::new(|process, access, filtered| {
            self.time += 1;
            match self.of(process) {
                OfProcess::Open(_) => {}
                OfProcess::GivenUp(accesses) => return *accesses += 1,
                OfProcess::None => self.begin(process),
            }
            let time = self.time;
            if let OfProcess::Open(trace) = self.of(process) {
                trace.last = time;
                trace.access(access, filtered);
            }
        });
        Following { only_tee: true, tee: Some(tee) }
    }

    fn of(&mut self, process: u32) -> &mut OfProcess {
        let index = process as usize;
        if self.processes.len() <= index {
            self.processes.resize_with(index + 1, || OfProcess::None);
        }
        &mut self.processes[index]
    }

    /// Begins the trace of a process, which has none.
    fn begin(&mut self, process: u32) {
        self.make_room();
        *self.of(process) = match self.writing.begin(process) {
            Ok(trace) => OfProcess::Open(Box::new(trace)),
            Err(error) => {
                self.problem.get_or_insert(error);
                OfProcess::GivenUp(1)
            }
        };
    }

    /// With as many traces as there may be, gives one up: that of the process that has been quiet
    /// for longest, but never the largest.
    fn make_room(&mut self) {
        let open: Vec<(u64, u64, usize)> = (self.processes.iter().enumerate())
            .filter_map(|(number, process)| match process {
                OfProcess::Open(trace) => Some((trace.last, trace.accesses(), number)),
                _ => None,
            })
            .collect();
        let largest = open.iter().map(|trace| trace.1).max();
        let quiet = open.iter().filter(|trace| Some(trace.1) != largest).min();
        if let Some(&(_, accesses, number)) = quiet.filter(|_| open.len() >= MAX_OPEN) {
            self.processes[number] = OfProcess::GivenUp(accesses);
        }
    }

    /// Why some processes have no trace; a sentence's part.
    pub fn why_not_traced(&self) -> String {
        match &self.problem {
            Some(error) => format!("no file could be made for them ({error})"),
            None => format!("only {MAX_OPEN} processes are traced at a time"),
        }
    }

    /// Accesses that processes made which have no trace.
    pub fn not_traced(&self) -> u64 {
        let given = |process: &OfProcess| match process {
            OfProcess::GivenUp(accesses) => *accesses,
            _ => 0,
        };
        self.processes.iter().map(given).sum()
    }

    /// The traces with the numbers of their processes.
    pub fn into_traces(self) -> impl Iterator<Item = (u32, Trace)> {
        let open = |(number, process)| match process {
            OfProcess::Open(trace) => Some((number as u32, *trace)),
            _ => None,
        };
        self.processes.into_iter().enumerate().filter_map(open)
    }
}

impl Writing<'_> {
    fn begin(&mut self, process: u32) -> io::Result<Trace> {
        // There may be many of the others.
        let buffer = if process == 0 { 1 << 20 } else { 1 << 16 };
        let file = BufWriter::with_capacity(buffer, (self.begin)(process)?);
        let writer = TraceWriter::sharing(file, self.room.clone())?;
        let writer = if self.compresses { writer } else { writer.without_compression() };
        let (accounted, sites, has_windows) = Default::default();
        let filter = self.filter;
        let writer = if filter.is_cache() { writer.with_ways(filter.lines) } else { writer };
        Ok(Trace { writer, accounted, sites, has_windows, filter, last: 0 })
    }
}

impl Trace {
    /// Accesses of the process, those among them that are not in the trace.
    pub fn accesses(&self) -> u64 {
        self.accounted.iter().sum()
    }

    fn access(&mut self, access: &reference::Access, filtered: Filtered) {
        if let Some(window) = filtered.window {
            return self.window(access.thread.0, window, filtered.skipped);
        }
        let given = |what, address| Access {
            thread: access.thread.0,
            what,
            address,
            bytes: access.bytes,
            site: access.site,
            skipped: filtered.skipped,
            held: filtered.held,
            ways: filtered.ways,
        };
        if matches!(access.what, What::Read | What::Write) {
            self.account(access.thread.0, 1 + filtered.skipped);
            let site = access.site as usize;
            if self.sites.len() <= site {
                self.sites.resize(site + 1, false);
            }
            self.sites[site] = true;
        }
        let writer = &mut self.writer;
        match access.what {
            What::Read => writer.access(&given(simulation::What::Read, access.address)),
            What::Write => writer.access(&given(simulation::What::Write, access.address)),
            What::Forget => writer.access(&given(simulation::What::Forget, access.address)),
            What::Copy { to } => {
                writer.access(&given(simulation::What::Forget, access.address));
                writer.access(&given(simulation::What::Forget, to));
            }
        }
    }

    /// A thread is observed in another way from here on, after accesses that are not in the trace.
    fn window(&mut self, thread: u32, (window, how): (u64, Seen), skipped: u64) {
        self.has_windows = true;
        self.account(thread, skipped);
        let part = match how {
            Seen::Not => Part::Unseen,
            Seen::WarmUp => Part::WarmUp,
            Seen::Counted => Part::Counted,
        };
        self.writer.access(&Access { skipped, ..Access::window(thread, window, part) });
    }

    fn account(&mut self, thread: u32, accesses: u64) {
        let thread = thread as usize;
        if self.accounted.len() <= thread {
            self.accounted.resize(thread + 1, 0);
        }
        self.accounted[thread] += accesses;
    }

    /// Completes the trace of a process with what is known of the recording, the process's profile,
    /// and what lies on pages.
    ///
    /// # Errors
    /// When not even the end can be written, or the recording cannot be read.
    pub fn finish(
        mut self,
        recording: &Recording,
        (process, profile): (u32, &Profile),
        pages: Option<&DataUse>,
    ) -> io::Result<(File, TraceEnd)> {
        let sites = trace_names::sites(&recording.processes, process, &self.sites)
            .map_err(io::Error::other)?;
        // With windows, what is not in the trace was mostly not observed.
        let rows = profile.threads.iter().enumerate().filter(|_| !self.has_windows);
        for (thread, row) in rows {
            let known = self.accounted.get(thread).copied().unwrap_or(0);
            let skipped = (row.loads + row.stores).saturating_sub(known);
            if skipped > 0 {
                let rest = Access::new(thread as u32, simulation::What::Read, 0, 0, 0);
                self.writer.access(&Access { skipped, ..rest });
            }
        }
        let (file, end) = self.writer.finish(|end| {
            end.cut = end.cut.take().or_else(|| cut_short(&recording.ended));
            end.windows = self.has_windows;
            end.filter_sets = wire::trace::SETS;
            end.filter_ways = self.filter.ways;
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

/// Why the run was not a whole one, if it was not.
fn cut_short(ended: &Ended) -> Option<String> {
    match (ended.interrupted, ended.ending) {
        (Some(signal), _) => Some(format!("the program was interrupted ({})", signal_name(signal))),
        (None, Ending::Killed(signal)) => {
            Some(format!("the program was killed ({})", signal_name(signal)))
        }
        (None, Ending::Exited(_)) => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use types::ThreadId;

    #[test]
    fn the_process_that_was_quiet_for_longest_loses_its_trace_but_not_the_largest() {
        let mut traces =
            Traces::new(u64::MAX, Filter::of_ways(1), |_| File::create("/dev/null")).unwrap();
        let mut following = traces.following();
        let tee = following.tee.as_mut().unwrap();
        let (thread, what) = (ThreadId(0), What::Read);
        let access = reference::Access { thread, what, address: 64, bytes: 8, site: 1 };
        let mut does = |process, times| {
            (0..times).for_each(|_| tee(process, &access, Filtered::default()));
        };
        does(0, 9);
        does(1, 2);
        (2..MAX_OPEN as u32 + 1).for_each(|process| does(process, 1));
        // One more than there is room for: 0 is the largest, and 1 the next that was quiet.
        does(1, 3);
        drop(following);
        assert_eq!(traces.not_traced(), 5);
        let kept: Vec<(u32, u64)> =
            traces.into_traces().map(|(number, trace)| (number, trace.accesses())).collect();
        assert_eq!(kept.len(), MAX_OPEN);
        assert_eq!(kept[..2], [(0, 9), (2, 1)]);
    }
}
