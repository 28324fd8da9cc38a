//! Compares several candidates with what is there, run by run, until it is clear what they do.
//!
//! Each round runs all candidates that are still open beside one run of what is there, and adds the
//! ratio of the two to each. Candidates share the probability of an error, so that what is said of
//! any of them holds (Bonferroni). Pure; whoever runs them decides when time is over. Neighbour:
//! `ratio` has the intervals.

use crate::{Ratio, Ratios};

/// Ratios nearer to 1 than this are no difference.
pub const NO_DIFFERENCE: f64 = 0.01;

/// What is known of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Its ratio is below 1.
    Faster,
    /// Its ratio is above 1.
    Slower,
    /// Its ratio is 1, but for less than [`NO_DIFFERENCE`].
    Same,
    /// Not clear yet.
    Open,
}

/// Candidates with their ratios so far.
#[derive(Clone, PartialEq, Debug)]
pub struct Race {
    candidates: Vec<Ratios>,
    alpha: f64,
}

impl Race {
    /// So many candidates, at least one, where all that is said together is wrong with a
    /// probability of at most `alpha`.
    pub fn new(candidates: usize, alpha: f64) -> Self {
        let each = alpha / candidates.max(1) as f64;
        Self { candidates: vec![Ratios::default(); candidates], alpha: each }
    }

    /// One more ratio of a candidate's time to the time of what is there.
    pub fn add(&mut self, candidate: usize, ratio: f64) {
        self.candidates[candidate].add(ratio);
    }

    /// The mean ratio of a candidate with its interval, and from how many.
    pub fn ratio(&self, candidate: usize) -> (Ratio, usize) {
        let ratios = &self.candidates[candidate];
        (ratios.interval(self.alpha), ratios.count())
    }

    /// What is known of a candidate.
    pub fn outcome(&self, candidate: usize) -> Outcome {
        let Ratio { low, high, .. } = self.ratio(candidate).0;
        match (low, high) {
            (_, high) if high < 1.0 => Outcome::Faster,
            (low, _) if low > 1.0 => Outcome::Slower,
            (low, high) if low > 1.0 - NO_DIFFERENCE && high < 1.0 + NO_DIFFERENCE => Outcome::Same,
            _ => Outcome::Open,
        }
    }

    /// The candidates that another round may tell something about: those that are not clear yet,
    /// and may be better than the best one that is faster.
    pub fn open(&self) -> Vec<usize> {
        let all = || 0..self.candidates.len();
        let faster = all().filter(|&c| self.outcome(c) == Outcome::Faster);
        let best = faster.map(|c| self.ratio(c).0.estimate).fold(f64::INFINITY, f64::min);
        let worth = |c: &usize| self.ratio(*c).0.low < best * (1.0 - NO_DIFFERENCE);
        all().filter(|&c| self.outcome(c) == Outcome::Open).filter(worth).collect()
    }

    /// The candidate to keep: the fastest of those that are faster, else the one with the lowest
    /// ratio; the first of equal ones.
    pub fn best(&self) -> usize {
        let rank = |c: &usize| {
            let faster = self.outcome(*c) == Outcome::Faster;
            (!faster, self.ratio(*c).0.estimate)
        };
        let order = |a: &usize, b: &usize| {
            let (a, b) = (rank(a), rank(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        (0..self.candidates.len()).min_by(order).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn race(of: &[&[f64]]) -> Race {
        let mut race = Race::new(of.len(), 0.05);
        for (candidate, ratios) in of.iter().enumerate() {
            ratios.iter().for_each(|ratio| race.add(candidate, *ratio));
        }
        race
    }

    #[test]
    fn outcomes_follow_from_the_interval() {
        let outcome = |ratios: &[f64]| race(&[ratios]).outcome(0);
        assert_eq!(outcome(&[0.50, 0.51, 0.502, 0.49]), Outcome::Faster);
        assert_eq!(outcome(&[1.50, 1.51, 1.502, 1.49]), Outcome::Slower);
        assert_eq!(outcome(&[1.0, 1.0001, 0.9999, 1.0, 1.0001, 1.0]), Outcome::Same);
        assert_eq!(outcome(&[0.8, 1.2, 1.0, 0.9, 1.1]), Outcome::Open);
        // Five pairs of a solver's runs, which a fixed interval calls no difference.
        assert_eq!(outcome(&[0.81, 1.07, 0.93, 0.9, 0.95]), Outcome::Open);
        assert_eq!(outcome(&[0.5]), Outcome::Open);
    }

    #[test]
    fn the_more_candidates_the_wider_the_intervals() {
        let ratios: &[f64] = &[0.9, 0.95, 0.92, 0.97];
        let width = |race: Race| race.ratio(0).0.high - race.ratio(0).0.low;
        assert!(width(race(&[ratios, ratios, ratios])) > width(race(&[ratios])));
    }

    #[test]
    fn who_cannot_be_better_than_the_fastest_runs_no_more() {
        let fast: &[f64] = &[0.50, 0.51, 0.502, 0.49];
        let slow: &[f64] = &[1.4, 1.5, 1.6, 1.5];
        let unclear: &[f64] = &[0.9, 1.1, 0.95, 1.05, 0.97, 1.02];
        let far: &[f64] = &[0.3, 2.0, 0.9];
        let race = race(&[slow, unclear, fast, far]);
        assert_eq!((race.open(), race.best()), (vec![3], 2));
        let none = super::tests::race(&[slow, unclear]);
        assert_eq!((none.open(), none.best()), (vec![1], 1));
        assert_eq!(Race::new(2, 0.05).open(), [0, 1]);
    }
}
