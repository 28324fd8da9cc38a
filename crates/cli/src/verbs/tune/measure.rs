//! Timed runs: unplaced and placed, in turn, so that whatever changes on the machine meanwhile
//! touches both alike.

use crate::progress::Steps;
use anyhow::anyhow;
use placement::Plan;
use recorder::child::{Ended, Launch};
use recorder::launch::{Via, launch};
use recorder::{Ending, RecorderError, Streams, Target, signals};

/// Runs per candidate when the fastest is chosen.
const TRIALS: usize = 3;
/// Longest run, seconds, for which candidates are tried; for longer ones the best prediction is
/// taken.
const TRIAL_SECONDS: f64 = 5.0;
/// To replace the best prediction, every run of another candidate must be shorter than every run of
/// that, by this factor; anything less may be noise.
const CLEARLY_FASTER: f64 = 0.97;
/// Pairs of runs unless the user says how many: as many as fit into this time, within the limits.
const PAIRS_SECONDS: f64 = 12.0;
const FEWEST_PAIRS: usize = 5;
const MAX_PAIRS: usize = 15;

/// Times of one run, seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    pub wall: f64,
    pub cpu: f64,
}

/// An unplaced and a placed run, one after the other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pair {
    pub unplaced: Times,
    pub placed: Times,
}

/// Why measuring ended early.
#[derive(Debug)]
pub enum Stop {
    Interrupted { signal: i32 },
    Failed(anyhow::Error),
}

impl From<RecorderError> for Stop {
    fn from(error: RecorderError) -> Self {
        Stop::Failed(error.into())
    }
}

/// Runs one program again and again.
pub struct Runner<'a> {
    pub target: &'a Target,
    pub streams: Streams,
    /// Whether the program's standard input is a file that is read anew in each run.
    pub own_input: bool,
    /// How many runs are done of those planned.
    pub runs: Steps,
}

impl Runner<'_> {
    /// One run as the user would start it.
    pub fn unplaced(&self) -> Result<Times, Stop> {
        let launch = Launch {
            target: self.target,
            environment: Vec::new(),
            unset: &[],
            streams: self.streams,
            adopt_orphans: false,
            gate: None,
        };
        self.checked(launch.start()?.wait(|| ())?)
    }

    /// One run under a plan.
    pub fn placed(&self, plan: &Plan) -> Result<Times, Stop> {
        let report = launch(self.target, plan, Via::Shim, self.streams)?;
        let times = self.checked(report.ended)?;
        match report.inactive {
            None => Ok(times),
            Some(reason) => Err(Stop::Failed(anyhow!("nothing could be bound: {reason}"))),
        }
    }

    /// The recorded run exited with 0, so the timed ones must.
    fn checked(&self, ended: Ended) -> Result<Times, Stop> {
        let passed_on = match ended.ending {
            Ending::Killed(signal) if signals::was_passed_on(signal) => Some(signal),
            _ => None,
        };
        if let Some(signal) = ended.interrupted.or(passed_on) {
            return Err(Stop::Interrupted { signal });
        }
        if ended.ending != Ending::Exited(0) {
            let hint = match self.own_input {
                true => "",
                false => {
                    "; if it reads its standard input, give it a file ('< FILE'), which every \
                          run can read anew"
                }
            };
            return Err(Stop::Failed(anyhow!(
                "a timed run of the program {}, while the recorded one exited with status 0{hint}",
                ended.ending.in_words()
            )));
        }
        self.runs.did_one();
        Ok(Times { wall: ended.wall.as_secs_f64(), cpu: ended.cpu.as_secs_f64() })
    }
}

/// How many runs it takes to choose a candidate.
pub fn trials(candidates: &[Plan], first: Times) -> usize {
    if candidates.len() < 2 || first.wall > TRIAL_SECONDS { 0 } else { TRIALS * candidates.len() }
}

/// Index of the candidate to compare. The first is the best prediction; the others are tried
/// against it only where a run is short, and must be clearly faster. These runs are not used for
/// the comparison, so choosing does not flatter it.
pub fn fastest(runner: &Runner<'_>, candidates: &[Plan], first: Times) -> Result<usize, Stop> {
    if trials(candidates, first) == 0 {
        return Ok(0);
    }
    runner.runs.say(&format!("trying {} placements", candidates.len()));
    let mut walls = vec![Vec::new(); candidates.len()];
    for _ in 0..TRIALS {
        for (plan, walls) in candidates.iter().zip(&mut walls) {
            walls.push(runner.placed(plan)?.wall);
        }
    }
    Ok(choose(&walls))
}

/// The first, unless another is clearly faster; of several, the one with the best median.
fn choose(walls: &[Vec<f64>]) -> usize {
    let shortest = walls[0].iter().copied().fold(f64::INFINITY, f64::min);
    let clearly = |walls: &Vec<f64>| walls.iter().all(|&w| w < shortest * CLEARLY_FASTER);
    (1..walls.len())
        .filter(|&i| clearly(&walls[i]))
        .min_by(|&a, &b| median(&walls[a]).total_cmp(&median(&walls[b])))
        .unwrap_or(0)
}

/// How many pairs to run, decided by the first run's time and not by any result, so that the
/// interval stays honest.
pub fn pair_count(first: Times) -> usize {
    ((PAIRS_SECONDS / (2.0 * first.wall)) as usize).clamp(FEWEST_PAIRS, MAX_PAIRS)
}

/// `count` pairs in ABBA order: each of the two goes first in turn.
pub fn pairs(runner: &Runner<'_>, plan: &Plan, count: usize) -> Result<Vec<Pair>, Stop> {
    (0..count)
        .map(|i| {
            if i % 2 == 0 {
                let unplaced = runner.unplaced()?;
                Ok(Pair { unplaced, placed: runner.placed(plan)? })
            } else {
                let placed = runner.placed(plan)?;
                Ok(Pair { unplaced: runner.unplaced()?, placed })
            }
        })
        .collect()
}

/// The median; 0 for none.
pub fn median(values: &[f64]) -> f64 {
    statistics::median(&mut values.to_vec()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_must_be_clearly_faster_than_the_prediction() {
        let prediction = vec![1.0, 1.1, 1.5];
        assert_eq!(choose(std::slice::from_ref(&prediction)), 0);
        assert_eq!(choose(&[prediction.clone(), vec![0.9, 0.9, 0.98]]), 0);
        assert_eq!(choose(&[prediction.clone(), vec![0.9, 0.9, 0.96]]), 1);
        assert_eq!(choose(&[prediction, vec![0.9, 0.9, 0.96], vec![0.8, 0.8, 0.8]]), 2);
    }

    #[test]
    fn short_runs_are_repeated_more_often() {
        let pairs = |wall| pair_count(Times { wall, cpu: 0.0 });
        assert_eq!((pairs(0.001), pairs(0.0), pairs(1.0), pairs(60.0)), (15, 15, 6, 5));
    }
}
