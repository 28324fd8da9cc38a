//! Communication by the level of the machine that it crosses.

use super::{Look, Part};
use crate::snapshot::Snapshot;
use ratatui::text::Line;
use types::numbers::{narrow, percent};

fn total(snapshot: &Snapshot) -> f64 {
    snapshot.levels.iter().map(|level| level.rate).sum()
}

fn share(rate: f64, total: f64) -> f64 {
    if total > 0.0 { rate / total } else { 0.0 }
}

/// One row per level, with a bar.
pub(crate) fn part<'a>(snapshot: &Snapshot, look: Look, width: usize) -> Part<'a> {
    let total = total(snapshot);
    let label =
        snapshot.levels.iter().map(|level| level.name.chars().count()).max().unwrap_or(5).max(5);
    let room = width.saturating_sub(label + 21);
    let bar = if look.unicode { "█" } else { "#" };
    let mut lines =
        vec![Line::from(format!("{:label$} {:>5} {:>5} {:>6}", "level", "ev/s", "hits", "share"))];
    for level in &snapshot.levels {
        let share = share(level.rate, total);
        let length = (share * room as f64).round() as usize;
        lines.push(Line::from(format!(
            "{:label$} {:>5} {:>5} {:>6} {}",
            level.name,
            narrow(level.rate),
            narrow(level.hits as f64),
            percent(share),
            bar.repeat(length)
        )));
    }
    Part {
        title: "Where communication goes, threads being where they were seen last".into(),
        lines,
    }
}

/// All levels in one row: "Levels: same L3 75 %, other package 25 %".
pub(crate) fn in_one_row(snapshot: &Snapshot) -> String {
    let total = total(snapshot);
    let parts: Vec<_> = snapshot
        .levels
        .iter()
        .map(|level| format!("{} {}", level.name, percent(share(level.rate, total))))
        .collect();
    if parts.is_empty() {
        "Levels: nothing seen yet".into()
    } else {
        format!("Levels: {}", parts.join(", "))
    }
}
