//! The flow of events over time, and what it and the blocks say about each object's use.
//!
//! Neighbours: `tables` writes the rows, `objects/usage.rs` answers the questions.

use super::rows::{Field, Rows};
use crate::lines::moves_a_line;
use crate::objects::Source;
use crate::ran::Nodes;
use profile::{EventRow, FlowRow, Profile, ProfileError};
use std::collections::BTreeMap;
use std::io;

/// Columns of the flow.
pub(super) const FLOW: [&str; 13] = [
    "start_ns",
    "end_ns",
    "thread",
    "node",
    "from",
    "from_node",
    "kind",
    "sharing",
    "object",
    "line",
    "site",
    "count",
    "hits",
];

/// Columns of the usage.
pub(super) const USAGE: [&str; 13] = [
    "object",
    "region",
    "name",
    "threads",
    "events",
    "reads",
    "between_ns",
    "concurrent",
    "allocated_by",
    "by_others",
    "remote",
    "packed",
    "text",
];

/// The memory nodes of the taking and the giving thread of each row of the flow.
fn nodes(profile: &Profile) -> Vec<[Option<u32>; 2]> {
    let Some(nodes) = Nodes::of(profile) else { return vec![[None; 2]; profile.flow.len()] };
    let slice = |row: &FlowRow| {
        let after = profile.slices.partition_point(|slice| slice.start_ns <= row.start_ns);
        after.saturating_sub(1) as u32
    };
    let of = |row: &FlowRow| [row.thread, row.from].map(|thread| nodes.at(thread, slice(row)));
    profile.flow.iter().map(of).collect()
}

pub(super) fn flow(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    for (row, [node, from_node]) in profile.flow.iter().zip(nodes(profile)) {
        rows.row(&[
            row.start_ns.into(),
            row.end_ns.into(),
            row.thread.0.into(),
            node.into(),
            row.from.0.into(),
            from_node.into(),
            row.kind.name().into(),
            row.sharing.name().into(),
            row.object.into(),
            format!("{:#x}", row.line).into(),
            row.site.into(),
            row.count.into(),
            row.hits.into(),
        ])?;
    }
    Ok(())
}

/// The flow as a Parquet file, with the nodes; lines are numbers.
///
/// # Errors
/// None that is known.
pub fn flow_parquet(profile: &Profile) -> Result<Vec<u8>, ProfileError> {
    profile::flow_with_nodes(&profile.flow, &nodes(profile))
}

pub(super) fn usage(profile: &Profile, rows: &mut Rows<'_>) -> io::Result<()> {
    let mut of_object: BTreeMap<u32, Vec<&EventRow>> = BTreeMap::new();
    for event in profile.events.iter().filter(|event| event.object > 0 && moves_a_line(event)) {
        of_object.entry(event.object).or_default().push(event);
    }
    let source = Source::new(profile);
    for (object, events) in of_object {
        let row = &profile.objects[object as usize];
        let usage = source.usage(object, &events);
        let mut threads: Vec<u32> = events.iter().flat_map(|e| [e.from.0, e.to.0]).collect();
        threads.sort_unstable();
        threads.dedup();
        let by: Vec<String> = usage.allocated_by.iter().map(u32::to_string).collect();
        rows.row(&[
            object.into(),
            (&row.region).into(),
            (&row.name).into(),
            (threads.len() as u64).into(),
            events.iter().fold(0_u64, |sum, event| sum.saturating_add(event.count)).into(),
            Field::Real(usage.reads),
            usage.between_ns.into(),
            usage.concurrent.into(),
            by.join(" ").into(),
            usage.by_others.into(),
            usage.remote.into(),
            usage.packed.into(),
            usage.sentences().join(" ").into(),
        ])?;
    }
    Ok(())
}
