//! `--kind`, of all verbs that take a matrix from a profile: which events it counts.

use analysis::{Choice, ChoiceError, MatrixKind};
use clap::ValueEnum;
use profile::Profile;

#[derive(Clone, Copy, ValueEnum)]
pub enum Kind {
    /// Cache-line transfers, raw and waw together: all that a thread takes from another one
    Transfers,
    /// Reads of what another thread wrote: a write, then the first read that sees it
    Raw,
    /// Of these, those of bytes that the other thread wrote
    True,
    /// Of these, those of other bytes of the same line
    False,
    /// Writes over what another thread wrote
    Waw,
    /// Of these, those over the same bytes
    WawTrue,
    /// Of these, those over other bytes of the same line
    WawFalse,
    /// Writes to what another thread has read since the previous write
    Invalidation,
    /// Pairs by numalize's definition
    Undirected,
}

impl From<Kind> for MatrixKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Transfers => MatrixKind::Transfers,
            Kind::Raw => MatrixKind::Raw,
            Kind::True => MatrixKind::RawTrue,
            Kind::False => MatrixKind::RawFalse,
            Kind::Waw => MatrixKind::Waw,
            Kind::WawTrue => MatrixKind::WawTrue,
            Kind::WawFalse => MatrixKind::WawFalse,
            Kind::Invalidation => MatrixKind::Invalidation,
            Kind::Undirected => MatrixKind::Undirected,
        }
    }
}

/// What a matrix of `profile` counts: events of this kind, or all that is talk, in one time slice or in all.
///
/// # Errors
/// When the profile does not hold them.
pub fn choice(
    profile: &Profile,
    kind: Option<Kind>,
    slice: Option<u32>,
) -> Result<Choice, ChoiceError> {
    let kind = kind.map_or_else(|| MatrixKind::of_talk(profile), MatrixKind::from);
    Choice::new(profile, kind, slice)
}
