//! Whether the threads of a program are placed well for what they communicate now: an early look at
//! a run under a plan, which may be of another input or another build.
//!
//! It is the decider's own question: would another placement make the communication that was seen
//! cheaper, by more than chance explains? Nothing is bound or moved. Neighbours: `online` compares
//! placements, `auto` asks the same all the time.

use crate::actor::Actor;
use crate::auto::{choose_samples, machine};
use crate::error::DaemonError;
use crate::sense::{Pace, Sense};
use crate::senses::load::Load;
use crate::senses::samples::Samples;
use crate::targets::{Targets, Wanted};
use online::{Decider, Observation, Proposal, Settings, Why};
use recorder::sampled::Choice;
use std::time::{Duration, Instant};

/// Time between two looks.
const REST: Duration = Duration::from_millis(50);
/// A verdict must hold for so long.
const HOLDS: Duration = Duration::from_secs(2);
/// A plan fits unless another placement saves this part of what communication costs.
const MIN_SAVING: f64 = 0.1;

/// Whether the placement fits what was seen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fit {
    /// No other placement saves a tenth.
    Fits {
        /// What the best other one saves, as a part of the cost.
        saving: f64,
    },
    /// Another one saves more, by more than chance explains.
    Differs {
        /// What it saves, as a part of the cost.
        saving: f64,
        /// Threads that it moves.
        moved: usize,
    },
    /// What was seen does not tell.
    Unknown(Why),
}

/// What a look found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Verdict {
    /// Whether the placement fits.
    pub fit: Fit,
    /// Samples that it rests on.
    pub samples: u64,
    /// How long was looked.
    pub time: Duration,
}

impl Fit {
    fn of(proposal: Result<Proposal, Why>) -> Self {
        match proposal {
            Ok(Proposal { saving, moved, .. }) => Self::Differs { saving, moved },
            Err(Why::AsGood { saving }) => Self::Fits { saving },
            Err(why) => Self::Unknown(why),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        !matches!(self, Self::Unknown(_))
            && std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Finds out how a program can be sampled. To be called before the program starts: on a busy
/// machine it takes seconds, in which a program may end. `budget` is the part of the program's
/// processor time that samples may cost.
///
/// # Errors
/// When nothing can be sampled.
pub fn choose(budget: f64) -> Result<Choice, DaemonError> {
    Ok(choose_samples(budget)?)
}

/// Looks at a process and what it starts by means of `choice`, until a verdict holds for two
/// seconds, at most so long; `is_over` says that it has ended.
///
/// # Errors
/// When it cannot be sampled.
pub fn look(
    pid: u32,
    most: Duration,
    choice: Choice,
    is_over: &dyn Fn() -> bool,
) -> Result<Verdict, DaemonError> {
    let mut targets = Targets::new(Wanted::Processes(vec![pid]))?;
    let machine = machine(&targets)?;
    let mut samples = Samples::new(&[pid], choice, false)?;
    samples.pace(Pace::Closer);
    let mut actor = Actor::new(machine.allowed().iter().map(|cpu| *cpu as usize).collect(), true);
    let mut load = Load::default();
    let mut decider = Decider::new(settings(), machine);
    let begun = Instant::now();
    let (mut seen_samples, mut since) = (0, begun);
    let mut fit = Fit::Unknown(Why::NoSense);
    while begun.elapsed() < most && !is_over() && !targets.is_over() {
        samples.wait(REST);
        targets.refresh();
        let pids: Vec<u32> = targets.pids().collect();
        samples.follow(&pids);
        let at_ns = begun.elapsed().as_nanos() as u64;
        let mut seen = Observation { at_ns, ..Observation::default() };
        samples.look(&mut seen);
        seen.tasks = load.look(pids.into_iter(), &mut actor);
        // They are bound, by the plan.
        seen.tasks.iter_mut().for_each(|task| task.fixed = false);
        seen_samples += seen.samples;
        decider.step(&seen);
        let now = Fit::of(decider.propose());
        // What was known before the threads rested, or ended, is better than nothing.
        if now == Fit::Unknown(Why::Alone) && fit != Fit::Unknown(Why::NoSense) {
            continue;
        }
        if !now.is_like(&fit) {
            since = Instant::now();
        }
        fit = now;
        if since.elapsed() >= HOLDS && !matches!(fit, Fit::Unknown(_)) {
            break;
        }
    }
    Ok(Verdict { fit, samples: seen_samples, time: begun.elapsed() })
}

/// What moving would cost, and how long the program will live, do not matter here.
fn settings() -> Settings {
    Settings {
        threads: false,
        data: false,
        guard: false,
        priced: false,
        min_saving: MIN_SAVING,
        migration: 0.0,
        min_gain: 0.0,
        half_life_ms: 2000,
        ..Settings::default()
    }
}
