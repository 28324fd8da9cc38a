//! A control group for a test's programs, to take memory from them.

use std::path::PathBuf;

/// A control group of the first or second version; removed when dropped, once no process is in it.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
    limit: &'static str,
    reclaim: &'static str,
}

impl ControlGroup {
    /// `None` where no group may be made, or memory is not controlled.
    pub fn create(name: &str) -> Option<Self> {
        let name = format!("threadtalk-{name}-{}", std::process::id());
        let kinds = [
            ("memory", "memory.limit_in_bytes", "memory.force_empty"),
            ("", "memory.max", "memory.reclaim"),
        ];
        kinds.into_iter().find_map(|(place, limit, reclaim)| {
            let folder = PathBuf::from("/sys/fs/cgroup").join(place).join(&name);
            std::fs::create_dir(&folder).ok()?;
            let made = ControlGroup { folder, limit, reclaim };
            made.folder.join(limit).exists().then_some(made)
        })
    }

    /// A shell's command that executes `command` in the group.
    pub fn script(&self, command: &str) -> String {
        format!("echo $$ > {}/cgroup.procs && exec {command}", self.folder.display())
    }

    /// Sets how much memory it may have; whether that was possible.
    #[must_use]
    pub fn limit(&self, bytes: u64) -> bool {
        std::fs::write(self.folder.join(self.limit), bytes.to_string()).is_ok()
    }

    /// The file to which a number of bytes is written to take so much of its memory away.
    pub fn reclaim(&self) -> PathBuf {
        self.folder.join(self.reclaim)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.folder);
    }
}
