//! The tables of objects as text: what they are, where, and what lies in them.
//!
//! Neighbours: `rows` writes rows.

use super::rows::Rows;
use profile::Profile;
use std::io;

/// Columns of `profile::schema::OBJECTS`.
pub(super) const OBJECTS: [&str; 12] = [
    "object",
    "region",
    "name",
    "site",
    "callers",
    "blocks",
    "bytes",
    "type",
    "stride",
    "freed",
    "lifetime_ns",
    "wrappers",
];
/// Columns of `profile::schema::BLOCKS`.
pub(super) const BLOCKS: [&str; 6] =
    ["object", "start", "bytes", "ordinal", "thread", "lifetime_ns"];
/// Columns of `profile::schema::FIELDS`.
pub(super) const FIELDS: [&str; 4] = ["object", "offset", "bytes", "name"];

pub(super) fn objects(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for (number, row) in (0u32..).zip(&profile.objects) {
        rows.row(&[
            number.into(),
            (&row.region).into(),
            (&row.name).into(),
            row.site.into(),
            (&row.callers).into(),
            row.blocks.into(),
            row.bytes.into(),
            (&row.element).into(),
            row.stride.into(),
            row.freed.into(),
            row.lifetime_ns.into(),
            row.wrappers.into(),
        ])?;
    }
    Ok(())
}

pub(super) fn blocks(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.blocks {
        rows.row(&[
            row.object.into(),
            format!("{:#x}", row.start).into(),
            row.bytes.into(),
            row.ordinal.into(),
            row.thread.map(|thread| thread.0).into(),
            row.lifetime_ns.into(),
        ])?;
    }
    Ok(())
}

pub(super) fn fields(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for row in &profile.fields {
        rows.row(&[row.object.into(), row.offset.into(), row.bytes.into(), (&row.name).into()])?;
    }
    Ok(())
}
