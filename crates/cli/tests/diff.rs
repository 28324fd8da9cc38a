//! `threadtalk diff` from outside: matrices, profiles, thresholds, bad input.

use profile::sample;
use serde_json::Value;
use std::path::PathBuf;
use test_support::{Outcome, Run, Scratch};

fn diff(args: &[&str]) -> Outcome {
    let run = Run::new(env!("CARGO_BIN_EXE_threadtalk")).arg("diff").args(args);
    run.env("NO_COLOR", "1").run()
}

/// The files of two matrices.
fn matrices(scratch: &Scratch, a: &str, b: &str) -> [String; 2] {
    [("a.csv", a), ("b.csv", b)].map(|(name, text)| {
        let file = scratch.join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    })
}

#[track_caller]
fn refused(a: &str, b: &str, because: &str) {
    let scratch = Scratch::new();
    let [a, b] = matrices(&scratch, a, b);
    let sentence = diff(&[&a, &b]).refusal();
    assert!(sentence.contains(because), "{sentence}");
}

/// One pair of eight threads, and all pairs but that one: as different as can be.
fn opposites() -> [String; 2] {
    let matrix = |wanted: &dyn Fn(usize, usize) -> bool| -> String {
        let cell = |from, to| if from != to && wanted(from, to) { "90" } else { "0" };
        let row = |from| (0..8).map(|to| cell(from, to)).collect::<Vec<_>>().join(",") + "\n";
        (0..8).map(row).collect()
    };
    [matrix(&|from, to| from.max(to) == 1), matrix(&|from, to| from.max(to) > 1)]
}

#[test]
fn the_largest_error_and_the_threshold() {
    let scratch = Scratch::new();
    let [a, b] = opposites();
    let [a, b] = matrices(&scratch, &a, &b);
    let found: Value =
        serde_json::from_slice(&diff(&[&a, &b, "--json"]).expect_code(0).stdout).unwrap();
    assert_eq!((found["mse"].as_f64(), found["mse_most"].as_f64()), (Some(8750.0), Some(8750.0)));
    assert_eq!((found["threads"].as_u64(), &found["lines"]), (Some(8), &Value::Null));
    assert_eq!(found["cells"].as_array().unwrap().len(), 56);
    assert_eq!(
        (found["a"]["pattern"].as_str(), found["a"]["events"].as_u64()),
        (Some("pair"), Some(180))
    );
    diff(&[&a, &b, "--threshold", "8750"]).expect_code(0);
    let beyond = diff(&[&a, &b, "--threshold", "8749.9"]).expect_code(1);
    assert!(beyond.stdout_text().starts_with(
        "The matrices of 8 threads differ by a mean squared error of 8,750, 100 % of the\nlargest \
         possible.\n"
    ));
    assert_eq!(beyond.stderr_text(), "");
    diff(&[&a, &a, "--threshold", "0"]).expect_code(0);
}

#[test]
fn amounts_alone_do_not_differ() {
    let scratch = Scratch::new();
    let [a, b] = matrices(&scratch, "0,1\n2,0\n", "0 100\n200 0\n");
    let text = diff(&[&a, &b, "--threshold", "0"]).expect_code(0).stdout_text();
    assert!(text.starts_with("The matrices of 2 threads have the same shape.\n"), "{text}");
}

#[test]
fn matrices_of_zeros_and_of_one_thread() {
    let scratch = Scratch::new();
    for (a, b) in [("0", "0"), ("0,0\n0,0", "0,0\n0,0"), ("5", "0")] {
        let [a, b] = matrices(&scratch, a, b);
        diff(&[&a, &b, "--threshold", "0"]).expect_code(0);
    }
    let [a, b] = matrices(&scratch, "0,0\n0,0", "0,3\n0,0");
    diff(&[&a, &b, "--threshold", "2499"]).expect_code(1);
    diff(&[&a, &b, "--threshold", "2500"]).expect_code(0);
}

#[test]
fn what_is_no_matrix_is_refused() {
    refused("", "0,1\n1,0", "the matrix is empty");
    refused("0,1\n1,0", "0,1\n1", "line 2 has 1 cell");
    refused("0,-1\n1,0", "0,1\n1,0", "is negative");
    refused("0,99999999999999999999999\n1,0", "0,1\n1,0", "2^53");
    refused("0,inf\n1,0", "0,1\n1,0", "'inf' is not a non-negative integer");
    refused("0,1\n1,0", "0,nan\n1,0", "'nan' is not a non-negative integer");
    refused("0,1\n1,0", "0,1,1\n1,0,1\n1,1,0", "one matrix has 2 threads and the other 3");
    assert!(diff(&["/nowhere", "/nowhere"]).refusal().contains("cannot read '/nowhere'"));
    assert!(diff(&["-", "-"]).refusal().contains("only one of the two"));
}

#[test]
fn thresholds_are_numbers() {
    for bad in ["-1", "nan", "inf", "many"] {
        let outcome = diff(&["a", "b", &format!("--threshold={bad}")]).expect_code(125);
        assert!(outcome.stderr_text().contains("mean squared error"), "{outcome}");
    }
}

/// A profile of an initial thread and workers with this routine, in which T1 gives to all other
/// workers. `helpers` start before the workers and say nothing.
fn saved(scratch: &Scratch, name: &str, workers: u32, helpers: u32) -> String {
    let thread = |id: u32| {
        let mut thread = sample::thread(id);
        if (1..=helpers).contains(&id) {
            thread.identity.start_routine = "libhelp.so+0x10".into();
            thread.start_symbol = String::new();
        } else if id > helpers {
            thread.identity.ordinal = id - helpers - 1;
            thread.identity.start_routine = format!("app+0x{name}");
        }
        thread
    };
    let first = helpers + 1;
    let cells: Vec<_> = (first + 1..=helpers + workers).map(|to| (first, to, 100)).collect();
    let profile =
        sample::profile((0..=helpers + workers).map(thread).collect(), sample::raw(&cells));
    let path: PathBuf = scratch.join(&format!("{name}.tt"));
    profile.save(&path, false).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn threads_are_matched_by_what_they_are() {
    let scratch = Scratch::new();
    // Another build, with the routine elsewhere and two helper threads that start first.
    let (a, b) = (saved(&scratch, "100", 4, 0), saved(&scratch, "2f0", 4, 2));
    let outcome = diff(&[&a, &b, "--json", "--threshold", "0"]).expect_code(0);
    let found: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!((found["mse"].as_f64(), found["threads"].as_u64()), (Some(0.0), Some(5)));
    assert_eq!(found["b"]["left_out"], serde_json::json!([1, 2]));
    assert_eq!(found["a"]["pattern"], "initialisation");
}

#[test]
fn other_numbers_of_workers_are_refused() {
    let scratch = Scratch::new();
    let (a, b) = (saved(&scratch, "100", 4, 0), saved(&scratch, "2f0", 6, 0));
    let sentence = diff(&[&a, &b]).refusal();
    assert!(
        sentence.ends_with(
            "T5, T6 of B have no counterpart in A and have 40 % of its communication; record both \
             with the same number of threads"
        ),
        "{sentence}"
    );
}

#[test]
fn a_profile_against_a_matrix() {
    let scratch = Scratch::new();
    let a = saved(&scratch, "100", 2, 0);
    let [same, other] = matrices(&scratch, "0,0,0\n0,0,7\n0,0,0\n", "0,0,0\n0,0,0\n0,7,0\n");
    diff(&[&a, &same, "--threshold", "0"]).expect_code(0);
    let text = diff(&[&a, &other, "--threshold", "0"]).expect_code(1).stdout_text();
    let rows: Vec<String> =
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in ["T1 → T2 100 0 100 % 0 %", "T2 → T1 0 7 0 % 100 %"] {
        assert!(rows.iter().any(|r| r == row), "{row} is missing\n{text}");
    }
}
