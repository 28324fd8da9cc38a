//! The use of pages, in the terminal: what to do first, then objects, policies and metrics.

use super::heading;
use super::style::{TextStyle, printable};
use crate::memory::{DataAdvice, DataPolicy, MemoryObject, MemoryUse};
use crate::table::{Align, Table};
use analysis::{Suited, binary_bytes};
use std::fmt::{self, Write};
use types::numbers::{grouped, percent};

/// Objects with less than this share are not listed.
const NOTABLE: f64 = 0.01;
const OBJECTS_SHOWN: usize = 10;

pub(super) fn write_memory(out: &mut String, style: TextStyle, memory: &MemoryUse) -> fmt::Result {
    heading(out, style, "Memory")?;
    let mut line = |text: String| writeln!(out, "{}", style.wrap(&format!("  {text}"), "  "));
    line(memory.text.join(" "))?;
    if memory.lost > 0 {
        line(format!("{} accesses found no place in the tables of pages.", grouped(memory.lost)))?;
    }
    if memory.nowhere > 0 {
        let text = "accesses are left out, as it is not known where their threads ran.";
        line(format!("{} {text}", grouped(memory.nowhere)))?;
    }
    if memory.unplaced > 0 {
        let text = "accesses are left out, as it is not known on which node their pages lie.";
        line(format!("{} {text}", grouped(memory.unplaced)))?;
    }
    for (number, advice) in memory.advice.iter().enumerate() {
        write_advice(out, style, number + 1, advice)?;
    }
    write_objects(out, style, memory)?;
    if memory.policies.is_empty() {
        return Ok(());
    }
    write_suitability(out, style, memory)?;
    write_policies(out, style, memory)?;
    write_sizes(out, style, memory)?;
    write_phases(out, style, memory)
}

fn write_advice(
    out: &mut String,
    style: TextStyle,
    number: usize,
    advice: &DataAdvice,
) -> fmt::Result {
    let share = percent(advice.share);
    let title = format!("  M{number}. {}: {share} of the accesses", printable(&advice.title));
    writeln!(out, "{}", style.bold(&style.wrap(&title, "      ")))?;
    writeln!(out, "{}", style.wrap(&format!("      {}.", printable(&advice.evidence)), "      "))?;
    let advice = format!("      → {} {}.", printable(&advice.advice), advice.gain);
    writeln!(out, "{}", style.wrap(&advice, "        "))
}

fn write_objects(out: &mut String, style: TextStyle, memory: &MemoryUse) -> fmt::Result {
    let most = style.lines.unwrap_or(OBJECTS_SHOWN);
    let notable = |object: &&MemoryObject| object.share >= NOTABLE;
    let shown: Vec<&MemoryObject> = memory.objects.iter().take(most).filter(notable).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let several = memory.policies.len() > 1;
    let mut table = Table::new(&[
        ("object", Align::Left),
        ("accesses", Align::Right),
        ("memory", Align::Right),
        (if several { "local" } else { "" }, Align::Right),
        ("exclusive", Align::Right),
        ("reads", Align::Right),
        ("first touch", Align::Left),
    ])
    .within(style.width);
    for object in shown {
        let exclusivity = match several {
            true => object.metrics.exclusivity,
            false => object.metrics.thread_exclusivity,
        };
        let share = |share: Option<f64>| share.map_or("–".into(), percent);
        table.row(vec![
            printable(&object.name),
            percent(object.share),
            binary_bytes(object.bytes),
            if several { share(object.metrics.local) } else { String::new() },
            share(exclusivity),
            percent(object.reads),
            first_touch(object),
        ]);
    }
    writeln!(out)?;
    write!(out, "{table}")
}

fn first_touch(object: &MemoryObject) -> String {
    match object.touched_by.as_slice() {
        [] => "–".into(),
        [one] => format!("T{one}"),
        [first, rest @ ..] => format!("T{first} and {} more", rest.len()),
    }
}

fn write_suitability(out: &mut String, style: TextStyle, memory: &MemoryUse) -> fmt::Result {
    writeln!(out)?;
    let both = [("locality", &memory.mapping.locality), ("balance", &memory.mapping.balance)];
    for (name, judgement) in both {
        let word = match judgement.suited {
            Suited::Unknown => "not known",
            Suited::No => "no",
            Suited::Partly => "a little",
            Suited::Yes => "yes",
        };
        let text = format!("  Does mapping pages by {name} gain? {word}: {}.", judgement.why);
        writeln!(out, "{}", style.wrap(&text, "  "))?;
    }
    Ok(())
}

fn write_policies(out: &mut String, style: TextStyle, memory: &MemoryUse) -> fmt::Result {
    let mut table = Table::new(&[
        ("pages by", Align::Left),
        ("local", Align::Right),
        ("Loc_App", Align::Right),
        ("change", Align::Right),
        ("B_Acc", Align::Right),
        ("change", Align::Right),
        ("busiest node", Align::Right),
        ("moved", Align::Right),
    ])
    .within(style.width);
    for (number, row) in memory.policies.iter().enumerate() {
        let change = |text: String| if number == 0 { String::new() } else { text };
        let best = if memory.best.as_ref() == Some(&row.policy) { " (best)" } else { "" };
        table.row(vec![
            format!("{}{best}", row.policy),
            percent(row.local),
            percent(row.locality),
            change(format!("{:+.0} %", row.locality_change * 100.0)),
            format!("{:.0} %", row.access_balance),
            change(format!("{:+.0} %", row.balance_change)),
            percent(busiest(row)),
            change(grouped(row.moved)),
        ]);
    }
    writeln!(out)?;
    write!(out, "{table}")?;
    let note = "  Loc_App: accesses to pages on the node that uses them most; B_Acc: imbalance of the \
                controllers, 0 % is none. Best: remote accesses and imbalance count alike.";
    writeln!(out, "{}", style.wrap(note, "  "))
}

fn busiest(row: &DataPolicy) -> f64 {
    row.loads.iter().copied().fold(0.0, f64::max)
}

fn write_sizes(out: &mut String, style: TextStyle, memory: &MemoryUse) -> fmt::Result {
    let mut table = Table::new(&[
        ("page size", Align::Left),
        ("pages", Align::Right),
        ("exclusive", Align::Right),
        ("by thread", Align::Right),
        ("local", Align::Right),
        ("B_Pages", Align::Right),
        ("B_Acc", Align::Right),
        ("moves", Align::Right),
    ])
    .within(style.width);
    for size in &memory.sizes {
        let metrics = &size.metrics;
        let share = |share: Option<f64>| share.map_or("–".into(), percent);
        table.row(vec![
            binary_bytes(size.page_bytes),
            grouped(metrics.pages),
            share(metrics.exclusivity),
            share(metrics.thread_exclusivity),
            share(metrics.local),
            format!("{:.0} %", metrics.page_balance),
            format!("{:.0} %", metrics.access_balance),
            grouped(metrics.moves),
        ]);
    }
    writeln!(out)?;
    write!(out, "{table}")?;
    let note = "  Moves: how often another node came to use a page most, from the first touch on.";
    writeln!(out, "{}", style.wrap(note, "  "))
}

fn write_phases(out: &mut String, style: TextStyle, memory: &MemoryUse) -> fmt::Result {
    if memory.phases.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        ("phase", Align::Left),
        ("exclusive", Align::Right),
        ("local", Align::Right),
        ("Loc_App", Align::Right),
        ("B_Acc", Align::Right),
        ("moves", Align::Right),
    ])
    .within(style.width);
    for phase in &memory.phases {
        let share = |share: Option<f64>| share.map_or("–".into(), percent);
        table.row(vec![
            format!("{} to {}", percent(phase.start), percent(phase.end)),
            share(phase.exclusivity),
            share(phase.local),
            share(phase.locality),
            format!("{:.0} %", phase.access_balance),
            grouped(phase.moves),
        ]);
    }
    writeln!(out)?;
    write!(out, "{table}")
}
