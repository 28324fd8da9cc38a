//! Which process of a recording a verb looks at: a profile holds the first process, which is often a
//! shell or a launcher, and in folders below it those that were started by it.
//!
//! Neighbours: `profile::ProcessRow` lists the processes; `verbs/report.rs` shows, `verbs/diff.rs` compares,
//! `verbs/place.rs` places and `verbs/export.rs` exports the one that talks most, `verbs/record.rs` names it.

use crate::said::say;
use anyhow::{anyhow, bail};
use profile::{Counted, Meta, Profile};
use std::path::Path;

/// A process with the profile to look at.
pub struct Shown {
    pub profile: Profile,
    /// 0 is the first process.
    pub number: u32,
}

/// The process that talks most.
pub struct Leader {
    /// From 1; see `profile::ProcessRow`.
    pub number: u32,
    pub threads: u32,
    /// Its profile, relative to that of the first process.
    pub folder: String,
    /// Events of its talk.
    pub talk: u64,
}

/// The process to look at in the profile at `path`: the one with this number, or the one that talks most.
/// It carries the list of all processes, and what was not seen in any of them.
///
/// # Errors
/// When a profile cannot be read, or the process was not recorded.
pub fn load(path: &Path, number: Option<u32>) -> anyhow::Result<Shown> {
    let first = Profile::load(path)?;
    let number = match number {
        Some(number) => number,
        None => leader(path, &first.meta).map_or(0, |leader| leader.number),
    };
    if number == 0 {
        return Ok(Shown { profile: first, number });
    }
    let Some(row) = first.meta.processes.iter().find(|row| row.number == number) else {
        bail!("{} has no process {number}; its report lists the processes", path.display());
    };
    let Some(folder) = &row.profile else {
        let why = row.unrecorded.as_deref().unwrap_or("nobody knows why");
        return Err(anyhow!("process {number} was not recorded: {why}"));
    };
    let mut profile = Profile::load(&path.join(folder))?;
    profile.meta.processes = first.meta.processes;
    profile.meta.warnings.extend(first.meta.warnings);
    Ok(Shown { profile, number })
}

/// How another process is chosen, whatever the verb.
const ANOTHER: &str = "for another one name its profile, in the folder processes/ there";

/// As [`load`]; says on standard error which process it is, if it is not the first one and nobody has named
/// it.
///
/// # Errors
/// As [`load`].
pub fn load_saying(path: &Path, number: Option<u32>) -> anyhow::Result<Profile> {
    let Shown { profile, number: shown } = load(path, number)?;
    if number.is_none() && shown != 0 {
        let all = 1 + profile.meta.processes.len();
        say(&format!(
            "process {shown} of '{}' is taken, which talks most of the program's {all}; {ANOTHER}",
            path.display()
        ));
    }
    Ok(profile)
}

/// The process in the profile at `path` that talks more than all others and than the first one, whose
/// own profile says `first`. `None`: the first one does, or the others' profiles are not there any more.
pub fn leader(path: &Path, first: &Meta) -> Option<Leader> {
    let mut most = talk(first);
    let mut leader = None;
    // One thread alone talks to nobody.
    for row in first.processes.iter().filter(|row| row.threads > 1) {
        let Some(folder) = &row.profile else { continue };
        let Ok(meta) = Meta::load(&path.join(folder)) else { continue };
        if talk(&meta) > most {
            most = talk(&meta);
            let (number, threads, folder) = (row.number, row.threads, folder.clone());
            leader = Some(Leader { number, threads, folder, talk: most });
        }
    }
    leader
}

/// Events by which threads are placed.
pub fn talk(meta: &Meta) -> u64 {
    match meta.parameters.counted {
        Counted::Undirected => meta.totals.undirected,
        _ => meta.totals.raw,
    }
}
