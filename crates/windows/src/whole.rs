//! Whether recording whole fits into the budget, after the start of a run.
//!
//! In each window, the first access of every cache line takes a slow path. A run that is recorded
//! whole has these accesses once. So there are programs that take less than twice their time when
//! recorded whole, and more in windows. Recording whole is also exact.
//!
//! Light time tells what the program takes alone. Then it is asked what whole would cost: at most
//! what windows have cost, or, before there was one, about what the start of the run did. If that
//! fits, the program is recorded whole. If not, it is tried once in a while: what windows cost says
//! little where it is mostly first accesses.
//!
//! The first step of such a time is not judged, nor is that of the run. Afterwards, whole ends if
//! it costs more than the budget gives; the first steps may cost half as much again. Light time has
//! to tell anew what the program takes alone if checks for each unit of work change, because it
//! does something else then; if whole is faster than alone, because what light time told is wrong
//! then (a virtual machine that starts); and now and then in any case.
//!
//! Neighbour: `dial.rs` asks at the beginning of each period, and at each step of such a time.

use crate::constants::{
    AGAIN_STEP, CHANGED, DEAREST_TRIED, FIRST_DOUBT, FIRST_LOOK, FIRST_TRIAL, LATELY,
    LEAST_FOR_WHOLE, LONGEST_UNSEEN, LOOK, LOOK_REST, SURE_STEPS, TOO_DEAR, TRIAL_BACKOFF,
    TRIAL_REST,
};
use crate::cost::{Rates, Spent, Sums, rates_alone};

/// What is known about recording whole.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    /// Times as long as alone that the run may take; `None`: whole is never asked about.
    budget: Option<f64>,
    /// When there is to be light time, and when whole is tried whatever windows cost.
    look: u64,
    trial: Option<u64>,
    /// How long it rests after the next failure.
    rest: u64,
    /// When light time began, sums when that began which is not judged yet, and when whole was
    /// judged last.
    began: u64,
    looked: Option<Sums>,
    judged: Sums,
    /// What the first step of the run took, in which the program is mapped and code is new.
    first_step: Spent,
    /// The present time in which everything is recorded, or the last one, and how long the next
    /// one is at most.
    now: Held,
    most: u64,
}

/// A time in which everything is recorded.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    began: u64,
    /// Whether it is over.
    over: bool,
    /// Sums at the last step, and how many there were.
    last: Sums,
    steps: u32,
    /// What the program takes alone, and whether it may have changed.
    alone: Rates,
    doubtful: bool,
    /// What was spent lately, and when it was judged first.
    lately: Spent,
    first: Option<Spent>,
}

impl Whole {
    /// Without a budget, until [`may_take`](Self::may_take) gives one.
    pub fn new() -> Self {
        Self {
            budget: None,
            look: 0,
            trial: None,
            rest: TRIAL_REST,
            began: 0,
            looked: None,
            judged: Sums::default(),
            first_step: Spent::default(),
            now: Held { over: true, ..Held::default() },
            most: FIRST_LOOK,
        }
    }

    /// How many times as long as alone the program may take from now on; `None`: no budget.
    pub fn may_take(&mut self, budget: Option<f64>) {
        self.budget = budget.filter(|budget| *budget >= LEAST_FOR_WHOLE);
    }

    /// The run begins recorded whole, and has taken so much for that.
    pub fn starts(&mut self, whole: &Spent) {
        if whole.wall <= AGAIN_STEP {
            self.first_step = *whole;
        }
    }

    /// Whether light time is to begin, so that it is known what the program takes alone.
    pub fn looks(&mut self, now: u64, spent: &Sums) -> bool {
        self.trial.get_or_insert(now + FIRST_TRIAL);
        if self.budget.is_none() || now < self.look {
            return false;
        }
        self.began = now;
        self.looked.get_or_insert(*spent);
        true
    }

    /// Whether everything is to be recorded from `now` on, where light time ends.
    pub fn begins(&mut self, now: u64, spent: &Sums) -> bool {
        let (Some(budget), Some(looked)) = (self.budget, &self.looked) else { return false };
        let Some(alone) = rates_alone(spent, looked) else {
            self.look = now + ((now - self.began) / LOOK * LOOK_REST).max(LOOK_REST);
            return false;
        };
        let alone = match self.now.over || self.now.doubtful {
            true => alone,
            false => alone.mean(&self.now.alone),
        };
        let least = self.least(spent, &alone);
        (self.looked, self.judged) = (None, *spent);
        let is_time = self.trial.is_some_and(|trial| now >= trial);
        let most = match self.now.over {
            true if spent.on.work == 0 => FIRST_DOUBT * budget,
            true => budget,
            false => TOO_DEAR * budget,
        };
        if least <= most || is_time && least < DEAREST_TRIED * budget {
            self.now = Held { began: now, last: *spent, alone, ..Held::default() };
            return true;
        }
        if is_time || !self.now.over {
            self.give_up(now);
        }
        self.look = self.trial.unwrap_or(now);
        self.now.over = true;
        false
    }

    /// An upper bound of the slowdown when recorded whole, from what was seen; infinite if that was
    /// too little.
    fn least(&self, spent: &Sums, alone: &Rates) -> f64 {
        let windows = spent.on.without(&self.judged.on);
        let seen = match self.now.over {
            false => self.now.lately,
            true if windows.work > 0 => windows,
            true => spent.whole.without(&self.first_step),
        };
        Rates::of(&seen).and_then(|seen| seen.over(alone)).unwrap_or(f64::INFINITY)
    }

    /// A step of the time in which everything is recorded is over; whether that goes on. If not, it
    /// is over for now, or light time comes next.
    pub fn goes_on(&mut self, now: u64, spent: &Sums) -> bool {
        let Some(budget) = self.budget else { return false };
        let step = spent.again.without(&std::mem::replace(&mut self.now.last, *spent).again);
        self.now.steps += 1;
        if self.now.steps == 1 {
            return true;
        }
        self.now.lately = self.now.lately.faded(LATELY, step.wall);
        self.now.lately += step;
        let (lately, alone) = (self.now.lately, self.now.alone);
        let Some(rates) = Rates::of(&lately) else { return true };
        let first = *self.now.first.get_or_insert(lately);
        let most = TOO_DEAR * budget;
        // One step may be unlike others.
        let most = if self.now.steps < SURE_STEPS { FIRST_DOUBT * most } else { most };
        if rates.over(&alone).is_some_and(|times| times > most) {
            self.now.over = true;
            self.give_up(now);
            return false;
        }
        let doubtful = rates.cpu < alone.cpu || has_changed(&first, &lately);
        if doubtful || now - self.now.began >= self.most {
            self.now.doubtful = doubtful;
            self.look = now;
            self.most = if doubtful { FIRST_LOOK } else { (2 * self.most).min(LONGEST_UNSEEN) };
            return false;
        }
        true
    }

    fn give_up(&mut self, now: u64) {
        self.trial = Some(now + self.rest);
        self.look = now + self.rest;
        self.rest = self.rest.saturating_mul(TRIAL_BACKOFF);
    }
}

/// Whether the program executes other code: by the checks for a unit of work, which do not depend
/// on how fast the processor is.
fn has_changed(first: &Spent, lately: &Spent) -> bool {
    let checks = |spent: &Spent| spent.checking as f64 / spent.work as f64;
    let more = checks(lately) / checks(first);
    more.is_finite() && !(1.0 / CHANGED..CHANGED).contains(&more)
}

impl Rates {
    /// The mean of both: one moment of light time may be unlike others.
    fn mean(&self, other: &Rates) -> Rates {
        let [cpu, wall] = [self.cpu + other.cpu, self.wall + other.wall].map(|sum| sum / 2.0);
        Rates { cpu, wall }
    }

    /// How many times more than alone; the more of processor and wall-clock time.
    fn over(&self, alone: &Rates) -> Option<f64> {
        let times = (self.cpu / alone.cpu).max(self.wall / alone.wall);
        times.is_finite().then_some(times)
    }
}

#[cfg(test)]
#[path = "whole_tests.rs"]
mod tests;
