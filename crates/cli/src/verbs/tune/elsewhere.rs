//! Communication in another process than the one that a plan is for: plans bind the threads of the
//! program that is started, which often is a shell that starts the one that matters.

use super::summary::quoted;
use crate::family;
use crate::said::several;
use profile::{ProcessRow, Profile};
use std::path::Path;

/// Which process communicates, if it is none that a plan can be made for, and what to tune instead.
/// `path` is where the profile of the first process lies.
pub fn who_talks(profile: &Profile, path: &Path) -> Option<String> {
    let leader = family::leader(path, &profile.meta)?;
    let row = profile.meta.processes.iter().find(|row| row.number == leader.number)?;
    Some(sentences(row, &leader.much()))
}

fn sentences(row: &ProcessRow, much: &str) -> String {
    let words: Vec<String> = row.command.iter().map(|word| quoted(word.as_ref())).collect();
    let command = words.join(" ");
    format!(
        "most communication is that of a process which the program started: {command} ({}, {much}), and a plan binds the \
         threads of the program itself; tune that one (threadtalk tune -- {command}), or let a shell become it \
         instead of starting it, with 'exec'",
        several(row.threads as usize, "thread")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_tune_instead_can_be_pasted() {
        let row = ProcessRow {
            number: 2,
            parent: 0,
            named: false,
            pid: 7,
            command: vec!["./app".into(), "two words".into()],
            threads: 4,
            exit_code: Some(0),
            exit_signal: None,
            profile: Some("processes/2-app.tt".into()),
            unrecorded: None,
        };
        let said = sentences(&row, "12 events");
        assert!(said.contains("./app 'two words' (4 threads, 12 events)"), "{said}");
        assert!(said.contains("(threadtalk tune -- ./app 'two words')"), "{said}");
    }
}
