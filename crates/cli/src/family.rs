//! Which process of a recording a verb looks at: a profile holds the first process, which is often
//! a shell or a launcher, and in folders below it those that were started by it.
//!
//! Neighbours: `profile::ProcessRow` lists the processes; `verbs/report.rs` shows, `verbs/diff.rs`
//! compares, `verbs/place.rs` places and `verbs/export.rs` exports the one that talks most,
//! `verbs/record.rs` names it.

use crate::progress::Waiting;
use crate::said::{say, several};
use anyhow::{anyhow, bail};
use profile::{Counted, Meta, Profile};
use std::path::{Path, PathBuf};

/// A process with the profile to look at.
pub struct Shown {
    pub profile: Profile,
    /// 0 is the first process.
    pub number: u32,
    /// What makes it the one, where the user has not named it; to follow "which".
    pub why: &'static str,
    /// These are all processes that communicate with each other.
    pub together: bool,
}

/// The process that communicates most.
pub struct Leader {
    /// From 1; see `profile::ProcessRow`.
    pub number: u32,
    pub threads: u32,
    /// Its profile, relative to that of the first process.
    pub folder: String,
    weight: Weight,
}

/// What makes a process the one to look at: events, and where no process has any, samples.
/// Processes are compared in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Weight {
    /// Events by which threads are placed.
    talk: u64,
    /// 0 in exact recordings.
    samples: u64,
}

impl Weight {
    fn of(meta: &Meta) -> Self {
        Self {
            talk: talk(meta),
            samples: meta.sampled.as_ref().map_or(0, |sampled| sampled.samples),
        }
    }

    fn why(&self) -> &'static str {
        if self.talk > 0 {
            "communicates most"
        } else {
            "was sampled most, while none communicated"
        }
    }
}

impl Leader {
    /// What makes it the one, to follow its name.
    pub fn why(&self) -> &'static str {
        self.weight.why()
    }

    /// How much that is.
    pub fn much(&self) -> String {
        match self.weight {
            Weight { talk: 0, samples } => several(samples as usize, "sample"),
            Weight { talk, .. } => several(talk as usize, "event"),
        }
    }
}

/// The process to look at in the profile at `path`: the one with this number; without one, all
/// processes together if some communicate with others, or the process that communicates most. It
/// carries the list of all processes, and what was not seen in any of them.
///
/// # Errors
/// When a profile cannot be read, or the process was not recorded.
pub fn load(path: &Path, number: Option<u32>) -> anyhow::Result<Shown> {
    let first = read(path)?;
    if let (None, Some(folder)) = (number, &first.meta.together) {
        let mut profile = read(&path.join(folder))?;
        profile.meta.processes = first.meta.processes;
        profile.meta.warnings = first.meta.warnings;
        return Ok(Shown { profile, number: 0, why: "communicate", together: true });
    }
    let (number, why) = match number {
        Some(number) => (number, "was named"),
        None => leader(path, &first.meta).map_or((0, "is the first"), |l| (l.number, l.why())),
    };
    if number == 0 {
        return Ok(Shown { profile: first, number, why, together: false });
    }
    let Some(row) = first.meta.processes.iter().find(|row| row.number == number) else {
        bail!("{} has no process {number}; its report lists the processes", path.display());
    };
    let Some(folder) = &row.profile else {
        let why =
            row.unrecorded.as_ref().map_or("the reason is not known".into(), report::unrecorded);
        return Err(anyhow!("process {number} was not recorded: {why}"));
    };
    let mut profile = read(&path.join(folder))?;
    profile.meta.processes = first.meta.processes;
    profile.meta.warnings.extend(first.meta.warnings);
    Ok(Shown { profile, number, why, together: false })
}

/// The folder of the process that [`load`] takes.
///
/// # Errors
/// When a profile cannot be read, or it takes several processes together.
pub fn folder(path: &Path, number: Option<u32>) -> anyhow::Result<PathBuf> {
    let first = Meta::load(path)?;
    if number.is_none() && first.together.is_some() {
        bail!(
            "all processes of '{}' are taken together, but each is simulated alone; {ANOTHER}",
            path.display()
        );
    }
    let number = number.or_else(|| leader(path, &first).map(|leader| leader.number)).unwrap_or(0);
    let child = first.processes.iter().find(|row| row.number == number);
    Ok(child.and_then(|row| row.profile.as_ref()).map_or(path.into(), |child| path.join(child)))
}

/// All processes of the profile at `path`, with number, name and, where they were recorded,
/// profile.
///
/// # Errors
/// When a profile cannot be read.
pub fn all(path: &Path) -> anyhow::Result<Vec<(u32, String, Option<Profile>)>> {
    let first = read(path)?;
    let name = |command: &[String]| {
        let program = command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let rows = first.meta.processes.clone();
    let mut all = vec![(0, name(&first.meta.command), Some(first))];
    for row in rows {
        let profile = row.profile.as_ref().map(|folder| read(&path.join(folder))).transpose()?;
        all.push((row.number, name(&row.command), profile));
    }
    Ok(all)
}

/// Reads a profile; a large one shows progress.
fn read(path: &Path) -> Result<Profile, profile::ProfileError> {
    let _waiting = Waiting::new(format!("reading {}", path.display()));
    Profile::load(path)
}

/// How another process is chosen, whatever the verb.
const ANOTHER: &str = "to take another one, name its profile in the folder processes/";

/// As [`load`]; says on standard error which process it is, if it is not the first one and the user
/// named none.
///
/// # Errors
/// As [`load`].
pub fn load_saying(path: &Path, number: Option<u32>) -> anyhow::Result<Profile> {
    let Shown { profile, number: shown, why, together } = load(path, number)?;
    if together {
        say(&format!(
            "all processes of '{}' that communicate are taken together; {ANOTHER}",
            path.display()
        ));
    }
    if number.is_none() && shown != 0 {
        let all = 1 + profile.meta.processes.len();
        say(&format!(
            "process {shown} of '{}' is taken, which {why} (of {all}); {ANOTHER}",
            path.display()
        ));
    }
    Ok(profile)
}

/// The process in the profile at `path` that communicates more than all others and than the first
/// one, whose own profile says `first`; where none communicates, the one that has more samples.
/// `None`: the first one does, or the others' profiles are not there any more.
pub fn leader(path: &Path, first: &Meta) -> Option<Leader> {
    if first.together.is_some() {
        return None;
    }
    let mut most = Weight::of(first);
    let mut leader = None;
    // A single thread communicates with no other: where exactly recorded, it is never the one.
    let sampled = first.sampled.is_some();
    for row in first.processes.iter().filter(|row| row.threads > 1 || sampled) {
        let Some(folder) = &row.profile else { continue };
        let Ok(meta) = Meta::load(&path.join(folder)) else { continue };
        let weight = Weight::of(&meta);
        if weight > most {
            most = weight;
            let (number, threads, folder) = (row.number, row.threads, folder.clone());
            leader = Some(Leader { number, threads, folder, weight });
        }
    }
    leader
}

/// Events by which threads are placed.
pub fn talk(meta: &Meta) -> u64 {
    match meta.parameters.counted {
        Counted::Undirected => meta.totals.undirected,
        _ => meta.totals.raw.saturating_add(meta.totals.waw),
    }
}
