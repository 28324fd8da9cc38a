//! Recording in windows: programs run on unchanged while windows open and close, and estimates are
//! near the truth.

use e2e::{assert_unchanged, native, stress};
use profile::{Note, Profile};
use serde_json::Value;
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use test_support::{Compiler, Run, Scratch, Target, Threadtalk};
use types::CommKind;

/// For a program that takes long where threads do hardly anything but come and go.
const TIME: Duration = Duration::from_secs(180);

fn record(threadtalk: &Threadtalk, profile: &Path, options: &[&str], words: &[&str]) -> Run {
    let record = threadtalk.verb("record").args(options).args(["--force", "-o"]).arg(profile);
    record.arg("--").args(words)
}

/// Phases of so many microseconds, so that there are a thousand changes in a second: from code
/// without checks to tracked lines, warm-up, and both halves of a counting part.
const SWITCHES: (&str, &str) = ("THREADTALK_SWITCH_US", "1000");

fn all_unchanged(options: &[&str], settings: Option<(&str, &str)>) {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("windows.tt");
    for (name, arguments) in stress::ALL {
        let command = stress::command(name, arguments);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        println!("{words:?}");
        let recorded = record(&threadtalk, &profile, options, &words).timeout(TIME);
        let recorded =
            settings.into_iter().fold(recorded, |run, (name, value)| run.env(name, value));
        let recorded = recorded.run();
        assert_unchanged(&native(&command), &recorded);
    }
}

/// Threads that wait, handle signals, fork, execute, exit, are created, or run generated code while
/// a window opens or closes.
#[test]
fn programs_run_on_unchanged_while_windows_open_and_close() {
    all_unchanged(&["--duty", "40%"], None);
}

#[test]
fn programs_run_on_unchanged_within_a_budget() {
    all_unchanged(&["--budget", "2x", "--matrix"], None);
}

#[test]
fn programs_run_on_unchanged_with_a_thousand_switches_a_second() {
    all_unchanged(&["--budget", "2x"], Some(SWITCHES));
}

/// The same with threads that run natively between windows.
#[test]
fn programs_run_on_unchanged_with_native_time_between_windows() {
    all_unchanged(&["--budget", "5%"], Some(SWITCHES));
}

/// Events in a turn of `pairs`: each of 4096 lines of two buffers is handed over twice, and each
/// time read and then overwritten.
const PAIRS: f64 = 2.0 * 2.0 * 4096.0 * 2.0;

/// Turns to begin with, and at most: busy processors leave a program fewer windows, and too few are
/// not enough for amounts.
const TURNS: (u64, u64) = (12_000, 96_000);

fn matrix_of(threadtalk: &Threadtalk, profile: &Path) -> Vec<Vec<f64>> {
    let file = profile.with_extension("csv");
    let export =
        threadtalk.verb("export").arg(profile).args(["matrix", "--force", "-o"]).arg(&file);
    export.run().expect_code(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let number = |field: &str| field.parse::<f64>().expect("a number");
    text.lines().map(|line| line.split(',').map(number).collect()).collect()
}

/// A recording of `pairs` with enough windows: its matrix, and the events that there were.
fn pairs_in_windows(
    threadtalk: &Threadtalk,
    profile: &Path,
    program: &str,
    options: &[&str],
) -> (Vec<Vec<f64>>, f64) {
    let mut turns = TURNS.0;
    loop {
        let words = [program, &turns.to_string()];
        record(threadtalk, profile, options, &words).timeout(TIME).run().expect_code(0);
        let windows = Profile::load(profile).unwrap().meta.windows.expect("windows");
        if !windows.too_short {
            return (matrix_of(threadtalk, profile), turns as f64 * PAIRS);
        }
        turns *= 2;
        assert!(turns <= TURNS.1, "{options:?}: {windows:?}");
    }
}

/// What one recording tells if it is `near`, or else the middle one of three; and all of them.
fn middle(told: impl Fn() -> f64, near: Range<f64>) -> (f64, Vec<f64>) {
    let mut all = vec![told()];
    if !near.contains(&all[0]) {
        all.extend([told(), told()]);
        all.sort_by(f64::total_cmp);
    }
    (all[all.len() / 2], all)
}

/// A program that hands a hundred lines over for each turn of a window is seen as it is. On a busy
/// machine one recording may be far off by chance, but not the middle one of three.
#[test]
fn estimates_are_near_the_truth() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let program =
        Target::new(Compiler::Gcc, "examples/pairs.c").flags(&["-O2", "-pthread"]).build().unwrap();
    for options in [["--duty", "20%"], ["--budget", "2x"]] {
        let profile = scratch.join("pairs.tt");
        let ratio = || {
            let program = program.to_str().unwrap();
            let (matrix, truth) = pairs_in_windows(&threadtalk, &profile, program, &options);
            let all: f64 = matrix.iter().flatten().sum();
            let partners = matrix[1][3] + matrix[3][1] + matrix[2][4] + matrix[4][2];
            assert!(partners > 0.99 * all, "{options:?}: {matrix:?}");
            all / truth
        };
        let (ratio, all) = middle(ratio, 0.8..1.25);
        assert!((0.8..1.25).contains(&ratio), "{options:?}: {all:?} of the truth");
    }
}

/// Threads that take turns spin for many more iterations in windows. Those are no work, so amounts
/// do not depend on them.
#[test]
fn hand_overs_of_threads_that_spin_are_told() {
    const TURNS: f64 = 12e6;
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/known/in_turns.c";
    let program = Target::new(Compiler::Gcc, source).flags(&["-O2", "-pthread"]).build().unwrap();
    let profile = scratch.join("turns.tt");
    let ratio = || {
        let words = [program.to_str().unwrap(), &TURNS.to_string()];
        record(&threadtalk, &profile, &["--duty", "20%"], &words)
            .timeout(TIME)
            .run()
            .expect_code(0);
        let rows = Profile::load(&profile).unwrap().comm;
        let overwrites = rows.iter().filter(|row| row.kind == CommKind::Waw);
        overwrites.map(|row| row.count).sum::<u64>() as f64 / TURNS
    };
    let (ratio, all) = middle(ratio, 0.8..1.25);
    assert!((0.8..1.25).contains(&ratio), "{all:?} of the truth");
}

/// Lines are read tens of milliseconds after they were written, which is longer than a window.
#[test]
fn lines_that_are_read_long_after_they_were_written_are_seen() {
    const STEPS: f64 = 3e6;
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/known/late_reads.c";
    let program = Target::new(Compiler::Gcc, source).flags(&["-O2", "-pthread"]).build().unwrap();
    let profile = scratch.join("late.tt");
    for options in [&["--duty", "20%"][..], &["--duty", "20%", "--matrix"]] {
        let words = [program.to_str().unwrap(), "3000000"];
        record(&threadtalk, &profile, options, &words).run().expect_code(0);
        let matrix = matrix_of(&threadtalk, &profile);
        assert!((0.7..1.4).contains(&(matrix[1][2] / STEPS)), "{options:?}: {matrix:?}");
        assert!(matrix[2][1] < 0.1 * STEPS, "{options:?}: {matrix:?}");
    }
}

/// A loop over lines that another thread has written milliseconds ago asks about several of them at
/// once. The middle one of three recordings tells how many there were.
#[test]
fn lines_that_loops_ask_about_together_are_seen() {
    const LINES: f64 = 131_072.0;
    const TURNS: f64 = 3000.0;
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/known/handed.c";
    let program = Target::new(Compiler::Gcc, source).flags(&["-O2", "-pthread"]).build().unwrap();
    let profile = scratch.join("handed.tt");
    for options in [&["--duty", "20%"][..], &["--duty", "20%", "--matrix"]] {
        let ratio = || {
            let words = [program.to_str().unwrap(), &LINES.to_string(), &TURNS.to_string()];
            record(&threadtalk, &profile, options, &words).run().expect_code(0);
            let matrix = matrix_of(&threadtalk, &profile);
            // Each line is read and overwritten in each turn.
            (matrix[1][2] + matrix[2][1]) / (2.0 * LINES * TURNS)
        };
        // Beside other tests, half of them are missed at times; none would be seen without
        // tracking.
        let (ratio, all) = middle(ratio, 0.4..1.6);
        assert!((0.4..1.6).contains(&ratio), "{options:?}: {all:?} of the truth");
    }
}

/// Threads that run natively between windows count nothing. What they execute is estimated, as part
/// of the whole and of the time in which they did.
#[test]
fn what_threads_execute_natively_is_estimated() {
    const WORK: &str = "800";
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/findings/word_count.c";
    let flags = ["-O2", "-pthread"];
    let program = Target::new(Compiler::Gcc, source).flags(&flags).build().unwrap();
    let folder = scratch.join("native.tt");
    let recorded = |budget: &str| {
        let words = [program.to_str().unwrap(), "4", WORK];
        record(&threadtalk, &folder, &["--budget", budget], &words).run().expect_code(0);
        Profile::load(&folder).unwrap()
    };
    let truth = recorded("2x").meta.totals.instructions as f64;
    // Beside others, most of a run may lie between two windows.
    let is_spread = Cell::new(false);
    let part = || {
        let profile = recorded("5%");
        let notes = &profile.meta.warnings;
        assert!(notes.iter().any(|note| matches!(note, Note::NativeTime { .. })), "{notes:?}");
        let slice_of = |slice| profile.activity.iter().filter(move |row| row.slice == slice);
        let slices = profile.slices.len() as u32;
        let work = |slice| slice_of(slice).map(|row| row.instructions).sum::<u64>();
        let (all, most) = ((0..slices).map(work).sum::<u64>(), (0..slices).map(work).max());
        assert_eq!(all, profile.meta.totals.instructions);
        is_spread.set(is_spread.get() || most.unwrap() < all / 2);
        all as f64 / truth
    };
    let (likely, all) = middle(part, 0.4..1.8);
    assert!((0.4..1.8).contains(&likely), "{all:?} of the instructions");
    for _ in 0..5 {
        if !is_spread.get() {
            part();
        }
    }
    assert!(is_spread.get(), "most instructions in one slice");
}

/// Instructions between two visits to the line that threads come back to most often.
fn between_visits(profile: &Profile) -> f64 {
    let mut lines: HashMap<u64, [u64; 2]> = HashMap::new();
    for row in &profile.returns {
        let [returns, instructions] = lines.entry(row.line).or_default();
        (*returns, *instructions) = (*returns + row.returns, *instructions + row.instructions);
    }
    let [returns, instructions] = lines.values().max().expect("visits are counted");
    *instructions as f64 / *returns as f64
}

/// Threads that wait to come back to a line go over to code without checks, where they would not
/// notice that they do.
#[test]
fn how_often_threads_come_to_a_line_is_told_from_windows_alone() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/findings/word_count.c";
    let flags = ["-O2", "-pthread"];
    let program = Target::new(Compiler::Gcc, source).flags(&flags).build().unwrap();
    let folder = scratch.join("visits.tt");
    let told = |options: &[&str], work: &str| {
        let words = [program.to_str().unwrap(), "4", work];
        record(&threadtalk, &folder, options, &words).run().expect_code(0);
        between_visits(&Profile::load(&folder).unwrap())
    };
    let truth = told(&["--exact"], "50");
    for budget in ["2x", "20%"] {
        let near = 0.3 * truth..3.0 * truth;
        let (seen, all) = middle(|| told(&["--budget", budget], "600"), near.clone());
        assert!(near.contains(&seen), "{budget}: {all:?} instructions, not {truth}");
    }
}

/// Lines are read a fifth of a second after they were written. What a budget does not pay for is
/// told: as much as is missing at least.
#[test]
fn what_is_missing_of_long_gaps_is_told() {
    const STEPS: f64 = 8e5;
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/known/late_reads.c";
    let program = Target::new(Compiler::Gcc, source).flags(&["-O2", "-pthread"]).build().unwrap();
    let folder = scratch.join("late.tt");
    // Lines are read, or overwritten by each of both threads.
    for (budget, writes) in [("1.3x", None), ("2x", None), ("1.3x", Some("writes"))] {
        let mut words = vec![program.to_str().unwrap(), "800000", "4000"];
        words.extend(writes);
        let (kind, all) = match writes {
            None => (CommKind::Raw, STEPS),
            Some(_) => (CommKind::Waw, 2.0 * STEPS),
        };
        let told = || {
            record(&threadtalk, &folder, &["--budget", budget], &words).run().expect_code(0);
            let profile = Profile::load(&folder).unwrap();
            let rows = profile.comm.iter().filter(|row| row.kind == kind);
            let seen = rows.map(|row| row.count).sum::<u64>() as f64;
            seen * (1.0 + profile.meta.windows.expect("windows").missed) / all
        };
        // A bound from few windows may be too low by chance, but not the middle one of three.
        let (part, all) = middle(told, 0.75..f64::INFINITY);
        assert!(part > 0.75, "{budget}: {all:?} of all are told or bounded");
    }
}

#[test]
fn budgets_that_make_no_sense_are_refused() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("refused.tt");
    for (options, why) in [
        (&["--budget", "2x", "--reference"][..], "cannot be used with"),
        (&["--budget", "2x", "--undirected"], "cannot be used with"),
        (&["--budget", "2x", "--exact"], "cannot be used with"),
        (&["--duty", "5%", "--budget", "2x"], "cannot be used with"),
        (&["--budget", "1x"], "above 1"),
        (&["--duty", "0%"], "above 0%"),
        (&["--sample", "--budget", "3x"], "at most 100 %"),
    ] {
        let outcome = record(&threadtalk, &profile, options, &["true"]).run().expect_code(125);
        assert!(outcome.stderr_text().contains(why), "{options:?}: {outcome}");
        assert!(!profile.exists(), "{options:?}");
    }
    let told = record(&threadtalk, &profile, &["--budget", "5%"], &["true"]).run();
    assert!(told.expect_code(0).stderr_text().contains("about 1.1x"));
}

/// A program that does nothing but allocate small blocks: those that it allocates between windows
/// are not followed.
#[test]
fn small_blocks_that_are_allocated_all_the_time_are_followed_in_windows_only() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "benches/kernels/blocks.c";
    let program = Target::new(Compiler::Gcc, source).flags(&["-O2", "-fopenmp"]).build().unwrap();
    let profile = scratch.join("blocks.tt");
    let noted = |options: &[&str]| {
        let words = [program.to_str().unwrap(), "2", "4"];
        record(&threadtalk, &profile, options, &words).timeout(TIME).run().expect_code(0);
        Profile::load(&profile).unwrap().meta.warnings.contains(&Note::SmallBlocksUnfollowed)
    };
    assert!(noted(&["--budget", "2x"]));
    assert!(!noted(&["--budget", "2x", "--no-objects"]));
}

/// System calls of the C library need no signal in native time, as those of other code do. Of the
/// latter, the number of rounds tells that there was native time.
#[test]
fn calls_of_the_c_library_need_no_signal_in_native_time() {
    const ROUNDS: &str = "1500";
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/known/quiet_calls.c";
    let program = Target::new(Compiler::Gcc, source).flags(&["-O2"]).build().unwrap();
    let words = [program.to_str().unwrap(), ROUNDS];
    let profile = scratch.join("calls.tt");
    let rounds = || {
        let run = record(&threadtalk, &profile, &["--budget", "5%"], &words).run().expect_code(0);
        let text = run.stdout_text();
        let counts: Vec<u64> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
        <[u64; 2]>::try_from(counts).unwrap()
    };
    let tries: Vec<_> = (0..3).map(|_| rounds()).collect();
    let [by_library, by_others] = tries.iter().max_by_key(|[_, others]| *others).unwrap();
    assert!(*by_others > 100, "{tries:?}");
    assert!(by_library * 20 < *by_others, "{tries:?}");
}

/// Two phases exchange as much, each in an array of its own. Windows are close at the start and far
/// apart later, so most of what is counted is of the first one.
#[test]
fn arrays_of_later_phases_have_their_part_of_the_events() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/launch/two_phases.c";
    let flags = ["-O2", "-g", "-pthread"];
    let program = Target::new(Compiler::Gcc, source).flags(&flags).build().unwrap();
    let folder = scratch.join("phases.tt");
    let first = || {
        let words = [program.to_str().unwrap(), "32000"];
        record(&threadtalk, &folder, &["--budget", "2x"], &words).run().expect_code(0);
        let profile = Profile::load(&folder).unwrap();
        let of = |name: &str| -> u64 {
            let is_named = |object: u32| profile.objects[object as usize].name.starts_with(name);
            profile.events.iter().filter(|e| is_named(e.object)).map(|event| event.count).sum()
        };
        let (near, far) = (of("near_pairs") as f64, of("far_pairs") as f64);
        near / (near + far)
    };
    // Half of them are.
    let (likely, all) = middle(first, 0.25..0.7);
    assert!((0.25..0.7).contains(&likely), "{all:?} of the events are of the first phase");
}

/// A thread that is alone needs no windows; those of the time with others stand for that time only.
#[test]
fn a_thread_that_is_alone_has_no_windows() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/known/alone.c";
    let program = Target::new(Compiler::Gcc, source).flags(&["-O2", "-pthread"]).build().unwrap();
    let folder = scratch.join("alone.tt");
    let recorded = |alone: &str, both: &str| {
        let words = [program.to_str().unwrap(), alone, both];
        let run = record(&threadtalk, &folder, &[], &words).run().expect_code(0);
        assert_eq!(run.stdout_text().trim(), "1");
        Profile::load(&folder).unwrap()
    };
    let single = recorded("600", "0").meta;
    let windows = single.windows.unwrap();
    assert_eq!((windows.windows, windows.observed, windows.missed), (0, 1.0, 0.0), "{windows:?}");
    assert!(single.totals.instructions > 1_000_000_000, "{:?}", single.totals);

    let transfers = || {
        let profile = recorded("600", "20");
        let windows = profile.meta.windows.as_ref().unwrap();
        assert!(windows.observed > 0.0 && windows.observed < 1.0, "{windows:?}");
        let pairs = profile.comm.iter().filter(|row| row.from.0 > 0 && row.to.0 > 0);
        pairs.map(|row| row.count).sum::<u64>() as f64
    };
    // Each of 40 million additions takes the line from the other thread once at the most, which is
    // a read, an overwrite and an invalidation. A few windows may tell three times as much, and far
    // more if they stood for the time alone. Beside other tests, the threads may run one after the
    // other in all windows.
    let near = 100.0..4e8;
    let (likely, all) = middle(transfers, near.clone());
    assert!(near.contains(&likely), "{all:?}");
}

/// Where a filter has to be asked before each call of ours, a child begins well between windows,
/// too.
#[test]
fn children_begin_well_under_a_filter() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/stress/filtered_forks.c";
    let program = Target::new(Compiler::Gcc, source).flags(&["-O2"]).build().unwrap();
    let command = [program.to_str().unwrap().to_owned()];
    let expected = native(&command);
    for options in [&["--budget", "5%"][..], &["--duty", "50%"], &["--exact"]] {
        let run = record(&threadtalk, &scratch.join("x.tt"), options, &[&command[0]]);
        assert_unchanged(&expected, &run.timeout(TIME).run());
    }
}

/// What threads allocate and free while they run natively has its names, and works as without.
#[test]
fn what_is_allocated_natively_has_its_name() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let source = "tests/programs/objects/native_blocks.cpp";
    let flags = ["-O1", "-g", "-pthread"];
    let program = Target::new(Compiler::Gxx, source).flags(&flags).build().unwrap();
    let (program, profile) = (program.to_str().unwrap().to_owned(), scratch.join("natively.tt"));
    let command = [program, "20000".to_owned()];
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let run = record(&threadtalk, &profile, &["--budget", "5%"], &words);
    let (name, value) = SWITCHES;
    assert_unchanged(&native(&command), &run.env(name, value).timeout(TIME).run());
    let warnings = Profile::load(&profile).unwrap().meta.warnings;
    assert!(warnings.iter().any(|note| matches!(note, Note::NativeTime { .. })), "{warnings:?}");
    assert!(!warnings.contains(&Note::BlocksUnseen), "{warnings:?}");
    let report = threadtalk.verb("report").arg(&profile).args(["--json", "--lines", "9999"]);
    let found: Value = serde_json::from_str(&report.run().expect_code(0).stdout_text()).unwrap();
    let objects = found["objects"]["list"].as_array().unwrap();
    let on = |name: &str| {
        let named = |o: &&Value| o["name"].as_str().is_some_and(|text| text.contains(name));
        let events = |o: &Value| o["events"].as_u64().unwrap();
        objects.iter().filter(named).map(events).sum::<u64>()
    };
    let named = [on("make_one"), on("make_two")];
    assert!(named.iter().all(|count| *count > 0), "{objects:?}");
    let nameless = on("in no known block");
    assert!(nameless * 20 < named.iter().sum(), "{nameless} of {named:?} have no name");
}
