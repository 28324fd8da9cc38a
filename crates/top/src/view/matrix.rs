//! The matrix: who gives (rows) to whom (columns), by shade where it is narrow, by number where
//! there is room.

use super::{Look, Part};
use crate::select;
use crate::snapshot::{Snapshot, Thread};
use crate::state::State;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use types::numbers::narrow;

/// Columns of a number: four digits and a blank.
const NUMBER: usize = 5;

/// As many threads as fit into `width` and `height` characters, those first in the chosen order.
pub(crate) fn part<'a>(
    snapshot: &Snapshot,
    state: &State,
    look: Look,
    width: usize,
    height: usize,
) -> Part<'a> {
    let threads = select::threads(snapshot, state);
    let label = label_width(&threads);
    // The title and the row of column labels take two lines.
    let rows = threads.len().min(height.saturating_sub(2));
    let room = width.saturating_sub(label + 1);
    let (cell, numbers) = if rows * NUMBER.max(label + 1) <= room {
        (NUMBER.max(label + 1), true)
    } else {
        (label + 1, false)
    };
    let count = rows.min(room / cell);
    let shown = &threads[..count];
    let rates = select::rates(snapshot);
    let most = rates.values().copied().fold(0.0, f64::max);
    let mut lines = vec![Line::from(heading(shown, label, cell))];
    for from in shown {
        let mut spans = vec![Span::raw(format!("{:>label$} ", from.id.0))];
        for to in shown {
            let rate = rates.get(&(from.id, to.id)).copied().unwrap_or(0.0);
            spans.push(cell_of(rate, most, cell, numbers, from.id == to.id, look));
        }
        lines.push(Line::from(spans));
    }
    let of = if count < threads.len() {
        format!("{count} of {} threads", threads.len())
    } else {
        let one = if count == 1 { "" } else { "s" };
        format!("{count} thread{one}")
    };
    Part { title: format!("Matrix: rows give, columns take; {of}"), lines }
}

fn label_width(threads: &[&Thread]) -> usize {
    threads.iter().map(|thread| thread.id.0.to_string().len()).max().unwrap_or(1)
}

fn heading(shown: &[&Thread], label: usize, cell: usize) -> String {
    let labels: String = shown.iter().map(|to| format!("{:>cell$}", to.id.0)).collect();
    format!("{:label$} {labels}", "")
}

fn cell_of<'a>(
    rate: f64,
    most: f64,
    cell: usize,
    numbers: bool,
    own: bool,
    look: Look,
) -> Span<'a> {
    let step = if rate > 0.0 && most > 0.0 { step(rate / most) } else { 0 };
    let text = match (own, numbers, step) {
        (true, _, _) => "\\".to_string(),
        (_, true, 1..) => narrow(rate),
        (_, _, step) if look.unicode => {
            ["·", "░", "▒", "▓", "█"][step].repeat(if step > 0 && cell == 2 { 2 } else { 1 })
        }
        (_, _, step) => [".", "-", "+", "*", "#"][step].to_string(),
    };
    let colours = [Color::DarkGray, Color::Blue, Color::Cyan, Color::Yellow, Color::Red];
    let style = if own { Style::new().fg(Color::DarkGray) } else { Style::new().fg(colours[step]) };
    Span::styled(format!("{text:>cell$}"), look.coloured(style))
}

/// Shade 1 to 4 of a share of the largest cell: each is four times the one before.
fn step(share: f64) -> usize {
    match share {
        s if s > 0.5 => 4,
        s if s > 0.125 => 3,
        s if s > 0.03125 => 2,
        _ => 1,
    }
}
