//! Programs that communicate in a known pattern: the report must recognise it, and `diff` must find
//! two runs of one program alike and two programs different.

use e2e::known::Runtime;
use serde_json::Value;
use std::path::{Path, PathBuf};
use test_support::{Scratch, Threadtalk};

/// Records 16 participants of `pattern`, which are threads 1 to 16 where the runtime starts them
/// all.
fn record(threadtalk: &Threadtalk, runtime: Runtime, pattern: &str, folder: &Path) -> PathBuf {
    let binary = runtime.target(&["-O2"]).build().unwrap_or_else(|error| panic!("{error}"));
    let profile = folder.join(format!("{pattern}.tt"));
    let command = [binary.to_str().unwrap(), pattern, "16", "3", "64", "64"];
    threadtalk.record(&profile, &["--slice", "10ms"], &command).run().expect_code(0);
    profile
}

fn json(threadtalk: &Threadtalk, verb: &str, args: &[&Path]) -> Value {
    let run = args.iter().fold(threadtalk.verb(verb), |run, arg| run.arg(arg)).arg("--json");
    serde_json::from_slice(&run.run().expect_code(0).stdout).unwrap()
}

/// The pattern is recognised, in words as well, with at least this confidence.
#[track_caller]
fn recognised(runtime: Runtime, program: &str, pattern: &str, words: &str, least: f64) -> Value {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = record(&threadtalk, runtime, program, &scratch.join(""));
    let found = json(&threadtalk, "report", &[&profile])["communication"].clone();
    let of = &found["pattern"];
    assert_eq!(of["pattern"], pattern, "{of}");
    assert!(of["confidence"].as_f64().unwrap() >= least, "{of}");
    let report = threadtalk.verb("report").arg(&profile).run().expect_code(0).stdout_text();
    assert!(report.contains(&format!("Pattern: {words}")), "{report}");
    found
}

#[test]
fn initialisation() {
    recognised(Runtime::Pthreads, "initialisation", "initialisation", "initialisation, T1", 0.95);
}

#[test]
fn reduction() {
    recognised(Runtime::Pthreads, "reduction", "reduction", "reduction, T1 takes from 15", 0.95);
}

#[test]
fn all_to_all() {
    let found = recognised(Runtime::Pthreads, "all-to-all", "all_to_all", "all-to-all", 0.95);
    assert_eq!(found["suitability"]["locality"]["suited"], "no");
    // 16 threads alike, of 17.
    let balance = found["metrics"]["balance"].as_f64().unwrap();
    assert!((balance - 6.25).abs() < 0.1, "{balance}");
}

#[test]
fn nearest_neighbour() {
    let words = "nearest neighbour, a line of 16 threads";
    let found = recognised(Runtime::Pthreads, "neighbours", "nearest_neighbour", words, 0.95);
    let line: Vec<u64> = (1..=16).collect();
    assert_eq!(found["pattern"]["parts"], serde_json::json!([line]));
    assert_eq!(found["suitability"]["locality"]["suited"], "yes");
    let words = "nearest neighbour, a ring of 16 threads";
    recognised(Runtime::Pthreads, "ring", "nearest_neighbour", words, 0.95);
}

#[test]
fn matrix_in_any_order() {
    let words = "2D matrix of 4 × 4 threads";
    recognised(Runtime::Pthreads, "grid", "matrix", words, 0.95);
    recognised(Runtime::Pthreads, "scattered", "matrix", words, 0.95);
}

#[test]
fn pipeline() {
    recognised(Runtime::Pthreads, "pipeline", "pipeline", "pipeline of 16 stages", 0.95);
}

#[test]
fn groups() {
    recognised(Runtime::Pthreads, "groups", "groups", "4 groups of 4 threads", 0.95);
    recognised(Runtime::Pthreads, "pairs", "groups", "8 groups of 2 threads", 0.95);
}

#[test]
fn irregular() {
    recognised(Runtime::Pthreads, "irregular", "irregular", "irregular", 0.4);
}

/// With the runtime's own traffic, and an initial thread that takes part.
#[test]
fn openmp() {
    let omp = Runtime::GnuOpenMp;
    recognised(omp, "all-to-all", "all_to_all", "all-to-all", 0.8);
    recognised(omp, "neighbours", "nearest_neighbour", "nearest neighbour", 0.8);
    recognised(omp, "grid", "matrix", "2D matrix of 4 × 4", 0.8);
    recognised(omp, "groups", "groups", "4 groups", 0.8);
}

#[test]
fn two_runs_are_alike_and_two_programs_are_not() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let folders = [scratch.join("first"), scratch.join("second")];
    folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let grid = record(&threadtalk, Runtime::Pthreads, "grid", &folders[0]);
    let again = record(&threadtalk, Runtime::Pthreads, "grid", &folders[1]);
    let ring = record(&threadtalk, Runtime::Pthreads, "ring", &folders[1]);
    let diff = |other: &Path, code: i32| {
        let run = threadtalk.verb("diff").arg(&grid).arg(other).args(["--threshold", "1"]);
        run.run().expect_code(code).stdout_text()
    };
    diff(&again, 0);
    assert!(diff(&ring, 1).contains("Which threads communicate differently"));
    let found = json(&threadtalk, "diff", &[&grid, &ring]);
    assert_eq!(
        (&found["a"]["pattern"], &found["b"]["pattern"]),
        (&"matrix".into(), &"nearest_neighbour".into())
    );
    // 17 threads. The grid has 48 cells, the ring 16, of which 3 in each row of four, and none
    // between rows, are the grid's: 36 that only the grid has, and 4 that only the ring.
    let expected = 40.0 * 1e4 / (17.0 * 17.0);
    let mse = found["mse"].as_f64().unwrap();
    assert!((mse - expected).abs() < 0.01 * expected, "{mse} is not about {expected}");
}
