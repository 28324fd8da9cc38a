//! The events of the hot lines for the page, which sums them up itself for whatever the reader
//! selects.
//!
//! Bounded: the hottest lines only (as many as the findings list), and of their events the
//! [`MAX_EVENTS`] with the highest counts; the page says what share it holds. Neighbour:
//! `web/src/model/lines.ts` decodes this.

use super::varints::Varints;
use crate::code::place;
use crate::lines::{Place, events_on, hottest, moves_a_line};
use profile::{EventRow, Profile};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use ts_rs::TS;
use types::{CommKind, Sharing};

/// Most events (pairs of threads and places on a line): about 1 MB in the page.
const MAX_EVENTS: usize = 60_000;

#[derive(Serialize, TS)]
pub(super) struct Hot {
    /// The code that takes part.
    places: Vec<Place>,
    /// Sets of bytes, as masks.
    bytes: String,
    /// By line in the order of the findings' list, for each event: distance from the previous
    /// line, kind (0 raw, 1 waw) · 3 + sharing (0 any, 1 true, 2 false), from, to, place of from
    /// and of to, bytes of from and of to, count.
    events: String,
    /// The events of all lines together, the most frequent only: kind and sharing as above, from,
    /// to, place of from and of to, count.
    code: String,
}

/// Kind and sharing, threads, places.
type CodeKey = (u64, u32, u32, u64, u64);

impl Hot {
    pub(super) fn new(profile: &Profile, max_lines: usize) -> Self {
        let mut kept = kept(profile, max_lines);
        kept.sort_by_key(|(line, event)| (*line, Reverse(event.count), event.key()));
        let mut places = Places { profile, sites: HashMap::new(), list: Dictionary::default() };
        let mut bytes = Dictionary::default();
        let mut numbers = Varints::default();
        let mut previous = 0;
        for (line, event) in kept {
            numbers.push((line - previous) as u64);
            previous = line;
            numbers.push(kind_and_sharing(event));
            numbers.push(event.from.0.into());
            numbers.push(event.to.0.into());
            numbers.push(places.of(event.from_site));
            numbers.push(places.of(event.to_site));
            numbers.push(bytes.index(event.from_bytes));
            numbers.push(bytes.index(event.to_bytes));
            numbers.push(event.count);
        }
        let mut masks = Varints::default();
        bytes.list.iter().for_each(|&mask| masks.push(mask));
        let (events, code) = (numbers.encode(), code(profile, &mut places));
        Self { places: places.list.list, bytes: masks.encode(), events, code }
    }
}

fn kind_and_sharing(event: &EventRow) -> u64 {
    let kind = if event.kind == CommKind::Raw { 0 } else { 3 };
    kind + match event.sharing {
        Sharing::Any => 0,
        Sharing::True => 1,
        Sharing::False => 2,
    }
}

/// The events by threads and places, whatever their line.
fn code(profile: &Profile, places: &mut Places<'_>) -> String {
    let mut sums: HashMap<CodeKey, u64> = HashMap::new();
    for event in profile.events.iter().filter(|event| moves_a_line(event)) {
        let (from, to) = (places.of(event.from_site), places.of(event.to_site));
        let key = (kind_and_sharing(event), event.from.0, event.to.0, from, to);
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(event.count);
    }
    let mut sorted: Vec<(CodeKey, u64)> = sums.into_iter().collect();
    sorted.sort_unstable_by_key(|(key, count)| (Reverse(*count), *key));
    let mut numbers = Varints::default();
    for ((kind, from, to, from_place, to_place), count) in sorted.into_iter().take(MAX_EVENTS) {
        for number in [kind, from.into(), to.into(), from_place, to_place, count] {
            numbers.push(number);
        }
    }
    numbers.encode()
}

/// Numbers of places, found by site.
struct Places<'a> {
    profile: &'a Profile,
    sites: HashMap<u32, u64>,
    list: Dictionary<Place>,
}

impl Places<'_> {
    fn of(&mut self, site: u32) -> u64 {
        *self.sites.entry(site).or_insert_with(|| self.list.index(place(self.profile, site)))
    }
}

/// The events that the page gets, with the rank of their line.
fn kept(profile: &Profile, max_lines: usize) -> Vec<(usize, &EventRow)> {
    let lines = hottest(profile);
    let mut events: Vec<(usize, &EventRow)> = lines
        .iter()
        .take(max_lines)
        .enumerate()
        .flat_map(|(rank, row)| events_on(profile, row.line).iter().map(move |e| (rank, e)))
        .filter(|(_, event)| moves_a_line(event))
        .collect();
    if events.len() > MAX_EVENTS {
        events.sort_by_key(|(rank, event)| (Reverse(event.count), *rank));
        events.truncate(MAX_EVENTS);
    }
    events
}

/// Different values in the order of their first use.
struct Dictionary<T> {
    list: Vec<T>,
    known: BTreeMap<T, u64>,
}

impl<T> Default for Dictionary<T> {
    fn default() -> Self {
        Self { list: vec![], known: BTreeMap::new() }
    }
}

impl<T: Clone + Ord> Dictionary<T> {
    fn index(&mut self, value: T) -> u64 {
        let next = self.list.len() as u64;
        *self.known.entry(value).or_insert_with_key(|value| {
            self.list.push(value.clone());
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::varints::decode;
    use super::*;
    use crate::samples::shared;
    use types::ThreadId;

    #[test]
    fn events_by_rank_of_their_line() {
        let hot = Hot::new(&shared(), 2);
        let places: Vec<_> = hot.places.iter().map(Place::short).collect();
        let expected =
            ["a.c:31 bump(long*)", "libx.so.1+0x99", "b.c:7 take, \"quoted\"", "unknown code"];
        assert_eq!(places, expected);
        assert_eq!(decode(&hot.bytes)[..2], [0xff, 0xff00]);
        let events = decode(&hot.events);
        assert_eq!(events.len(), 9 * 9);
        // Line, RAW with false sharing, T1 to T2, one place, own bytes, count.
        assert_eq!(events[..9], [0, 2, 1, 2, 0, 0, 0, 1, 1000]);
        // The fifth is the first of the overwrites, the last is on the next line.
        assert_eq!(events[36..45], [0, 5, 1, 2, 0, 0, 0, 1, 100]);
        assert_eq!(events[72..], [1, 1, 0, 1, 1, 2, 4, 5, 700]);
        let code = decode(&hot.code);
        // RAW with false sharing, T1 to T2, one place, count; last what nothing is known of.
        assert_eq!(code[..6], [2, 1, 2, 0, 0, 1000]);
        assert_eq!((code.len(), &code[60..]), (6 * 11, &[0, 0, 4, 3, 3, 5][..]));
    }

    #[test]
    fn of_too_many_events_the_most_frequent_stay() {
        let mut profile = shared();
        let template = profile.events[1];
        let on_one_line = (0..MAX_EVENTS as u32 + 100).map(|i| profile::EventRow {
            from: ThreadId(i),
            to: ThreadId(i + 1),
            count: if i < 100 { 1 } else { 2 },
            ..template
        });
        profile.events = on_one_line.collect();
        profile.lines.retain(|row| row.line == template.line);
        let events = decode(&Hot::new(&profile, 10).events);
        assert_eq!(events.len(), 9 * MAX_EVENTS);
        assert!(events.chunks(9).all(|event| event[8] == 2));
    }
}
