use super::*;
use crate::Chooser;
use crate::constants::{MIN_WINDOWS, TRANSLATION};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;

/// A program of a known cost, run under a scheduler.
struct Run {
    /// Wall-clock time that it takes alone, and how many threads of it run at once.
    alone: u64,
    threads: u64,
    off: f64,
    on: f64,
    /// What recording whole costs again, if light time tells what the program takes alone.
    again: Option<f64>,
    /// In each second it works for this part, and then sleeps.
    busy: f64,
}

impl Default for Run {
    fn default() -> Self {
        Self { alone: 20 * SECOND, threads: 2, off: 1.5, on: 2.5, again: None, busy: 1.0 }
    }
}

/// Nothing was spent so far.
fn see(lengths: Lengths) -> Observation {
    Observation {
        now: 0,
        spent: Sums::default(),
        lengths,
        long_gaps: false,
        alone: false,
        solo_ns: 0,
    }
}

/// How it went: time taken, processor time over that alone, shares of time in windows and recorded
/// whole again, windows.
struct Went {
    wall: f64,
    cpu: f64,
    duty: f64,
    again: f64,
    windows: usize,
}

impl Run {
    fn under(&self, dial: Dial) -> Went {
        let mut scheduler =
            Scheduler::new(dial, Assumed { off: self.off, on: 2.5, tracking: 0.5 }, 11).unwrap();
        let mut seen = Observation {
            now: 5 * SECOND,
            spent: Sums::default(),
            lengths: Chooser::default().lengths(),
            long_gaps: false,
            alone: false,
            solo_ns: 0,
        };
        let (mut done, mut alone) = (0.0, 0.0);
        let (goal, total) = (self.alone as f64 * self.busy, self.alone as f64);
        while done < goal && alone < total {
            let step = scheduler.next(&seen).unwrap();
            while seen.now < step.until && done < goal && alone < total {
                let light = self.again.is_some() && seen.now < step.light;
                let (spent, slow) = match step.phase {
                    Phase::Whole if scheduler.is_whole_again() => {
                        (&mut seen.spent.again, self.again.unwrap_or(self.on))
                    }
                    Phase::Whole => (&mut seen.spent.whole, self.on),
                    Phase::Off if light => (&mut seen.spent.off, TRANSLATION),
                    Phase::Off | Phase::Late => (&mut seen.spent.off, self.off),
                    Phase::WarmUp | Phase::Counting => (&mut seen.spent.on, self.on),
                };
                let piece = (MILLISECOND / 4).min(step.until - seen.now);
                seen.now += piece;
                let before = *spent;
                spent.wall += piece;
                if alone % SECOND as f64 <= self.busy * SECOND as f64 {
                    let work = piece as f64 / slow;
                    spent.cpu += piece * self.threads;
                    spent.work += (work * self.threads as f64) as u64;
                    if step.phase != Phase::Off {
                        // What exact recording costs more than usual is due to events.
                        let counting = (1.0 - 2.5 / self.on).max(0.0) * piece as f64;
                        spent.events += (counting * self.threads as f64 / 50.0) as u64;
                    }
                    (done, alone) = (done + work, alone + work);
                } else {
                    alone += piece as f64;
                }
                if light {
                    let more = spent.without(&before);
                    seen.spent.light += more;
                }
            }
        }
        let Sums { whole, off, on, again, .. } = seen.spent;
        let cpu = (whole.cpu + off.cpu + on.cpu + again.cpu) as f64;
        let wall = (seen.now - 5 * SECOND) as f64;
        Went {
            wall: wall / alone,
            cpu: cpu / (done * self.threads as f64),
            duty: on.wall as f64 / wall,
            again: again.wall as f64 / wall,
            windows: scheduler.windows(),
        }
    }
}

#[test]
fn a_budget_is_kept_and_used_whatever_windows_cost() {
    for (off, on) in [(1.0, 1.9), (1.2, 6.0), (1.5, 2.5), (1.6, 11.0), (1.6, 55.0), (1.9, 40.0)] {
        let went = Run { off, on, ..Run::default() }.under(Dial::Budget(2.0));
        let least = on.min(1.97);
        assert!(went.cpu <= 2.04 && went.wall <= 2.04, "{off} {on}: {} {}", went.cpu, went.wall);
        // Where windows follow each other at once, there is light time now and then.
        let light = if on < 2.0 { 0.15 } else { 0.08 };
        assert!(went.cpu >= least - light, "{off} {on}: {}", went.cpu);
        assert!(went.windows >= 20 || on < 2.0, "{off} {on}: {}", went.windows);
    }
}

#[test]
fn the_usual_budget_gives_a_short_run_its_windows_and_a_long_one_its_speed() {
    for (seconds, most) in [(1, 2.1), (2, 2.1), (10, 1.4), (60, 1.26)] {
        for on in [2.5, 11.0] {
            let run = Run { alone: seconds * SECOND, off: 1.06, on, ..Run::default() };
            let (usual, plain) = (run.under(Dial::Usual), run.under(Dial::Budget(1.2)));
            let [cpu, wall] = [usual.cpu, usual.wall];
            assert!(cpu <= most && wall <= most, "{seconds} s, {on}: {cpu} {wall}");
            let windows = [usual.windows, plain.windows];
            assert!(windows[0] >= MIN_WINDOWS && windows[0] > windows[1], "{on}: {windows:?}");
        }
    }
    let run = Run { off: 1.06, on: 1.8, again: Some(1.5), ..Run::default() };
    let went = run.under(Dial::Usual);
    // What fits into the beginning's budget does not fit into what follows.
    assert!((0.03..0.2).contains(&went.again) && went.cpu <= 1.32, "{} {}", went.again, went.cpu);
}

#[test]
fn a_program_whose_windows_only_are_dear_is_recorded_whole() {
    let under =
        |on, again| Run { on, again: Some(again), ..Run::default() }.under(Dial::Budget(2.0));
    let went = under(1.9, 1.8);
    assert!(went.again > 0.95 && went.cpu <= 2.04 && went.windows == 0, "{}", went.again);
    let went = under(10.0, 1.8);
    assert!(went.again > 0.6 && went.cpu <= 2.04, "{} {}", went.again, went.cpu);
    let went = under(10.0, 2.5);
    assert!(went.again < 0.1 && went.cpu <= 2.04, "{} {}", went.again, went.cpu);
    assert!(went.windows > MIN_WINDOWS);
}

#[test]
fn a_large_budget_is_kept_where_recording_whole_is_dearer_than_assumed() {
    let run = Run { alone: 20 * SECOND, on: 20.0, again: Some(20.0), ..Run::default() };
    let went = run.under(Dial::Budget(5.0));
    assert!(went.cpu <= 5.3 && went.windows >= MIN_WINDOWS, "{} {}", went.cpu, went.windows);
    let run = Run { alone: SECOND, on: 10.0, again: Some(10.0), ..Run::default() };
    let went = run.under(Dial::Budget(3.0));
    assert!(went.cpu <= 3.3 && went.windows >= MIN_WINDOWS, "{} {}", went.cpu, went.windows);
}

#[test]
fn short_runs_are_recorded_whole_and_stay_near_the_budget() {
    let went = Run { alone: SECOND / 10, on: 1.9, ..Run::default() }.under(Dial::Budget(2.0));
    assert!(went.windows == 0 && (went.cpu - 1.9).abs() < 0.01, "{}", went.cpu);
    for (millis, most) in [(350, 2.5), (500, 2.25), (2000, 2.1)] {
        let run = Run { alone: millis * MILLISECOND, off: 1.6, on: 55.0, ..Run::default() };
        let went = run.under(Dial::Budget(2.0));
        assert!(went.cpu <= most && went.wall <= most, "{millis}: {} {}", went.cpu, went.wall);
    }
}

#[test]
fn runs_of_half_a_second_get_the_windows_that_estimates_need() {
    // One or two threads at a time, whatever windows cost.
    for (alone, threads, off, on) in
        [(350, 2, 1.2, 2.5), (350, 2, 1.5, 55.0), (600, 1, 1.6, 4.0), (1000, 2, 1.6, 10.0)]
    {
        let run = Run { alone: alone * MILLISECOND, threads, off, on, ..Run::default() };
        let went = run.under(Dial::Budget(2.0));
        assert!(went.windows >= MIN_WINDOWS, "{alone} {threads} {on}: {}", went.windows);
        assert!(went.cpu <= 2.5 && went.wall <= 2.5, "{alone} {on}: {} {}", went.cpu, went.wall);
    }
}

#[test]
fn more_than_all_costs_is_all() {
    // But for looks at what the program takes alone.
    let run = Run { again: Some(2.5), ..Run::default() };
    let went = run.under(Dial::Budget(3.0));
    assert!(went.windows == 0 && (2.4..2.51).contains(&went.cpu), "{} {}", went.windows, went.cpu);
}

#[test]
fn a_budget_that_is_too_small_gets_the_least_and_says_so() {
    let scheduler =
        Scheduler::new(Dial::Budget(1.2), Assumed { off: 1.6, on: 2.5, tracking: 0.5 }, 0).unwrap();
    let Promise::Least(least) = scheduler.promise() else { panic!("{scheduler:?}") };
    assert!((1.6..1.65).contains(&least));
    let went = Run { off: 1.6, ..Run::default() }.under(Dial::Budget(1.2));
    assert!(went.cpu <= least + 0.01 && went.windows >= 10, "{} {}", went.cpu, went.windows);
    let scheduler = Scheduler::new(Dial::Budget(2.0), Assumed::default(), 0).unwrap();
    assert_eq!(scheduler.promise(), Promise::Kept);
}

#[test]
fn a_budget_that_was_exceeded_is_told_with_the_least() {
    let cpu = 26 * SECOND;
    let checking = cpu * 6 / 10;
    let off = Spent { wall: cpu / 2, cpu, work: cpu, checking, ..Spent::default() };
    let lengths = Chooser::default().lengths();
    let of = |budget, off| {
        let scheduler = Scheduler::new(Dial::Budget(budget), Assumed::default(), 0).unwrap();
        let seen = Observation { spent: Sums { off, ..Sums::default() }, ..see(lengths) };
        scheduler.exceeded(&seen)
    };
    let Some(Exceeded { times, least, .. }) = of(2.0, off) else { panic!("not told") };
    assert!((times - 2.625).abs() < 0.01 && (least - 2.65).abs() < 0.01, "{times} {least}");
    assert_eq!(of(2.5, off), None, "within a tenth");
    assert_eq!(
        of(2.0, Spent { cpu: SECOND, wall: SECOND, checking: SECOND, ..off }),
        None,
        "short"
    );
}

#[test]
fn a_duty_is_a_share_of_time() {
    for duty in [0.05, 0.2, 1.0] {
        let went = Run::default().under(Dial::Duty(duty));
        assert!((went.duty / duty - 1.0).abs() < 0.05, "{duty}: {}", went.duty);
    }
}

#[test]
fn with_a_duty_light_time_comes_once_a_second() {
    let looks = |duty| {
        let lengths = Lengths { warm_up: 10_000_000, counting: 10_000_000 };
        let mut scheduler = Scheduler::new(Dial::Duty(duty), Assumed::default(), 1).unwrap();
        let (mut now, mut looks) = (0, Vec::new());
        while now < 5 * SECOND {
            let step = scheduler.next(&Observation { now, ..see(lengths) }).unwrap();
            if step.light > now {
                assert_eq!((step.phase, step.until), (Phase::Off, step.light));
                looks.push((now / 1_000_000, (step.light - now) / 1_000_000));
            }
            now = step.until;
        }
        looks
    };
    let seen = looks(0.2);
    assert!(seen.len() == 5 && (400..600).contains(&seen[0].0), "{seen:?}");
    assert!(seen.iter().all(|(_, length)| *length == LOOK / 1_000_000), "{seen:?}");
    assert!(seen.windows(2).all(|two| (1000..1200).contains(&(two[1].0 - two[0].0))), "{seen:?}");
    assert_eq!(looks(0.95), []);
}

#[test]
fn a_program_that_sleeps_gets_windows_when_it_works() {
    let went =
        Run { alone: 60 * SECOND, busy: 0.02, on: 10.0, ..Run::default() }.under(Dial::Budget(2.0));
    assert!(went.cpu <= 2.2 && went.wall <= 1.1, "{} {}", went.cpu, went.wall);
    assert!(went.windows > 100, "{}", went.windows);
}

#[test]
fn a_clock_that_goes_back_drops_the_window_and_goes_on() {
    let mut scheduler = Scheduler::new(Dial::Duty(0.5), Assumed::default(), 1).unwrap();
    let lengths = Lengths { warm_up: 10, counting: 10 };
    let mut at = |now| scheduler.next(&Observation { now, ..see(lengths) });
    let first = at(1000).unwrap();
    assert!(first.period && first.phase == Phase::Off && (1000..=1020).contains(&first.until));
    assert_eq!(at(first.until).unwrap().phase, Phase::WarmUp);
    assert_eq!(at(500), Err(Trouble::ClockWentBack));
    let again = at(500).unwrap();
    assert!(again.period && again.until < 600, "{again:?}");
}

#[test]
fn a_caller_that_is_late_gets_a_whole_window_or_a_new_period() {
    let lengths = Lengths { warm_up: 10, counting: 10 };
    let see = |now| Observation { now, ..see(lengths) };
    let mut scheduler = Scheduler::new(Dial::Duty(0.1), Assumed::default(), 1).unwrap();
    let first = scheduler.next(&see(0)).unwrap();
    let step = scheduler.next(&see(first.until + 15)).unwrap();
    assert_eq!((step.phase, step.until), (Phase::WarmUp, first.until + 25));
    let step = scheduler.next(&see(step.until + 7)).unwrap();
    assert_eq!((step.phase, step.until), (Phase::Counting, first.until + 42));
    // So late that its period is over.
    let step = scheduler.next(&see(5000)).unwrap();
    assert!(step.period && step.phase == Phase::Off);
    assert!(scheduler.next(&see(9000)).unwrap().period, "a period without a window");
}

#[test]
fn what_is_no_dial_is_refused() {
    for dial in [Dial::Budget(1.0), Dial::Budget(f64::NAN), Dial::Duty(0.0), Dial::Duty(1.5)] {
        assert_eq!(Scheduler::new(dial, Assumed::default(), 0).unwrap_err(), Trouble::Dial);
    }
}

/// Light time at a program's start, where little gets done, makes tracking look free. It must stay
/// possible to see that it is not.
#[test]
fn a_small_budget_always_leaves_light_time() {
    let spent = |cpu, work| crate::Spent { wall: cpu, cpu, work, ..Default::default() };
    let light = spent(SECOND / 10, SECOND / 100);
    let off = spent(SECOND, SECOND);
    let spent = Sums { off, light, ..Sums::default() };
    let seen = Observation { spent, ..see(Chooser::default().lengths()) };
    let tracking = |budget| {
        let dial = Dial::Budget(budget);
        Scheduler::new(dial, Assumed::default(), 1).unwrap().tracking(&seen)
    };
    assert_eq!(tracking(1.05), MAX_TRACKING);
    assert_eq!(tracking(2.0), 1.0);
}

/// What the program's start seemed to tell of tracking is forgotten when a short run would be over.
#[test]
fn a_small_budget_tracks_little_until_it_knows_what_that_takes() {
    let of = |cpu, work| crate::Spent { wall: cpu, cpu, work, ..Default::default() };
    let light = of(SECOND, SECOND / 100);
    let start = Sums { off: of(2 * SECOND, SECOND), light, ..Sums::default() };
    let mut scheduler = Scheduler::new(Dial::Budget(1.05), Assumed::default(), 1).unwrap();
    let lengths = Chooser::default().lengths();
    let see = |spent| Observation { spent, ..see(lengths) };
    assert_eq!(scheduler.tracking(&see(start)), MAX_TRACKING, "it looks free");
    scheduler.start = Some(start);
    let unknown = scheduler.tracking(&see(start));
    assert!(unknown <= 0.05 / DEAREST_TRACKING + 1e-9, "{unknown}");
    // Since then, tracking takes nine times as long again.
    let (mut off, mut light) = (start.off, start.light);
    light += of(SECOND, SECOND);
    off += of(SECOND, SECOND);
    off += of(SECOND, SECOND / 10);
    let known = scheduler.tracking(&see(Sums { off, light, ..start }));
    // Of the work, a tenth as much as of the time.
    assert!((0.05 * 0.05 / 10.0..0.05 * 0.05 / 8.0).contains(&known), "{known}");
}

/// Where a lead is too short there is none, and without any it would never be known what one costs.
#[test]
fn tracking_is_tried_until_its_cost_is_known() {
    let of = |cpu, work| crate::Spent { wall: cpu, cpu, work, ..Default::default() };
    let light = of(SECOND, SECOND);
    let start = Sums { off: light, light, ..Sums::default() };
    let mut scheduler = Scheduler::new(Dial::Budget(1.05), Assumed::default(), 1).unwrap();
    scheduler.start = Some(start);
    let lengths = Chooser::default().lengths();
    let period = 10 * lengths.whole();
    let lead = |off, light| {
        let spent = Sums { off, light, ..start };
        scheduler.lead(&Observation { spent, ..see(lengths) }, period)
    };
    let both = of(2 * SECOND, 2 * SECOND);
    assert_eq!(lead(both, both), 2 * lengths.warm_up);
    // Tracking was seen to take nine times as long again.
    let mut tracked = both;
    tracked += of(SECOND, SECOND / 10);
    assert_eq!(lead(tracked, both), 0);
}

/// A program that does hardly anything but allocate.
#[test]
fn allocations_are_followed_while_the_budget_pays_for_it() {
    let lengths = Chooser::default().lengths();
    let dear = |budget, hooks| {
        let off =
            crate::Spent { wall: SECOND, cpu: SECOND, work: SECOND, hooks, ..Default::default() };
        let seen = Observation { spent: Sums { off, ..Sums::default() }, ..see(lengths) };
        Scheduler::new(Dial::Budget(budget), Assumed::default(), 1)
            .unwrap()
            .hooks_are_too_dear(&seen, &off)
    };
    assert!(dear(2.0, SECOND / 2) && !dear(4.0, SECOND / 4));
    assert!(!dear(2.0, SECOND / 20) && dear(1.05, SECOND / 20));
    assert!(!dear(2.0, 0));
}

/// Light code that is slow by its steps, and such that has to be translated all the time.
#[test]
fn threads_run_natively_where_light_code_takes_too_much_of_the_budget() {
    let lengths = Chooser::default().lengths();
    let needs = |budget, checking, translating| {
        let light = crate::Spent {
            wall: SECOND,
            cpu: SECOND,
            work: SECOND,
            checking,
            translating,
            ..Default::default()
        };
        let spent = Sums { off: light, light, ..Sums::default() };
        let seen = Observation { spent, ..see(lengths) };
        Scheduler::new(Dial::Budget(budget), Assumed::default(), 1).unwrap().needs_native(&seen)
    };
    assert!(needs(1.2, 0, 0) && !needs(1.3, 0, 0));
    assert!(!needs(2.0, SECOND / 5, 0) && needs(2.0, SECOND / 2, 0));
    assert!(!needs(2.0, 0, SECOND / 20) && needs(2.0, 0, SECOND / 10));
    assert!(!needs(4.0, SECOND / 2, 0));
}

#[test]
fn a_program_with_one_thread_has_no_windows_once_its_start_was_recorded() {
    let lengths = Chooser::default().lengths();
    let mut scheduler = Scheduler::new(Dial::Usual, Assumed::default(), 3).unwrap();
    let mut seen = Observation { alone: true, ..see(lengths) };
    let (mut phases, mut periods) = (Vec::new(), 0);
    while seen.now < 10 * SECOND {
        let step = scheduler.next(&seen).unwrap();
        periods += u32::from(step.period);
        phases.push((step.phase, scheduler.is_alone()));
        let spent =
            if step.phase == Phase::Whole { &mut seen.spent.whole } else { &mut seen.spent.off };
        let passed = step.until - seen.now;
        (spent.wall, spent.cpu) = (spent.wall + passed, spent.cpu + passed);
        spent.work += passed;
        seen.now = step.until;
    }
    phases.dedup();
    assert_eq!((phases, periods), (vec![(Phase::Whole, false), (Phase::Off, true)], 2));
    seen.alone = false;
    let step = scheduler.next(&seen).unwrap();
    assert!(step.period && !scheduler.is_alone() && scheduler.period_ends().is_some());
    let mut duty = Scheduler::new(Dial::Duty(0.5), Assumed::default(), 3).unwrap();
    duty.next(&Observation { alone: true, ..see(lengths) }).unwrap();
    assert!(!duty.is_alone(), "a share of the time was asked for");
}
