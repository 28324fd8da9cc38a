//! The hottest lines of memory: how often they change hands, true or false, and the code on both
//! sides.

use super::Part;
use super::clipped;
use crate::select;
use crate::snapshot::{Line as Hot, Snapshot};
use crate::state::State;
use ratatui::text::Line;
use types::numbers::{narrow, percent};

/// One row per line of memory; the code that takes it has a column of its own where there is room.
pub(crate) fn part<'a>(snapshot: &Snapshot, state: &State, width: usize) -> Part<'a> {
    let hot = select::lines(snapshot, state);
    // Address, rate, hits, false sharing, threads and the blanks after them.
    let rest = width.saturating_sub(15 + 6 + 6 + 6 + 4);
    let columns = if rest >= 75 { 3 } else { 2 };
    let column = rest.saturating_sub(columns - 1) / columns;
    let mut heads = vec!["object", "written by"];
    if columns == 3 {
        heads.push("taken by");
    }
    let mut lines = vec![row("line", "ev/s", "hits", "false", "thr", &heads, column)];
    lines.extend(hot.iter().map(|line| of(line, columns, column)));
    let none = if snapshot.lines.is_empty() { "; none seen yet" } else { "" };
    Part { title: format!("Hot lines of memory{none}"), lines }
}

fn of<'a>(line: &Hot, columns: usize, column: usize) -> Line<'a> {
    let mut texts = vec![line.object.as_str(), line.writer.as_str()];
    if columns == 3 {
        texts.push(&line.taker);
    }
    let wrong = line.false_share.map_or_else(|| "?".into(), percent);
    row(
        &format!("{:#x}", line.address),
        &narrow(line.rate),
        &narrow(line.hits as f64),
        &wrong,
        &line.threads.to_string(),
        &texts,
        column,
    )
}

fn row<'a>(
    address: &str,
    rate: &str,
    hits: &str,
    wrong: &str,
    threads: &str,
    texts: &[&str],
    column: usize,
) -> Line<'a> {
    let texts: Vec<_> =
        texts.iter().map(|text| format!("{:column$}", clipped(text, column))).collect();
    let texts = texts.join(" ");
    Line::from(format!("{address:14} {rate:>5} {hits:>5} {wrong:>5} {threads:>3} {texts}"))
}
