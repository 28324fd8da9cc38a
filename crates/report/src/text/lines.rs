//! The hot lines in the terminal, as users of `perf c2c report` expect them: first the lines, then
//! for each of them the code that meets on it.

use super::style::{TextStyle, printable};
use super::{heading, more};
use crate::code::{Code, Flow};
use crate::evidence::{self, EvidenceShare};
use crate::lines::{Access, AccessKind, ByteUse, Bytes, HotLine, Lines, Split};
use crate::table::{Align, Table};
use crate::wording::{thread_list, union};
use std::fmt::{self, Write};
use types::numbers::{grouped, percent, short};

/// Most lines that are shown if no number was asked for, and the share of the events that makes one
/// of them worth its details.
const LINES_SHOWN: usize = 10;
const NOTABLE: f64 = 0.01;
/// Most places in the code that are listed for a line.
const PLACES_SHOWN: usize = 8;
/// Most threads whose bytes are listed for a line.
const OWNERS_SHOWN: usize = 16;

pub(super) fn write_lines(out: &mut String, style: TextStyle, lines: &Lines) -> fmt::Result {
    let most = style.lines.unwrap_or(LINES_SHOWN);
    let list = &lines.list[..lines.list.len().min(most)];
    if list.is_empty() {
        return Ok(());
    }
    heading(out, style, "Hot lines")?;
    let share = list.iter().map(|line| line.share).sum();
    // Unless a number was asked for, lines that hardly matter are not gone into.
    let matters = |share: f64| style.lines.is_some() || share >= NOTABLE;
    let carry = format!(
        "{} of {} cache lines carry {} of {} events",
        list.len(),
        grouped(lines.all),
        percent(share),
        grouped(lines.events)
    );
    let note = match matters(share) {
        true => format!(
            "  {carry}. An event: a thread reads or overwrites what another thread wrote; true if \
             it is about the same bytes, false if they only share the line."
        ),
        false => format!("  No cache line stands out: the hottest {carry}."),
    };
    writeln!(out, "{}", style.wrap(&note, "  "))?;
    if lines.elsewhere > 0 {
        let note =
            format!("  {} events are on lines that were not kept apart.", grouped(lines.elsewhere));
        writeln!(out, "{}", style.wrap(&note, "  "))?;
    }
    let list = if matters(share) { list } else { &[] };
    if !list.is_empty() {
        writeln!(out)?;
        write_overview(out, style, list)?;
    }
    let detailed: Vec<&HotLine> = list.iter().filter(|line| matters(line.share)).collect();
    for (index, line) in detailed.iter().enumerate() {
        writeln!(out)?;
        write_line(out, style, index + 1, line)?;
    }
    if !detailed.is_empty() {
        writeln!(out)?;
        let note = "  takes: how often this code took the line from another thread; gives: how \
                    often another thread then took what this code had written.";
        writeln!(out, "{}", style.wrap(note, "  "))?;
    }
    match list {
        [] => writeln!(out, "  All of them: --lines N, or threadtalk export"),
        _ => more(out, lines.all as usize, list.len(), "lines", "--lines N, or threadtalk export"),
    }
}

/// The code that carries the talk, over all lines.
pub(super) fn write_code(out: &mut String, style: TextStyle, code: &Code) -> fmt::Result {
    let most = style.lines.unwrap_or(LINES_SHOWN);
    let notable = |flow: &&Flow| style.lines.is_some() || flow.share >= NOTABLE;
    let list: Vec<&Flow> = code.list.iter().take(most).filter(notable).collect();
    if list.is_empty() {
        return Ok(());
    }
    heading(out, style, "Hot code")?;
    let note = "  Over all lines: which code wrote, and which read (→) or overwrote (⇒) it.";
    writeln!(out, "{}", style.wrap(note, "  "))?;
    let mut columns = vec![
        ("share", Align::Right),
        ("events", Align::Right),
        ("false", Align::Right),
        ("by", Align::Left),
        ("written at", Align::Left),
        ("", Align::Left),
        ("by", Align::Left),
        ("taken at", Align::Left),
    ];
    columns.extend(list.iter().find_map(|flow| flow.hits).map(|_| ("evidence", Align::Left)));
    let mut table = Table::new(&columns).within(style.width);
    for flow in &list {
        let known = flow.sharing.truly + flow.sharing.falsely;
        let mut row = vec![
            percent(flow.share),
            short(flow.events as f64),
            match known {
                0 => "?".into(),
                _ => percent(flow.sharing.falsely as f64 / flow.sharing.total() as f64),
            },
            thread_list(&flow.from_threads),
            printable(&flow.from.short()),
            if flow.kind == "raw" { "→".into() } else { "⇒".into() },
            thread_list(&flow.to_threads),
            printable(&flow.to.short()),
        ];
        row.extend(shown_by(flow.hits, &flow.evidence));
        table.row(row);
    }
    write!(out, "{table}")?;
    let elsewhere = "--lines N, or threadtalk export";
    more(out, code.all as usize, list.len(), "pairs of places", elsewhere)
}

/// One row for each line.
fn write_overview(out: &mut String, style: TextStyle, list: &[HotLine]) -> fmt::Result {
    let mut columns = vec![
        ("", Align::Right),
        ("address", Align::Left),
        ("object", Align::Left),
        ("share", Align::Right),
        ("events", Align::Right),
        ("true", Align::Right),
        ("false", Align::Right),
    ];
    columns.extend(list.iter().find_map(|line| line.hits).map(|_| ("evidence", Align::Left)));
    let mut table = Table::new(&columns).within(style.width);
    for (index, line) in list.iter().enumerate() {
        let mut row = vec![
            format!("#{}", index + 1),
            line.address.clone(),
            printable(line.name()),
            percent(line.share),
            short(line.events as f64),
            known(line.truly(), line),
            known(line.falsely(), line),
        ];
        row.extend(shown_by(line.hits, &line.evidence));
        table.row(row);
    }
    write!(out, "{table}")
}

/// What shows events; nothing where they were counted, as all are then.
fn shown_by(hits: Option<u64>, evidence: &[EvidenceShare]) -> Option<String> {
    hits.map(|_| evidence::words(evidence))
}

/// A share of a line's events; unknown when its sharing was not told apart.
fn known(events: u64, line: &HotLine) -> String {
    match line.events {
        all if all > line.raw.unknown + line.waw.unknown => percent(events as f64 / all as f64),
        _ => "?".into(),
    }
}

fn write_line(out: &mut String, style: TextStyle, number: usize, line: &HotLine) -> fmt::Result {
    let place = match line.object.as_str() {
        "" => format!("{} ({})", line.address, line.region),
        object => format!("{object} at {} ({})", line.address, line.region),
    };
    let title = style.wrap(&format!("  #{number} {}", printable(&place)), "     ");
    writeln!(out, "{}", style.bold(&title))?;
    let of = |what: &str, split: &Split| {
        let known = split.truly + split.falsely;
        match (split.total(), known) {
            (0, _) => format!("no {what}"),
            (all, 0) => format!("{} {what}", grouped(all)),
            (all, _) => {
                let (truly, falsely) = (grouped(split.truly), grouped(split.falsely));
                let unknown = match split.unknown {
                    0 => String::new(),
                    unknown => format!(", {} not known", grouped(unknown)),
                };
                format!("{} {what} ({truly} true, {falsely} false{unknown})", grouped(all))
            }
        }
    };
    let events = format!(
        "     {} of all events: {}, {}.",
        percent(line.share),
        of("reads", &line.raw),
        of("overwrites", &line.waw)
    );
    writeln!(out, "{}", style.wrap(&events, "     "))?;
    write_accesses(out, style, line)
}

fn write_accesses(out: &mut String, style: TextStyle, line: &HotLine) -> fmt::Result {
    let mut table = Table::new(&[
        ("  ", Align::Left),
        ("bytes", Align::Left),
        ("", Align::Left),
        ("by", Align::Left),
        ("takes", Align::Right),
        ("gives", Align::Right),
        ("where", Align::Left),
    ])
    .within(style.width);
    for access in line.accesses.iter().take(PLACES_SHOWN) {
        table.row(vec![
            String::new(),
            bytes_of(access),
            access.kind.name().into(),
            thread_list(&threads(access)),
            short(access.takes as f64),
            short(access.gives as f64),
            printable(&access.place.short()),
        ]);
        for caller in &access.place.inlined_into {
            let mut row = vec![String::new(); 6];
            row.push(format!("  in {}", printable(&short_caller(caller))));
            table.row(row);
        }
    }
    write!(out, "{table}")?;
    more(out, line.accesses.len(), PLACES_SHOWN, "places in the code", "--json")?;
    if line.threads.iter().all(|thread| thread.read == thread.written) {
        return write_owners(out, style, "read and written", line, |thread| thread.written);
    }
    write_owners(out, style, "written", line, |thread| thread.written)?;
    write_owners(out, style, "read", line, |thread| thread.read)
}

/// The bytes that an access touches, where that is known.
fn bytes_of(access: &Access) -> String {
    match access.bytes {
        Bytes(0) => "?".into(),
        bytes => bytes.for_people(),
    }
}

/// Which thread uses which bytes, if they differ.
fn write_owners(
    out: &mut String,
    style: TextStyle,
    what: &str,
    line: &HotLine,
    bytes: fn(&ByteUse) -> Bytes,
) -> fmt::Result {
    let used: Vec<(u32, Bytes)> =
        line.threads.iter().map(|t| (t.thread, bytes(t))).filter(|(_, b)| b.0 != 0).collect();
    if used.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        return Ok(());
    }
    let shown = used.iter().take(OWNERS_SHOWN);
    let mut list: Vec<String> = shown.map(|(t, b)| format!("T{t} {}", b.for_people())).collect();
    if used.len() > OWNERS_SHOWN {
        list.push(format!("and {} more threads", used.len() - OWNERS_SHOWN));
    }
    let text = format!("      bytes {what}: {}", list.join(", "));
    writeln!(out, "{}", style.wrap(&text, "        "))
}

/// Who accesses the line there.
fn threads(access: &Access) -> Vec<u32> {
    match access.kind {
        AccessKind::Read => access.readers.clone(),
        AccessKind::Write => access.writers.clone(),
        AccessKind::Update => union(&access.readers, &access.writers),
    }
}

/// `main at /src/app.c:50` as `app.c:50 main`.
fn short_caller(caller: &str) -> String {
    match caller.rsplit_once(" at ") {
        Some((function, place)) => format!("{} {function}", crate::lines::base_name(place)),
        None => caller.to_owned(),
    }
}
