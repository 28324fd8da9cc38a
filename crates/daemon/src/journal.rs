//! The journal: which processors each thread could use before we bound it, on disk.
//!
//! A line is written before a thread is bound for the first time, so that whatever ends us, the
//! next start, or `auto --restore`, can give the thread back what it had. A thread is known by its
//! number and the time of its start. The file of a process of ours that still runs is left alone;
//! it holds a lock on it.

use crate::error::DaemonError;
use crate::processes::{self, Stat};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use types::CpuSet;

/// How names of journals end.
const ENDING: &str = "journal";
/// Environment variable that names the folder of journals, status files and the service's lock.
/// Those with one folder know nothing of those with another.
pub const FOLDER_ENV: &str = "THREADTALK_STATE_DIR";

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

/// A thread as it was before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its process.
    pub process: u32,
    /// Its number.
    pub task: u32,
    /// When it started, ticks since the boot.
    pub started: u64,
    /// Processors that it could use.
    pub cpus: CpuSet,
}

impl Entry {
    fn line(&self) -> String {
        format!("{} {} {} {}\n", self.process, self.task, self.started, self.cpus)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        Some(Self {
            process: words.next()?.parse().ok()?,
            task: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
            cpus: CpuSet::parse_list(words.next()?).ok()?,
        })
    }
}

/// Where journals and what else is known of running daemons of this user lie.
///
/// # Errors
/// When there can be no such folder, or it is another user's.
pub fn folder() -> io::Result<PathBuf> {
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    let named = |name| std::env::var_os(name).filter(|folder| !folder.is_empty());
    let folder = match (named(FOLDER_ENV), named("XDG_RUNTIME_DIR")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, _) if user == 0 => PathBuf::from("/run/threadtalk"),
        (None, Some(folder)) => PathBuf::from(folder).join("threadtalk"),
        (None, None) => PathBuf::from(format!("/tmp/threadtalk-{user}")),
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    match fs::symlink_metadata(&folder)? {
        found if found.is_dir() && found.uid() == user => Ok(folder),
        _ => Err(io::Error::other(format!("{} belongs to another user", folder.display()))),
    }
}

impl Journal {
    /// A new one, for this process.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create() -> Result<Self, DaemonError> {
        let folder = folder().map_err(|error| DaemonError::Journal {
            path: "in the runtime folder".into(),
            error,
        })?;
        let path = folder.join(format!("{}.{ENDING}", std::process::id()));
        let open = || {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            file.set_len(0)?;
            lock(&file)?;
            Ok(file)
        };
        let file = open().map_err(|error| DaemonError::Journal { path: path.clone(), error })?;
        Ok(Self { file, path })
    }

    /// Keeps what a thread had. It may be bound only after that.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&mut self, entry: &Entry) -> Result<(), DaemonError> {
        let written = self.file.write_all(entry.line().as_bytes());
        written.map_err(|error| DaemonError::Journal { path: self.path.clone(), error })
    }

    /// Everything has been given back.
    pub fn close(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes the lock of a file; the kernel lets go of it when we end, however that is.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    // SAFETY: an open descriptor.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What was restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// Journals of processes of ours that were killed.
    pub journals: usize,
    /// Threads that got back what they had.
    pub threads: usize,
}

/// Gives threads back what they had, from the journals of processes of ours that were killed.
///
/// # Errors
/// When the folder cannot be read.
pub fn restore() -> io::Result<Restored> {
    restore_in(&folder()?)
}

fn restore_in(folder: &Path) -> io::Result<Restored> {
    let mut restored = Restored::default();
    for found in fs::read_dir(folder)?.flatten() {
        let path = found.path();
        if path.extension().is_none_or(|ending| ending != ENDING) {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        if lock(&file).is_err() {
            // Its writer runs.
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let entries: Vec<Entry> = text.lines().filter_map(Entry::parse).collect();
        restored.threads += give_back(&entries, &BTreeSet::new());
        restored.journals += 1;
        fs::remove_file(&path)?;
    }
    Ok(restored)
}

/// Gives threads that are still there back what they had, and those that these have started since,
/// which inherited their processor. Threads in `left` have been bound by others since. Returns how
/// many.
pub fn give_back(entries: &[Entry], left: &BTreeSet<u32>) -> usize {
    let mut restored = 0;
    let is_there = |entry: &Entry| {
        Stat::of(entry.process, entry.task).is_some_and(|stat| stat.started == entry.started)
    };
    let known: BTreeSet<u32> =
        entries.iter().map(|entry| entry.task).chain(left.iter().copied()).collect();
    // Twice: a thread may start another one while we look.
    for round in 0..2 {
        for entry in entries.iter().filter(|entry| is_there(entry)) {
            let narrow = binding::affinity(entry.task as i32).ok();
            let narrow = narrow.filter(|now| now.len() == 1 && *now != entry.cpus);
            if narrow.is_some() && binding::bind(entry.task as i32, &entry.cpus).is_ok() {
                restored += 1;
            }
        }
        let processes: BTreeSet<u32> = entries.iter().map(|entry| entry.process).collect();
        for process in with_children(&processes) {
            let had = entries.iter().find(|entry| entry.process == process).or(entries.first());
            let Some(had) = had else { continue };
            let since = entries.iter().map(|entry| entry.started).min().unwrap_or(0);
            for task in processes::threads(process) {
                let new = !known.contains(&task)
                    && Stat::of(process, task).is_some_and(|stat| stat.started >= since);
                let narrow = || {
                    binding::affinity(task as i32)
                        .is_ok_and(|now| now.len() == 1 && now != had.cpus)
                };
                if new && narrow() && binding::bind(task as i32, &had.cpus).is_ok() {
                    restored += usize::from(round == 0);
                }
            }
        }
    }
    restored
}

/// These processes and those that they have started.
fn with_children(roots: &BTreeSet<u32>) -> BTreeSet<u32> {
    let all: Vec<(u32, u32)> = processes::all()
        .into_iter()
        .filter_map(|pid| Some((pid, Stat::of(pid, pid)?.parent)))
        .collect();
    let mut found = roots.clone();
    loop {
        let new: Vec<u32> = all
            .iter()
            .filter(|(pid, parent)| found.contains(parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .filter(|pid| *pid != std::process::id())
            .collect();
        if new.is_empty() {
            return found;
        }
        found.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn entries_are_lines() {
        let cpus: CpuSet = [0, 1, 2, 7].into_iter().collect();
        let entry = Entry { process: 7, task: 8, started: 99, cpus };
        assert_eq!(entry.line(), "7 8 99 0-2,7\n");
        assert_eq!(Entry::parse(entry.line().trim()), Some(entry));
        assert_eq!(Entry::parse("7 8"), None);
    }

    #[test]
    fn threads_of_a_killed_writer_get_back_what_they_had() {
        let all = binding::own_affinity().unwrap();
        if all.len() < 2 {
            return;
        }
        let scratch = test_support::Scratch::new();
        let mut sleeper = Command::new("sleep").arg("30").spawn().unwrap();
        let pid = sleeper.id();
        let started = Stat::of(pid, pid).unwrap().started;
        let entry = Entry { process: pid, task: pid, started, cpus: all.clone() };
        let gone = Entry { started: started + 1, ..entry.clone() };
        let path = scratch.join("1.journal");
        let one: CpuSet = all.iter().take(1).collect();

        fs::write(&path, gone.line()).unwrap();
        binding::bind(pid as i32, &one).unwrap();
        let none = restore_in(path.parent().unwrap()).unwrap();
        assert_eq!(none, Restored { journals: 1, threads: 0 });

        fs::write(&path, format!("{}half a li", entry.line())).unwrap();
        let held = File::open(&path).unwrap();
        lock(&held).unwrap();
        assert_eq!(restore_in(path.parent().unwrap()).unwrap(), Restored::default());
        drop(held);
        let restored = restore_in(path.parent().unwrap()).unwrap();
        assert_eq!(restored, Restored { journals: 1, threads: 1 });
        assert_eq!(binding::affinity(pid as i32).unwrap(), all);
        assert!(!path.exists());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
