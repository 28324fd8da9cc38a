//! Where the accesses come from: the program, run under the exact engine, or a file.

use crate::said::{refuse, say};
use crate::traces::IN_PROFILE;
use crate::verbs::record;
use anyhow::{Context, bail};
use profile::Counted;
use recorder::record::Wishes;
use recorder::session::SessionOptions;
use recorder::trace::Trace;
use recorder::{Streams, Target};
use simulation::{Stream, ThreadFacts, TraceEnd, TraceReader, TraceWriter, is_trace, read_text};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, IntoInnerError};
use std::path::Path;

/// What fails when there is no room for accesses that are read several times.
const KEEP: &str = "cannot keep the accesses in the folder for temporary files (TMPDIR)";

/// Accesses that can be read several times.
pub struct Source {
    reader: TraceReader<BufReader<File>>,
}

impl Source {
    /// A trace in a file, or in a profile.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = if path.is_dir() { path.join(IN_PROFILE) } else { path.to_path_buf() };
        let name = format!("'{}'", file.display());
        let open = File::open(&file);
        let missing = path.is_dir() && open.is_err();
        let open = open.with_context(|| match missing {
            true => format!("{name} has no trace; record one with 'threadtalk record --trace'"),
            false => format!("cannot read {name}"),
        })?;
        let mut file = BufReader::new(open);
        if !path.is_dir()
            && !is_trace(file.fill_buf().with_context(|| format!("cannot read {name}"))?)
        {
            return Self::of_text(&mut file, &name);
        }
        Ok(Self { reader: TraceReader::new(file, &name)? })
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
        Ok(Self { reader: TraceReader::new(BufReader::new(kept), name)? })
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
}

/// Runs a program and keeps its accesses in a file without a name, but for those that hit in a
/// filter of `filter_ways` ways. The result is an exit code if the program could not be run.
pub fn record(
    command: &[OsString],
    max_bytes: u64,
    filter_ways: u32,
) -> anyhow::Result<Result<(Source, i32), i32>> {
    let target = match Target::resolve(command) {
        Ok(target) => target,
        Err(error) => return Ok(Err(refuse(&error))),
    };
    let file = tempfile::tempfile().context(KEEP)?;
    let mut trace = Trace::new(file, max_bytes, filter_ways).context(KEEP)?.not_kept();
    let options = SessionOptions {
        counted: Counted::Matrix,
        trace_ways: filter_ways,
        follow: false,
        name_pages: true,
        ..SessionOptions::default()
    };
    let wishes = Wishes { following: trace.following(), ..Wishes::default() };
    let recorded = record::record_here(&target, None, options, Streams::Inherited, wishes);
    let recording = match recorded {
        Ok(recording) => recording,
        Err(error) => return Ok(Err(refuse(&error))),
    };
    let named = report::data_use(&recording.profile);
    let (file, _) = trace.finish(&recording, named.as_ref()).context(KEEP)?;
    let code = recording.ended.ending.shell_code();
    if code != 0 {
        say(&format!("the program {}", recording.ended.ending.in_words()));
    }
    let reader = TraceReader::new(BufReader::new(file), "the program's accesses")?;
    Ok(Ok((Source { reader }, code)))
}

/// What is known of each thread. Rates hold for the whole run, whether the trace is cut or not.
pub fn facts(end: &TraceEnd, accesses: &[u64]) -> Vec<ThreadFacts> {
    let rate = |thread: usize| {
        let known = end.threads.get(thread)?;
        let count = if known.accesses > 0 { known.accesses } else { accesses[thread] };
        known.instructions.map(|instructions| instructions as f64 / count.max(1) as f64)
    };
    let facts = |thread| ThreadFacts { instructions_per_access: rate(thread) };
    (0..accesses.len()).map(facts).collect()
}
