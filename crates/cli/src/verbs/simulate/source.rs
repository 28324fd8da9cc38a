//! Where the accesses come from: the program, run under the exact engine, or a file.

use crate::said::{refuse, say};
use crate::traces::IN_PROFILE;
use crate::verbs::record;
use anyhow::{Context, bail};
use profile::Counted;
use profile::schema::PROCESSES_FOLDER;
use recorder::record::{Recording, Wishes};
use recorder::session::SessionOptions;
use recorder::trace::{Filter, Trace, Traces};
use recorder::{Streams, Target};
use simulation::{Stream, ThreadFacts, TraceEnd, TraceReader, TraceWriter, is_trace, read_text};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, IntoInnerError};
use std::path::{Path, PathBuf};
use windows::Dial;

/// A part of the accesses that need not be missed.
const LITTLE: f64 = 0.005;

/// What fails when there is no room for accesses that are read several times.
const KEEP: &str = "cannot keep the accesses in the folder for temporary files (TMPDIR)";

/// Accesses that can be read several times.
pub struct Source {
    reader: TraceReader<BufReader<File>>,
    /// What is not among them, in a sentence.
    note: Option<String>,
}

impl Source {
    /// A trace in a file, or in a profile: of the traces of its processes, the largest.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        if path.is_dir() {
            let first = Self::of_profile(path)?;
            return match larger(path, first.end().accesses) {
                Some(child) => {
                    let note = Some(of_child(&child, &path.join(IN_PROFILE)));
                    Ok(Self { note, ..Self::of_profile(&child)? })
                }
                None => Ok(first),
            };
        }
        let name = format!("'{}'", path.display());
        let cannot = || format!("cannot read {name}");
        let mut file = BufReader::new(File::open(path).with_context(cannot)?);
        match is_trace(file.fill_buf().with_context(cannot)?) {
            true => Ok(Self { reader: TraceReader::new(file, &name)?, note: None }),
            false => Self::of_text(&mut file, &name),
        }
    }

    /// The trace of the process whose profile this is.
    pub fn of_profile(path: &Path) -> anyhow::Result<Self> {
        let file = path.join(IN_PROFILE);
        let name = format!("'{}'", file.display());
        let open = File::open(&file).with_context(|| match file.exists() {
            true => format!("cannot read {name}"),
            false => format!(
                "'{}' has no trace; record one with 'threadtalk record --trace'",
                path.display()
            ),
        })?;
        Ok(Self { reader: TraceReader::new(BufReader::new(open), &name)?, note: None })
    }

    /// The text of another tool, which is read once and kept as a trace.
    fn of_text(text: &mut dyn BufRead, name: &str) -> anyhow::Result<Self> {
        let kept = tempfile::tempfile().context(KEEP)?;
        let kept = BufWriter::with_capacity(1 << 20, kept);
        let mut writer = TraceWriter::new(kept, u64::MAX).context(KEEP)?;
        let threads = read_text(text, name, &mut |access| writer.access(access))?;
        let (kept, end) = writer.finish(|end| end.threads = threads).context(KEEP)?;
        if let Some(why) = &end.cut {
            bail!("{KEEP}: {why}");
        }
        let kept = kept.into_inner().map_err(IntoInnerError::into_error).context(KEEP)?;
        Ok(Self { reader: TraceReader::new(BufReader::new(kept), name)?, note: None })
    }

    /// All accesses, from the beginning.
    pub fn stream(&mut self) -> anyhow::Result<&mut dyn Stream> {
        self.reader.rewind()?;
        Ok(&mut self.reader)
    }

    /// What is known of the run as a whole.
    pub fn end(&self) -> &TraceEnd {
        self.reader.end()
    }

    /// What is not among the accesses.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

/// The child process of the one whose profile this is that has the largest trace, if its trace has
/// more than `accesses`.
fn larger(profile: &Path, accesses: u64) -> Option<PathBuf> {
    let children = std::fs::read_dir(profile.join(PROCESSES_FOLDER)).ok()?;
    let trace = |child: PathBuf| {
        let file = BufReader::new(File::open(child.join(IN_PROFILE)).ok()?);
        let end = TraceReader::new(file, "a trace").ok()?.end().accesses;
        Some((end, child))
    };
    let traces = children.filter_map(|child| trace(child.ok()?.path()));
    traces.max().filter(|(most, _)| *most > accesses).map(|(_, child)| child)
}

/// That the trace of a child process is simulated instead of the first one's.
fn of_child(child: &Path, first: &Path) -> String {
    format!(
        "The child process with the largest trace is simulated, {}; for the program itself name {}.",
        child.display(),
        first.display()
    )
}

/// Runs a program and keeps the accesses of the process that makes most, it or a child of its, in a
/// file without a name, but for those that `filter` leaves out: all of them, or
/// those in `windows`. The result is an exit code if the program could not be run.
pub fn record(
    command: &[OsString],
    streams: Streams,
    (max_bytes, filter): (u64, Filter),
    windows: Option<Dial>,
) -> anyhow::Result<Result<(Source, i32), i32>> {
    let target = match Target::resolve(command) {
        Ok(target) => target,
        Err(error) => return Ok(Err(refuse(&error))),
    };
    let begin = |_| tempfile::tempfile();
    let mut traces = Traces::new(max_bytes, filter, begin).context(KEEP)?.not_kept();
    let options = SessionOptions {
        counted: Counted::Matrix,
        trace: filter,
        name_pages: true,
        windows,
        ..SessionOptions::default()
    };
    let wishes = Wishes { following: traces.following(), ..Wishes::default() };
    let recorded = record::record_here(&target, None, options, streams, wishes);
    let mut recording = match recorded {
        Ok(recording) => recording,
        Err(error) => return Ok(Err(refuse(&error))),
    };
    let source = largest(traces, &mut recording)?;
    recorder::signals::no_longer_keep();
    let code = recording.ended.ending.shell_code();
    if code != 0 {
        say(&format!("the program {}", recording.ended.ending.in_words()));
    }
    Ok(Ok((source, code)))
}

/// The accesses of the process that made most of them.
fn largest(traces: Traces<'_>, recording: &mut Recording) -> anyhow::Result<Source> {
    let others = traces.not_traced();
    let traces: Vec<(u32, Trace)> = traces.into_traces().collect();
    let all = others + traces.iter().map(|(_, trace)| trace.accesses()).sum::<u64>();
    let processes = 1 + recording.processes.rows().len();
    let has_profile = |(number, _): &(u32, Trace)| {
        let rows = recording.processes.rows();
        *number == 0 || rows.iter().any(|row| row.number == *number && row.profile.is_some())
    };
    let most = (traces.into_iter().filter(has_profile))
        .max_by_key(|(number, trace)| (trace.accesses(), u32::MAX - number));
    let (number, trace) = most.context("no process has been traced")?;
    if let Some(profile) = recording.processes.profile_of(number) {
        recording.profile = profile?;
    }
    let profile = &recording.profile;
    let part = trace.accesses() as f64 / all.max(1) as f64;
    let note = not_simulated((number, &profile.meta.command), part, processes);
    let named = report::data_use(profile);
    let (file, _) = trace.finish(recording, (number, profile), named.as_ref()).context(KEEP)?;
    let reader = TraceReader::new(BufReader::new(file), "the program's accesses")?;
    Ok(Source { reader, note })
}

/// That a process, which made that part of all accesses, is simulated alone.
fn not_simulated(
    (number, command): (u32, &[String]),
    part: f64,
    processes: usize,
) -> Option<String> {
    let share = types::numbers::percent(part);
    let name = command.first().map_or("", String::as_str);
    match number {
        0 if part > 1.0 - LITTLE => None,
        0 => Some(format!(
            "Child processes are not simulated; the program itself made {share} of the accesses."
        )),
        _ => Some(format!(
            "Of {processes} processes only {name}, which made {share} of the accesses, is simulated."
        )),
    }
}

/// What is known of each thread. Rates hold for the whole run, whether the trace is cut or not.
pub fn facts(end: &TraceEnd, accesses: &[u64]) -> Vec<ThreadFacts> {
    let rate = |thread: usize| {
        let known = end.threads.get(thread)?;
        let count = if known.accesses > 0 { known.accesses } else { accesses[thread] };
        known.instructions.map(|instructions| instructions as f64 / count.max(1) as f64)
    };
    let facts = |thread: usize| ThreadFacts {
        accesses: end.threads.get(thread).map_or(0, |known| known.accesses),
        observed: accesses[thread],
        instructions_per_access: rate(thread),
    };
    (0..accesses.len()).map(facts).collect()
}
