//! How much the threads that communicate ran at the same time, and that it was too little.
//!
//! Neighbours: `analysis::Overlap` computes it, `findings` and the page show it.

use crate::talk::{Pair, talk_matrix};
use analysis::{MIN_AT_ONCE, MIN_WANTED, Overlap, Together};
use profile::{Note, Profile};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use ts_rs::TS;
use types::numbers::percent;
use types::{CommMatrix, ThreadId};

/// Strongest pairs of which it is told.
const PAIRS: usize = 100;
/// Pairs of a group that are looked at, the strongest.
const OF_GROUP: usize = 32;
/// Part of the time in which two threads of a group must have wanted to run at once.
const NOTABLE_PAIR: f64 = 0.1;

/// Of groups of pairs of threads, with their events: the part of the time in which a pair could run
/// in which any did, where that was too little for counts to tell what it costs.
pub(crate) fn little(profile: &Profile, groups: &[&BTreeMap<(u32, u32), u64>]) -> Vec<Option<f64>> {
    let strongest = |group: &&BTreeMap<(u32, u32), u64>| -> Vec<(u32, u32)> {
        let mut pairs: Vec<_> = group.iter().map(|(pair, events)| (*pair, *events)).collect();
        pairs.sort_by_key(|(_, events)| Reverse(*events));
        pairs.into_iter().take(OF_GROUP).map(|(pair, _)| pair).collect()
    };
    let groups: Vec<Vec<(u32, u32)>> = groups.iter().map(strongest).collect();
    let all: BTreeSet<(u32, u32)> = groups.iter().flatten().copied().collect();
    let ids: Vec<_> = all.iter().map(|(a, b)| (ThreadId(*a), ThreadId(*b))).collect();
    let found = Overlap::of(profile, &talk_matrix(profile), &ids);
    let Some(found) = found.filter(|found| found.seconds > 0.0) else {
        return vec![None; groups.len()];
    };
    let together: BTreeMap<_, _> = all.into_iter().zip(found.pairs).collect();
    let together = &together;
    let of_group = |group: Vec<(u32, u32)>| {
        let of = |pick: fn(&Together) -> f64| group.iter().map(move |pair| pick(&together[pair]));
        // Of many threads on few processors, two run at the same time in turn.
        let (ran, most) = (of(|t| t.ran).sum::<f64>(), of(|t| t.wanted).fold(0.0, f64::max));
        let part = (most > 0.0).then(|| (ran / most).clamp(0.0, 1.0));
        part.filter(|part| *part < MIN_AT_ONCE && most >= NOTABLE_PAIR * found.seconds)
    };
    groups.into_iter().map(of_group).collect()
}

/// That threads that communicate hardly ran at the same time, where that was so.
pub fn ran_apart(profile: &Profile) -> Option<Note> {
    AtOnce::of(profile, &talk_matrix(profile), &mut [])?.note()
}

/// How much at least two of the threads that communicate ran at the same time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct AtOnce {
    /// Of the time in which any of them ran or waited for a processor: the part in which at least
    /// two did. An estimate, rather too low.
    pub wanted: f64,
    /// Of that: the part in which at least two ran. An estimate; `None` where none wanted to.
    pub ran: Option<f64>,
}

impl AtOnce {
    /// For all threads of `talk`, and in each of `pairs`; `None` where it is not known where
    /// threads ran.
    pub(crate) fn of(profile: &Profile, talk: &CommMatrix, pairs: &mut [Pair]) -> Option<Self> {
        let count = PAIRS.min(pairs.len());
        let strongest = &mut pairs[..count];
        let ids: Vec<_> = strongest.iter().map(|p| (ThreadId(p.a), ThreadId(p.b))).collect();
        let found = Overlap::of(profile, talk, &ids).filter(|found| found.seconds > 0.0)?;
        for (pair, together) in strongest.iter_mut().zip(&found.pairs) {
            pair.at_once = together.share();
        }
        let Together { wanted, .. } = found.all;
        Some(Self { wanted: (wanted / found.seconds).min(1.0), ran: found.all.share() })
    }

    /// That it was so little that counts depend on it.
    pub(crate) fn note(&self) -> Option<Note> {
        let ran = self.ran.filter(|ran| *ran < MIN_AT_ONCE && self.wanted >= MIN_WANTED)?;
        Some(Note::RanApart { wanted: self.wanted, ran })
    }

    /// As a sentence; nothing where no two wanted to run at once.
    pub(crate) fn sentence(&self) -> Option<String> {
        let ran = self.ran?;
        Some(format!(
            "At least two of the threads that communicate could run at once for {} of their time, and did for {} of \
             that.",
            percent(self.wanted),
            percent(ran)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Findings;
    use crate::samples::sample;
    use profile::RunningRow;

    /// Two threads that always want to run, on these PUs, each for this part of the time.
    fn found(pus: [u32; 2], part: f64) -> Findings {
        let mut profile = sample(2, &[(0, 1, 900)]).profile();
        let all = 2e9;
        let row = |thread: u32, pu| RunningRow {
            slice: 0,
            thread: ThreadId(thread),
            pu,
            cpu_ns: (all * part) as u64,
            waited_ns: (all * (1.0 - part)) as u64,
        };
        profile.running = vec![row(0, pus[0]), row(1, pus[1])];
        Findings::new(&profile, None, 10)
    }

    fn warned(findings: &Findings) -> bool {
        findings.warnings.iter().any(|w| matches!(w.note, Note::RanApart { .. }))
    }

    #[test]
    fn threads_on_one_pu_ran_apart() {
        let apart = found([3, 3], 0.5);
        assert_eq!(apart.at_once, Some(AtOnce { wanted: 1.0, ran: Some(0.0) }));
        assert_eq!(apart.pairs[0].at_once, Some(0.0));
        assert!(warned(&apart));
    }

    #[test]
    fn threads_with_processors_of_their_own_did_not() {
        let together = found([0, 1], 1.0);
        assert_eq!(together.at_once, Some(AtOnce { wanted: 1.0, ran: Some(1.0) }));
        assert_eq!(together.pairs[0].at_once, Some(1.0));
        assert!(!warned(&together));
        // Half of the time each, at moments of their own.
        assert!(!warned(&found([0, 1], 0.5)));
    }

    #[test]
    fn threads_that_take_turns_by_themselves_need_no_second_processor() {
        let mut profile = sample(2, &[(0, 1, 900)]).profile();
        let (cpu_ns, waited_ns) = (900_000_000, 150_000_000);
        let row =
            |thread| RunningRow { slice: 0, thread: ThreadId(thread), pu: 0, cpu_ns, waited_ns };
        profile.running = vec![row(0), row(1)];
        let findings = Findings::new(&profile, None, 10);
        assert!(findings.at_once.unwrap().wanted < MIN_WANTED && !warned(&findings));
    }

    #[test]
    fn without_looks_nothing_is_said() {
        let findings = Findings::new(&sample(2, &[(0, 1, 900)]).profile(), None, 10);
        assert_eq!((findings.at_once, findings.pairs[0].at_once), (None, None));
    }
}
