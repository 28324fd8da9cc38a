//! What recording has cost so far.
//!
//! What the program would have taken alone is not observed. What is: processor and wall-clock time,
//! and work, in four kinds of time: recorded whole at the start, and again later (*again*), between
//! windows (*off*), and in windows (*on*). Time for each unit of work tells how much slower *on* is
//! than *off*, and how much slower *off* is than its part without checks (*light*), which is almost
//! as fast as the program alone, but for the steps, looks at allocations, and translating that are
//! counted; or, if it is slower, by what the program does in its time and
//! natively. Where there is no light time, because cache lines are tracked always, the checks
//! executed between windows and the time that one takes tell it; until there is some of that, it is
//! assumed. Until there is time off to compare with, events that were counted tell the least that
//! counting has cost.
//!
//! *Wall-clock time.* Windows lie at random places, so time for each unit of work compares it too,
//! waits included. For what was recorded whole, which is not random, the threads that ran at once
//! share the processor time that was lost; that is also the least for windows.

use crate::compared::Compared;
use crate::constants::{LEAST_OF_CHECKS, MAX_BESIDES, MAX_CHECKING, MAX_COUNTING, MAX_HOOKS};
use crate::constants::{MIN_EVENT_TIME, MIN_MEASURED, MIN_WINDOWS, TRANSLATION};
use std::ops::AddAssign;

/// Sums over one kind of time. Times are in nanoseconds, processor time over all threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Wall-clock time.
    pub wall: u64,
    /// Processor time.
    pub cpu: u64,
    /// In units that recording does not change, such as instructions; 0 if there is no such clock.
    pub work: u64,
    /// Events that were counted.
    pub events: u64,
    /// Processor time, in nanoseconds, that checks that pass and the counting of instructions take,
    /// by how often they were executed; 0 if that is not known.
    pub checking: u64,
    /// The same of looking at what is allocated and freed.
    pub hooks: u64,
    /// Time for translating, in nanoseconds.
    pub translating: u64,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, more: Self) {
        self.wall += more.wall;
        self.cpu += more.cpu;
        self.work += more.work;
        self.events += more.events;
        self.checking += more.checking;
        self.hooks += more.hooks;
        self.translating += more.translating;
    }
}

impl Spent {
    /// The rest, without a part of it.
    pub fn without(&self, part: &Self) -> Self {
        Self {
            wall: self.wall.saturating_sub(part.wall),
            cpu: self.cpu.saturating_sub(part.cpu),
            work: self.work.saturating_sub(part.work),
            events: self.events.saturating_sub(part.events),
            checking: self.checking.saturating_sub(part.checking),
            hooks: self.hooks.saturating_sub(part.hooks),
            translating: self.translating.saturating_sub(part.translating),
        }
    }

    /// What is left of it after `time`, where half is after `half`.
    pub(crate) fn faded(&self, half: u64, time: u64) -> Self {
        let kept = (-(time as f64) / half as f64).exp2();
        let of = |value: u64| (value as f64 * kept) as u64;
        Self {
            wall: of(self.wall),
            cpu: of(self.cpu),
            work: of(self.work),
            events: of(self.events),
            checking: of(self.checking),
            hooks: of(self.hooks),
            translating: of(self.translating),
        }
    }
}

/// Time for a unit of work, ns.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Rates {
    pub cpu: f64,
    pub wall: f64,
}

impl Rates {
    /// Those of what was spent; `None` if it was too little.
    pub fn of(spent: &Spent) -> Option<Self> {
        let each = |time| per_work(time, spent);
        is_measured(spent).then(|| Self { cpu: each(spent.cpu), wall: each(spent.wall) })
    }
}

/// Those of the program alone, by the time without checks since a moment.
pub(crate) fn rates_alone(sums: &Sums, before: &Sums) -> Option<Rates> {
    let lately = sums.since(before);
    let light = settled(&lately);
    let native = sums.compared.native_cpu.saturating_sub(before.compared.native_cpu);
    let slower = without_checks(light, native, &sums.compared);
    let rates = Rates::of(light)?;
    Some(Rates { cpu: rates.cpu / slower, wall: rates.wall / slower })
}

/// The light time that tells what a unit of work takes.
fn settled(sums: &Sums) -> &Spent {
    if is_measured(&sums.settled) { &sums.settled } else { &sums.light }
}

/// How many times as long code without checks takes, and which part of its time is for translating;
/// `None` if there was too little of it.
pub(crate) fn light_slower(sums: &Sums) -> Option<(f64, f64)> {
    let Spent { cpu, translating, .. } = sums.light;
    let slower = by_steps(&sums.light).max(sums.compared.slower().unwrap_or(1.0));
    is_measured(&sums.light).then(|| (slower, translating as f64 / cpu as f64))
}

/// How many times as long the time without checks takes, of which so much processor time is the
/// program's own natively. Looks at allocations and translating are told by their own time.
fn without_checks(light: &Spent, native: u64, compared: &Compared) -> f64 {
    let by_steps = by_steps(light);
    let Some(slower) = compared.slower() else { return by_steps };
    let (all, rest) = (light.cpu as f64, without_others(light));
    let native = (native as f64).min(rest);
    by_steps.max(all / ((rest - native) / slower + native))
}

/// What was spent so far, by kind of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// While everything was recorded.
    pub whole: Spent,
    /// Between windows, light or not.
    pub off: Spent,
    /// That part of `off` in which code ran without checks.
    pub light: Spent,
    /// That part of `light` which began some time after code with checks, and in which no thread
    /// was made to wait for others.
    pub settled: Spent,
    /// In windows.
    pub on: Spent,
    /// While everything was recorded, but for the start of the run.
    pub again: Spent,
    /// What the program does in light code, and natively.
    pub compared: Compared,
    /// Processor time of the recorder meanwhile, ns.
    pub recorder: u64,
}

impl Sums {
    /// What was spent since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            whole: self.whole.without(&before.whole),
            off: self.off.without(&before.off),
            light: self.light.without(&before.light),
            settled: self.settled.without(&before.settled),
            on: self.on.without(&before.on),
            again: self.again.without(&before.again),
            compared: self.compared.without(&before.compared),
            recorder: self.recorder.saturating_sub(before.recorder),
        }
    }
}

/// Times longer than without recording, before it is measured; at least 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Assumed {
    /// Between windows, until it is known what was executed there.
    pub off: f64,
    /// In windows and recorded whole.
    pub on: f64,
    /// What is added between windows while lines are tracked.
    pub tracking: f64,
}

impl Default for Assumed {
    /// Medians of the benchmark: code without checks, exact recording with lines, and all checks
    /// passing.
    fn default() -> Self {
        Self { off: 1.1, on: 2.5, tracking: 0.5 }
    }
}

impl Assumed {
    /// Where accesses are traced besides: of kernels, 100 to 600 times as long.
    pub fn traced() -> Self {
        Self { on: 100.0, ..Self::default() }
    }
}

/// The cost in one sort of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Times longer between windows.
    pub off: f64,
    /// Times longer in windows.
    pub on: f64,
    /// Nanoseconds that the program would have taken alone.
    pub alone: f64,
    /// Nanoseconds taken besides.
    pub lost: f64,
}

/// Costs so far.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// In processor time.
    pub cpu: Cost,
    /// In wall-clock time.
    pub wall: Cost,
    /// What tracking cache lines takes besides, over what the program takes alone, both in
    /// processor time; `None` until it is known.
    pub tracking: Option<f64>,
}

impl Costs {
    /// `windows`: how many windows there were; below [`MIN_WINDOWS`], their wall-clock time for the
    /// work is chance.
    pub fn of(sums: &Sums, windows: usize, assumed: Assumed) -> Self {
        Self::by_rates(sums, sums, windows, assumed)
    }

    /// The same where rates of work are those of what was spent `lately`, if that was enough.
    pub(crate) fn by_rates(sums: &Sums, lately: &Sums, windows: usize, assumed: Assumed) -> Self {
        let tells = is_measured(&lately.off) && is_measured(&lately.on);
        let cpu = cpu(sums, if tells { lately } else { sums }, assumed);
        Self { cpu, wall: wall(sums, windows, &cpu), tracking: tracking(sums, &cpu) }
    }
}

/// Whether there was enough work to tell what a unit of it takes.
fn is_measured(spent: &Spent) -> bool {
    spent.work > 0 && spent.cpu >= MIN_MEASURED
}

fn cpu(sums: &Sums, rates: &Sums, assumed: Assumed) -> Cost {
    let Sums { whole, off, on, .. } = sums;
    let exact = Spent {
        wall: 0,
        cpu: whole.cpu + on.cpu,
        work: whole.work + on.work,
        events: whole.events + on.events,
        ..Spent::default()
    };
    // Windows tell it better than the start of the program, which may do other work.
    let inside = if is_measured(&rates.on) { &rates.on } else { &exact };
    let ratio = match is_measured(&rates.off) && is_measured(inside) {
        true => per_work(inside.cpu, inside) / per_work(rates.off.cpu, &rates.off),
        false => (assumed.on / assumed.off).max(counting(&exact)),
    };
    let slow_off = between_windows(rates, assumed);
    let slow_on = slow_off * ratio.max(1.0);
    let slow_again = slow_again(sums, slow_off, slow_on);
    let again = &sums.again;
    let alone =
        off.cpu as f64 / slow_off + exact.cpu as f64 / slow_on + again.cpu as f64 / slow_again;
    let all = off.cpu + exact.cpu + again.cpu + sums.recorder;
    Cost { off: slow_off, on: slow_on, alone, lost: all as f64 - alone }
}

/// Times longer while everything is recorded again: at most as in windows.
fn slow_again(sums: &Sums, slow_off: f64, slow_on: f64) -> f64 {
    match (Rates::of(&sums.again), Rates::of(&sums.off)) {
        (Some(again), Some(off)) => {
            (slow_off * (again.cpu / off.cpu).max(1.0)).min(slow_on.max(1.0))
        }
        _ => slow_on,
    }
}

/// Times longer between windows: by the part without checks, or by what was executed there, once
/// there was enough of it.
fn between_windows(sums: &Sums, assumed: Assumed) -> f64 {
    let Sums { off, light, .. } = sums;
    if is_measured(light) {
        let light = settled(sums);
        let slower = without_checks(light, sums.compared.native_cpu, &sums.compared);
        return slower * (per_work(off.cpu, off) / per_work(light.cpu, light)).max(1.0);
    }
    if off.checking + off.hooks + off.translating == 0 || off.cpu < MIN_MEASURED {
        return assumed.off.max(1.0);
    }
    by_steps(off)
}

/// What tracking has taken since a moment; `None` where there was too little time with and without
/// it.
pub(crate) fn tracking_since(sums: &Sums, before: &Sums, assumed: Assumed) -> Option<f64> {
    let lately = sums.since(before);
    let tells = is_measured(&lately.off.without(&lately.light)) && is_measured(&lately.light);
    tells.then(|| tracking(&lately, &cpu(&lately, &lately, assumed)))?
}

/// What tracking takes: by the time between windows in which lines were tracked, and at least a
/// part of what the checks tell that were executed in windows.
fn tracking(sums: &Sums, cpu: &Cost) -> Option<f64> {
    let Sums { whole, off, light, on, .. } = sums;
    let work = (whole.work + off.work + on.work) as f64;
    // Time alone for a unit of work.
    let alone = cpu.alone / (work + sums.again.work as f64);
    if !(alone.is_normal() && alone > 0.0) {
        return None;
    }
    let checking = (whole.checking + on.checking) as f64;
    let checked = (whole.work + on.work) as f64;
    let by_checks = (checking > 0.0 && checked > 0.0).then(|| checking / checked / alone);
    let tracked = off.without(light);
    if !is_measured(&tracked) || !is_measured(light) {
        return by_checks;
    }
    // Both are translated, but threads need not run translated while nothing is tracked.
    let light_cpu = light.cpu - light.translating.min(light.cpu);
    let more = (per_work(tracked.cpu, &tracked) - per_work(light_cpu, light)).max(0.0) / alone;
    Some(more.max(LEAST_OF_CHECKS * by_checks.unwrap_or(0.0)))
}

/// Times longer by the checks and additions to tallies that were executed, by looks at what was
/// allocated, and by translating.
fn by_steps(spent: &Spent) -> f64 {
    let rest = without_others(spent);
    let share = spent.checking as f64 / rest;
    TRANSLATION * spent.cpu as f64 / rest / (1.0 - share.min(MAX_CHECKING))
}

/// Processor time, ns, without that for looks at allocations and for translating.
fn without_others(spent: &Spent) -> f64 {
    let cpu = spent.cpu as f64;
    let hooks = (spent.hooks as f64).min(MAX_HOOKS * cpu);
    cpu - (hooks + spent.translating as f64).min(MAX_BESIDES * cpu)
}

/// Times longer by the events that were counted, at the least.
fn counting(exact: &Spent) -> f64 {
    let share = exact.events as f64 * MIN_EVENT_TIME / (exact.cpu as f64).max(1.0);
    1.0 / (1.0 - share.min(MAX_COUNTING))
}

fn wall(sums: &Sums, windows: usize, cpu: &Cost) -> Cost {
    let Sums { whole, off, on, .. } = sums;
    let alone = |spent: &Spent, slow: f64| {
        let at_once = (spent.cpu as f64 / (spent.wall as f64).max(1.0)).max(1.0);
        let lost = spent.cpu as f64 * (1.0 - 1.0 / slow) / at_once;
        (spent.wall as f64 - lost).max(0.0)
    };
    let (alone_whole, alone_off) = (alone(whole, cpu.on), alone(off, cpu.off));
    let alone_again = alone(&sums.again, slow_again(sums, cpu.off, cpu.on));
    let mut alone_on = alone(on, cpu.on);
    if windows >= MIN_WINDOWS && off.work > 0 && on.work > 0 {
        let by_work = alone_off / off.work as f64 * on.work as f64;
        alone_on = alone_on.min(by_work);
    }
    let all = alone_whole + alone_off + alone_on + alone_again;
    let times = |spent: &Spent, alone: f64, otherwise: f64| {
        if spent.wall > 0 && alone > 0.0 { (spent.wall as f64 / alone).max(1.0) } else { otherwise }
    };
    let slow_off = times(off, alone_off, cpu.off);
    Cost {
        off: slow_off,
        on: times(on, alone_on, cpu.on).max(slow_off),
        alone: all,
        lost: (whole.wall + off.wall + on.wall + sums.again.wall) as f64 - all,
    }
}

fn per_work(time: u64, spent: &Spent) -> f64 {
    time as f64 / (spent.work as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSUMED: Assumed = Assumed { off: 1.5, on: 2.5, tracking: 0.5 };
    const SECOND: u64 = 1_000_000_000;

    /// Two threads that always run, `times` slower than alone; work in nanoseconds alone.
    fn spent(work: u64, times: f64) -> Spent {
        let cpu = (work as f64 * times) as u64;
        Spent { wall: cpu / 2, cpu, work, ..Spent::default() }
    }

    fn near(found: f64, wanted: f64) -> bool {
        (found / wanted - 1.0).abs() < 1e-3
    }

    #[test]
    fn work_tells_what_windows_cost() {
        let (off, on) = (spent(10 * SECOND, 1.5), spent(SECOND, 6.0));
        let costs = Costs::of(&Sums { off, on, ..Sums::default() }, 30, ASSUMED);
        assert!(
            near(costs.cpu.on, 6.0) && near(costs.cpu.alone, 11e9) && near(costs.cpu.lost, 10e9)
        );
        assert!(near(costs.wall.on, 6.0) && near(costs.wall.alone, 5.5e9), "{costs:?}");
    }

    #[test]
    fn without_a_clock_of_work_the_cost_is_assumed() {
        let without = |spent: Spent| Spent { work: 0, ..spent };
        let (off, on) = (without(spent(10 * SECOND, 1.5)), without(spent(SECOND, 2.5)));
        let costs = Costs::of(&Sums { off, on, ..Sums::default() }, 30, ASSUMED);
        assert!(near(costs.cpu.on, 2.5) && near(costs.cpu.alone, 11e9), "{costs:?}");
    }

    #[test]
    fn a_program_that_sleeps_loses_no_time_while_it_sleeps() {
        let mut off = spent(SECOND, 1.5);
        off.wall = 100 * SECOND;
        let costs = Costs::of(&Sums { off, ..Sums::default() }, 0, ASSUMED);
        assert!(near(costs.wall.lost, 0.5e9) && near(costs.cpu.lost, 0.5e9), "{costs:?}");
    }

    #[test]
    fn waiting_for_the_slowest_thread_costs_wall_clock_time() {
        // In windows one of two threads is slowed five times and the other waits for it.
        let of = |wall, cpu, work| Spent { wall, cpu, work, ..Spent::default() };
        let off = of(10 * SECOND, 20 * SECOND, 20 * SECOND);
        let on = of(5 * SECOND, 6 * SECOND, 2 * SECOND);
        let assumed = Assumed { off: 1.0, on: 2.0, tracking: 0.5 };
        let costs = Costs::of(&Sums { off, on, ..Sums::default() }, 30, assumed);
        assert!(near(costs.cpu.on, 3.0) && near(costs.wall.on, 5.0), "{costs:?}");
        assert!(near(costs.wall.lost, 4e9), "{costs:?}");
    }

    #[test]
    fn events_tell_the_least_that_counting_costs_before_windows_do() {
        let whole = Spent { work: 1, events: 2_000_000, ..spent(SECOND / 10, 1.0) };
        let at_first = |whole| Costs::of(&Sums { whole, ..Sums::default() }, 0, ASSUMED);
        let before = at_first(whole);
        assert!(before.cpu.on > 5.0 && before.cpu.lost > 0.08e9, "{before:?}");
        let few = Spent { events: 1000, ..whole };
        assert!(near(at_first(few).cpu.on, 2.5));
        let (off, on) = (spent(10 * SECOND, 1.5), spent(SECOND, 2.0));
        assert!(near(
            Costs::of(&Sums { whole, off, on, ..Sums::default() }, 30, ASSUMED).cpu.on,
            2.0
        ));
    }

    #[test]
    fn checks_tell_what_the_time_between_windows_costs() {
        let off = |checking| Spent { checking, ..spent(SECOND, 2.0) };
        let of = |off| Costs::of(&Sums { off, ..Sums::default() }, 0, ASSUMED).cpu;
        let dear = of(off(SECOND));
        assert!(near(dear.off, 2.0 * TRANSLATION) && dear.lost > 0.9e9, "{dear:?}");
        assert!(near(of(off(SECOND / 10)).off, TRANSLATION / 0.95));
        assert!(near(of(off(0)).off, 1.5), "not known");
        let little = Spent { checking: 1, ..spent(1000, 2.0) };
        assert!(near(of(little).off, 1.5));
    }

    #[test]
    fn native_time_tells_of_light_code_what_steps_do_not() {
        // Half of the time without checks is native, and light code is six times as slow.
        let light = spent(SECOND, 2.0);
        let compared = Compared {
            made: 1000,
            expected: 6000,
            native_cpu: light.cpu / 2,
            ..Compared::default()
        };
        let costs = |compared| {
            let sums = Sums { off: light, light, compared, ..Sums::default() };
            Costs::of(&sums, 0, ASSUMED).cpu
        };
        assert!(near(costs(Compared::default()).off, TRANSLATION));
        assert!(near(costs(compared).off, 2.0 / (1.0 / 6.0 + 1.0)), "{:?}", costs(compared));
        let few = Compared { made: 10, expected: 60, ..compared };
        assert!(near(costs(few).off, TRANSLATION));
        let sums = Sums { off: light, light, compared, ..Sums::default() };
        assert!(near(light_slower(&sums).unwrap().0, 6.0));
    }

    /// Half of the time is for looks at allocations, natively, too. Half of the rest is native.
    #[test]
    fn looks_at_what_is_allocated_are_no_native_time() {
        let light = Spent { hooks: SECOND, ..spent(SECOND, 2.0) };
        let compared =
            Compared { made: 1000, expected: 5000, native_cpu: SECOND / 2, ..Compared::default() };
        let costs = Costs::of(&Sums { off: light, light, compared, ..Sums::default() }, 0, ASSUMED);
        assert!(near(costs.cpu.alone, 0.6e9), "{costs:?}");
    }

    #[test]
    fn looks_at_what_is_allocated_are_not_the_programs_own_time() {
        let of = |hooks| {
            let light = Spent { hooks, ..spent(SECOND, 4.0) };
            Costs::of(&Sums { off: light, light, ..Sums::default() }, 0, ASSUMED).cpu.off
        };
        assert!(near(of(3 * SECOND), 4.0 * TRANSLATION));
        assert!(near(of(0), TRANSLATION));
        // It is never all of the time.
        assert!(near(of(9 * SECOND), 5.0 * TRANSLATION));
    }

    #[test]
    fn translating_is_not_the_programs_own_time() {
        let of = |translating| {
            let light = Spent { translating, ..spent(SECOND, 4.0) };
            Costs::of(&Sums { off: light, light, ..Sums::default() }, 0, ASSUMED).cpu.off
        };
        assert!(near(of(3 * SECOND), 4.0 * TRANSLATION));
        assert!(near(of(9 * SECOND), TRANSLATION / (1.0 - MAX_BESIDES)), "never all of the time");
    }

    #[test]
    fn light_time_tells_what_the_rest_costs() {
        // Checks of half the time between windows would tell twice as long; light time tells three
        // times.
        let (light, tracked) = (spent(SECOND, TRANSLATION), spent(SECOND, 3.0 * TRANSLATION));
        let off = Spent {
            wall: light.wall + tracked.wall,
            cpu: light.cpu + tracked.cpu,
            work: 2 * SECOND,
            checking: SECOND,
            ..Spent::default()
        };
        let costs = Costs::of(&Sums { off, light, ..Sums::default() }, 0, ASSUMED).cpu;
        assert!(near(costs.off, 2.0 * TRANSLATION) && near(costs.alone, 2e9), "{costs:?}");
        let tracking = Costs::of(&Sums { off, light, ..Sums::default() }, 0, ASSUMED).tracking;
        assert!(near(tracking.unwrap(), 2.0 * TRANSLATION), "{tracking:?}");
        // Counting instructions takes time in light code, too.
        let light = Spent { checking: light.cpu / 10, ..light };
        let costs = Costs::of(&Sums { off, light, ..Sums::default() }, 0, ASSUMED).cpu;
        assert!(near(costs.off, 2.0 * TRANSLATION / 0.9), "{costs:?}");
    }

    #[test]
    fn tracking_costs_at_least_what_its_checks_take() {
        // Light time in which little was done makes the rest look cheaper.
        let (light, off) = (spent(SECOND / 2, 4.0), spent(2 * SECOND, 2.0));
        let on = Spent { checking: SECOND / 2, ..spent(SECOND, 3.0) };
        let sums = Sums { off, light, on, ..Sums::default() };
        let tracking = Costs::of(&sums, 0, ASSUMED).tracking.unwrap();
        assert!(tracking > 0.04, "{tracking}");
    }

    #[test]
    fn settled_light_time_tells_what_the_program_takes_alone() {
        let (light, off) = (spent(SECOND, 2.0 * TRANSLATION), spent(10 * SECOND, 2.0));
        let of = |settled| Costs::of(&Sums { off, light, settled, ..Sums::default() }, 0, ASSUMED);
        assert!(near(of(Spent::default()).cpu.off, TRANSLATION));
        let settled = spent(SECOND / 2, TRANSLATION);
        assert!(near(of(settled).cpu.off, 2.0), "{:?}", of(settled));
        let too_little = spent(SECOND / 1000, TRANSLATION);
        assert_eq!(of(too_little), of(Spent::default()));
    }

    #[test]
    fn the_recorders_own_time_is_lost() {
        let off = spent(SECOND, 1.5);
        let of = |recorder| Costs::of(&Sums { off, recorder, ..Sums::default() }, 0, ASSUMED).cpu;
        let (with, without) = (of(SECOND / 10), of(0));
        assert!(near(with.lost - without.lost, 0.1e9) && near(with.alone, without.alone));
    }

    #[test]
    fn nothing_spent_is_nothing_lost() {
        let costs = Costs::of(&Sums::default(), 0, ASSUMED);
        assert_eq!((costs.cpu.lost, costs.wall.lost, costs.cpu.on), (0.0, 0.0, 2.5));
    }
}
