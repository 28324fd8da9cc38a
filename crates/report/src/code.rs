//! Hot code: which code hands what to which, over all lines of memory.
//!
//! Where threads pass on large amounts of data, no line is hot, but a few pairs of places in the
//! code carry everything: the write and the read (or write) that takes the line from it. Pure.
//! Neighbours: `lines` tells the same by line; `findings` holds the result.

use crate::evidence::{self, EvidenceShare};
use crate::lines::{Place, Split, moves_a_line};
use profile::{EventRow, Mode, Profile, SiteRow};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use ts_rs::TS;
use types::{CommKind, Sharing};

/// The code through which threads talk.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Code {
    /// Pairs of places with events; `list` holds the hottest of them.
    pub all: u64,
    /// RAW and WAW events of the whole profile.
    pub events: u64,
    /// Most events first.
    pub list: Vec<Flow>,
}

/// Events from code that writes to code that reads or overwrites.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Flow {
    /// `raw` or `waw`.
    pub kind: &'static str,
    /// The write that gives, and the read or write that takes.
    pub from: Place,
    /// The read or write that takes.
    pub to: Place,
    /// Threads that give and that take; ordered by id.
    pub from_threads: Vec<u32>,
    /// Threads that take; ordered by id.
    pub to_threads: Vec<u32>,
    /// Number of events.
    pub events: u64,
    /// Share of all RAW and WAW events of the profile, 0 to 1.
    pub share: f64,
    /// True and false sharing.
    pub sharing: Split,
    /// Samples that showed one of the events; `None`: they were counted.
    pub hits: Option<u64>,
    /// What shows the events.
    pub evidence: Vec<EvidenceShare>,
    /// Lines of memory that are known; more when there were too many to keep apart.
    pub lines: u64,
}

/// Sums of one pair.
#[derive(Default)]
struct Sums {
    from: BTreeSet<u32>,
    to: BTreeSet<u32>,
    sharing: Split,
    hits: u64,
    evidence: evidence::Sums,
    lines: BTreeSet<u64>,
}

impl Sums {
    fn add(&mut self, event: &EventRow) {
        self.from.insert(event.from.0);
        self.to.insert(event.to.0);
        let sum = match event.sharing {
            Sharing::Any => &mut self.sharing.unknown,
            Sharing::True => &mut self.sharing.truly,
            Sharing::False => &mut self.sharing.falsely,
        };
        *sum = sum.saturating_add(event.count);
        self.hits += event.hits;
        self.evidence.add(event.evidence, event.count, event.hits);
        // Line 0 stands for those that were not kept.
        if event.line != 0 {
            self.lines.insert(event.line);
        }
    }

    fn merge(&mut self, other: Sums) {
        self.from.extend(other.from);
        self.to.extend(other.to);
        self.lines.extend(other.lines);
        self.hits += other.hits;
        self.evidence.merge(&other.evidence);
        self.sharing.truly = self.sharing.truly.saturating_add(other.sharing.truly);
        self.sharing.falsely = self.sharing.falsely.saturating_add(other.sharing.falsely);
        self.sharing.unknown = self.sharing.unknown.saturating_add(other.sharing.unknown);
    }
}

/// The `most` hottest pairs of places; `None` when the profile was recorded without code sites.
pub(crate) fn code(profile: &Profile, most: usize) -> Option<Code> {
    let mut by_site: HashMap<(CommKind, u32, u32), Sums> = HashMap::new();
    for event in &profile.events {
        if moves_a_line(event) {
            let key = (event.kind, event.from_site, event.to_site);
            by_site.entry(key).or_default().add(event);
        }
    }
    if by_site.is_empty() {
        return None;
    }
    let mut by_place: BTreeMap<(CommKind, Place, Place), Sums> = BTreeMap::new();
    for ((kind, from, to), sums) in by_site {
        let key = (kind, place(profile, from), place(profile, to));
        by_place.entry(key).or_default().merge(sums);
    }
    let totals = &profile.meta.totals;
    let sampled = profile.meta.mode != Mode::Exact;
    let on_lines = by_place.values().map(|s| s.sharing.total()).fold(0, u64::saturating_add);
    let events = totals.raw.saturating_add(totals.waw).max(on_lines);
    let all = by_place.len() as u64;
    let mut sorted: Vec<_> = by_place.into_iter().collect();
    // Stable: equal ones stay in the order of their places.
    sorted.sort_by_key(|(_, sums)| Reverse(sums.sharing.total()));
    let list = sorted.into_iter().take(most).map(|((kind, from, to), sums)| Flow {
        kind: kind.name(),
        from,
        to,
        from_threads: sums.from.into_iter().collect(),
        to_threads: sums.to.into_iter().collect(),
        events: sums.sharing.total(),
        share: sums.sharing.total() as f64 / events.max(1) as f64,
        sharing: sums.sharing,
        hits: sampled.then_some(sums.hits),
        evidence: sums.evidence.list(),
        lines: sums.lines.len() as u64,
    });
    Some(Code { all, events, list: list.collect() })
}

/// The place of a site, by its number.
pub(crate) fn place(profile: &Profile, site: u32) -> Place {
    match profile.sites.get(site as usize) {
        Some(row) => Place::of(row),
        None => Place::of(&SiteRow::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{sample, shared};

    #[test]
    fn pairs_of_places_over_all_lines() {
        assert_eq!(code(&sample(2, &[(0, 1, 5)]).profile(), 10), None);
        let mut profile = shared();
        // The same code on a line of its own and on those that were not kept.
        let bump = profile.events[1];
        profile.events[0] = EventRow { line: 0, count: 20, ..bump };
        profile.events.push(EventRow { line: 0x7f00_0000_2000, count: 1, ..bump });
        let code = code(&profile, 2).unwrap();
        assert_eq!((code.all, code.events, code.list.len()), (4, 5126, 2));
        let flow = &code.list[0];
        assert_eq!((flow.kind, flow.events, flow.lines), ("raw", 4021, 2));
        assert_eq!(
            (flow.from.short(), flow.to.short()),
            ("a.c:31 bump(long*)".into(), "a.c:31 bump(long*)".into())
        );
        assert_eq!(flow.sharing, Split { truly: 0, falsely: 4021, unknown: 0 });
        assert_eq!(flow.share, 4021.0 / 5126.0);
        assert_eq!(
            (&flow.from_threads[..], &flow.to_threads[..]),
            (&[1, 2, 3, 4][..], &[1, 2, 3, 4][..])
        );
        assert_eq!(
            (code.list[1].events, code.list[1].to.short()),
            (700, "b.c:7 take, \"quoted\"".into())
        );
    }
}
