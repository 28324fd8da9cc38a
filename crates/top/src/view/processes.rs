//! The processes that are looked at, and which of them is shown.

use super::Part;
use super::clipped;
use crate::snapshot::Snapshot;
use ratatui::text::Line;
use types::numbers::narrow;

/// One row per process, the one that is shown marked.
pub(crate) fn part<'a>(snapshot: &Snapshot, width: usize) -> Part<'a> {
    // Everything but the name takes 33 characters.
    let name = width.saturating_sub(33).clamp(4, 40);
    let mut lines = vec![Line::from(format!(
        "  {:>7} {:name$} {:>7} {:>5} {:>8}",
        "pid", "name", "threads", "hits", "samples/s"
    ))];
    lines.extend(snapshot.processes.iter().map(|process| {
        Line::from(format!(
            "{} {:>7} {:name$} {:>7} {:>5} {:>8}",
            if process.shown { '>' } else { ' ' },
            process.pid,
            clipped(&process.name, name),
            process.threads,
            narrow(process.hits as f64),
            process.samples_per_second.map_or_else(|| "-".into(), narrow),
        ))
    }));
    let which = match (snapshot.processes.len(), snapshot.chosen) {
        (0 | 1, _) => "",
        (_, false) => "; shown is the one that talks most, n for the next",
        (_, true) => "; n for the next, m for the one that talks most",
    };
    Part { title: format!("Processes{which}"), lines }
}

/// Which of several is shown, " (2 of 3)"; nothing where there is one only.
pub(crate) fn place(snapshot: &Snapshot) -> String {
    let all = &snapshot.processes;
    match all.iter().position(|process| process.shown) {
        Some(at) if all.len() > 1 => format!(" ({} of {})", at + 1, all.len()),
        _ => String::new(),
    }
}
