//! The tables `gaps` and `returns`.
//!
//! Neighbour: `tables` writes the rows.

use super::tables::Rows;
use profile::Profile;
use std::io;

/// Columns of `profile::schema::GAPS`.
pub(super) const GAPS: [&str; 6] = ["line", "object", "from", "to", "gap", "count"];
/// Columns of `profile::schema::RETURNS`.
pub(super) const RETURNS: [&str; 6] =
    ["line", "thread", "returns", "instructions", "away", "away_instructions"];

pub(super) fn gaps(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.reuse.gaps {
        rows.row(&[
            format!("{:#x}", row.line).into(),
            row.object.into(),
            row.from.0.into(),
            row.to.0.into(),
            row.gap.name().into(),
            row.count.into(),
        ])?;
    }
    Ok(())
}

pub(super) fn returns(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.reuse.returns {
        rows.row(&[
            format!("{:#x}", row.line).into(),
            row.thread.0.into(),
            row.returns.into(),
            row.instructions.into(),
            row.away.into(),
            row.away_instructions.into(),
        ])?;
    }
    Ok(())
}
