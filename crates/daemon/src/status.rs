//! What a running daemon tells of itself: a small JSON file beside its journal.

use crate::actor::Done;
use crate::journal::folder;
use crate::processes::Stat;
use crate::programs::Program;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// How names of status files end.
const ENDING: &str = "status";
/// Most sentences that are kept.
const MAX_LINES: usize = 20;

/// What is told.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Our process, and when it started, ticks since the boot.
    pub pid: u32,
    /// When it started, ticks since the boot.
    pub started: u64,
    /// Only says what it would do.
    pub dry: bool,
    /// The processes that are looked after, at the last look.
    pub pids: Vec<u32>,
    /// Looks after processes that it did not start, until it is stopped.
    pub service: bool,
    /// What is looked after, in words.
    pub target: String,
    /// With what, in words.
    pub sense: String,
    /// Time since the start, s.
    pub seconds: f64,
    /// Processor time that we have used, s.
    pub cpu_seconds: f64,
    /// Processes and threads that are there.
    pub processes: usize,
    /// Threads that are there.
    pub threads: usize,
    /// Threads that are bound, by number, and their processors.
    pub bound: BTreeMap<u32, u32>,
    /// Threads that were bound, so far.
    pub binds: u64,
    /// Pages that were moved, so far.
    pub pages: u64,
    /// Pages that the kernel did not move.
    pub pages_refused: u64,
    /// Placements that were kept, and that were undone.
    pub kept: u64,
    /// Placements that were undone.
    pub undone: u64,
    /// What was done for each program, by its command.
    pub programs: BTreeMap<String, Program>,
    /// The last sentences, with their time in s.
    pub lines: Vec<(f64, String)>,
}

impl Status {
    /// Takes over what was done.
    pub fn done(&mut self, done: Done) {
        (self.binds, self.pages, self.pages_refused) = (done.binds, done.pages, done.pages_refused);
    }

    /// Adds a sentence.
    pub fn say(&mut self, seconds: f64, line: String) {
        if self.lines.len() >= MAX_LINES {
            self.lines.remove(0);
        }
        self.lines.push((seconds, line));
    }

    fn path(pid: u32) -> Option<PathBuf> {
        Some(folder().ok()?.join(format!("{pid}.{ENDING}")))
    }

    /// Writes it to its file. That it cannot be read by others is no reason to end.
    pub fn write(&self) {
        let Some(path) = Self::path(self.pid) else { return };
        let new = path.with_extension("new");
        if let Ok(text) = serde_json::to_string(self)
            && fs::write(&new, text).is_ok()
        {
            let _ = fs::rename(new, path);
        }
    }

    /// Removes its file.
    pub fn remove(&self) {
        if let Some(path) = Self::path(self.pid) {
            let _ = fs::remove_file(path);
        }
    }
}

/// What all running daemons of this user tell. Files of those that are gone are removed.
pub fn all() -> Vec<Status> {
    let Ok(entries) = folder().and_then(fs::read_dir) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|ending| ending != ENDING) {
            continue;
        }
        let read = fs::read_to_string(&path).ok();
        let status: Option<Status> = read.and_then(|text| serde_json::from_str(&text).ok());
        let Some(status) = status else { continue };
        let there = Stat::of(status.pid, status.pid);
        match there.is_some_and(|stat| stat.lives() && stat.started == status.started) {
            true => found.push(status),
            false => drop(fs::remove_file(&path)),
        }
    }
    found.sort_by_key(|status| status.pid);
    found
}
