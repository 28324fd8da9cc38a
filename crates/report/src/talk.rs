//! Who talks with whom, and how much: the amounts that all other findings start from.

use crate::evidence::{self, EvidenceShare};
use analysis::{Choice, MatrixKind, Progress};
use profile::{CommRow, Profile, Sampled};
use serde::Serialize;
use std::collections::BTreeMap;
use ts_rs::TS;
use types::CommMatrix;

/// Events over the whole run.
#[derive(Clone, Debug, Serialize, TS)]
pub struct Talk {
    /// The kind of event that is the talk: `transfers` (RAW and WAW) or `undirected`.
    #[ts(type = "TalkKind")]
    pub kind: &'static str,
    /// The same for people.
    pub what: String,
    /// Events of that kind.
    pub events: u64,
    /// Of these, per second of the program's own time; `None` where that is not known.
    pub events_per_second: Option<f64>,
    /// The same for the recorded run, which is slower; `None` for a run without duration.
    pub events_per_recorded_second: Option<f64>,
    /// Of these, per thousand loads and stores; `None` without any. Does not depend on the
    /// slowdown.
    pub events_per_thousand_accesses: Option<f64>,
    /// All RAW events.
    pub raw: u64,
    /// All WAW events.
    pub waw: u64,
    /// All invalidations.
    pub invalidation: u64,
    /// All undirected pairs.
    pub undirected: u64,
    /// Those whose sharing is known; all 0 when it was not told apart.
    pub raw_true: u64,
    /// RAW events with false sharing.
    pub raw_false: u64,
    /// WAW events with true sharing.
    pub waw_true: u64,
    /// WAW events with false sharing.
    pub waw_false: u64,
    /// The part of false sharing in RAW and WAW events, 0 to 1; in windows likely, with those whose
    /// sharing is not known. `None` where that cannot be said.
    pub false_share: Option<f64>,
    /// How well `events` is known, with what windows may have missed; `None`: they were counted.
    pub estimate: Option<Estimate>,
    /// What shows them.
    pub evidence: Vec<EvidenceShare>,
}

/// How well an estimated number of events is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
pub struct Estimate {
    /// Samples that showed one of the events.
    pub hits: u64,
    /// The 95 % interval, by chance alone.
    pub low: u64,
    pub high: u64,
}

impl Estimate {
    fn of<'a>(profile: &Profile, rows: impl Iterator<Item = &'a CommRow>) -> Option<Self> {
        profile.how_well(rows).map(|Sampled { hits, low, high }| Self { hits, low, high })
    }

    /// The same of `events` events, of which windows may have missed as many for each as of all.
    fn with_missing(self, profile: &Profile, events: u64) -> Self {
        let told = profile.meta.windows.as_ref().filter(|windows| windows.missing().is_some());
        let missing = told.map_or(0.0, |windows| windows.missed * events as f64);
        Self { high: self.high.saturating_add(missing as u64), ..self }
    }
}

/// Two threads that talk, `a` < `b`.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Pair {
    /// Id of one thread.
    pub a: u32,
    /// Id of the other thread.
    pub b: u32,
    /// Events from `a` to `b`.
    pub a_to_b: u64,
    /// Events from `b` to `a`.
    pub b_to_a: u64,
    /// Share of all talk, 0 to 1.
    pub share: f64,
    /// How well the events in both directions are known; `None`: they were counted.
    pub estimate: Option<Estimate>,
    /// What shows them.
    pub evidence: Vec<EvidenceShare>,
    /// Of the time in which both wanted to run, the part in which they ran at once, 0 to 1; an
    /// estimate. `None` where they never wanted to, where that is not known, or for weak pairs.
    pub at_once: Option<f64>,
}

impl Pair {
    /// Events in both directions.
    pub fn events(&self) -> u64 {
        self.a_to_b + self.b_to_a
    }
}

/// One thread.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Thread {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Id of the creating thread; `None` for the initial thread.
    pub parent: Option<u32>,
    /// Module and offset of the start routine, or empty.
    pub start_routine: String,
    /// Its symbol, or empty.
    pub start_symbol: String,
    /// Loads executed.
    pub loads: u64,
    /// Stores executed.
    pub stores: u64,
    /// Instructions executed; 0 when they were not counted.
    pub instructions: u64,
    /// Processor time, nanoseconds; 0 when it is not known.
    pub cpu_ns: u64,
    /// Transfers to others of lines that this thread wrote last; undirected pairs with threads of
    /// higher ids.
    pub talk_out: u64,
    /// Transfers to this thread; undirected pairs with threads of lower ids.
    pub talk_in: u64,
}

/// The talk of a profile: its cache-line transfers, or its undirected pairs (from the lower id)
/// where those are all it has.
pub(crate) fn talk_matrix(profile: &Profile) -> CommMatrix {
    Choice::of_talk(profile).matrix(profile)
}

/// The talk over the whole run.
pub(crate) fn talk(profile: &Profile) -> Talk {
    let totals = &profile.meta.totals;
    let Progress { own, recorded, .. } = Progress::of(profile);
    let rate = |events: u64, seconds: f64| (seconds > 0.0).then(|| events as f64 / seconds);
    let kind = MatrixKind::of_talk(profile);
    let events = match kind.directed() {
        true => totals.raw.saturating_add(totals.waw),
        false => totals.undirected,
    };
    let accesses = totals.loads as f64 + totals.stores as f64;
    Talk {
        kind: kind.name(),
        what: kind.words(profile.meta.parameters.block_bytes),
        events,
        events_per_second: own.and_then(|own| rate(events, own.seconds)),
        events_per_recorded_second: rate(events, recorded),
        events_per_thousand_accesses: (accesses > 0.0).then(|| events as f64 * 1e3 / accesses),
        raw: totals.raw,
        waw: totals.waw,
        invalidation: totals.invalidation,
        undirected: totals.undirected,
        raw_true: totals.raw_true,
        raw_false: totals.raw_false,
        waw_true: totals.waw_true,
        waw_false: totals.waw_false,
        false_share: profile.false_share(),
        estimate: Estimate::of(profile, profile.comm.iter().filter(|row| kind.counts(row)))
            .map(|estimate| estimate.with_missing(profile, events)),
        evidence: evidence::of_cells(profile.comm.iter().filter(|row| kind.counts(row))),
    }
}

/// The pairs of threads that talk, most first; nothing is known yet of how much they ran at once.
pub(crate) fn pairs(profile: &Profile) -> Vec<Pair> {
    let mut cells: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    for (from, to, count) in talk_matrix(profile).iter() {
        let cell = cells.entry((from.0.min(to.0), from.0.max(to.0))).or_default();
        match from < to {
            true => cell.0 += count,
            false => cell.1 += count,
        }
    }
    let total = talk(profile).events.max(1) as f64;
    let mut rows: BTreeMap<(u32, u32), Vec<&CommRow>> = BTreeMap::new();
    let kind = MatrixKind::of_talk(profile);
    for row in profile.comm.iter().filter(|row| kind.counts(row)) {
        let pair = (row.from.0.min(row.to.0), row.from.0.max(row.to.0));
        rows.entry(pair).or_default().push(row);
    }
    let mut pairs: Vec<Pair> = cells
        .into_iter()
        .map(|((a, b), (a_to_b, b_to_a))| {
            let share = (a_to_b as f64 + b_to_a as f64) / total;
            let rows = || rows.get(&(a, b)).into_iter().flatten().copied();
            let estimate = Estimate::of(profile, rows());
            let estimate = estimate.map(|of| of.with_missing(profile, a_to_b + b_to_a));
            let evidence = evidence::of_cells(rows());
            Pair { a, b, a_to_b, b_to_a, share, estimate, evidence, at_once: None }
        })
        .collect();
    // Stable: pairs with equal amounts stay in the order of their ids.
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.events()));
    pairs
}

/// The threads, by id.
pub(crate) fn threads(profile: &Profile) -> Vec<Thread> {
    let mut threads: Vec<Thread> = profile
        .threads
        .iter()
        .map(|row| Thread {
            id: row.id.0,
            name: row.identity.name.clone(),
            parent: row.identity.parent.map(|p| p.0),
            start_routine: row.identity.start_routine.clone(),
            start_symbol: row.start_symbol.clone(),
            loads: row.loads,
            stores: row.stores,
            instructions: row.instructions,
            cpu_ns: row.cpu_ns,
            talk_out: 0,
            talk_in: 0,
        })
        .collect();
    for (from, to, count) in talk_matrix(profile).iter() {
        threads[from.index()].talk_out += count;
        threads[to.index()].talk_in += count;
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample;
    use profile::Windows;

    #[test]
    fn what_windows_may_have_missed_widens_the_interval_of_the_sum() {
        let mut profile = sample(2, &[(0, 1, 1000)]).profile();
        let estimate = Estimate { hits: 10, low: 900, high: 1100 };
        assert_eq!(estimate.with_missing(&profile, 1000), estimate);
        let mut windows = |missed| {
            profile.meta.windows = Some(Windows {
                asked: "20%".into(),
                windows: 20,
                too_short: false,
                observed: 0.2,
                whole: 0.0,
                warm_up_ns: 0,
                missed,
                alike: 0.0,
                false_share: None,
            });
            estimate.with_missing(&profile, 1000).high
        };
        assert_eq!(windows(13.0), 14_100);
        assert_eq!(windows(0.01), 1100, "too little to tell");
    }
}
