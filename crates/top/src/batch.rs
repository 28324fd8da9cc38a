//! The view as plain text, for pipes and files: one screen below the other, without a terminal's
//! codes.

use crate::snapshot::Snapshot;
use crate::state::State;
use crate::view::{Look, Part, levels, lines, matrix, method, placing, processes, threads, title};

/// Threads in the matrix of a batch, and lines of memory, at most.
const MAX: usize = 32;

/// One snapshot in `width` columns.
pub fn batch(snapshot: &Snapshot, state: &State, look: Look, width: usize) -> String {
    let mut text = format!("{}\n{}\n", title(snapshot, state), method(snapshot));
    let parts = [
        matrix::part(snapshot, state, look, width, MAX + 2),
        threads::part(snapshot, state, width),
        lines::part(snapshot, state, width),
        levels::part(snapshot, look, width),
    ];
    let several = snapshot.processes.len() > 1;
    let others = several.then(|| processes::part(snapshot, width));
    let placed = (!snapshot.placing.is_empty()).then(|| placing::part(snapshot, width));
    for Part { title, lines } in parts.into_iter().chain(others).chain(placed) {
        text += &format!("\n{title}\n");
        for line in lines.iter().take(MAX + 1) {
            let line: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}
