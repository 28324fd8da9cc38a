//! Who uses an object, and which of its bytes from where: what a map of its bytes is drawn from.
//!
//! Every event has a thread that had written bytes of a line and one that reads or overwrites some.
//! Here both sides are summed up by thread, bytes and place in the code, the hottest lines of the
//! object apart from all others together. Neighbours: `objects` asks, the page draws.

use crate::code::place;
use profile::{EventRow, Profile};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use ts_rs::TS;
use types::CommKind;

/// Lines that are kept apart.
const MAX_LINES: usize = 8;
/// Users that are listed, and uses of bytes.
const MAX_USERS: usize = 64;
const MAX_USES: usize = 256;

/// Who uses an object.
#[derive(Clone, PartialEq, Debug, Default, Serialize, TS)]
pub struct Uses {
    /// Threads, most events first.
    pub users: Vec<User>,
    /// Addresses of its hottest lines, most events first.
    pub hottest: Vec<String>,
    /// Uses of bytes, most events first.
    pub bytes: Vec<UseOfBytes>,
    /// The part of all uses of known bytes that `bytes` holds, 0 to 1.
    pub held: f64,
}

/// A thread that uses an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
pub struct User {
    /// Its id.
    pub thread: u32,
    /// Events in which it had written, or overwrote.
    pub writes: u64,
    /// Events in which it read.
    pub reads: u64,
}

/// What a use does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Does {
    /// The thread had written the bytes before another one took the line, or overwrote them.
    Write,
    /// It read them.
    Read,
}

/// A thread's use of some bytes, from one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, TS)]
pub struct UseOfBytes {
    /// Id of the thread.
    pub thread: u32,
    /// Whether it writes or reads.
    pub does: Does,
    /// Index into `hottest`; `None`: on any other line.
    pub line: Option<u32>,
    /// Offset of the first byte in the line.
    pub first: u32,
    /// Number of bytes.
    pub bytes: u32,
    /// Where in the code: `a.c:7 f`.
    pub at: String,
    /// Events.
    pub events: u64,
}

/// Thread, what it does, line, bytes, site.
type Key = (u32, Does, Option<u32>, u64, u32);

impl Uses {
    /// From the RAW and WAW events on one object.
    pub(super) fn of(profile: &Profile, events: &[&EventRow]) -> Self {
        let hottest = hottest(events);
        let rank: HashMap<u64, u32> = hottest.iter().copied().zip(0..).collect();
        let mut users: BTreeMap<u32, User> = BTreeMap::new();
        let mut sums: HashMap<Key, u64> = HashMap::new();
        for event in events {
            let line = rank.get(&event.line).copied();
            for (thread, does, mask, site) in sides(event) {
                let user = users.entry(thread).or_insert(User { thread, writes: 0, reads: 0 });
                let sum = if does == Does::Write { &mut user.writes } else { &mut user.reads };
                *sum = sum.saturating_add(event.count);
                if mask != 0 {
                    let sum = sums.entry((thread, does, line, mask, site)).or_default();
                    *sum = sum.saturating_add(event.count);
                }
            }
        }
        let mut users: Vec<User> = users.into_values().collect();
        users.sort_by_key(|user| Reverse(user.writes.saturating_add(user.reads)));
        users.truncate(MAX_USERS);
        let (bytes, held) = uses(profile, sums);
        let hottest = hottest.iter().map(|line| format!("{line:#x}")).collect();
        Self { users, hottest, bytes, held }
    }
}

/// Both sides of an event: thread, what it does, bytes and site.
fn sides(event: &EventRow) -> [(u32, Does, u64, u32); 2] {
    let takes = if event.kind == CommKind::Waw { Does::Write } else { Does::Read };
    [
        (event.from.0, Does::Write, event.from_bytes, event.from_site),
        (event.to.0, takes, event.to_bytes, event.to_site),
    ]
}

fn hottest(events: &[&EventRow]) -> Vec<u64> {
    let mut lines: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events.iter().filter(|event| event.line != 0) {
        let sum = lines.entry(event.line).or_default();
        *sum = sum.saturating_add(event.count);
    }
    let mut lines: Vec<(u64, u64)> = lines.into_iter().collect();
    lines.sort_by_key(|&(line, events)| (Reverse(events), line));
    lines.into_iter().take(MAX_LINES).map(|(line, _)| line).collect()
}

/// Thread, what it does, line, first byte, bytes, and the place in the code.
type Use = (u32, Does, Option<u32>, u32, u32, String);

/// The most frequent uses, instructions of one source line together, and what part they are.
fn uses(profile: &Profile, sums: HashMap<Key, u64>) -> (Vec<UseOfBytes>, f64) {
    let mut places: HashMap<u32, String> = HashMap::new();
    let mut joined: BTreeMap<Use, u64> = BTreeMap::new();
    for ((thread, does, line, mask, site), events) in sums {
        let at = places.entry(site).or_insert_with(|| place(profile, site).short());
        for (first, bytes) in runs(mask) {
            let sum = joined.entry((thread, does, line, first, bytes, at.clone())).or_default();
            *sum = sum.saturating_add(events);
        }
    }
    let all: u64 = joined.values().fold(0, |sum, events| sum.saturating_add(*events));
    let mut list: Vec<UseOfBytes> = joined
        .into_iter()
        .map(|((thread, does, line, first, bytes, at), events)| UseOfBytes {
            thread,
            does,
            line,
            first,
            bytes,
            at,
            events,
        })
        .collect();
    list.sort_by_key(|of| Reverse(of.events));
    list.truncate(MAX_USES);
    let held = list.iter().fold(0, |sum: u64, of| sum.saturating_add(of.events));
    (list, if all == 0 { 1.0 } else { held as f64 / all as f64 })
}

/// Runs of set bits: first and length.
fn runs(mut mask: u64) -> Vec<(u32, u32)> {
    let mut runs = Vec::new();
    while mask != 0 {
        let first = mask.trailing_zeros();
        let length = (mask >> first).trailing_ones();
        runs.push((first, length));
        let upto = first + length;
        mask = if upto == 64 { 0 } else { mask >> upto << upto };
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::shared;

    #[test]
    fn runs_of_bytes() {
        assert_eq!(runs(0), []);
        assert_eq!(runs(0xff00_0000_0000_00f1), [(0, 1), (4, 4), (56, 8)]);
        assert_eq!(runs(u64::MAX), [(0, 64)]);
    }

    #[test]
    fn both_sides_by_thread_bytes_and_place() {
        let profile = shared();
        let of = |line: u64| -> Vec<&EventRow> {
            profile.events.iter().filter(|event| event.line == line).collect()
        };
        let uses = Uses::of(&profile, &of(0x40_40c0));
        assert_eq!((uses.hottest.as_slice(), uses.held), (&["0x4040c0".to_owned()][..], 1.0));
        // Each thread gives 1,000 reads and 100 overwrites, overwrites 100 and reads 1,000.
        assert!(uses.users.iter().all(|user| (user.writes, user.reads) == (1200, 1000)));
        assert_eq!(uses.users.len(), 4);
        let t2: Vec<_> = uses.bytes.iter().filter(|of| of.thread == 2).collect();
        let does: Vec<_> = t2.iter().map(|of| (of.does, of.first, of.bytes, of.events)).collect();
        assert_eq!(does, [(Does::Write, 8, 8, 1200), (Does::Read, 8, 8, 1000)]);
        assert_eq!((t2[0].at.as_str(), t2[0].line), ("a.c:31 bump(long*)", Some(0)));
    }

    #[test]
    fn lists_are_bounded_and_say_what_they_hold() {
        let profile = shared();
        let one = profile.events.iter().find(|event| event.line == 0x40_4100).unwrap();
        let many: Vec<EventRow> = (0..1000)
            .map(|i| EventRow { line: 64 * (i + 1), from: types::ThreadId(i as u32), ..*one })
            .collect();
        let uses = Uses::of(&profile, &many.iter().collect::<Vec<_>>());
        assert_eq!(uses.hottest.len(), MAX_LINES);
        assert_eq!((uses.users.len(), uses.bytes.len()), (MAX_USERS, MAX_USES));
        assert!(uses.held > 0.0 && uses.held < 1.0, "{}", uses.held);
    }
}
