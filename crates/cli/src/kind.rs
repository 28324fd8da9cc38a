//! `--kind`, of all verbs that take a matrix from a profile: which events it counts.

use analysis::{Choice, ChoiceError, MatrixKind};
use profile::Profile;

/// What a matrix of `profile` counts: events of this kind, or all transfers, in one time slice or
/// in all.
///
/// # Errors
/// When the profile does not hold them.
pub fn choice(
    profile: &Profile,
    kind: Option<MatrixKind>,
    slice: Option<u32>,
) -> Result<Choice, ChoiceError> {
    let kind = kind.unwrap_or_else(|| MatrixKind::of_talk(profile));
    Choice::new(profile, kind, slice)
}
