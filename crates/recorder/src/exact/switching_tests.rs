//! Windows switched by a scripted clock.

use super::stretches::{Tracking, tracked_parts};
use super::*;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Acquire;
use wire::session::FILE_BYTES;
use wire::windows::phase;

const MS: u64 = 1_000_000;

fn memory() -> SharedMemory {
    SharedMemory::create("test", c"test", FILE_BYTES).unwrap()
}

fn switching(memory: &SharedMemory, dial: Dial) -> Switching<'_> {
    Switching::new(memory, memory.map(0, 1).unwrap(), dial, false).unwrap()
}

/// One thread that executes an instruction each nanosecond. In counting parts it causes an event
/// and transfer each microsecond, and an unknown access each ten; where late events count, a late
/// transfer each microsecond.
fn done(switching: &Switching<'_>, before: (u64, Done), now_ns: u64) -> Done {
    let (since, mut done) = before;
    let passed = now_ns.saturating_sub(since);
    (done.cpu_ns, done.instructions) = (done.cpu_ns + passed, done.instructions + passed);
    if switching.part().phase == Phase::Counting {
        done.events += passed / 1000;
        done.transfers += passed / 1000;
        done.unknown += passed / 10_000;
    }
    if matches!(switching.part().phase, Phase::Counting | Phase::Late) {
        done.transfers += passed / 1000;
        done.far += passed / 1000;
    }
    Done { active: 1, ..done }
}

/// Turns when it is time, up to a moment; what was done by the last turn.
fn run(switching: &mut Switching<'_>, until_ns: u64) -> Done {
    while switching.until_ns() < until_ns {
        let now_ns = switching.until_ns();
        let done = done(switching, switching.last, now_ns);
        switching.turn(now_ns, done);
        switching.show().unwrap();
    }
    switching.last.1
}

fn shown(switching: &Switching<'_>) -> u32 {
    switching.first.records()[0].phase.load(Acquire)
}

#[test]
fn each_period_has_one_window_whose_counting_part_has_two_halves() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Duty(0.5));
    run(&mut switching, 400 * MS);
    let parts = &switching.switched.parts;
    assert_eq!(parts[0], Part { period: 0, phase: Phase::Off, checked: true, alone: false });
    let last = parts[parts.len() - 1].period;
    assert!(last >= 9, "{last} periods of 40 ms");
    for period in 1..last {
        let of = parts.iter().filter(|part| part.period == period);
        let mut phases: Vec<Phase> = of.map(|part| part.phase).collect();
        phases.retain(|phase| !matches!(phase, Phase::Off | Phase::Late));
        assert_eq!(phases, [Phase::WarmUp, Phase::Counting, Phase::Counting], "{period}");
    }
    assert!(parts.is_sorted_by_key(|part| part.period));
}

#[test]
fn late_events_count_in_the_second_halves_of_stretches() {
    let (anew, counts) = (3, 2);
    let parts = tracked_parts(100, 130, [anew, counts]);
    let of = |part: &Stretch| (part.until_ns, part.tracking);
    let parts: Vec<_> = parts.iter().rev().map(of).collect();
    let (again, late) = (Tracking::BeginsStretch, Tracking::CountsLate);
    let stretches =
        [(118, again), (120, late), (123, again), (125, late), (128, again), (130, late)];
    assert_eq!(parts[0], (115, Tracking::GoesOn));
    assert_eq!(parts[1..], stretches);
    assert_eq!(tracked_parts(100, 109, [anew, counts]).len(), 1, "no room");
    assert!(tracked_parts(100, 100, [anew, counts]).is_empty());
}

#[test]
fn programs_are_told_the_phase_and_the_number_of_the_window() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Duty(0.5));
    let mut window = FIRST_WINDOW;
    for _ in 0..40 {
        let now_ns = switching.until_ns();
        let before = switching.code;
        let done = done(&switching, switching.last, now_ns);
        switching.turn(now_ns, done);
        switching.show().unwrap();
        let anew = switching.anew || before == Code::Light;
        let (now, expected) = match switching.part().phase {
            Phase::Off if switching.code == Code::Light => (phase::LIGHT, window),
            Phase::Off if anew => (phase::OFF, window + 1),
            Phase::Off => (phase::OFF, window),
            Phase::Late => (phase::LATE, window),
            Phase::WarmUp => (phase::WARM_UP, window + 1),
            Phase::Whole | Phase::Counting => (phase::COUNT, window),
        };
        window = expected;
        if switching.switched.parts.len() > 2 {
            assert_eq!(shown(&switching), phase::word(window, now));
        }
    }
    assert!(window > 5, "{window}");
}

#[test]
fn a_window_that_opens_empties_the_passing_maps_and_so_does_what_comes_before() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Duty(0.5));
    let at = |switching: &Switching<'_>| {
        let mut byte = [0];
        switching.memory.file().read_exact_at(&mut byte, PASSING_OFFSET + 12_345).unwrap();
        byte[0]
    };
    for _ in 0..20 {
        memory.file().write_all_at(&[7], PASSING_OFFSET + 12_345).unwrap();
        let now_ns = switching.until_ns();
        let before = switching.code;
        let done = done(&switching, switching.last, now_ns);
        switching.turn(now_ns, done);
        switching.show().unwrap();
        let anew = switching.anew || before == Code::Light;
        let opens = anew || switching.part().phase == Phase::WarmUp;
        assert_eq!(at(&switching), if opens { 0 } else { 7 });
    }
}

#[test]
fn what_counting_parts_saw_is_summed() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Duty(0.25));
    let mut done = run(&mut switching, 2000 * MS);
    // Ends between windows, so that each of them has been judged.
    while !matches!(switching.part().phase, Phase::Off | Phase::Late) {
        let until = switching.until_ns() + 1;
        done = run(&mut switching, until);
    }
    let Sums { whole, off, on, .. } = switching.spent;
    assert_eq!((whole, off.work + on.work), (Spent::default(), done.instructions));
    let share = on.wall as f64 / (on.wall + off.wall) as f64;
    assert!((0.2..0.3).contains(&share), "{share} of the time in windows");
    let now_ns = switching.last.0;
    let switched = switching.finish(now_ns, done);
    assert!(done.events > 0 && done.unknown > 0);
    let accesses: u64 = switched.unwritten.iter().map(|(_, seen)| seen.accesses).sum();
    assert_eq!(accesses, done.unknown);
    // Stretches before windows have counted late events, too.
    assert_eq!((far_in_window(60, 300, 100), far_in_window(60, 0, 0)), (20, 0));
    let periods = switched.unwritten.iter().map(|(period, _)| *period);
    assert!(periods.clone().is_sorted() && periods.min() > Some(0));
}

/// Recording costs this program nothing.
#[test]
fn what_fits_the_budget_is_recorded_whole() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Budget(2.0));
    assert_eq!(first_word(Dial::Budget(2.0)), phase::word(FIRST_WINDOW, phase::COUNT));
    let done = run(&mut switching, 5000 * MS);
    let parts = &switching.switched.parts;
    let looks: Vec<usize> = (0..parts.len()).filter(|k| parts[*k].phase != Phase::Whole).collect();
    let periods: BTreeSet<u32> = looks.iter().map(|look| parts[*look].period).collect();
    assert!((1..6).contains(&periods.len()) && looks[0] > 1, "{looks:?}");
    assert!(looks.iter().all(|look| !parts[*look].checked));
    let Sums { whole, off, light, on, again, .. } = switching.spent;
    assert_eq!((off, on), (light, Spent::default()));
    assert_eq!(whole.work + off.work + again.work, done.instructions);
    assert!(again.work > 4000 * MS);
}

#[test]
fn where_there_is_no_clock_of_work_a_budget_goes_on_in_windows() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Budget(2.0));
    while switching.until_ns() < 5000 * MS {
        let now_ns = switching.until_ns();
        let done = Done { instructions: 0, ..done(&switching, switching.last, now_ns) };
        switching.turn(now_ns, done);
    }
    let parts = &switching.switched.parts;
    let first = parts.iter().position(|part| part.phase != Phase::Whole).expect("windows");
    assert!(first > 1 && parts[first..].iter().all(|part| part.phase != Phase::Whole));
    assert!(parts[first..].iter().any(|part| part.phase == Phase::Counting));
}

/// A moment of light code between two times in which everything is recorded changes nothing that is
/// known.
#[test]
fn what_was_known_before_a_look_stays_known() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Budget(2.0));
    let mut show = |phase, code| {
        switching.switched.parts.push(Part {
            period: 1,
            phase,
            checked: code == Code::Checked,
            alone: false,
        });
        switching.code = code;
        switching.show().unwrap();
        switching.window
    };
    let first = show(Phase::Whole, Code::Checked);
    assert_eq!(show(Phase::Off, Code::Light), first);
    assert_eq!(show(Phase::Whole, Code::Checked), first);
    assert_eq!(show(Phase::Off, Code::Light), first);
    let window = show(Phase::WarmUp, Code::Checked);
    assert_eq!(window, first + 1);
    show(Phase::Counting, Code::Checked);
    show(Phase::Off, Code::Light);
    assert_eq!(show(Phase::Whole, Code::Checked), window + 1);
}

#[test]
fn a_turn_that_comes_too_late_leaves_no_second_half() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Duty(0.5));
    while switching.part().phase != Phase::Counting {
        let until = switching.until_ns() + 1;
        run(&mut switching, until);
    }
    let late = switching.further.last().expect("a second half").until_ns + MS;
    let done = done(&switching, switching.last, late);
    switching.turn(late, done);
    assert_ne!(switching.part().phase, Phase::Counting);
    assert!(switching.further.iter().all(|part| part.until_ns > late));
    assert_eq!(switching.switched.unwritten.len(), 1);
}

#[test]
fn a_clock_that_goes_back_ends_the_window() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Duty(0.5));
    while switching.part().phase != Phase::WarmUp {
        let until = switching.until_ns() + 1;
        run(&mut switching, until);
    }
    let (last, done) = switching.last;
    let period = switching.part().period;
    switching.turn(last - 1, done);
    assert_eq!(switching.part(), Part { period, phase: Phase::Off, checked: true, alone: false });
    assert_eq!(switching.until_ns(), last - 1);
    switching.turn(last, done);
    assert_eq!(
        switching.part(),
        Part { period: period + 1, phase: Phase::Off, checked: true, alone: false }
    );
}

#[test]
fn threads_run_natively_on_small_budgets_only() {
    for (budget, natively) in [(1.05, true), (1.3, false), (2.0, false)] {
        let memory = memory();
        let dial = Dial::Budget(budget);
        let mut switching = switching(&memory, dial);
        run(&mut switching, 20_000 * MS);
        assert_eq!(switching.switched.native_ns > 0, natively, "{budget}");
    }
}

/// A compiler runs new code all the time, and observing it makes it four times slower.
#[test]
fn threads_run_natively_on_larger_budgets_where_translating_takes_long() {
    for (part, natively) in [(0, false), (50, false), (5, true)] {
        let memory = memory();
        let mut switching = switching(&memory, Dial::Budget(2.0));
        while switching.until_ns() < 20_000 * MS {
            let now_ns = switching.until_ns();
            let passed = now_ns - switching.last.0;
            let mut done = done(&switching, switching.last, now_ns);
            done.translating += passed.checked_div(part).unwrap_or(0);
            if switching.part().phase != Phase::Off {
                done.instructions -= passed / 4 * 3;
            }
            switching.turn(now_ns, done);
            switching.show().unwrap();
        }
        assert_eq!(switching.switched.native_ns > 0, natively, "{part}");
    }
}

/// Observing this program makes it four times slower.
#[test]
fn the_usual_budget_has_native_time_after_the_beginning_of_the_run() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Usual);
    let mut native_until = |until_ns| {
        while switching.until_ns() < until_ns {
            let now_ns = switching.until_ns();
            let mut done = done(&switching, switching.last, now_ns);
            if switching.part().phase != Phase::Off {
                done.instructions -= (now_ns - switching.last.0) / 4 * 3;
            }
            switching.turn(now_ns, done);
        }
        switching.switched.native_ns
    };
    assert_eq!(native_until(2000 * MS), 0);
    let native = native_until(20_000 * MS);
    assert!(native > 4000 * MS, "{native}");
}

/// It does a tenth as much in each fifth part of its time, and a fourth where it is observed.
#[test]
fn windows_lie_where_work_is_done() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Budget(1.3));
    let is_slow = |now_ns: u64| (now_ns / (16 * MS)).is_multiple_of(5);
    let (mut time, mut windows) = ([0; 2], [0; 2]);
    while switching.until_ns() < 200_000 * MS {
        let (since, now_ns) = (switching.last.0, switching.until_ns());
        let mut done = done(&switching, switching.last, now_ns);
        let lost = |of: u64, part: u64| of / part * (part - 1);
        let slow = (since / MS..now_ns / MS).filter(|ms| is_slow(ms * MS)).count() as u64 * MS;
        done.instructions -= lost(slow.min(now_ns - since), 10);
        if !matches!(switching.part().phase, Phase::Off | Phase::Late) {
            done.instructions -= lost(done.instructions - switching.last.1.instructions, 4);
        }
        let before = switching.part().phase;
        time[usize::from(is_slow(since))] += now_ns - since;
        switching.turn(now_ns, done);
        let opens = switching.part().phase == Phase::WarmUp && before != Phase::WarmUp;
        windows[usize::from(is_slow(now_ns))] += u64::from(opens);
    }
    let part = |[fast, slow]: [u64; 2]| slow as f64 / (fast + slow) as f64;
    assert!(part(windows) < 0.75 * part(time), "{windows:?} {time:?}");
    assert!(windows[1] > 0 && windows[0] > 100, "{windows:?}");
}

#[test]
fn threads_may_go_in_native_time_only() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Budget(1.05));
    let mut seen = [false; 3];
    while switching.until_ns() < 20_000 * MS {
        let (before, until) = (switching.code(), switching.until_ns() + 1);
        run(&mut switching, until);
        let leaves = switching.first.records()[0].leave.0.load(Acquire);
        let code = switching.code();
        assert_eq!(leaves & leave::TO_NATIVE != 0, code == Code::Native, "{code:?}");
        seen[code as usize] = true;
        if code == Code::Native && before != code {
            // Asked at once, and left alone a moment later.
            assert_ne!(leaves & leave::LIGHT, 0);
            let at = switching.next_ns();
            switching.ask(at);
            let leaves = switching.first.records()[0].leave.0.load(Acquire);
            assert_eq!(leaves, leave::CHECKED | leave::TO_NATIVE);
        }
    }
    assert_eq!(seen, [true; 3]);
}

#[test]
fn code_that_counts_all_accesses_is_always_checked() {
    let memory = memory();
    let mut switching = switching(&memory, Dial::Budget(1.2));
    switching.always_check();
    while switching.until_ns() < 5_000 * MS {
        let now_ns = switching.until_ns();
        let done = done(&switching, switching.last, now_ns);
        switching.turn(now_ns, done);
        assert_eq!(switching.code(), Code::Checked);
    }
    assert!(switching.switched.parts.iter().any(|part| part.phase == Phase::Counting));
    assert_eq!(switching.switched.native_ns, 0);
}

/// Code whose blocks compare themselves with their source.
#[test]
fn little_of_the_time_is_light_where_light_code_is_slow() {
    let part = |checks_for_each_ns: u64| {
        let memory = memory();
        let mut switching = switching(&memory, Dial::Budget(1.05));
        while switching.until_ns() < 20_000 * MS {
            let now_ns = switching.until_ns();
            let mut done = done(&switching, switching.last, now_ns);
            done.steps[0] += checks_for_each_ns * (now_ns - switching.last.0);
            switching.turn(now_ns, done);
            switching.show().unwrap();
        }
        let told = switching.first.records()[0].light_slower.load(Acquire);
        assert_eq!(told > 0, checks_for_each_ns > 0);
        let light = switching.spent.light.wall - switching.switched.native_ns;
        light as f64 / switching.switched.native_ns as f64
    };
    let (slow, fast) = (part(10), part(0));
    assert!(slow < 0.08 && fast > 0.2, "{slow} {fast}");
}

/// Two threads that take twice as long natively when both run, and in light code do not. Words that
/// grow tell what they do.
#[test]
fn solo_time_is_native_where_words_tell() {
    for (words, share) in [(true, 0.5), (false, 0.0)] {
        let memory = memory();
        let mut switching = switching(&memory, Dial::Budget(2.0));
        while switching.until_ns() < 5_000 * MS {
            let now_ns = switching.until_ns();
            let passed = now_ns - switching.last.0;
            let mut done = Done { active: 2, ..switching.last.1 };
            let (cpus, each) = match (switching.solos.now, switching.code) {
                (Solo::Asked, _) => (0, 1),
                (Solo::Alone, _) => (1, 1),
                (Solo::No, Code::Native) => (2, 2),
                (Solo::No, _) => (2, 1),
            };
            let work = cpus * passed / each;
            done.cpu_ns += cpus * passed;
            done.instructions += if switching.code == Code::Native { 0 } else { work };
            if words && switching.code != Code::Checked {
                done.grown += work;
                done.grown_ns += cpus * passed;
            }
            switching.turn(now_ns, done);
            switching.show().unwrap();
        }
        let (slowed, natively) = switching.solos.slowed().unwrap();
        assert_eq!(natively, words);
        assert!((slowed.share - share).abs() < 0.01, "{slowed:?}");
        assert_eq!(switching.switched.needed_native_ns, 0, "the budget needs none");
    }
}
