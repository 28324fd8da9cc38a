//! What the memory that threads communicate through was for: variables, heap blocks by the place
//! that allocated them, stacks, files. Each event belongs to one, also where lines were too many to
//! keep apart.
//!
//! Neighbours: `findings` holds the result, `objects/uses.rs` says who uses which bytes of an
//! object, `lines` has the single lines.

mod usage;
mod uses;

pub(crate) use usage::Source;
pub use usage::Usage;
pub use uses::{Does, UseOfBytes, User, Uses};

use crate::lines::{Split, moves_a_line};
use profile::{EventRow, ObjectRow, Profile, Wanted};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use ts_rs::TS;
use types::numbers::{duration, grouped};
use types::{CommKind, Sharing};

/// The objects on which threads met.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Objects {
    /// Objects with events; `list` holds those with the most.
    pub all: u64,
    /// RAW and WAW events that belong to an object.
    pub events: u64,
    /// Events that belong to no known object.
    pub unknown: u64,
    /// Most events first.
    pub list: Vec<HotObject>,
}

/// One object.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct HotObject {
    /// Its row in the table of objects.
    pub row: u32,
    /// What kind of memory it is: `static`, `heap`, `stack` and so on.
    pub region: String,
    /// The variable, or the function that wanted the memory, and where; or empty.
    pub name: String,
    /// Who called that function, innermost first: `g at f.c:10`.
    pub callers: Vec<String>,
    /// The functions through which it allocates, which do nothing else, innermost first.
    pub through: Vec<String>,
    /// Blocks of about this size that were allocated there; 0 = not allocated.
    pub blocks: u64,
    /// Their bytes together.
    pub bytes: u64,
    /// The type of its elements, or empty.
    pub element: String,
    /// Bytes from one element to the next; 0 = not known.
    pub stride: u64,
    /// How many of them were freed; `None` where that is not known.
    pub freed: Option<u64>,
    /// How long those had been there, on average, ns of the recorded run.
    pub lifetime_ns: Option<u64>,
    /// Cache lines of it that the profile knows.
    pub lines: u64,
    /// RAW and WAW events.
    pub events: u64,
    /// Share of all RAW and WAW events of the profile, 0 to 1.
    pub share: f64,
    /// Events by sharing.
    pub sharing: Split,
    /// Threads that met on it.
    pub threads: Vec<u32>,
    /// How they use it.
    pub usage: Usage,
    /// The same in sentences.
    pub usage_text: Vec<String>,
    /// Who does what with which bytes; only of the first objects of a list.
    pub uses: Option<Uses>,
}

/// Least number of blocks that were freed to tell in words how long they were there.
const MIN_FREED: u64 = 10;
/// Objects whose uses are told.
const MAX_WITH_USES: usize = 48;

impl HotObject {
    /// `heap block of 8,000 bytes (1,000 × double) allocated in make at a.c:7`, `counters (app)`,
    /// or what is known instead.
    pub fn words(&self) -> String {
        let elements = Elements { name: &self.element, bytes: self.stride };
        words(&self.region, &self.name, Blocks::new(self.blocks, self.bytes).of(elements))
    }

    /// How long its blocks are there, where enough were freed.
    fn life(&self) -> Option<String> {
        let freed = self.freed.filter(|freed| *freed >= MIN_FREED)?;
        let life = duration(self.lifetime_ns? as f64 / 1e9);
        let kept = self.blocks.saturating_sub(freed);
        let never = if kept > 0 { format!(", {} never", grouped(kept)) } else { String::new() };
        Some(format!("Blocks are freed after {life} on average{never}."))
    }
}

/// Longest name of a type that is told with its block: templates have names of several lines.
const MAX_TYPE_NAME: usize = 40;

/// What blocks consist of.
#[derive(Clone, Copy, Default)]
pub(crate) struct Elements<'a> {
    /// The type; empty: not known.
    pub name: &'a str,
    /// From one element to the next; 0: not known.
    pub bytes: u64,
}

/// The blocks of an object.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a> {
    count: u64,
    /// Of all together.
    bytes: u64,
    elements: Elements<'a>,
}

impl<'a> Blocks<'a> {
    pub fn new(count: u64, bytes: u64) -> Self {
        Self { count, bytes, elements: Elements::default() }
    }

    /// Those of an object, with its type.
    pub fn of_row(row: &'a ObjectRow) -> Self {
        let elements = Elements { name: &row.element, bytes: row.stride };
        Self::new(row.blocks, row.bytes).of(elements)
    }

    fn of(self, elements: Elements<'a>) -> Self {
        Self { elements, ..self }
    }

    /// `heap block of 96 bytes (4 × Worker)`.
    fn words(&self, one: &str) -> String {
        let bytes = self.bytes.checked_div(self.count).unwrap_or(0);
        let is_even = bytes * self.count == self.bytes;
        let about = if is_even { "" } else { "about " };
        let what = match self.count {
            0 => return format!("{one}s"),
            1 => format!("{one} of {} bytes", grouped(bytes)),
            n => format!("{} {one}s of {about}{} bytes", grouped(n), grouped(bytes)),
        };
        let Elements { name, bytes: stride } = self.elements;
        let is_told = !name.is_empty() && name.chars().count() <= MAX_TYPE_NAME;
        match bytes.checked_div(stride).filter(|_| is_told) {
            None => what,
            Some(0 | 1) => format!("{what} ({name})"),
            Some(n) if is_even => format!("{what} ({} × {name})", grouped(n)),
            Some(_) => format!("{what} (arrays of {name})"),
        }
    }
}

/// An object in words, see [`HotObject::words`].
pub(crate) fn words(region: &str, name: &str, blocks: Blocks<'_>) -> String {
    let (one, made) = match (region, name) {
        ("heap", "") => return "heap memory in no known block".into(),
        ("heap", _) => ("heap block", "allocated"),
        ("anonymous", _) if !name.is_empty() => ("mapping", "made"),
        (_, "") => return region.into(),
        _ => return name.into(),
    };
    format!("{} {made} {name}", blocks.words(one))
}

/// Whether an object's name says where its blocks were allocated or mapped.
pub(crate) fn is_allocated(row: &ObjectRow) -> bool {
    !row.name.is_empty() && matches!(row.region.as_str(), "heap" | "anonymous")
}

/// The `most` objects with the most events; `None` when the profile knows none.
pub(crate) fn objects(profile: &Profile, most: usize) -> Option<Objects> {
    let mut sums: Vec<Sum> = (0..).zip(&profile.objects).map(Sum::new).collect();
    for event in profile.events.iter().filter(|event| moves_a_line(event)) {
        sums[event.object as usize].add(event);
    }
    let unknown = sums.first().map_or(0, |sum| sum.sharing.total());
    let mut known: Vec<Sum> =
        sums.into_iter().skip(1).filter(|sum| sum.sharing.total() > 0).collect();
    if known.is_empty() {
        return None;
    }
    known.sort_by_key(|sum| Reverse(sum.sharing.total()));
    let totals = &profile.meta.totals;
    let events = known.iter().map(|sum| sum.sharing.total()).fold(0, u64::saturating_add);
    let all_events = totals.raw.saturating_add(totals.waw).max(events);
    let all = known.len() as u64;
    let source = Source::new(profile);
    let uses = |place: usize, sum: &Sum<'_>| {
        (place < MAX_WITH_USES).then(|| Uses::of(profile, &sum.events))
    };
    let list = known.into_iter().take(most).enumerate().map(|(place, sum)| {
        let usage = source.usage(sum.number, &sum.events);
        let found = sum.finish(all_events);
        let usage_text = usage.sentences().into_iter().chain(found.life()).collect();
        HotObject { uses: uses(place, &sum), usage, usage_text, ..found }
    });
    let list = list.collect();
    Some(Objects { all, events, unknown: unknown.max(all_events - events), list })
}

/// What is summed up for an object.
struct Sum<'a> {
    number: u32,
    row: &'a ObjectRow,
    sharing: Split,
    lines: HashSet<u64>,
    threads: BTreeSet<u32>,
    events: Vec<&'a EventRow>,
}

impl<'a> Sum<'a> {
    fn new((number, row): (u32, &'a ObjectRow)) -> Self {
        let (lines, threads, events) = Default::default();
        Self { number, row, sharing: Split::default(), lines, threads, events }
    }

    fn add(&mut self, event: &'a EventRow) {
        debug_assert!(matches!(event.kind, CommKind::Raw | CommKind::Waw));
        let sum = match event.sharing {
            Sharing::True => &mut self.sharing.truly,
            Sharing::False => &mut self.sharing.falsely,
            Sharing::Any => &mut self.sharing.unknown,
        };
        *sum = sum.saturating_add(event.count);
        if event.line != 0 {
            self.lines.insert(event.line);
        }
        self.threads.extend([event.from.0, event.to.0]);
        self.events.push(event);
    }

    fn finish(&self, all_events: u64) -> HotObject {
        let Wanted { name, callers, through } = self.row.wanted();
        let events = self.sharing.total();
        HotObject {
            row: self.number,
            region: self.row.region.clone(),
            name,
            callers,
            through,
            blocks: self.row.blocks,
            bytes: self.row.bytes,
            element: self.row.element.clone(),
            stride: self.row.stride,
            freed: self.row.freed,
            lifetime_ns: self.row.lifetime_ns,
            lines: self.lines.len() as u64,
            events,
            share: events as f64 / all_events.max(1) as f64,
            sharing: self.sharing,
            threads: self.threads.iter().copied().collect(),
            usage: Usage::default(),
            usage_text: vec![],
            uses: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::shared;

    fn heap(blocks: u64, bytes: u64) -> ObjectRow {
        let (region, name) = ("heap".into(), "in make at a.c:7".into());
        ObjectRow { region, name, blocks, bytes, ..ObjectRow::default() }
    }

    #[test]
    fn events_are_summed_by_object_also_without_lines() {
        let mut profile = shared();
        assert_eq!(objects(&profile, 9), None, "older profiles have none");
        profile.objects.extend([heap(1, 8000), heap(4, 330)]);
        for event in &mut profile.events {
            event.object = 1 + u32::from(event.line == 0);
        }
        let found = objects(&profile, 9).unwrap();
        let sum: u64 = found.list.iter().map(|object| object.events).sum();
        assert_eq!((found.all as usize, found.events), (found.list.len(), sum));
        let moved = profile.events.iter().filter(|e| moves_a_line(e));
        assert_eq!(sum, moved.map(|e| e.count).sum::<u64>());
        assert!(found.list.is_sorted_by_key(|object| Reverse(object.events)));
        assert_eq!(objects(&profile, 1).unwrap().list.len(), 1);
    }

    #[test]
    fn an_object_in_words() {
        let words = |row: &ObjectRow| Sum::new((1, row)).finish(1).words();
        assert_eq!(words(&heap(1, 8000)), "heap block of 8,000 bytes allocated in make at a.c:7");
        assert_eq!(
            words(&heap(4, 330)),
            "4 heap blocks of about 82 bytes allocated in make at a.c:7"
        );
        let others = ObjectRow { region: "heap".into(), ..ObjectRow::default() };
        assert!(words(&others).starts_with("heap memory in no known block"));
        let variable = ObjectRow { region: "static".into(), name: "a (app)".into(), ..others };
        assert_eq!(words(&variable), "a (app)");
    }
}
