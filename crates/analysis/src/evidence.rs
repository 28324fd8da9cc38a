//! How much samples tell about who communicates with whom: how many hits there are, and how many it
//! takes.
//!
//! A matrix of few hits always looks like something: a single one like a pair. How many it takes
//! was found by drawing hits from each of the patterns with 3 to 32 threads, and from all pairs
//! alike, and asking what is recognised (`tests/least_hits.rs` does so again). That is what chance
//! does to independent hits; those that come in clusters tell less, and what a detector does not
//! see no number of them tells. Neighbours: `communication` and `difference` ask before they name a
//! pattern; `report` puts it in words.

use crate::kinds::Choice;
use crate::pattern::{Pattern, Recognised, recognise};
use profile::{CommRow, Mode, Profile, Windows};
use serde::Serialize;
use statistics::Weighted;
use std::collections::BTreeSet;
use ts_rs::TS;
use types::{CommKind, CommMatrix, ThreadId};

/// The least number of hits for each thread that takes part. With it, the right pattern is found in
/// 95 of 100 draws of every known pattern but all-to-all, and uniform draws show no other pattern.
/// The pipeline sets this number, because recognising it needs the directions: 19 hits for each
/// thread with 4 to 16 threads. With 10 hits for each thread it is found in 75 to 90 draws. All
/// other patterns need 8 or fewer.
pub const HITS_PER_THREAD: u64 = 20;
/// Hits for each pair of these threads from which on all-to-all is found, which looks irregular
/// with fewer: 4 to 5.4 of 8 to 64 threads. Of fewer threads it takes up to 8, which
/// [`HITS_PER_THREAD`] sees to.
pub const HITS_PER_PAIR: u64 = 6;

/// Counted events for each thread that takes part, and in all, below which they make no pattern: no
/// chance is in them, but a few of them look like a pair, a hub or a line whatever the program
/// does.
pub const COUNTED_PER_THREAD: u64 = 5;
/// Counted events in all.
pub const COUNTED: u64 = 20;

/// What a sampled matrix rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
pub struct Evidence {
    /// Samples that showed one of its events.
    pub hits: u64,
    /// As many hits of equal weight would tell as much (Kish): fewer than `hits` where some weigh
    /// more. Events that were counted while everything was recorded are no matter of chance.
    pub effective: u64,
    /// Threads that take part in any.
    pub threads: u64,
    /// Effective hits that it takes to tell who communicates with whom.
    pub needed: u64,
    /// Whether there were windows enough, where these were seen in windows of exact recording.
    pub windows_suffice: bool,
}

/// Whether the profile's windows are enough for amounts, if there are any.
pub fn has_enough_windows(profile: &Profile) -> bool {
    profile.meta.windows.as_ref().is_none_or(Windows::are_enough)
}

/// How many independent hits one hit of an event on a line is worth: 0 to 1. Windows see many
/// events at once, so that a hit there tells less than an independent one. Those of samples count
/// as independent.
pub fn told_by_hit(profile: &Profile) -> f64 {
    let moves = |kind: CommKind| matches!(kind, CommKind::Raw | CommKind::Waw);
    let events = profile.events.iter().filter(|event| moves(event.kind));
    let hits: u64 = events.map(|event| event.hits).sum();
    match profile.how_well(profile.comm.iter().filter(|row| moves(row.kind))) {
        Some(sum) if hits > 0 => (sum.hits.max(1) as f64 / hits as f64).min(1.0),
        _ => 1.0,
    }
}

impl Evidence {
    /// The evidence for what `choice` counts of a profile; `None` where that was counted.
    pub fn of(profile: &Profile, choice: Choice) -> Option<Self> {
        let rows = profile.comm.iter().filter(|row| choice.counts(row));
        (profile.meta.mode != Mode::Exact).then(|| Self::of_rows(rows, has_enough_windows(profile)))
    }

    /// The evidence in these rows, all of them sampled.
    pub(crate) fn of_rows<'a>(
        rows: impl Iterator<Item = &'a CommRow>,
        windows_suffice: bool,
    ) -> Self {
        let (mut hits, mut weights, mut threads) = (0, Weighted::default(), BTreeSet::new());
        for row in rows {
            let of_row = row.sampled.map_or(0, |sampled| sampled.hits);
            hits += of_row;
            match row.sampled {
                Some(sampled) if sampled.is_counted(row) => weights.sum += row.count as f64,
                _ => weights.add(of_row, row.count as f64 / of_row.max(1) as f64),
            }
            threads.extend([row.from, row.to]);
        }
        let threads = threads.len() as u64;
        // Rounded: it is exact but for the last digits where all hits weigh the same.
        let effective = match weights.squares > 0.0 {
            true => (weights.effective().round() as u64).min(hits),
            false => hits,
        };
        let needed = HITS_PER_THREAD * threads.max(2);
        Self { hits, effective, threads, needed, windows_suffice }
    }

    /// Whether it is enough to say who communicates with whom.
    pub fn enough(&self) -> bool {
        self.windows_suffice && self.effective >= self.needed
    }

    /// Whether it is enough to tell that there is no pattern from one of all pairs alike.
    fn enough_for_all_pairs(&self) -> bool {
        self.effective >= HITS_PER_PAIR * self.threads * self.threads.saturating_sub(1) / 2
    }
}

/// Whether counted events are enough to tell a pattern, or that there is none: no event at all
/// tells that, too.
pub(crate) fn are_enough(talk: &CommMatrix) -> bool {
    let (mut events, mut threads) = (0_u64, BTreeSet::new());
    for (from, to, count) in talk.iter().filter(|(_, _, count)| *count > 0) {
        events = events.saturating_add(count);
        threads.extend([from, to]);
    }
    events == 0 || events >= COUNTED.max(COUNTED_PER_THREAD * threads.len() as u64)
}

/// The pattern of `talk`, or that there are too few hits or events to tell. Evidence `None` means
/// that events were counted.
pub(crate) fn recognise_by(
    talk: &CommMatrix,
    directed: bool,
    evidence: Option<&Evidence>,
) -> Recognised {
    if !evidence.map_or_else(|| are_enough(talk), Evidence::enough) {
        return Recognised::unknown();
    }
    let found = recognise(talk, directed, Some(ThreadId(0)));
    match found.pattern {
        Pattern::Irregular if evidence.is_some_and(|e| !e.enough_for_all_pairs()) => {
            Recognised::unknown()
        }
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Sampled;

    fn row(from: u32, to: u32, hits: u64, count: u64) -> CommRow {
        let sampled = Some(Sampled { hits, low: 0, high: 10 * count });
        let whole = CommRow::whole(ThreadId(from), ThreadId(to), CommKind::Raw, count);
        CommRow { sampled, ..whole }
    }

    fn of(rows: &[CommRow]) -> Evidence {
        Evidence::of_rows(rows.iter(), true)
    }

    #[test]
    fn a_hit_among_many_of_a_few_windows_tells_little() {
        let mut profile = profile::sample::profile(profile::sample::threads(2), vec![]);
        profile.comm = vec![row(0, 1, 12, 3600)];
        let event = |hits| profile::EventRow {
            line: 0x40,
            from: ThreadId(0),
            to: ThreadId(1),
            kind: CommKind::Raw,
            sharing: types::Sharing::True,
            from_site: 0,
            to_site: 0,
            count: 3600,
            from_bytes: 1,
            to_bytes: 1,
            hits,
            evidence: types::Evidence::Window,
            object: 0,
            gap: None,
            streamed: 0,
        };
        profile.events = vec![event(1200)];
        assert_eq!(told_by_hit(&profile), 0.01);
        profile.events = vec![event(12)];
        assert_eq!(told_by_hit(&profile), 1.0);
        profile.events = vec![event(0)];
        assert_eq!(told_by_hit(&profile), 1.0);
    }

    #[test]
    fn too_few_windows_tell_no_pattern() {
        let many = of(&[row(0, 1, 1000, 3000)]);
        let talk = crate::golden::matrix(&[&[0, 3000], &[0, 0]]);
        assert_eq!(recognise_by(&talk, true, Some(&many)).pattern, Pattern::Pair);
        let few = Evidence { windows_suffice: false, ..many };
        assert_eq!(recognise_by(&talk, true, Some(&few)).pattern, Pattern::Unknown);
    }

    #[test]
    fn one_hit_is_not_enough_to_name_a_pair() {
        let one = of(&[row(0, 1, 1, 3000)]);
        let (hits, threads, needed) = (1, 2, 40);
        let expected = Evidence { hits, effective: 1, threads, needed, windows_suffice: true };
        assert_eq!(one, expected);
        let talk = crate::golden::matrix(&[&[0, 3000], &[0, 0]]);
        assert_eq!(recognise_by(&talk, true, Some(&one)).pattern, Pattern::Unknown);
        assert_eq!(recognise_by(&talk, true, None).pattern, Pattern::Pair);
        let of_few = |count| {
            recognise_by(&crate::golden::matrix(&[&[0, count], &[0, 0]]), true, None).pattern
        };
        assert_eq!(
            [0, 1, 19, 20].map(of_few),
            [Pattern::Silent, Pattern::Unknown, Pattern::Unknown, Pattern::Pair]
        );
        assert!(!of(&[row(0, 1, 39, 39)]).enough() && of(&[row(0, 1, 40, 40)]).enough());
        assert!(!of(&[]).enough());
    }

    #[test]
    fn counted_events_leave_chance_to_the_others() {
        let counted = |count| {
            let sampled = Some(Sampled { hits: count, low: count, high: count });
            CommRow { sampled, evidence: types::Evidence::Window, ..row(0, 1, count, count) }
        };
        assert_eq!(of(&[counted(1000)]).effective, 1000);
        // A tenth of the amount rests on one hit.
        assert_eq!(of(&[counted(9000), row(1, 0, 1, 1000)]).effective, 100);
        assert_eq!(of(&[row(0, 1, 9000, 9000), row(1, 0, 1, 1000)]).effective, 99);
    }

    #[test]
    fn hits_that_weigh_little_beside_another_one_tell_little() {
        // A thousand lines that were handed over once, and one hit for which a thread waited long.
        let found = of(&[row(0, 1, 1000, 1000), row(2, 3, 1, 6000)]);
        assert_eq!((found.hits, found.effective), (1001, 1));
    }
}
