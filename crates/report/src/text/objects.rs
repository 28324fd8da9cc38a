//! The objects through which threads communicate, in the terminal.

use super::style::{TextStyle, printable};
use super::{heading, more};
use crate::objects::{HotObject, Objects};
use crate::wording::thread_list;
use std::fmt::{self, Write};
use types::numbers::{grouped, percent};

/// Most objects that are shown if no number was asked for, and the least share of the events.
const OBJECTS_SHOWN: usize = 10;
const NOTABLE: f64 = 0.01;
/// Most callers that are named.
const CALLERS_SHOWN: usize = 3;

pub(super) fn write_objects(out: &mut String, style: TextStyle, objects: &Objects) -> fmt::Result {
    let most = style.lines.unwrap_or(OBJECTS_SHOWN);
    let notable = |o: &&HotObject| style.lines.is_some() || o.share >= NOTABLE;
    let list: Vec<&HotObject> = objects.list.iter().take(most).filter(notable).collect();
    if list.is_empty() {
        return Ok(());
    }
    heading(out, style, "Hot objects")?;
    let mut note =
        "  What the threads communicate through. Heap blocks and mappings are named by the place that \
                    allocated them."
            .to_owned();
    if objects.unknown > 0 {
        note.push_str(&format!(" {} events belong to no known object.", grouped(objects.unknown)));
    }
    writeln!(out, "{}", style.wrap(&note, "  "))?;
    for (index, object) in list.iter().enumerate() {
        let title = format!("  #{} {}", index + 1, printable(&object.words()));
        writeln!(out, "{}", style.bold(&style.wrap(&title, "     ")))?;
        writeln!(out, "{}", style.wrap(&details(object), "     "))?;
    }
    more(out, objects.all as usize, list.len(), "objects", "--lines N, or threadtalk export")
}

/// The part of false sharing in the events of an object, from the least to the most where that is
/// not known of all of them.
fn false_share(object: &HotObject) -> Option<String> {
    let sharing = &object.sharing;
    let part = |events: u64| percent(events as f64 / sharing.total() as f64);
    let (least, most) = (part(sharing.falsely), part(sharing.falsely + sharing.unknown));
    match sharing.truly + sharing.falsely {
        0 => None,
        _ if least == most => Some(least),
        _ => Some(format!("{least} to {most}")),
    }
}

fn details(object: &HotObject) -> String {
    let falsely =
        false_share(object).map_or(String::new(), |part| format!(", {part} false sharing"));
    let lines = match object.lines {
        0 => String::new(),
        1 => ", on one cache line that is known".into(),
        n => format!(", on {} cache lines that are known", grouped(n)),
    };
    let callers: Vec<&str> =
        object.callers.iter().take(CALLERS_SHOWN).map(String::as_str).collect();
    let called = match callers.is_empty() {
        true => String::new(),
        false => format!(" Called from {}.", printable(&callers.join(", from "))),
    };
    let through = match object.through.is_empty() {
        true => String::new(),
        false => format!(" Allocated through {}.", printable(&object.through.join(", "))),
    };
    let usage: String = object.usage_text.iter().map(|sentence| format!(" {sentence}")).collect();
    format!(
        "     {} of all events: {} by {}{falsely}{lines}.{through}{called}{usage}",
        percent(object.share),
        grouped(object.events),
        thread_list(&object.threads)
    )
}
