//! Stretches of a run by who communicates with whom, for placements that change with it.
//!
//! C_H stays the same when partners are swapped, so [`phases`](crate::phases) does not see it. Here
//! a run is split where the shares of the pairs differ (`sampled_phases`), whether events were
//! counted or sampled. Stretches with about the same shares are of one kind, whenever they come.

use crate::evidence::COUNTED;
use crate::sampled_phases::{Hits, sampled_phases};
use crate::{Choice, Evidence, PhaseRule};
use profile::{CommRow, Profile};
use std::ops::Range;

/// A stretch has at least this part of all counted events, as 1 / n: less is not worth a placement.
const LEAST_PART: u64 = 50;

/// A stretch of time slices in which the same pairs communicate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Its slices.
    pub slices: Range<usize>,
    /// Stretches with the same number have about the same pairs; numbered from 0 as they come.
    pub kind: usize,
}

/// The stretches of a run, of at most `most` kinds, in order. A single one where the pairs stay the
/// same, or there is too little to tell.
pub fn stretches(profile: &Profile, choice: Choice, most: usize) -> Vec<Stretch> {
    let slices = profile.slices.len();
    let mut hits = vec![Hits::new(); slices.max(1)];
    let rate = usual_rate(profile, choice);
    for row in profile.comm.iter().filter(|row| choice.counts(row)) {
        let (a, b) = (row.from.index(), row.to.index());
        // Parts of a run that was recorded in windows have more hits than others.
        let of_row = row.sampled.map_or(row.count, |_| (row.count as f64 * rate).round() as u64);
        *hits[row.slice as usize].entry((a.min(b), a.max(b))).or_default() += of_row;
    }
    let needed = match Evidence::of(profile, choice) {
        Some(evidence) => evidence.needed,
        None => {
            let all: u64 = hits.iter().flat_map(Hits::values).sum();
            (all / LEAST_PART).max(COUNTED)
        }
    };
    of_hits(&hits, needed, most)
}

/// Hits for each event, as in the half of the events that has the fewest.
fn usual_rate(profile: &Profile, choice: Choice) -> f64 {
    let rate = |row: &&CommRow| {
        let hits = row.sampled.filter(|_| choice.counts(row))?.hits as f64;
        (row.count > 0).then_some((hits / row.count as f64, row.count))
    };
    let mut rates: Vec<(f64, u64)> = profile.comm.iter().filter_map(|row| rate(&row)).collect();
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = rates.iter().map(|one| one.1).sum::<u64>() / 2;
    let mut passed = 0;
    let usual = rates.iter().find(|one| {
        passed += one.1;
        passed >= half
    });
    usual.map_or(1.0, |one| one.0)
}

fn of_hits(hits: &[Hits], needed: u64, most: usize) -> Vec<Stretch> {
    let starts = sampled_phases(hits, needed).unwrap_or_default();
    let bounds: Vec<usize> = [0].into_iter().chain(starts).chain([hits.len()]).collect();
    let mut kinds: Vec<Hits> = Vec::new();
    let mut found: Vec<Stretch> = Vec::new();
    for pair in bounds.windows(2) {
        let mut sum = Hits::new();
        for slice in &hits[pair[0]..pair[1]] {
            slice.iter().for_each(|(pair, count)| *sum.entry(*pair).or_default() += count);
        }
        let nearest = (0..kinds.len())
            .map(|kind| (moved(&kinds[kind], &sum), kind))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let kind = match nearest {
            Some((far, kind)) if far < PhaseRule::THESIS.diff_min || kinds.len() >= most => kind,
            _ => {
                kinds.push(Hits::new());
                kinds.len() - 1
            }
        };
        sum.into_iter().for_each(|(pair, count)| *kinds[kind].entry(pair).or_default() += count);
        match found.last_mut() {
            Some(last) if last.kind == kind => last.slices.end = pair[1],
            _ => found.push(Stretch { slices: pair[0]..pair[1], kind }),
        }
    }
    found
}

/// The share of the communication that is between other pairs, 0 to 1.
fn moved(a: &Hits, b: &Hits) -> f64 {
    let sum = |hits: &Hits| hits.values().sum::<u64>().max(1) as f64;
    let (of_a, of_b) = (sum(a), sum(b));
    let less = |(pair, count): (&(usize, usize), &u64)| {
        let other = b.get(pair).copied().unwrap_or(0) as f64 / of_b;
        (*count as f64 / of_a - other).max(0.0)
    };
    a.iter().map(less).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten slices for each letter: neighbours, or threads that are two apart.
    fn hits(pattern: &str) -> Vec<Hits> {
        let slice = |letter| match letter {
            'a' => Hits::from([((0, 1), 100), ((2, 3), 100)]),
            _ => Hits::from([((0, 2), 100), ((1, 3), 100)]),
        };
        pattern.chars().flat_map(|letter| std::iter::repeat_n(slice(letter), 10)).collect()
    }

    fn kinds(pattern: &str, most: usize) -> Vec<(Range<usize>, usize)> {
        let hits = hits(pattern);
        let all: u64 = hits.iter().flat_map(Hits::values).sum();
        let found = of_hits(&hits, all / LEAST_PART, most);
        found.into_iter().map(|stretch| (stretch.slices, stretch.kind)).collect()
    }

    #[test]
    fn swapped_partners_are_another_kind_and_what_comes_again_the_same() {
        assert_eq!(kinds("ab", 4), [(0..10, 0), (10..20, 1)]);
        assert_eq!(kinds("abaab", 4), [(0..10, 0), (10..20, 1), (20..40, 0), (40..50, 1)]);
    }

    #[test]
    fn a_steady_run_and_a_limit_of_one_are_one_stretch() {
        assert_eq!(kinds("aaa", 4), [(0..30, 0)]);
        assert_eq!(kinds("aba", 1), [(0..30, 0)]);
        assert_eq!(of_hits(&[], 10, 4), [Stretch { slices: 0..0, kind: 0 }]);
    }
}
