//! `record --trace`: the accesses of each process in a file of its profile.

use super::{save, save_with};
use crate::said::say;
use crate::traces::IN_PROFILE;
use anyhow::Context;
use profile::{PageTables, Profile};
use recorder::record::Recording;
use recorder::reference::Following;
use recorder::trace::{FOR_ANY_MACHINE, Trace, Traces};
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use types::numbers::grouped;

/// Traces that are written beside the profile, and move into it and those of child processes when
/// these are there.
pub struct KeptTraces {
    traces: Traces<'static>,
    folder: TempDir,
    /// Whether the profiles tell of pages.
    pages: bool,
}

/// The trace of one process.
struct Kept {
    profile: PathBuf,
    /// All accesses of the process.
    accesses: u64,
    /// Those among them that the file holds, and that stand for the others.
    records: u64,
}

impl KeptTraces {
    /// Empty ones beside `profile`, of at most about `max_bytes` together. Unless accesses are
    /// counted by page (`pages`), the profiles will not tell of pages.
    pub fn beside(profile: &Path, max_bytes: u64, pages: bool) -> anyhow::Result<Self> {
        let beside = profile.parent().filter(|folder| !folder.as_os_str().is_empty());
        let cannot = || format!("cannot write a trace beside {}", profile.display());
        let folder = TempDir::new_in(beside.unwrap_or(Path::new("."))).with_context(cannot)?;
        let path = folder.path().to_path_buf();
        let begin = move |process: u32| File::create_new(path.join(process.to_string()));
        let traces = Traces::new(max_bytes, FOR_ANY_MACHINE, begin).with_context(cannot)?;
        Ok(Self { traces, folder, pages })
    }

    /// What the recording has to do.
    pub fn following(&mut self) -> Following<'_> {
        self.traces.following()
    }

    /// Saves the profiles, the first one in `path`, then completes the traces and puts them in.
    pub fn keep(self, recording: &mut Recording, path: &Path, force: bool) -> anyhow::Result<()> {
        let without = |profile| Profile { pages: PageTables::default(), ..profile };
        if self.pages {
            save(recording, path, force)?;
        } else {
            let pages = std::mem::take(&mut recording.profile.pages);
            save_with(recording, path, force, without)?;
            recording.profile.pages = pages;
        }
        self.complete(recording, path)
    }

    fn complete(self, recording: &Recording, path: &Path) -> anyhow::Result<()> {
        let Self { traces, folder, .. } = self;
        let (lost, why) = (traces.not_traced(), traces.why_not_traced());
        let mut kept = Vec::new();
        for (number, trace) in traces.into_traces() {
            kept.extend(keep_one(trace, number, folder.path(), recording, path)?);
        }
        tell(&kept);
        if lost > 0 {
            say(&format!(
                "note: {} accesses of child processes were not kept: {why}",
                grouped(lost)
            ));
        }
        Ok(())
    }
}

/// Completes the trace of a process; `None` if the process has no profile to put it into.
fn keep_one(
    trace: Trace,
    number: u32,
    from: &Path,
    recording: &Recording,
    path: &Path,
) -> anyhow::Result<Option<Kept>> {
    let child = recording.processes.rows().iter().find(|row| row.number == number);
    let child = child.and_then(|row| row.profile.clone());
    let profile = match child {
        Some(name) => path.join(name),
        None if number == 0 => path.to_path_buf(),
        None => return Ok(None),
    };
    let to = profile.join(IN_PROFILE);
    let cannot = || format!("cannot write {}", to.display());
    let of_child = recording.processes.profile_of(number).transpose().with_context(cannot)?;
    let of = of_child.as_ref().unwrap_or(&recording.profile);
    let named = report::data_use(of);
    let (_, end) = trace.finish(recording, (number, of), named.as_ref()).with_context(cannot)?;
    std::fs::rename(from.join(number.to_string()), &to).with_context(cannot)?;
    if let Some(why) = &end.cut {
        say(&format!("note: {} ends before the program did: {why}", to.display()));
    }
    let (accesses, records) = (end.all_accesses(), end.accesses);
    Ok(Some(Kept { profile, accesses, records }))
}

fn tell(kept: &[Kept]) {
    let Some(most) = kept.iter().max_by_key(|kept| kept.records) else { return };
    let file = most.profile.join(IN_PROFILE);
    say(&format!(
        "kept {} records of {} accesses in {}; simulate them with 'threadtalk simulate {}'",
        grouped(most.records),
        grouped(most.accesses),
        file.display(),
        most.profile.display()
    ));
    if kept.len() > 1 {
        let others: u64 = kept.iter().map(|kept| kept.records).sum::<u64>() - most.records;
        say(&format!("kept {} records of other processes in their profiles", grouped(others)));
    }
}
