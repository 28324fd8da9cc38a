//! What recording has cost so far.
//!
//! What the program would have taken alone is not observed. What is: processor and wall-clock time,
//! and work, in three kinds of time: recorded whole, between windows (*off*), and in windows
//! (*on*). Time for each unit of work tells how much slower *on* is than *off*; how much slower
//! *off* is than the program alone is told by the checks executed there and the time that one
//! takes; until there is some of it, it is assumed. Until there is time off to compare with, events
//! that were counted tell the least that counting has cost.
//!
//! *Wall-clock time.* Windows lie at random places, so time for each unit of work compares it too,
//! waits included. For what was recorded whole, which is not random, the threads that ran at once
//! share the processor time that was lost; that is also the least for windows.

use crate::constants::{MIN_EVENT_TIME, MIN_MEASURED, MIN_WINDOWS, TRANSLATION};

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
}

/// Processor time is never all for counting.
const MAX_COUNTING: f64 = 0.98;
/// Part of the time that checks that pass take at most. No program was found to take more than 2.7
/// times as long between windows; a kernel for which checks told 3.6 took 1.5.
const MAX_CHECKING: f64 = 0.6;

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
}

impl Costs {
    /// `windows`: how many windows there were; below [`MIN_WINDOWS`], their wall-clock time for the
    /// work is chance.
    pub fn of(whole: &Spent, off: &Spent, on: &Spent, windows: usize, assumed: Assumed) -> Self {
        let cpu = cpu(whole, off, on, assumed);
        Self { cpu, wall: wall(whole, off, on, windows, &cpu) }
    }
}

fn cpu(whole: &Spent, off: &Spent, on: &Spent, assumed: Assumed) -> Cost {
    let is_measured = |spent: &Spent| spent.work > 0 && spent.cpu >= MIN_MEASURED;
    let exact = Spent {
        wall: 0,
        cpu: whole.cpu + on.cpu,
        work: whole.work + on.work,
        events: whole.events + on.events,
        checking: 0,
    };
    // Windows tell it better than the start of the program, which may do other work.
    let inside = if is_measured(on) { on } else { &exact };
    let ratio = match is_measured(off) && is_measured(inside) {
        true => per_work(inside.cpu, inside) / per_work(off.cpu, off),
        false => (assumed.on / assumed.off).max(counting(&exact)),
    };
    let slow_off = between_windows(off, assumed);
    let slow_on = slow_off * ratio.max(1.0);
    let alone = off.cpu as f64 / slow_off + exact.cpu as f64 / slow_on;
    Cost { off: slow_off, on: slow_on, alone, lost: (off.cpu + exact.cpu) as f64 - alone }
}

/// Times longer between windows: by what was executed there, once there was enough of it.
fn between_windows(off: &Spent, assumed: Assumed) -> f64 {
    if off.checking == 0 || off.cpu < MIN_MEASURED {
        return assumed.off.max(1.0);
    }
    let share = off.checking as f64 / off.cpu as f64;
    TRANSLATION / (1.0 - share.min(MAX_CHECKING))
}

/// Times longer by the events that were counted, at the least.
fn counting(exact: &Spent) -> f64 {
    let share = exact.events as f64 * MIN_EVENT_TIME / (exact.cpu as f64).max(1.0);
    1.0 / (1.0 - share.min(MAX_COUNTING))
}

fn wall(whole: &Spent, off: &Spent, on: &Spent, windows: usize, cpu: &Cost) -> Cost {
    let alone = |spent: &Spent, slow: f64| {
        let at_once = (spent.cpu as f64 / (spent.wall as f64).max(1.0)).max(1.0);
        let lost = spent.cpu as f64 * (1.0 - 1.0 / slow) / at_once;
        (spent.wall as f64 - lost).max(0.0)
    };
    let (alone_whole, alone_off) = (alone(whole, cpu.on), alone(off, cpu.off));
    let mut alone_on = alone(on, cpu.on);
    if windows >= MIN_WINDOWS && off.work > 0 && on.work > 0 {
        let by_work = alone_off / off.work as f64 * on.work as f64;
        alone_on = alone_on.min(by_work);
    }
    let all = alone_whole + alone_off + alone_on;
    let times = |spent: &Spent, alone: f64, otherwise: f64| {
        if spent.wall > 0 && alone > 0.0 { (spent.wall as f64 / alone).max(1.0) } else { otherwise }
    };
    let slow_off = times(off, alone_off, cpu.off);
    Cost {
        off: slow_off,
        on: times(on, alone_on, cpu.on).max(slow_off),
        alone: all,
        lost: (whole.wall + off.wall + on.wall) as f64 - all,
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
        let costs = Costs::of(&Spent::default(), &off, &on, 30, ASSUMED);
        assert!(
            near(costs.cpu.on, 6.0) && near(costs.cpu.alone, 11e9) && near(costs.cpu.lost, 10e9)
        );
        assert!(near(costs.wall.on, 6.0) && near(costs.wall.alone, 5.5e9), "{costs:?}");
    }

    #[test]
    fn without_a_clock_of_work_the_cost_is_assumed() {
        let without = |spent: Spent| Spent { work: 0, ..spent };
        let (off, on) = (without(spent(10 * SECOND, 1.5)), without(spent(SECOND, 2.5)));
        let costs = Costs::of(&Spent::default(), &off, &on, 30, ASSUMED);
        assert!(near(costs.cpu.on, 2.5) && near(costs.cpu.alone, 11e9), "{costs:?}");
    }

    #[test]
    fn a_program_that_sleeps_loses_no_time_while_it_sleeps() {
        let mut off = spent(SECOND, 1.5);
        off.wall = 100 * SECOND;
        let costs = Costs::of(&Spent::default(), &off, &Spent::default(), 0, ASSUMED);
        assert!(near(costs.wall.lost, 0.5e9) && near(costs.cpu.lost, 0.5e9), "{costs:?}");
    }

    #[test]
    fn waiting_for_the_slowest_thread_costs_wall_clock_time() {
        // In windows one of two threads is slowed five times and the other waits for it.
        let of = |wall, cpu, work| Spent { wall, cpu, work, ..Spent::default() };
        let off = of(10 * SECOND, 20 * SECOND, 20 * SECOND);
        let on = of(5 * SECOND, 6 * SECOND, 2 * SECOND);
        let costs = Costs::of(
            &Spent::default(),
            &off,
            &on,
            30,
            Assumed { off: 1.0, on: 2.0, tracking: 0.5 },
        );
        assert!(near(costs.cpu.on, 3.0) && near(costs.wall.on, 5.0), "{costs:?}");
        assert!(near(costs.wall.lost, 4e9), "{costs:?}");
    }

    #[test]
    fn events_tell_the_least_that_counting_costs_before_windows_do() {
        let whole = Spent { work: 1, events: 2_000_000, ..spent(SECOND / 10, 1.0) };
        let nothing = Spent::default();
        let before = Costs::of(&whole, &nothing, &nothing, 0, ASSUMED);
        assert!(before.cpu.on > 5.0 && before.cpu.lost > 0.08e9, "{before:?}");
        let few = Spent { events: 1000, ..whole };
        assert!(near(Costs::of(&few, &nothing, &nothing, 0, ASSUMED).cpu.on, 2.5));
        let (off, on) = (spent(10 * SECOND, 1.5), spent(SECOND, 2.0));
        assert!(near(Costs::of(&whole, &off, &on, 30, ASSUMED).cpu.on, 2.0));
    }

    #[test]
    fn checks_tell_what_the_time_between_windows_costs() {
        let off = |checking| Spent { checking, ..spent(SECOND, 2.0) };
        let of = |off| Costs::of(&Spent::default(), &off, &Spent::default(), 0, ASSUMED).cpu;
        let dear = of(off(SECOND));
        assert!(near(dear.off, 2.0 * TRANSLATION) && dear.lost > 0.9e9, "{dear:?}");
        assert!(near(of(off(SECOND / 10)).off, TRANSLATION / 0.95));
        assert!(near(of(off(0)).off, 1.5), "not known");
        let little = Spent { checking: 1, ..spent(1000, 2.0) };
        assert!(near(of(little).off, 1.5));
    }

    #[test]
    fn nothing_spent_is_nothing_lost() {
        let nothing = Spent::default();
        let costs = Costs::of(&nothing, &nothing, &nothing, 0, ASSUMED);
        assert_eq!((costs.cpu.lost, costs.wall.lost, costs.cpu.on), (0.0, 0.0, 2.5));
    }
}
