//! What to expect of a finding when all of its threads run natively at once, and what of it is
//! memory traffic.
//!
//! Problem: recorded threads overlap as they happen to. Approach: what was counted came about while
//! threads ran at the same time. Where that was so often enough, the count divided by that part is
//! what to expect. It is never more than how soon each thread comes back to its lines (`returns`)
//! and the capacity of a line allow (`analysis::at_most`): recorded threads may transfer a line at
//! each access, native ones go on meanwhile. Where the threads hardly ran at the same time, the
//! interval reaches from the count to that bound, and what is likely is not known: the count
//! stands. Events beyond what caches hold (`gaps`) are memory traffic. Pure. Neighbour: `cost` has
//! the prices.

use crate::causes::group::{Class, Group};
use crate::causes::synchronization::Sync;
use analysis::{Pace, Use, Visitor, at_most};
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
/// Part of the time in which threads must have run at once for counts to say what to expect.
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
    /// The threads ran at the same time often enough to tell.
    pub at_once: bool,
    /// They did, and came to the lines in turns all the same.
    pub in_turns: bool,
    /// They may keep each other out: then it is as few as were counted.
    pub may_exclude: bool,
    /// How many latencies threads wait for the lines, likely, least and most.
    #[serde(skip)]
    #[ts(skip)]
    pub waits: [f64; 3],
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

    /// What to expect of a group, `paces` being the likely, the slowest and the fastest; `at_once`
    /// is the part of the time in which its threads ran at once, of that in which they could.
    pub(super) fn expected(
        &self,
        group: &Group,
        paces: &[Pace; 3],
        at_once: Option<f64>,
        locked: bool,
    ) -> Option<Expected> {
        if !may_be_expected(group.class) {
            return None;
        }
        let (mut covered, mut bounds) = (0u64, [Bound::default(); 3]);
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
            // Who reads and then writes makes two events of one transfer.
            let of_transfer = sum / all[0].max(all[1]).max(1) as f64;
            for (k, (bound, pace)) in bounds.iter_mut().zip(paces).enumerate() {
                let visitor = |row: &&ReturnRow| Visitor {
                    instructions: self.instructions.get(row.thread.index()).copied().unwrap_or(0.0),
                    visits: self.visits(row).map_or(0.0, |visits| visits[k]),
                    writes: self.writes(*line, row.thread.0),
                };
                let visitors: Vec<Visitor> = rows.iter().map(visitor).collect();
                let found = at_most(&visitors, pace);
                bound.events += found.transfers * part * of_transfer;
                bound.waits += found.latencies_ns / pace.latency_ns * part;
                bound.queued += found.queued_ns / pace.latency_ns * part;
            }
        }
        let on_lines: u64 = group.lines.values().sum();
        if (covered as f64) < MIN_COVERED * group.events as f64 || bounds[0].events <= 0.0 {
            return None;
        }
        let factor = group.events.max(on_lines) as f64 / covered as f64;
        let bounds = bounds.map(|bound| bound.times(factor));
        Some(bounded(bounds, group.events as f64, at_once, locked))
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

/// What the lines of a group allow at most.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Bound {
    /// RAW and WAW events.
    events: f64,
    /// Their latencies.
    waits: f64,
    /// Latencies of others before them.
    queued: f64,
}

impl Bound {
    fn times(self, factor: f64) -> Self {
        let Self { events, waits, queued } = self;
        Self { events: events * factor, waits: waits * factor, queued: queued * factor }
    }

    /// Latencies that threads wait for so many events.
    fn waits(&self, events: f64) -> f64 {
        let part = events / self.events.max(1.0);
        self.waits * part + self.queued * part * part
    }
}

/// What to expect within the bounds of the likely, the slowest and the fastest pace.
fn bounded(
    [likely, slowest, fastest]: [Bound; 3],
    counted: f64,
    at_once: Option<f64>,
    locked: bool,
) -> Expected {
    let by_counts = at_once.filter(|part| *part >= MIN_AT_ONCE).map(|part| counted / part.min(1.0));
    // Fewer than even slow threads would make that do not wait for each other.
    let in_turns = by_counts.is_some_and(|events| events < slowest.events);
    let events = by_counts.unwrap_or(counted).min(likely.events);
    let low = events.min(slowest.events).min(counted);
    let high = fastest.events.max(events);
    Expected {
        events,
        low,
        high,
        at_once: by_counts.is_some(),
        in_turns,
        may_exclude: in_turns || (by_counts.is_none() && locked),
        waits: [likely.waits(events), slowest.waits(low), fastest.waits(high)],
    }
}

impl Expected {
    /// `Counted here: 1,200 transfers. …`, or empty where what is expected is about the same.
    pub(crate) fn words(&self, counted: u64) -> String {
        let (here, most) = (grouped(counted), short(self.high));
        if !self.at_once {
            if self.high < DIFFERENT * counted as f64 {
                return String::new();
            }
            let lock = if self.may_exclude { ", nor whether a lock keeps them apart" } else { "" };
            return format!(
                "Counted here: {here} transfers; with its threads running natively at once, at most {most}. How many \
                 of them it would be is not known{lock}."
            );
        }
        let turns = match self.in_turns {
            true => " Its threads came to it in turns; whether they always do is not known.",
            false => "",
        };
        let ratio = self.events / counted.max(1) as f64;
        if (1.0 / DIFFERENT..=DIFFERENT).contains(&ratio) {
            return turns.trim_start().into();
        }
        format!(
            "Counted here: {here} transfers; with its threads running natively at once, about {} are expected ({} to \
             {most}).{turns}",
            short(self.events),
            short(self.low)
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

    /// The likely, the slowest and the fastest pace.
    fn bounds() -> [Bound; 3] {
        [1e6, 2e5, 4e6].map(|events| Bound { events, waits: events / 2.0, queued: events })
    }

    #[test]
    fn what_was_counted_is_scaled_to_all_threads_at_once() {
        let about = bounded(bounds(), 4e5, Some(0.5), false);
        assert_eq!((about.events, about.low, about.high), (8e5, 2e5, 4e6));
        assert!(!about.in_turns && !about.may_exclude);
        // 0.8 of the latencies, and 0.64 of the queue.
        assert!((about.waits[0] - (4e5 + 6.4e5)).abs() < 1.0, "{about:?}");
        assert!(
            about.words(400_000).contains("about 800 k are expected (200 k to 4.0 M)"),
            "{about:?}"
        );
        assert_eq!(bounded(bounds(), 9e5, Some(1.0), false).words(900_000), "");
    }

    #[test]
    fn nothing_is_expected_beyond_what_threads_and_line_can_do() {
        let [likely, ..] = bounds();
        // More was counted than that: recorded threads transfer a line at each access.
        for (counted, at_once) in [(1e7, Some(1.0)), (1e7, None), (9e5, Some(0.2))] {
            let found = bounded(bounds(), counted, at_once, false);
            assert_eq!((found.events, found.waits[0]), (likely.events, 1.5e6), "{counted}");
            assert!(found.low <= found.events && found.events <= found.high);
        }
        // Nor ten times more than was counted.
        assert!(bounded(bounds(), 10.0, Some(MIN_AT_ONCE), false).events <= 100.0);
    }

    #[test]
    fn threads_that_come_in_turns_are_expected_to_go_on_so() {
        let turns = bounded(bounds(), 1e3, Some(1.0), false);
        assert!(turns.in_turns && turns.may_exclude);
        assert_eq!((turns.events, turns.low, turns.high), (1e3, 1e3, 4e6));
        assert!(turns.words(1000).starts_with("Its threads came to it in turns"));
    }

    #[test]
    fn where_threads_did_not_meet_the_count_stands_and_the_most_is_said() {
        for at_once in [None, Some(0.01)] {
            let found = bounded(bounds(), 700.0, at_once, true);
            assert_eq!((found.events, found.low, found.high), (700.0, 700.0, 4e6));
            assert!(found.may_exclude && !found.in_turns && !found.at_once);
            let words = found.words(700);
            assert!(words.starts_with("Counted here: 700 transfers") && words.contains("a lock"));
            assert!(words.contains("at most 4.0 M") && words.contains("is not known"), "{words}");
        }
    }

    #[test]
    fn little_memory_traffic_is_not_said() {
        assert_eq!(memory_words(Some(0.02)), "");
        assert_eq!(memory_words(None), "");
        assert!(memory_words(Some(0.6)).starts_with("60 % of it comes so long after"));
    }
}
