//! When the next window opens, and how long it is: a state machine without a clock of its own.
//!
//! The caller asks [`Scheduler::next`] at each step's end, or when it is late. It says what was
//! spent so far, and learns what to do until when.
//!
//! *Budget.* The program may take `budget` times as long as alone. The run begins recorded whole,
//! until a part of what a short run may lose is spent, less what the rest of that run will lose
//! between windows. The other part is for windows: they are spread over the rest of that short run,
//! and there are as many as estimates need, if they cost little more than that.
//!
//! Then, for each period, the work between windows is chosen such that its windows are paid for at
//! its end. Debts count: what was lost too much is saved by longer periods, and what was saved
//! makes them shorter. Both processor and wall-clock time must stay within the budget. A program
//! that sleeps costs nothing while it does, so its windows follow each other closely until they see
//! work.
//!
//! *Between windows*, code runs without checks (light), and before a window for a time with those
//! of tracked cache lines only: as long as a part of what the budget gives pays for
//! ([`FOR_TRACKING`], [`FOR_LONG_GAPS`]). That time may begin in the period before, so each window
//! has the same before it.
//!
//! *Whole again.* Where recording whole fits into the budget, no windows are needed: see
//! `whole.rs`. Light time of its own tells that, which is a period without a window.
//!
//! *The usual budget* gives more at the beginning of a run (`budget.rs`).
//!
//! *Least.* A period is at most [`MIN_DUTY`]'s inverse times its window, and at most
//! [`LONGEST_PERIOD`] of the run so far if that takes no more than [`MOST_OWED`] of the time, or
//! [`FOR_OWED`] of what the budget gives. A budget that does not even pay for the time between
//! windows is exceeded; [`Scheduler::promise`] then says by how much at least.
//!
//! *Alone.* With a budget, a program with one thread has no windows once its start was recorded:
//! there would be nothing to see. The caller ends that time when another thread appears.
//!
//! *Solo time* (`solo.rs`) needs light time, too, which there is less and less often.
//!
//! *Duty.* Windows take a fixed share of wall-clock time, from the start on. Light time, once a
//! second, tells what the program takes alone; a run shorter than [`FIRST_LOOK`] has none.

use crate::budget::Budget;
use crate::constants::{
    AGAIN_STEP, ALONE_STEP, FIRST_LOOK, FOR_HOOKS, FOR_LIGHT, FOR_LONG_GAPS, FOR_LOOK, FOR_OWED,
    FOR_TRACKING, FOR_WHOLE, LONGEST_LOOK, LONGEST_PERIOD, LONGEST_START, LOOK, LOOK_REST,
    MAX_TRANSLATING, MAX_WITHOUT_LIGHT, MIN_DUTY, MIN_MEASURED, MOST_OWED, SHORT_RUN, USUAL_COST,
    WANTED_WINDOWS, WHOLE_STEP,
};
use crate::constants::{ALWAYS, DEAREST_TRACKING, DUTY_WITH_LOOKS, MAX_TRACKING, TOLERANCE};
use crate::cost::{Cost, light_slower, tracking_since};
use crate::debts::{between, rest, saved};
use crate::fresh::Fresh;
use crate::solo::SoloDue;
use crate::whole::Whole;
use crate::{Assumed, Costs, Lengths, Random, Spent, Sums};
use std::fmt;

/// What the user asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Dial {
    /// Times as long as without recording; more than 1.
    Budget(f64),
    /// A budget of 1.2, and of 2 for the first two seconds of what the program takes alone.
    Usual,
    /// Share of time in windows; more than 0, at most 1.
    Duty(f64),
}

/// What is known when a step ends. Sums are over the run so far.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Observation {
    /// Nanoseconds of the schedule's time: that of a clock or, between windows, one that goes by
    /// work. It never stands still.
    pub now: u64,
    /// What was spent.
    pub spent: Sums,
    /// Lengths of the next window.
    pub lengths: Lengths,
    /// Whether gaps may be long: more of the budget is for tracked cache lines.
    pub long_gaps: bool,
    /// Whether no thread could meet another one lately.
    pub alone: bool,
    /// Time without checks that solo time needs now, ns; 0: no more than there is anyway.
    pub solo_ns: u64,
}

/// What the program is recorded as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Everything counts, exactly.
    Whole,
    /// Nothing is observed but tracked lines.
    Off,
    /// As `Off`, but late events of tracked lines count. Callers divide `Off` so.
    Late,
    /// A window has opened: accesses are observed, nothing counts.
    WarmUp,
    /// What happens in a window counts.
    Counting,
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The phase that begins.
    pub phase: Phase,
    /// When to ask again.
    pub until: u64,
    /// Where nothing is observed: until then, not even tracked cache lines are. After that they
    /// are.
    pub light: u64,
    /// A new period begins: the one before is complete. If it had no window, because the caller was
    /// late, or only a part of one, its window is to be set aside.
    pub period: bool,
}

/// What cannot be done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Trouble {
    /// A budget of 1 or less, a duty that is no share, or no number.
    Dial,
    /// Time went back. A window that was open is to be set aside; the next step begins a period.
    ClockWentBack,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial => {
                write!(f, "a budget is more than 1, a duty more than 0 % and at most 100 %")
            }
            Self::ClockWentBack => write!(f, "the clock went back: a window was dropped"),
        }
    }
}

impl std::error::Error for Trouble {}

/// What limits windows.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// What they cost.
    Budget(Budget),
    /// Their share of the time.
    Duty(f64),
}

impl Limit {
    fn of(dial: Dial) -> Self {
        match dial {
            Dial::Budget(times) => Self::Budget(Budget::times(times)),
            Dial::Usual => Self::Budget(Budget::USUAL),
            Dial::Duty(duty) => Self::Duty(duty),
        }
    }

    fn budget(&self) -> Option<&Budget> {
        match self {
            Self::Budget(budget) => Some(budget),
            Self::Duty(_) => None,
        }
    }
}

/// What the dial can hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Promise {
    /// What was asked for.
    Kept,
    /// Less than this many times as long is not possible with this way of switching.
    Least(f64),
}

/// What a recording took that its budget did not hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Exceeded {
    /// What was asked for.
    pub budget: f64,
    /// Times as long as without recording, in processor or wall-clock time, whichever is more.
    pub times: f64,
    /// What it would be with the fewest windows.
    pub least: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Start,
    Whole,
    Looking,
    Again,
    Alone,
    Before { lengths: Lengths, open: u64, end: u64 },
    WarmUp { counting: u64, end: u64 },
    Counting { end: u64 },
    After { end: u64 },
}

/// Where the window of the next period lies in it.
#[derive(Clone, Copy, Debug)]
struct Planned {
    length: u64,
    offset: u64,
    /// How long before it lines are tracked.
    lead: u64,
}

/// The dial at work.
#[derive(Clone, Debug)]
pub struct Scheduler {
    limit: Limit,
    assumed: Assumed,
    /// Whether lines are tracked between windows.
    tracks: bool,
    random: Random,
    state: State,
    planned: Option<Planned>,
    whole: Whole,
    /// With a duty: when there is to be light time, once the run has begun.
    look: Option<u64>,
    /// With a budget: the same for solo time, and where there is nothing but windows.
    solo: SoloDue,
    fresh: Fresh,
    last: u64,
    windows: usize,
    /// What had been spent when a short run would have ended.
    start: Option<Sums>,
}

impl Scheduler {
    /// `seed` decides where windows lie in their periods.
    ///
    /// # Errors
    /// Fails when the dial is no budget above 1 and no share.
    pub fn new(dial: Dial, assumed: Assumed, seed: u64) -> Result<Self, Trouble> {
        let possible = match dial {
            Dial::Budget(budget) => budget.is_finite() && budget > 1.0,
            Dial::Usual => true,
            Dial::Duty(duty) => duty > 0.0 && duty <= 1.0,
        };
        let scheduler = Self {
            limit: Limit::of(dial),
            assumed,
            tracks: true,
            random: Random::new(seed),
            state: State::Start,
            planned: None,
            whole: Whole::new(),
            look: None,
            solo: SoloDue::default(),
            fresh: Fresh::default(),
            last: 0,
            windows: 0,
            start: None,
        };
        possible.then_some(scheduler).ok_or(Trouble::Dial)
    }

    /// The same where no line is tracked between windows.
    #[must_use]
    pub fn without_tracking(self) -> Self {
        Self { tracks: false, ..self }
    }

    /// What can be promised. The least is that of the time between windows and the fewest windows.
    pub fn promise(&self) -> Promise {
        let least = self.assumed.off.max(1.0) / (1.0 - MIN_DUTY);
        match self.limit.budget() {
            Some(budget) if budget.least() < least => Promise::Least(least),
            _ => Promise::Kept,
        }
    }

    /// By how much a budget was exceeded, if it was by more than a tenth and the run was not short.
    pub fn exceeded(&self, seen: &Observation) -> Option<Exceeded> {
        let costs = self.costs(seen);
        let [cpu, wall] = self.limit.budget()?.of(&costs);
        let times = |cost: &Cost| (cost.alone + cost.lost) / cost.alone.max(1.0);
        let (worst, given) = match times(&costs.cpu) > times(&costs.wall) {
            true => (costs.cpu, cpu),
            false => (costs.wall, wall),
        };
        let least = worst.off / (1.0 - MIN_DUTY);
        let budget = given.so_far(&worst);
        let exceeded = Exceeded { budget, times: times(&worst), least };
        let short = worst.alone < SHORT_RUN as f64;
        (!short && exceeded.times > TOLERANCE * budget).then_some(exceeded)
    }

    /// Whether looking at what is allocated takes more than its part of what the budget gives, so
    /// that less of it is to be done between windows. `off` is what was spent there since the last
    /// such decision; of its hooks, only those count that could be left out.
    pub fn hooks_are_too_dear(&self, seen: &Observation, off: &Spent) -> bool {
        let Some(budget) = self.budget(seen) else { return false };
        let alone = off.cpu as f64 / self.costs(seen).cpu.off;
        off.cpu >= MIN_MEASURED && off.hooks as f64 > FOR_HOOKS * (budget - 1.0) * alone
    }

    /// Whether threads must run natively between windows, as even code without checks would take
    /// too much of what the budget gives.
    pub fn needs_native(&self, seen: &Observation) -> bool {
        self.budget(seen).is_some_and(|budget| {
            let (slower, translating) = light_slower(&seen.spent).unwrap_or((1.0, 0.0));
            budget <= MAX_WITHOUT_LIGHT
                || slower - 1.0 > FOR_LIGHT * (budget - 1.0)
                || translating > MAX_TRANSLATING
        })
    }

    /// Times as long as alone that the program may take now, if a budget was asked for.
    pub fn budget(&self, seen: &Observation) -> Option<f64> {
        self.limit.budget().map(|budget| budget.of(&self.costs(seen))[0].now)
    }

    /// When the present period ends, if it has a window.
    pub fn period_ends(&self) -> Option<u64> {
        match self.state {
            State::Before { end, .. }
            | State::WarmUp { end, .. }
            | State::Counting { end }
            | State::After { end } => Some(end),
            State::Start | State::Whole | State::Looking | State::Again | State::Alone => None,
        }
    }

    /// Whether there are no windows because there would be nothing to see.
    pub fn is_alone(&self) -> bool {
        self.state == State::Alone
    }

    /// Whether no window is to come now, as one thread is alone.
    fn has_nothing_to_see(&self, seen: &Observation) -> bool {
        let may = match self.state {
            State::Start | State::Whole => !self.may_record_whole(seen),
            State::WarmUp { .. } | State::Counting { .. } => false,
            _ => true,
        };
        seen.alone && may && self.limit.budget().is_some()
    }

    /// Windows that were opened.
    pub fn windows(&self) -> usize {
        self.windows
    }

    /// The next step.
    ///
    /// # Errors
    /// Fails when time went back. The next call begins a period.
    pub fn next(&mut self, seen: &Observation) -> Result<Step, Trouble> {
        let now = seen.now;
        let last = std::mem::replace(&mut self.last, now);
        if now < last {
            self.state = State::After { end: now };
            self.look = self.look.map(|look| look.min(now + LOOK_REST));
            return Err(Trouble::ClockWentBack);
        }
        // Nothing tells what whole would cost where even light code is too slow.
        self.whole.may_take(self.budget(seen).filter(|_| !self.needs_native(seen)));
        if self.has_nothing_to_see(seen) {
            let (period, until) = (!self.is_alone(), now + ALONE_STEP);
            (self.state, self.planned) = (State::Alone, None);
            return Ok(Step { period, light: until, ..wait(Phase::Off, until) });
        }
        Ok(match self.state {
            State::Start | State::Whole if self.may_record_whole(seen) => {
                let period = self.state == State::Start;
                self.state = State::Whole;
                self.whole.starts(&seen.spent.whole);
                Step { period, ..wait(Phase::Whole, now + WHOLE_STEP) }
            }
            State::Looking if self.whole.begins(now, &seen.spent) => {
                self.state = State::Again;
                Step { period: true, ..wait(Phase::Whole, now + AGAIN_STEP) }
            }
            State::Again if self.whole.goes_on(now, &seen.spent) => {
                wait(Phase::Whole, now + AGAIN_STEP)
            }
            State::Looking => self.begin_period(seen),
            State::Start | State::Whole | State::Again | State::Alone => self.begin(seen),
            State::Before { open, .. } if now < open => wait(Phase::Off, open),
            State::Before { lengths, open, end } if now < open + lengths.whole() => {
                // If late, the window is as long all the same: a part of it would miss long gaps.
                self.windows += 1;
                let until = now + lengths.warm_up;
                self.state = State::WarmUp { counting: lengths.counting, end };
                wait(Phase::WarmUp, until)
            }
            State::WarmUp { counting, end } => {
                self.state = State::Counting { end };
                wait(Phase::Counting, now + counting)
            }
            State::Before { end, .. } | State::Counting { end } | State::After { end }
                if now < end =>
            {
                self.state = State::After { end };
                let planned = self.plan(seen);
                self.planned = Some(planned);
                let tracked = (end + planned.offset).saturating_sub(planned.lead);
                let light = if tracked > now { tracked.min(end) } else { 0 };
                Step { light, ..wait(Phase::Off, end) }
            }
            State::Before { .. } | State::Counting { .. } | State::After { .. } => self.begin(seen),
        })
    }

    /// Whether more of what a short run may lose is left than is kept for windows.
    fn may_record_whole(&self, seen: &Observation) -> bool {
        let Some(budget) = self.limit.budget() else { return false };
        let Spent { wall, cpu, .. } = seen.spent.whole;
        if wall.min(cpu) > LONGEST_START {
            return false;
        }
        let costs = self.costs(seen);
        [costs.cpu, costs.wall].iter().zip(budget.of(&costs)).all(|(cost, given)| {
            let kept = 1.0 - FOR_WHOLE * (USUAL_COST / cost.on).min(1.0);
            saved(cost, given) > kept * (given.now - cost.off) * rest(cost)
        })
    }

    fn costs(&self, seen: &Observation) -> Costs {
        self.costs_of(&seen.spent, self.windows, self.assumed)
    }

    /// The cost of what was spent, with this number of windows.
    pub fn costs_of(&self, spent: &Sums, windows: usize, assumed: Assumed) -> Costs {
        Costs::by_rates(spent, &spent.since(&self.fresh.since), windows, assumed)
    }

    /// Whether everything is recorded, but not because the run has just begun.
    pub fn is_whole_again(&self) -> bool {
        self.state == State::Again
    }

    /// Begins a period, or one that tells what the program takes alone.
    fn begin(&mut self, seen: &Observation) -> Step {
        let length = match (self.looks(seen), self.is_stale(seen)) {
            (false, false) => return self.begin_period(seen),
            (false, true) => LOOK,
            (true, _) => self.look_length(seen),
        };
        let until = seen.now + length;
        (self.state, self.planned) = (State::Looking, None);
        Step { light: until, period: true, ..wait(Phase::Off, until) }
    }

    /// How long light time is.
    fn look_length(&self, seen: &Observation) -> u64 {
        let is_whole = matches!(self.state, State::Start | State::Whole | State::Again);
        if is_whole || matches!(self.limit, Limit::Duty(_)) {
            return LOOK.max(seen.solo_ns);
        }
        ((wall_so_far(&seen.spent) * FOR_LOOK) as u64).clamp(LOOK, LONGEST_LOOK)
    }

    /// Whether light time is to begin.
    fn looks(&mut self, seen: &Observation) -> bool {
        let Limit::Duty(duty) = self.limit else {
            // Before native time there is light time anyway.
            let solo = !self.needs_native(seen) && self.solo.looks(seen);
            return self.whole.looks(seen.now, &seen.spent) || solo;
        };
        let look = self.look.get_or_insert(seen.now + FIRST_LOOK);
        let looks = duty <= DUTY_WITH_LOOKS && seen.now >= *look;
        if looks {
            *look = seen.now + LOOK_REST;
        }
        looks
    }

    /// Whether light time is to begin for the sake of rates.
    fn is_stale(&mut self, seen: &Observation) -> bool {
        self.limit.budget().is_some() && self.fresh.looks(&seen.spent)
    }

    fn begin_period(&mut self, seen: &Observation) -> Step {
        if self.windows >= WANTED_WINDOWS {
            self.start.get_or_insert(seen.spent);
        }
        let lengths = seen.lengths;
        let planned = self.planned.take().filter(|planned| planned.length >= lengths.whole());
        let Planned { length, offset, lead } = planned.unwrap_or_else(|| self.plan(seen));
        let open = seen.now + offset.min(length - lengths.whole());
        self.state = State::Before { lengths, open, end: seen.now + length };
        let tracked = open.saturating_sub(lead);
        let light = if tracked > seen.now { tracked } else { 0 };
        Step { light, period: true, ..wait(Phase::Off, open) }
    }

    /// Plans the period that comes next.
    fn plan(&mut self, seen: &Observation) -> Planned {
        let length = self.period(seen).max(seen.lengths.whole());
        let offset = self.random.up_to(length - seen.lengths.whole());
        Planned { length, offset, lead: self.lead(seen, length) }
    }

    /// For which part of the work between windows tracked lines can be paid for.
    fn tracking(&self, seen: &Observation) -> f64 {
        let Some(budget) = self.budget(seen) else { return 1.0 };
        let part = if seen.long_gaps { FOR_LONG_GAPS } else { FOR_TRACKING };
        let given = budget - 1.0;
        // A small budget needs light time to see what tracking costs: that of the program's start,
        // when a virtual machine has its code translated, may tell less than nothing.
        let small = given < self.assumed.tracking;
        let (cost, most) = match self.start.filter(|_| small) {
            None => (self.costs(seen).tracking, if small { MAX_TRACKING } else { 1.0 }),
            Some(start) => match tracking_since(&seen.spent, &start, self.assumed) {
                Some(cost) => (self.costs(seen).tracking.map(|all| all.max(cost)), MAX_TRACKING),
                None => (None, given / DEAREST_TRACKING),
            },
        };
        // Where code is new all the time, what tracked code costs is not what it has cost.
        let dear = budget > MAX_WITHOUT_LIGHT && self.needs_native(seen);
        let most = if dear { most.min(given / DEAREST_TRACKING) } else { most };
        let cost = cost.unwrap_or(self.assumed.tracking);
        // Tracking takes more time than other code for the same work.
        let of_time = (part * given / cost.max(1e-9)).min(most);
        of_time / (1.0 + cost * (1.0 - of_time))
    }

    /// How long lines are tracked before the window of a period of this length; `u64::MAX`: always.
    fn lead(&self, seen: &Observation, length: u64) -> u64 {
        if !self.tracks {
            return 0;
        }
        match self.tracking(seen) {
            share if share >= ALWAYS => u64::MAX,
            share => {
                let (time, least) = ((length as f64 * share) as u64, 2 * seen.lengths.warm_up);
                match time < least {
                    // What tracking costs is only known where there was some.
                    true if self.must_try_tracking(seen) => least,
                    true => 0,
                    false => time,
                }
            }
        }
    }

    /// Whether it is not known what tracking costs with a small budget, although there was light
    /// time to compare with.
    fn must_try_tracking(&self, seen: &Observation) -> bool {
        let Some(start) = &self.start else { return false };
        let lately = seen.spent.since(start);
        lately.light.cpu >= MIN_MEASURED
            && tracking_since(&seen.spent, start, self.assumed).is_none()
    }

    /// Length of the next period.
    fn period(&self, seen: &Observation) -> u64 {
        let window = seen.lengths.whole() as f64;
        let costs = self.costs(seen);
        let [given_cpu, given_wall] = match &self.limit {
            Limit::Budget(budget) => budget.of(&costs),
            Limit::Duty(duty) => return (window / duty) as u64,
        };
        // How many threads run at once, in windows and between them.
        let at_once =
            |spent: &Spent| (spent.wall > 0).then(|| spent.cpu as f64 / spent.wall as f64);
        let Sums { whole, off, on, .. } = &seen.spent;
        let all = at_once(off).or(at_once(whole)).unwrap_or(1.0);
        let in_window = at_once(on).unwrap_or(all);
        let missing = WANTED_WINDOWS.saturating_sub(self.windows);
        let cpu = between(&costs.cpu, given_cpu, window * in_window, missing) / all.max(1e-9);
        let wall = between(&costs.wall, given_wall, window, missing);
        // A window that is expected to see no work costs nothing; whatever comes then is debt.
        let owed = MOST_OWED.max(FOR_OWED * (given_wall.now - 1.0));
        let longest = (LONGEST_PERIOD * wall_so_far(&seen.spent)).max(window / owed);
        let most = longest.min(window / MIN_DUTY);
        (window + cpu.max(wall).max(0.0)).min(most) as u64
    }
}

/// Wall-clock time of the run so far, ns.
fn wall_so_far(sums: &Sums) -> f64 {
    let Sums { whole, off, on, again, .. } = sums;
    [whole, off, on, again].iter().map(|spent| spent.wall).sum::<u64>() as f64
}

fn wait(phase: Phase, until: u64) -> Step {
    Step { phase, until, light: 0, period: false }
}

#[cfg(test)]
#[path = "dial_tests.rs"]
mod tests;
