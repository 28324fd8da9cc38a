//! `record --trace`: the accesses of the program in a file of its profile.

use crate::said::say;
use crate::traces::IN_PROFILE;
use anyhow::Context;
use placement::DataUse;
use profile::{PageTables, Profile};
use recorder::record::Recording;
use recorder::reference::Following;
use recorder::trace::{FILTER_WAYS, Trace};
use std::path::Path;
use tempfile::NamedTempFile;
use types::numbers::grouped;

/// A trace that is written beside the profile, and moves into it when that is there.
pub struct KeptTrace {
    trace: Trace,
    file: NamedTempFile,
    /// What lies on pages.
    named: Option<DataUse>,
}

impl KeptTrace {
    /// An empty one beside `profile`, of at most about `max_bytes`.
    pub fn beside(profile: &Path, max_bytes: u64) -> anyhow::Result<Self> {
        let folder = profile.parent().filter(|folder| !folder.as_os_str().is_empty());
        let cannot = || format!("cannot write a trace beside {}", profile.display());
        let file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(cannot)?;
        let writes = file.reopen().with_context(cannot)?;
        let trace = Trace::new(writes, max_bytes, FILTER_WAYS).with_context(cannot)?;
        Ok(Self { trace, file, named: None })
    }

    /// What the recording has to do.
    pub fn following(&mut self) -> Following<'_> {
        self.trace.following()
    }

    /// Takes along what lies on pages. If accesses were not `counted` by page, the profile says
    /// nothing of pages.
    pub fn name_pages(&mut self, profile: &mut Profile, counted: bool) {
        self.named = report::data_use(profile);
        if !counted {
            profile.pages = PageTables::default();
        }
    }

    /// Completes the trace and puts it into the profile.
    pub fn keep(self, recording: &Recording, path: &Path) -> anyhow::Result<()> {
        let to = path.join(IN_PROFILE);
        let cannot = || format!("cannot write {}", to.display());
        let (_, end) = self.trace.finish(recording, self.named.as_ref()).with_context(cannot)?;
        self.file.persist(&to).with_context(cannot)?;
        let accesses = grouped(end.accesses);
        say(&format!(
            "kept {accesses} accesses in {}; simulate them with 'threadtalk simulate {}'",
            to.display(),
            path.display()
        ));
        if let Some(why) = end.cut {
            say(&format!("note: the trace ends before the program did: {why}"));
        }
        Ok(())
    }
}
