//! Which lines of memory threads meet on more, or less, than before.
//!
//! Addresses change from run to run, so lines are known by what lies in them; all lines of a region
//! in which nothing has a name count together. Events are RAW and WAW: the two ways in which a
//! thread takes a line from another one.

use profile::{Counted, LineRow, Profile};
use serde::Serialize;
use std::collections::BTreeMap;

/// Lines that are listed.
const MAX: usize = 1000;

/// Events on the lines of one object, in A and in B.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LineChange {
    /// What kind of memory: `static`, `heap`, …
    pub region: String,
    /// Symbols with the offsets that the line covers; empty: all lines of the region without a
    /// name.
    pub object: String,
    /// Events in A and in B.
    pub events: [u64; 2],
    /// Of these, false sharing.
    pub false_sharing: [u64; 2],
}

/// Events in A and in B, and false sharing among them.
type Sums = ([u64; 2], [u64; 2]);

/// The changes, the largest first; `None` unless both profiles know lines.
pub(super) fn changes(a: &Profile, b: &Profile) -> Option<Vec<LineChange>> {
    let knows = |profile: &Profile| {
        matches!(profile.meta.parameters.counted, Counted::Detail | Counted::Reference)
    };
    if !knows(a) || !knows(b) {
        return None;
    }
    let mut sums: BTreeMap<(&str, &str), Sums> = BTreeMap::new();
    for (side, profile) in [a, b].into_iter().enumerate() {
        for line in &profile.lines {
            let key = (line.region.as_str(), line.object.as_str());
            let (events, false_sharing) = sums.entry(key).or_default();
            events[side] = events[side].saturating_add(all(line));
            let falsely = line.raw_false.saturating_add(line.waw_false);
            false_sharing[side] = false_sharing[side].saturating_add(falsely);
        }
    }
    let change = |((region, object), (events, false_sharing)): ((&str, &str), Sums)| LineChange {
        region: region.into(),
        object: object.into(),
        events,
        false_sharing,
    };
    let mut changes: Vec<LineChange> = sums.into_iter().map(change).collect();
    changes.retain(|c| c.events[0] != c.events[1] || c.false_sharing[0] != c.false_sharing[1]);
    changes.sort_by_key(|change| std::cmp::Reverse(change.events[0].abs_diff(change.events[1])));
    changes.truncate(MAX);
    Some(changes)
}

fn all(line: &LineRow) -> u64 {
    let counts =
        [line.raw_true, line.raw_false, line.raw_any, line.waw_true, line.waw_false, line.waw_any];
    counts.into_iter().fold(0, u64::saturating_add)
}
