//! Phases of a run that was sampled: where the shares of the pairs really change.
//!
//! C_H of a time slice with few hits is chance: a single hit makes it large, and it falls as they
//! become more. So the run is split where the shares of the pairs differ most before and after (the
//! likelihood of both sides having shares of their own), and each side again. A split is a change
//! of phase if both sides have the hits that it takes to tell a pattern (`evidence`), chance alone
//! would hardly make their shares so different ([`same_shares`], 5 % for all splits together), and
//! a fifth of the communication is between other pairs. (C_H of both sides would not do: it is of
//! the largest cell, which chance makes larger.) `tests` says how often that is wrong, and what it
//! finds. Neighbour: `communication` makes the hits of slices.

use crate::PhaseRule;
use statistics::same_shares;
use std::collections::BTreeMap;

/// Places at which a run is split, at most; slices are joined for that.
const SPLITS: u64 = 200;
/// Probability of a change that is none.
const WRONG: f64 = 0.05;

/// Hits of each pair of threads in a stretch of the run.
pub(crate) type Hits = BTreeMap<(usize, usize), u64>;

/// The slices at which phases start, but for the first; `None` where there are too few hits for two
/// of them. `needed` is how many tell a pattern.
pub(crate) fn sampled_phases(slices: &[Hits], needed: u64) -> Option<Vec<usize>> {
    let all: u64 = slices.iter().flat_map(Hits::values).sum();
    if slices.len() < 2 || all < 2 * needed {
        return None;
    }
    let (starts, joined) = join(slices, all.div_ceil(SPLITS));
    let run = Run { joined, needed };
    let mut found = Vec::new();
    let mut stretches = vec![(0, run.joined.len())];
    while let Some((from, to)) = stretches.pop() {
        if let Some(at) = run.change(from, to) {
            found.push(starts[at]);
            stretches.extend([(from, at), (at, to)]);
        }
    }
    found.sort_unstable();
    Some(found)
}

struct Run {
    joined: Vec<Hits>,
    needed: u64,
}

impl Run {
    /// Where a stretch is best split, if it changes at all.
    fn change(&self, from: usize, to: usize) -> Option<usize> {
        let mut after = sum(&self.joined[from..to]);
        let mut before = Hits::new();
        let mut best: Option<(usize, f64)> = None;
        for at in from + 1..to {
            let moved = &self.joined[at - 1];
            add(&mut before, moved);
            moved.iter().for_each(|(pair, hits)| *after.entry(*pair).or_default() -= hits);
            if count(&before) < self.needed || count(&after) < self.needed {
                continue;
            }
            let gain = likelihood(&before) + likelihood(&after);
            if best.is_none_or(|(_, most)| gain > most) {
                best = Some((at, gain));
            }
        }
        let (at, _) = best?;
        self.differ(&sum(&self.joined[from..at]), &sum(&self.joined[at..to])).then_some(at)
    }

    /// Whether the shares of two stretches differ by more than chance, and as much as phases must.
    fn differ(&self, a: &Hits, b: &Hits) -> bool {
        let new = b.keys().filter(|pair| !a.contains_key(pair));
        let pairs: Vec<&(usize, usize)> = a.keys().chain(new).collect();
        let row = |hits: &Hits| -> Vec<u64> {
            pairs.iter().map(|pair| hits.get(pair).copied().unwrap_or(0)).collect()
        };
        let (row_a, row_b, of_a, of_b) = (row(a), row(b), count(a) as f64, count(b) as f64);
        let moved = |(&a, &b): (&u64, &u64)| (a as f64 / of_a - b as f64 / of_b).max(0.0);
        let moved: f64 = row_a.iter().zip(&row_b).map(moved).sum();
        moved >= PhaseRule::THESIS.diff_min
            && same_shares(&row_a, &row_b) <= WRONG / self.joined.len() as f64
    }
}

/// Logarithm of the likelihood of hits at the shares that they have.
fn likelihood(hits: &Hits) -> f64 {
    let all = count(hits) as f64;
    let of = |&hits: &u64| if hits == 0 { 0.0 } else { hits as f64 * (hits as f64 / all).ln() };
    hits.values().map(of).sum()
}

fn count(hits: &Hits) -> u64 {
    hits.values().sum()
}

/// Neighbouring slices joined so that each has `least` hits or more; with the slices that they
/// begin at.
fn join(slices: &[Hits], least: u64) -> (Vec<usize>, Vec<Hits>) {
    let (mut starts, mut joined) = (Vec::new(), Vec::<Hits>::new());
    let mut full = true;
    for (number, hits) in slices.iter().enumerate() {
        if full {
            starts.push(number);
            joined.push(Hits::new());
        }
        let last = joined.last_mut().expect("one was pushed");
        add(last, hits);
        full = last.values().sum::<u64>() >= least;
    }
    // What is left at the end belongs to the one before.
    if !full && joined.len() > 1 {
        let rest = joined.pop().expect("there are two");
        starts.pop();
        add(joined.last_mut().expect("there is one"), &rest);
    }
    (starts, joined)
}

fn add(to: &mut Hits, more: &Hits) {
    more.iter().for_each(|(pair, hits)| *to.entry(*pair).or_default() += hits);
}

fn sum(stretch: &[Hits]) -> Hits {
    let mut all = Hits::new();
    stretch.iter().for_each(|hits| add(&mut all, hits));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(threads: usize) -> Vec<(usize, usize)> {
        (1..threads).map(|t| (t - 1, t)).collect()
    }

    fn groups(threads: usize) -> Vec<(usize, usize)> {
        (0..threads)
            .flat_map(|a| (a + 1..threads).map(move |b| (a, b)))
            .filter(|(a, b)| a / 4 == b / 4)
            .collect()
    }

    fn all(threads: usize) -> Vec<(usize, usize)> {
        (0..threads).flat_map(|a| (a + 1..threads).map(move |b| (a, b))).collect()
    }

    /// `hits` hits in 600 slices; `pairs` says between whom in which.
    fn run(
        random: &mut fastrand::Rng,
        hits: u64,
        pairs: impl Fn(usize) -> Vec<(usize, usize)>,
    ) -> Vec<Hits> {
        let of: Vec<Vec<(usize, usize)>> = (0..600).map(pairs).collect();
        let mut slices = vec![Hits::new(); 600];
        for _ in 0..hits {
            let slice = random.usize(..600);
            let pair = of[slice][random.usize(..of[slice].len())];
            *slices[slice].entry(pair).or_default() += 1;
        }
        slices
    }

    #[test]
    fn steady_runs_are_one_phase() {
        let mut random = fastrand::Rng::with_seed(5);
        for threads in [4, 8, 16] {
            let needed = crate::HITS_PER_THREAD * threads as u64;
            for pattern in [line, groups, all] {
                for times in [2, 6, 30] {
                    let wrong = (0..60).filter(|_| {
                        let slices = run(&mut random, times * needed, |_| pattern(threads));
                        sampled_phases(&slices, needed) != Some(vec![])
                    });
                    // 5 % of 60 are 3; more than 8 come once in 200 times.
                    let wrong = wrong.count();
                    assert!(wrong <= 8, "{threads} threads, {times} times the hits: {wrong} of 60");
                }
            }
        }
    }

    #[test]
    fn a_change_is_found_about_where_it_is() {
        let mut random = fastrand::Rng::with_seed(6);
        for threads in [8, 16] {
            let needed = crate::HITS_PER_THREAD * threads as u64;
            for times in [4, 10, 30] {
                let right = (0..60).filter(|_| {
                    let slices = run(&mut random, times * needed, |slice| {
                        if slice < 280 { line(threads) } else { all(threads) }
                    });
                    let found = sampled_phases(&slices, needed).unwrap();
                    matches!(found[..], [at] if at.abs_diff(280) <= 30)
                });
                let right = right.count();
                assert!(right >= 54, "{threads} threads, {times} times the hits: {right} of 60");
            }
        }
    }

    #[test]
    fn few_hits_tell_nothing_of_phases() {
        let mut random = fastrand::Rng::with_seed(7);
        let slices = run(&mut random, 319, |slice| if slice < 300 { line(8) } else { all(8) });
        assert_eq!(sampled_phases(&slices, 160), None);
        assert_eq!(sampled_phases(&[], 0), None);
    }
}
