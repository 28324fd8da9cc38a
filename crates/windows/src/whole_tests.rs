use super::*;
use crate::constants::{AGAIN_STEP, LOOK, TRANSLATION};

const SECOND: u64 = 1_000_000_000;

/// A program on two processors that takes `native` ns for a unit of work alone, and executes as
/// many ns of checks for one.
struct Program {
    now: u64,
    spent: Sums,
    native: f64,
    checks: f64,
}

impl Program {
    fn new() -> Self {
        Self { now: SECOND, spent: Sums::default(), native: 1.0, checks: 0.5 }
    }

    fn step(&mut self, wall: u64, times: f64, into: fn(&mut Sums) -> &mut Spent) {
        self.now += wall;
        let work = (2 * wall) as f64 / (self.native * times);
        let checking = (work * self.checks) as u64;
        let cpu = 2 * wall;
        *into(&mut self.spent) +=
            Spent { wall, cpu, work: work as u64, checking, ..Spent::default() };
    }

    fn light(&mut self, wall: u64) {
        let checks = std::mem::take(&mut self.checks);
        self.step(wall, TRANSLATION, |sums| &mut sums.light);
        self.checks = checks;
    }

    fn window(&mut self, wall: u64, times: f64) {
        self.step(wall, times, |sums| &mut sums.on);
    }

    /// A period begins, with light time if that is wanted; whether whole begins.
    fn period(&mut self, whole: &mut Whole) -> bool {
        if !whole.looks(self.now, &self.spent) {
            return false;
        }
        self.light(LOOK);
        whole.begins(self.now, &self.spent)
    }

    /// A step of recording whole; whether that goes on, maybe after light time.
    fn again(&mut self, whole: &mut Whole, times: f64) -> bool {
        self.step(AGAIN_STEP, times, |sums| &mut sums.again);
        whole.goes_on(self.now, &self.spent) || self.period(whole)
    }
}

#[test]
fn the_first_step_of_a_run_does_not_tell_what_whole_costs() {
    let start = |first, then| {
        let (mut program, mut whole) = (Program::new(), within(2.0));
        for (wall, times) in [(AGAIN_STEP, first), (4 * AGAIN_STEP, then)] {
            program.step(wall, times, |sums| &mut sums.whole);
            whole.starts(&program.spent.whole);
        }
        program.period(&mut whole)
    };
    assert!(start(20.0, 2.5), "a start that is mostly new code");
    assert!(!start(20.0, 3.5) && !start(2.5, 3.5));
}

fn within(budget: f64) -> Whole {
    let mut whole = Whole::new();
    whole.may_take(Some(budget));
    whole
}

#[test]
fn a_cheap_program_is_recorded_whole_as_soon_as_it_is_known_to_be() {
    let (mut program, mut whole) = (Program::new(), within(2.0));
    program.step(SECOND / 2, 1.8, |sums| &mut sums.whole);
    assert!(program.period(&mut whole));
    assert!((0..100).all(|_| program.again(&mut whole, 1.8)));
}

#[test]
fn a_step_or_a_moment_of_light_time_that_is_unlike_others_does_not_end_it() {
    let (mut program, mut whole) = (Program::new(), within(2.0));
    program.step(SECOND / 2, 1.8, |sums| &mut sums.whole);
    assert!(program.period(&mut whole));
    assert!([1.8, 3.0, 1.5].iter().all(|times| program.again(&mut whole, *times)));
    // The light time behind the next step finds the program faster for once.
    program.native = 0.75;
    assert!(program.again(&mut whole, 1.8 / program.native));
    program.native = 1.0;
    assert!((0..20).all(|_| program.again(&mut whole, 1.8)));
}

#[test]
fn windows_that_cost_more_are_no_reason_not_to_try() {
    let (mut program, mut whole) = (Program::new(), within(2.0));
    program.window(SECOND / 10, 5.0);
    assert!(!program.period(&mut whole), "too early to try");
    assert!(!whole.looks(program.now, &program.spent), "that is known now");
    program.now += FIRST_TRIAL;
    program.window(SECOND / 10, 5.0);
    assert!(program.period(&mut whole));
    assert!(program.again(&mut whole, 5.0), "the first step pays for first accesses");
    assert!((0..100).all(|_| program.again(&mut whole, 1.7)));
}

#[test]
fn what_costs_too_much_ends_and_is_tried_seldom() {
    let (mut program, mut whole) = (Program::new(), within(2.0));
    let mut steps = 0;
    while program.now < 100 * SECOND {
        program.window(SECOND / 20, 5.0);
        if program.period(&mut whole) {
            steps += 1;
            while program.again(&mut whole, 4.0) {
                steps += 1;
            }
        }
    }
    assert!((1..20).contains(&steps), "{steps}");
}

#[test]
fn without_hope_it_is_not_tried() {
    let (mut program, mut whole) = (Program::new(), within(2.0));
    while program.now < 100 * SECOND {
        program.window(SECOND / 20, 25.0);
        assert!(!program.period(&mut whole));
    }
    assert!(program.spent.light.wall < SECOND / 2);
}

/// While a virtual machine starts, light time is for translating its code, and tells nothing.
#[test]
fn light_time_that_is_slower_than_whole_is_not_believed() {
    let (mut program, mut whole) = (Program::new(), within(2.0));
    program.native = 20.0;
    program.step(SECOND / 2, 1.2, |sums| &mut sums.whole);
    assert!(program.period(&mut whole));
    program.native = 1.0;
    let steps = (0..20).take_while(|_| program.again(&mut whole, 10.0)).count();
    assert!(steps < 5, "{steps}");
    // As soon as it is cheap after all, it is tried.
    program.now += TRIAL_REST;
    program.window(SECOND / 10, 1.5);
    assert!(program.period(&mut whole));
}

#[test]
fn a_program_that_does_something_else_is_asked_anew_what_it_takes_alone() {
    let (mut program, mut whole) = (Program::new(), within(2.0));
    program.step(SECOND / 2, 1.5, |sums| &mut sums.whole);
    assert!(program.period(&mut whole));
    assert!((0..20).all(|_| program.again(&mut whole, 1.5)));
    // A processor that others slow down does not change what the program does.
    program.native = 1.2;
    assert!((0..20).all(|_| program.again(&mut whole, 1.5)));
    // Cheaper work, of which checks take a larger part: time for each unit only gets less.
    (program.native, program.checks) = (0.2, 1.0);
    assert!((0..20).take_while(|_| program.again(&mut whole, 4.0)).count() < 6);
    assert!(!whole.looks(program.now, &program.spent));
    // And back.
    (program.native, program.checks) = (1.0, 0.5);
    program.now += TRIAL_REST;
    program.window(SECOND / 10, 1.9);
    assert!(program.period(&mut whole));
}

#[test]
fn sleep_changes_nothing_and_a_duty_never_asks() {
    let (mut program, mut whole) = (Program::new(), within(2.0));
    assert!(whole.looks(program.now, &program.spent));
    assert!(!whole.begins(program.now, &program.spent), "it did nothing in light time");
    assert!(!whole.looks(program.now, &program.spent));
    program.now += LOOK_REST;
    program.window(SECOND / 10, 1.5);
    assert!(program.period(&mut whole));
    for _ in 0..50 {
        program.now += AGAIN_STEP;
        program.spent.again.wall += AGAIN_STEP;
        assert!(whole.goes_on(program.now, &program.spent));
    }
    assert!(!within(1.05).looks(program.now, &program.spent), "nothing is so cheap");
    assert!(!Whole::new().looks(program.now, &program.spent));
}
