//! What can go wrong with a profile folder, each in one sentence that says what to do.

use std::path::PathBuf;

/// A profile that could not be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ProfileError {
    #[error(
        "there is no profile {}; record one with: threadtalk record -o {} -- COMMAND",
        path.display(),
        path.display()
    )]
    NotFound { path: PathBuf },

    #[error("{} is not a Threadtalk profile: {reason}", path.display())]
    NotAProfile { path: PathBuf, reason: String },

    #[error(
        "{} is missing, so the profile is incomplete; copy the whole folder again or record again",
        file.display()
    )]
    MissingFile { file: PathBuf },

    #[error(
        "{} is damaged ({reason}); copy the whole folder again or record again",
        file.display()
    )]
    Damaged { file: PathBuf, reason: String },

    #[error(
        "{} was written by {tool} in schema {found}, and this version of threadtalk reads up to \
         schema {known}; update threadtalk to read it",
        path.display()
    )]
    Newer { path: PathBuf, tool: String, found: u32, known: u32 },

    #[error(
        "{} exists already; choose another name with -o, or replace it with --force",
        path.display()
    )]
    Exists { path: PathBuf },

    #[error(
        "--force does not replace {}, because {reason}; choose another name with -o",
        path.display()
    )]
    NotReplaceable { path: PathBuf, reason: String },

    #[error("the profile contradicts itself: {reason}; please report this as a bug")]
    Inconsistent { reason: String },

    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
}
