//! How many events each kind of evidence shows.
//!
//! Rows of a profile have one evidence each; what a report sums up may have several. Neighbours:
//! `types::Evidence` has the words of tables and JSON, `findings`, `lines` and `code` have these
//! sums, `verdict` and `text` say them.

use profile::{CommRow, EventRow};
use serde::Serialize;
use std::collections::BTreeMap;
use ts_rs::TS;
use types::Evidence;

/// Events with the same evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
pub struct EvidenceShare {
    /// `exact`, `sampled` or `inferred`, as in the profile's tables.
    pub evidence: &'static str,
    /// How many.
    pub events: u64,
    /// Samples that showed them; 0: they were counted.
    pub hits: u64,
}

/// Sums while rows are gone through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums(BTreeMap<Evidence, (u64, u64)>);

impl Sums {
    /// Adds events.
    pub(crate) fn add(&mut self, evidence: Evidence, events: u64, hits: u64) {
        let sum = self.0.entry(evidence).or_default();
        *sum = (sum.0.saturating_add(events), sum.1.saturating_add(hits));
    }

    /// Adds other sums.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(&evidence, &(events, hits))| self.add(evidence, events, hits));
    }

    /// In the order of [`Evidence::ALL`].
    pub(crate) fn list(&self) -> Vec<EvidenceShare> {
        let share = |(evidence, &(events, hits)): (&Evidence, &(u64, u64))| EvidenceShare {
            evidence: evidence.name(),
            events,
            hits,
        };
        self.0.iter().map(share).collect()
    }
}

/// What shows these cells of the matrices.
pub(crate) fn of_cells<'a>(rows: impl Iterator<Item = &'a CommRow>) -> Vec<EvidenceShare> {
    let mut sums = Sums::default();
    rows.for_each(|row| sums.add(row.evidence, row.count, row.sampled.map_or(0, |s| s.hits)));
    sums.list()
}

/// What shows these events.
pub(crate) fn of_events<'a>(rows: impl Iterator<Item = &'a EventRow>) -> Vec<EvidenceShare> {
    let mut sums = Sums::default();
    rows.for_each(|row| sums.add(row.evidence, row.count, row.hits));
    sums.list()
}

/// The part of the events, 0 to 1, that has this evidence.
pub(crate) fn part(shares: &[EvidenceShare], evidence: Evidence) -> f64 {
    let of = |wanted: &dyn Fn(&EvidenceShare) -> bool| -> f64 {
        shares.iter().filter(|share| wanted(share)).map(|share| share.events as f64).sum()
    };
    of(&|share| share.evidence == evidence.name()) / of(&|_| true).max(1.0)
}

/// For a column: `sampled`, or `sampled, 20 % inferred`.
pub(crate) fn words(shares: &[EvidenceShare]) -> String {
    let all: f64 = shares.iter().map(|share| share.events as f64).sum();
    let word = |(place, share): (usize, &EvidenceShare)| match place {
        0 => share.evidence.to_owned(),
        _ => {
            let part = types::numbers::percent(share.events as f64 / all.max(1.0));
            format!("{part} {}", share.evidence)
        }
    };
    shares.iter().enumerate().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_has_words() {
        let mut sums = Sums::default();
        sums.add(Evidence::Inferred, 20, 2);
        assert_eq!(words(&sums.list()), "inferred");
        sums.add(Evidence::Sampled, 80, 5);
        assert_eq!(words(&sums.list()), "sampled, 20 % inferred");
        assert_eq!(part(&sums.list(), Evidence::Inferred), 0.2);
        assert_eq!((words(&[]), part(&[], Evidence::Inferred)), (String::new(), 0.0));
        let mut twice = sums.clone();
        twice.merge(&sums);
        let inferred = EvidenceShare { evidence: "inferred", events: 40, hits: 4 };
        assert_eq!(twice.list()[1], inferred);
    }
}
