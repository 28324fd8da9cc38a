//! `threadtalk calibrate` and `record --sample --watch` from outside.

use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use test_support::threadtalk::profile_json;
use test_support::{Compiler, Outcome, Run, Scratch, Target, probe};

fn threadtalk(arguments: &[&str]) -> Outcome {
    let run = Run::new(env!("CARGO_BIN_EXE_threadtalk")).args(arguments);
    run.env("NO_COLOR", "1").timeout(Duration::from_secs(100)).run()
}

fn program(source: &str, flags: &[&str]) -> PathBuf {
    Target::new(Compiler::Gcc, source).flags(&["-O2", "-pthread"]).flags(flags).build().unwrap()
}

fn micro(name: &str) -> String {
    let binary = program(&format!("benches/sampling/programs/{name}.c"), &[]);
    binary.to_str().unwrap().to_owned()
}

/// Says so and returns true where nothing can be sampled.
fn skipped(test: &str, outcome: &Outcome) -> bool {
    let text = outcome.stderr_text();
    let why = text.lines().find(|line| line.contains("nothing can be sampled here"));
    if let Some(why) = why {
        probe::skip(test, why);
    }
    why.is_some()
}

/// Samples that showed communication.
fn hits(outcome: &Outcome) -> f64 {
    let found: Value = serde_json::from_slice(&outcome.stdout).unwrap_or_default();
    found["hits"].as_f64().unwrap_or(0.0)
}

#[test]
fn both_recordings_are_compared_in_numbers() {
    for how in [&["--rate", "3000"][..], &["--rate", "3000", "--watch"]] {
        let command = [&micro("write_volume"), "2", "60000000", "0.5", "pin"];
        let calibrate =
            || threadtalk(&[&["calibrate", "--json"], how, &["--"], &command[..]].concat());
        // On a busy machine the two may never run at the same time while they are sampled.
        let mut tries = (0..5).map(|_| calibrate());
        let mut outcome = tries.next().unwrap();
        if skipped("calibrate", &outcome) {
            return;
        }
        while hits(&outcome) == 0.0
            && let Some(next) = tries.next()
        {
            outcome = next;
        }
        let found: Value = serde_json::from_slice(&outcome.expect_code(0).stdout).unwrap();
        assert_eq!((&found["version"], &found["threads"]), (&1.into(), &3.into()));
        let watched = how.contains(&"--watch");
        let detector = &found["sampling"]["detectors"][0];
        assert_eq!(*detector == "watchpoints", watched, "{found}");
        let number = |value: &Value| value.as_f64().unwrap();
        assert!(number(&found["exact"]["events"]) > 0.0, "{found}");
        assert!(number(&found["hits"]) > 0.0, "{found}");
        // The two that store talk to each other, and hardly to the one that waits for them.
        assert!(number(&found["mse"]) < 0.05 * number(&found["mse_most"]), "{found}");
        assert!(number(&found["strangers"]["share"]) < 0.05, "{found}");
        for verdict in ["shape", "volume", "sharing"] {
            let trust = found[verdict]["trust"].as_str().unwrap();
            assert!(["no", "roughly", "yes"].contains(&trust), "{found}");
            assert!(found[verdict]["reason"].as_str().unwrap().len() > 10, "{found}");
        }
        // The same of a recording in windows.
        let windows = &found["windows"];
        assert!(number(&windows["recording"]["observed"]) > 0.0, "{found}");
        assert!(number(&windows["sampled"]["events"]) > 0.0, "{found}");
        assert!(number(&windows["mse"]) < 0.05 * number(&windows["mse_most"]), "{found}");
        assert!(number(&windows["wall_seconds"]) > 0.0, "{found}");
    }
}

#[test]
fn people_read_what_to_trust() {
    let outcome =
        threadtalk(&["calibrate", "--", &micro("false_sharing"), "2", "20000000", "0.5", "pin"]);
    if skipped("calibrate", &outcome) {
        return;
    }
    let text = outcome.expect_code(0).stdout_text();
    for of in ["shape", "volume", "true/false"] {
        for by in ["windows", "samples"] {
            assert!(text.contains(&format!("trust the {of} by {by}: ")), "{text}");
        }
    }
    let table = text.lines().filter(|line| line.starts_with("false sharing"));
    assert_eq!(table.count(), 1, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn of_a_single_thread_there_is_no_error() {
    let outcome = threadtalk(&["calibrate", "--", "/bin/true"]);
    if skipped("calibrate", &outcome) {
        return;
    }
    let text = outcome.expect_code(0).stdout_text();
    assert!(!text.contains("error") && !text.contains("-0"), "{text}");
    assert!(text.contains("trust the shape by windows: yes"), "{text}");
}

#[test]
fn a_program_that_fails_is_not_compared() {
    let outcome = threadtalk(&["calibrate", "--", "sh", "-c", "exit 7"]).expect_code(7);
    assert!(outcome.stderr_text().contains("nothing to compare"), "{outcome}");
    assert_eq!(outcome.stdout_text(), "");
    threadtalk(&["calibrate", "--", "/no/such/program"]).expect_code(127);
}

/// A profile recorded with `--watch`; none where that cannot be.
fn watched(scratch: &Scratch, command: &[&str]) -> Option<(Outcome, Value)> {
    let profile = scratch.join("watched.tt");
    let options = ["record", "--sample", "--watch", "--rate", "2000", "-o"];
    let outcome = threadtalk(&[&options[..], &[profile.to_str().unwrap(), "--"], command].concat());
    (!skipped("record --watch", &outcome)).then(|| (outcome, profile_json(&profile)))
}

#[test]
fn a_watched_program_talks_where_it_says() {
    let scratch = Scratch::new();
    let command = [&micro("point_to_point"), "4", "60000000", "0.5", "pin"];
    let Some((outcome, meta)) = watched(&scratch, &command) else { return };
    let text = outcome.expect_code(0).stdout_text();
    assert_eq!(meta["sampled"]["detectors"][0], "watchpoints");
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("region ")).collect();
    let shared: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    let profile = scratch.join("watched.tt");
    let events = threadtalk(&["export", profile.to_str().unwrap(), "events", "--format", "csv"]);
    let mut found = 0;
    for row in events.expect_code(0).stdout_text().lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        let Some(pair) = shared.iter().position(|line| *line == fields[0]) else { continue };
        let threads: [usize; 2] = [fields[1].parse().unwrap(), fields[2].parse().unwrap()];
        assert!(threads.iter().all(|thread| (thread - 1) / 2 == pair), "{row}");
        found += 1;
    }
    assert!(found > 0, "{meta}");
}

#[test]
fn what_hinders_watching_is_in_the_profile() {
    let scratch = Scratch::new();
    let binary = program("tests/programs/watch/signals.c", &[]);
    let command = [binary.to_str().unwrap(), "own"];
    let Some((outcome, meta)) = watched(&scratch, &command) else { return };
    assert_eq!(outcome.expect_code(0).stdout_text(), "before: default\nhandled 200\n");
    let expected = serde_json::json!({"code": "not-watched", "reason": {"code": "own-handler"}});
    assert!(meta["warnings"].as_array().unwrap().contains(&expected), "{}", meta["warnings"]);
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let binary = program("tests/programs/watch/lives.c", &["-static"]);
    let outcome = threadtalk(&["record", "--sample", "--watch", "--", binary.to_str().unwrap()]);
    let sentence = outcome.refusal();
    assert!(sentence.contains("static"), "{sentence}");
    let outcome = threadtalk(&["record", "--watch", "--", "/bin/true"]);
    assert_eq!(outcome.exit_code, Some(125), "{outcome}");
    assert!(outcome.stderr_text().contains("--sample"), "{outcome}");
}
