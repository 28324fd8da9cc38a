//! Compares placed with unplaced runs until it is clear which are faster.
//!
//! Problem: machines drift, runs scatter, and nobody knows beforehand how many runs it takes.
//! Approach: each round runs the program unplaced and under every plan that is still open, in an
//! order that changes from round to round; whatever changes on the machine meanwhile touches all
//! alike. `statistics::Race` says after each round what is clear. Neighbours: `measure` runs,
//! `summary` prints.

use super::measure::{Runner, Stop, Times};
use placement::Plan;
use statistics::{Outcome, Race, Ratio, Ratios};
use std::time::{Duration, Instant};

/// What is said may be wrong with this probability.
const ALPHA: f64 = 0.05;
/// Rounds that are run however long they take: fewer decide nothing.
const MIN_ROUNDS: usize = 3;
/// Longest run for which several plans are tried. For longer ones the best prediction is taken, and
/// the best with one placement.
const TRIED_UP_TO: Duration = Duration::from_secs(5);

/// When comparing ends if nothing is clear by then.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for all runs.
    pub time: Duration,
    /// Runs of each plan.
    pub rounds: Option<usize>,
}

/// What a comparison says of one plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    pub outcome: Outcome,
    /// Placed / unplaced, wall time.
    pub wall: Ratio,
    /// Placed / unplaced, CPU time.
    pub cpu: Ratio,
    /// Medians, seconds.
    pub unplaced: Times,
    pub placed: Times,
    /// Runs that were compared.
    pub pairs: usize,
    /// Time that comparing took.
    pub took: Duration,
    /// What came of the other plans.
    pub others: Vec<Other>,
}

/// A plan that was compared and is not the one to keep or to drop.
#[derive(Clone, PartialEq, Debug)]
pub struct Other {
    /// What it places, in words.
    pub name: String,
    pub outcome: Outcome,
    /// Placed / unplaced, wall time.
    pub wall: Ratio,
    /// Runs that were compared.
    pub pairs: usize,
}

impl Verdict {
    pub fn placed_wins(&self) -> bool {
        self.outcome == Outcome::Faster
    }
}

/// An unplaced and a placed run of one round.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Pair {
    unplaced: Times,
    placed: Times,
}

/// Compares the plans, best prediction first, with unplaced runs. Returns the one to keep or to
/// drop, and what is known of it.
pub fn compare<'p>(
    runner: &Runner<'_>,
    plans: &'p [Plan],
    limits: Limits,
) -> Result<(&'p Plan, Verdict), Stop> {
    // Caches of files are filled, and it shows how long a run takes.
    let first = runner.unplaced()?;
    let long = first.wall > TRIED_UP_TO.as_secs_f64();
    let joint = plans.iter().any(|plan| plan.data.is_some());
    // That its phases are recognised is not known before it runs.
    let by_phase = plans.iter().take_while(|plan| plan.phases.is_some()).count();
    let plans = if long && !joint { &plans[..=by_phase] } else { plans };
    let names: Vec<String> = plans.iter().map(super::plans::words).collect();
    runner.runs.say(&format!("comparing unplaced runs with placed ones ({})", names.join(", ")));
    let began = Instant::now();
    let (mut race, mut pairs) = (Race::new(plans.len(), ALPHA), vec![Vec::new(); plans.len()]);
    for round in 0.. {
        let open = race.open();
        if open.is_empty() || limits.reached(round, began.elapsed()) {
            break;
        }
        runner.runs.plan(open.len() + 1);
        for (plan, pair) in run_round(runner, plans, &open, round)? {
            race.add(plan, pair.placed.wall / pair.unplaced.wall);
            pairs[plan].push(pair);
        }
    }
    let best = race.best();
    let (wall, _) = race.ratio(best);
    let verdict = Verdict {
        outcome: race.outcome(best),
        wall,
        cpu: cpu_ratio(&pairs[best], plans.len()),
        unplaced: medians(&pairs[best], |pair| pair.unplaced),
        placed: medians(&pairs[best], |pair| pair.placed),
        pairs: pairs[best].len(),
        took: began.elapsed(),
        others: others(&race, best, &names, &pairs),
    };
    Ok((&plans[best], verdict))
}

fn others(race: &Race, best: usize, names: &[String], pairs: &[Vec<Pair>]) -> Vec<Other> {
    let other = |plan: usize| Other {
        name: names[plan].clone(),
        outcome: race.outcome(plan),
        wall: race.ratio(plan).0,
        pairs: pairs[plan].len(),
    };
    (0..names.len()).filter(|plan| *plan != best).map(other).collect()
}

impl Limits {
    /// Whether no further round is to be run after `rounds` that took so long: one that would not
    /// end in time is not begun.
    fn reached(&self, rounds: usize, elapsed: Duration) -> bool {
        if self.rounds.is_some_and(|most| rounds >= most) {
            return true;
        }
        let each = elapsed / rounds.max(1) as u32;
        rounds >= MIN_ROUNDS && elapsed + each > self.time
    }
}

/// One unplaced run and one under each of the `open` plans, each round in another order.
fn run_round(
    runner: &Runner<'_>,
    plans: &[Plan],
    open: &[usize],
    round: usize,
) -> Result<Vec<(usize, Pair)>, Stop> {
    let mut order: Vec<Option<usize>> = open.iter().copied().map(Some).collect();
    order.push(None);
    let places = order.len();
    order.rotate_left(round % places);
    let (mut unplaced, mut placed) = (None, Vec::new());
    for which in order {
        match which {
            Some(plan) => placed.push((plan, runner.placed(&plans[plan])?)),
            None => unplaced = Some(runner.unplaced()?),
        }
    }
    let unplaced = unplaced.expect("it is part of each round");
    Ok(placed.into_iter().map(|(plan, placed)| (plan, Pair { unplaced, placed })).collect())
}

fn cpu_ratio(pairs: &[Pair], plans: usize) -> Ratio {
    let mut ratios = Ratios::default();
    pairs.iter().for_each(|pair| ratios.add(pair.placed.cpu / pair.unplaced.cpu));
    ratios.interval(ALPHA / plans as f64)
}

fn medians(pairs: &[Pair], side: fn(&Pair) -> Times) -> Times {
    let median = |time: fn(&Times) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(|pair| time(&side(pair))).collect();
        statistics::median(&mut values).unwrap_or(0.0)
    };
    Times { wall: median(|times| times.wall), cpu: median(|times| times.cpu) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_kept_but_for_the_first_rounds() {
        let seconds = Duration::from_secs;
        let limits = Limits { time: seconds(10), rounds: None };
        assert!(!limits.reached(0, seconds(0)) && !limits.reached(2, seconds(500)));
        // A further round would take 3 s more.
        assert!(!limits.reached(3, seconds(7)) && limits.reached(3, seconds(9)));
        let few = Limits { rounds: Some(2), ..limits };
        assert!(!few.reached(1, seconds(1)) && few.reached(2, seconds(1)));
    }

    #[test]
    fn medians_and_cpu_go_along() {
        let times = |wall| Times { wall, cpu: 2.0 * wall };
        let pair = |ratio| Pair { unplaced: times(1.0), placed: times(ratio) };
        let pairs = [pair(0.5), pair(0.6), pair(0.4)];
        assert_eq!(medians(&pairs, |pair| pair.placed), Times { wall: 0.5, cpu: 1.0 });
        assert_eq!(medians(&pairs, |pair| pair.unplaced), Times { wall: 1.0, cpu: 2.0 });
        assert!((cpu_ratio(&pairs, 1).estimate - 0.12_f64.cbrt()).abs() < 1e-12);
    }
}
