//! What to expect of a finding when all of its threads run natively at once, and what of it is
//! memory traffic.
//!
//! Problem: recorded threads overlap as they happen to. Approach: how soon each thread comes back
//! to a line (`returns`) gives its visits, and `analysis::expectation` what they cost. Where
//! threads ran at the same time often enough, what was counted, divided by that part, bounds it:
//! threads that keep each other out come in turns, whatever their visits say. Where they did not,
//! the interval reaches from what was counted to what visits at random would give. Events beyond
//! what caches hold (`gaps`) are memory traffic. Pure. Neighbour: `cost` has the prices.

use crate::causes::group::{Class, Group};
use crate::causes::synchronization::Sync;
use analysis::{Price, Use, Visitor, expectation};
use profile::{Gap, Profile, ReturnRow};
use serde::Serialize;
use statistics::poisson;
use std::collections::{BTreeSet, HashMap};
use ts_rs::TS;
use types::CommKind;
use types::numbers::{grouped, percent, short};

/// Returns of a thread to a line below which nothing is said of how often it comes: of 5, the mean
/// is known within a factor of 3 (95 %).
const MIN_RETURNS: u64 = 5;
/// Part of a group's events on lines whose returns are known, below which that says too little.
const MIN_COVERED: f64 = 0.2;
/// Events whose gap is known, below which nothing is said of memory traffic.
const MIN_GAPS: u64 = 100;
/// Part of the time in which threads must have run at once for counts to say that they take turns.
const MIN_AT_ONCE: f64 = 0.1;
/// Visits at even distances are seen, from random moments on, as if they were twice as many.
const EVEN: f64 = 0.5;
/// Factor from which on what is expected is said beside what was counted.
const DIFFERENT: f64 = 1.5;
/// Share of memory traffic from which on it is said.
const NOTABLE: f64 = 0.1;

/// Transfers to be expected in a run in which all threads run natively at once.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct Expected {
    /// RAW and WAW events.
    pub events: f64,
    /// The least that they may be.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// The threads ran at the same time, and came to the lines in turns all the same.
    pub in_turns: bool,
    /// They may keep each other out: then it is as few as were counted.
    pub may_exclude: bool,
    /// Time that threads wait for the lines, likely, least and most, ns.
    #[serde(skip)]
    #[ts(skip)]
    pub waited_ns: [f64; 3],
}

/// What a profile says of visits and gaps.
pub(super) struct Native<'a> {
    returns: HashMap<u64, Vec<&'a ReturnRow>>,
    /// RAW and WAW events by line.
    events: HashMap<u64, [u64; 2]>,
    writers: HashMap<u64, BTreeSet<u32>>,
    /// By line and object.
    gaps: HashMap<(u64, u32), HashMap<Gap, u64>>,
    instructions: Vec<f64>,
}

impl<'a> Native<'a> {
    pub(super) fn of(profile: &'a Profile) -> Self {
        let (mut returns, mut events, mut writers, mut gaps) =
            (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        for row in &profile.reuse.returns {
            returns.entry(row.line).or_insert_with(Vec::new).push(row);
        }
        for event in profile.events.iter().filter(|event| event.line != 0) {
            let of_line: &mut BTreeSet<u32> = writers.entry(event.line).or_default();
            of_line.insert(event.from.0);
            let sums: &mut [u64; 2] = events.entry(event.line).or_default();
            match event.kind {
                CommKind::Raw => sums[0] = sums[0].saturating_add(event.count),
                CommKind::Waw => {
                    of_line.insert(event.to.0);
                    sums[1] = sums[1].saturating_add(event.count);
                }
                _ => {}
            }
        }
        for row in &profile.reuse.gaps {
            let of: &mut HashMap<Gap, u64> = gaps.entry((row.line, row.object)).or_default();
            *of.entry(row.gap).or_default() += row.count;
        }
        let instructions = profile.threads.iter().map(|t| t.instructions as f64).collect();
        Self { returns, events, writers, gaps, instructions }
    }

    /// Threads whose returns to a line are known, each with its row.
    fn visitors(&self, line: u64) -> Vec<&'a ReturnRow> {
        let rows = self.returns.get(&line).map_or(&[][..], Vec::as_slice);
        rows.iter().copied().filter(|row| row.returns >= MIN_RETURNS).collect()
    }

    /// Whether several threads are known to come to a line of the group again and again.
    pub(super) fn is_known(&self, group: &Group) -> bool {
        group.lines.keys().any(|line| self.visitors(*line).len() > 1)
    }

    /// How often the thread comes to the line in its run, and the interval; `None` where that is
    /// not known.
    pub(super) fn visits(&self, row: &ReturnRow) -> Option<[f64; 3]> {
        if row.returns < MIN_RETURNS {
            return None;
        }
        let own = self.instructions.get(row.thread.index()).copied().unwrap_or(0.0);
        let returns = row.returns as f64;
        // Where it is not known how long the thread stayed away, it was at least as long.
        let usual = row.instructions as f64 / returns.max(1.0);
        let away = (row.away_instructions as f64).max(row.away as f64 * usual);
        let seen = (row.instructions as f64 + away).max(1.0);
        let (low, high) = poisson(row.returns);
        Some([returns, low * EVEN, high].map(|returns| own * returns / seen))
    }

    /// The thread of a use, as one that comes to the line of all of them.
    pub(super) fn visitor(&self, one: &Use) -> Visitor {
        let instructions = self.instructions.get(one.thread as usize).copied().unwrap_or(0.0);
        Visitor { instructions, visits: one.visits, writes: one.writes }
    }

    /// Whether the thread writes to the line, as far as events show.
    pub(super) fn writes(&self, line: u64, thread: u32) -> bool {
        self.writers.get(&line).is_some_and(|writers| writers.contains(&thread))
    }

    /// What to expect of a group, `prices` being the likely, the least and the most; `at_once` is
    /// the part of the time in which its threads ran at once, of that in which they could.
    pub(super) fn expected(
        &self,
        group: &Group,
        prices: &[Price; 3],
        at_once: Option<f64>,
        locked: bool,
    ) -> Option<Expected> {
        if !may_be_expected(group.class) {
            return None;
        }
        let (mut covered, mut events, mut waited) = (0u64, [0.0; 3], [0.0; 3]);
        for (line, count) in &group.lines {
            let rows = self.visitors(*line);
            let all = self.events.get(line).copied().unwrap_or_default();
            let sum = (all[0] + all[1]).max(1) as f64;
            if rows.len() < 2 || !rows.iter().any(|row| self.writes(*line, row.thread.0)) {
                continue;
            }
            covered += count;
            // What other groups have on the line is theirs.
            let part = (*count as f64 / sum).min(1.0);
            let of_transfer = sum / all[0].max(all[1]).max(1) as f64;
            for (k, price) in prices.iter().enumerate() {
                let visitor = |row: &&ReturnRow| Visitor {
                    instructions: self.instructions.get(row.thread.index()).copied().unwrap_or(0.0),
                    visits: self.visits(row).map_or(0.0, |visits| visits[k]),
                    writes: self.writes(*line, row.thread.0),
                };
                let visitors: Vec<Visitor> = rows.iter().map(visitor).collect();
                let found = expectation(&visitors, price);
                events[k] += found.transfers * part * of_transfer;
                waited[k] += found.waited_ns * part;
            }
        }
        let on_lines: u64 = group.lines.values().sum();
        if (covered as f64) < MIN_COVERED * group.events as f64 || events[0] <= 0.0 {
            return None;
        }
        let factor = on_lines as f64 / covered as f64;
        let scaled = |sums: [f64; 3]| sums.map(|sum| sum * factor);
        Some(bounded(scaled(events), scaled(waited), group.events as f64, at_once, locked))
    }

    /// Part of a group's events that came from memory, of those whose gap is known; `None` where
    /// these are too few.
    pub(super) fn from_memory(&self, group: &Group) -> Option<f64> {
        let objects = || group.objects.keys();
        let lines = group.lines.keys().chain(std::iter::once(&0));
        let places = lines.flat_map(|line| objects().map(move |object| (*line, *object)));
        let (mut known, mut beyond) = (0u64, 0u64);
        for sums in places.filter_map(|place| self.gaps.get(&place)) {
            let of = |gap: Gap| sums.get(&gap).copied().unwrap_or(0);
            beyond += of(Gap::Beyond);
            known +=
                sums.iter().filter(|(gap, _)| **gap != Gap::Unknown).map(|(_, n)| n).sum::<u64>();
        }
        (known >= MIN_GAPS).then(|| beyond as f64 / known as f64)
    }
}

/// Locks and barriers are about waiting for each other.
fn may_be_expected(class: Class) -> bool {
    matches!(class, Class::False | Class::True | Class::Sync(Sync::References))
}

/// Bounds what visits at random would give by what was counted.
fn bounded(
    events: [f64; 3],
    waited: [f64; 3],
    counted: f64,
    at_once: Option<f64>,
    locked: bool,
) -> Expected {
    let [likely, least, most] = events;
    let by_counts = at_once.filter(|part| *part >= MIN_AT_ONCE).map(|part| counted / part.min(1.0));
    // Fewer than visits at random would give, however dear a transfer is.
    let in_turns = by_counts.is_some_and(|n| n < least);
    let mid = by_counts.map_or(likely, |n| n.min(likely));
    let may_exclude = in_turns || (by_counts.is_none() && locked);
    let low = match by_counts.is_none() || in_turns {
        true => least.min(counted).min(mid),
        false => least.min(mid),
    };
    let high = most.max(mid);
    let wait = |events: f64, k: usize, of: [f64; 3]| waited[k] * events / of[k].max(1.0);
    let waited_ns = [wait(mid, 0, events), wait(low, 1, events), wait(high, 2, events)];
    Expected { events: mid, low, high, in_turns, may_exclude, waited_ns }
}

impl Expected {
    /// `Counted here: 1,200 transfers. …`, or empty where that is about the same.
    pub(crate) fn words(&self, counted: u64) -> String {
        let ratio = self.events / counted.max(1) as f64;
        let turns = match (self.in_turns, self.may_exclude) {
            (true, _) => " Its threads came to it in turns.",
            (false, true) => " Fewer if a lock keeps them apart, which is not known.",
            (false, false) => "",
        };
        if (1.0 / DIFFERENT..=DIFFERENT).contains(&ratio) {
            return turns.trim_start().into();
        }
        format!(
            "Counted here: {} transfers; with its threads running natively at once, about {} are expected ({} to \
             {}).{turns}",
            grouped(counted),
            short(self.events),
            short(self.low),
            short(self.high)
        )
    }
}

/// That a part is memory traffic, or empty.
pub(crate) fn memory_words(part: Option<f64>) -> String {
    match part.filter(|part| *part >= NOTABLE) {
        Some(part) => format!(
            "{} of it comes so long after the write that no cache holds it any more: that is memory traffic, not \
             transfers between caches.",
            percent(part)
        ),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [f64; 3] = [1e6, 2e5, 4e6];
    const WAITED: [f64; 3] = [1e8, 1e7, 8e8];

    #[test]
    fn counts_bound_what_is_expected_where_threads_ran_at_once() {
        let about = bounded(EVENTS, WAITED, 5e5, Some(0.5), false);
        assert_eq!((about.events, about.low, about.high), (1e6, 2e5, 4e6));
        assert!(!about.in_turns && !about.may_exclude);
        assert_eq!(about.waited_ns, WAITED);
        // More was counted than a machine can transfer.
        assert_eq!(bounded(EVENTS, WAITED, 1e7, Some(1.0), false).events, 1e6);
        let turns = bounded(EVENTS, WAITED, 1e3, Some(1.0), false);
        assert!(turns.in_turns && turns.may_exclude);
        assert_eq!((turns.events, turns.low, turns.high), (1e3, 1e3, 4e6));
        assert_eq!(turns.waited_ns[0], 1e5);
    }

    #[test]
    fn where_threads_did_not_meet_the_interval_begins_at_what_was_counted() {
        for at_once in [None, Some(0.01)] {
            let found = bounded(EVENTS, WAITED, 700.0, at_once, true);
            assert_eq!((found.events, found.low, found.high), (1e6, 700.0, 4e6));
            assert!(found.may_exclude && !found.in_turns);
            assert!(found.words(700).starts_with("Counted here: 700 transfers"));
            assert!(found.words(700).contains("a lock"));
        }
        assert_eq!(bounded(EVENTS, WAITED, 9e5, Some(1.0), false).words(900_000), "");
    }

    #[test]
    fn little_memory_traffic_is_not_said() {
        assert_eq!(memory_words(Some(0.02)), "");
        assert_eq!(memory_words(None), "");
        assert!(memory_words(Some(0.6)).starts_with("60 % of it comes so long after"));
    }
}
