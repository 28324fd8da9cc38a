//! What `threadtalk auto` does with the process that is shown.

use super::{Part, clipped};
use crate::snapshot::Snapshot;
use ratatui::text::Line;

/// The sentences; that there are none is one, too.
pub(crate) fn part<'a>(snapshot: &Snapshot, width: usize) -> Part<'a> {
    let lines = snapshot.placing.iter().map(|line| Line::from(clipped(line, width))).collect();
    let none = match snapshot.placing.is_empty() {
        true => "; it does not look after this process",
        false => "",
    };
    Part { title: format!("What threadtalk auto does here{none}"), lines }
}
