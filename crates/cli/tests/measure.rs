//! `threadtalk topo --measure` from outside, and costs from what it wrote.

use serde_json::Value;
use std::time::Duration;
use test_support::{Outcome, Run, Scratch, probe};

fn threadtalk(args: &[&str]) -> Run {
    Run::new(env!("CARGO_BIN_EXE_threadtalk")).args(args).timeout(Duration::from_secs(60))
}

/// Runs a measurement; `None`, said aloud, when the machine is too busy for one.
fn measure(args: &[&str]) -> Option<Outcome> {
    let outcome = threadtalk(&[&["topo", "--measure"], args].concat()).run();
    if outcome.stderr_text().contains("the machine is too busy") {
        probe::skip("measuring latencies", "the machine is too busy");
        return None;
    }
    Some(outcome.expect_code(0))
}

#[test]
fn what_is_measured_can_be_used_as_costs() {
    let scratch = Scratch::new();
    let file = scratch.join("latencies.json");
    let path = file.to_str().unwrap();
    let Some(outcome) = measure(&["--json", "-o", path, "--pairs", "6"]) else { return };
    let told: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let written: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(told["measured"]["latencies"], written);
    assert_eq!(written["version"], 1);
    let pus = written["pus"].as_array().unwrap().len();
    let pairs = written["pairs"].as_array().unwrap();
    let missing = written["unmeasured"].as_array().unwrap().len();
    assert_eq!(pairs.len() + missing, pus * (pus - 1) / 2);
    let again = threadtalk(&["topo", "--measure", "-o", path]).run().expect_code(125);
    assert!(again.stderr_text().contains("exists already"), "{again}");

    let costs = format!("measured:{path}");
    let shown = threadtalk(&["topo", "--json", "--costs", &costs]).run();
    if pus < 2 {
        return probe::skip("measured costs", "there is only one PU");
    }
    let shown: Value = serde_json::from_slice(&shown.expect_code(0).stdout).unwrap();
    assert_eq!(shown["costs"]["model"], "measured");
    let innermost = shown["costs"]["levels"].as_array().unwrap().last().unwrap();
    if let Some(level) = told["measured"]["levels"].as_array().unwrap().last() {
        assert_eq!(innermost["between"], level["between"]);
        assert!(level["latency_ns"].is_null() || innermost["cost"] == level["latency_ns"]);
    }
    let matrix = scratch.join("m.csv");
    std::fs::write(&matrix, "0,3\n5,0\n").unwrap();
    let place = threadtalk(&["place", matrix.to_str().unwrap(), "--costs", &costs, "--json"]);
    let plan: Value = serde_json::from_slice(&place.run().expect_code(0).stdout).unwrap();
    assert_eq!(plan["slots"].as_array().unwrap().len(), 2);
    // Of use on this machine only.
    let other =
        ["place", matrix.to_str().unwrap(), "--costs", &costs, "--on", "pack:3 core:5 pu:7"];
    let refused = threadtalk(&other).run().expect_code(125);
    assert!(refused.stderr_text().contains("measured on another machine"), "{refused}");
}

#[test]
fn the_matrix_is_shown() {
    let Some(outcome) = measure(&["--pairs", "1"]) else { return };
    let text = outcome.stdout_text();
    match text.contains("only one PU that may be used") {
        true => probe::skip("the matrix", "there is only one PU"),
        false => assert!(
            text.contains("measured latency between 2 ") && text.contains("   . "),
            "{text}"
        ),
    }
}

#[test]
fn a_single_pu_has_nothing_to_measure() {
    if probe::command("taskset").is_none() {
        return probe::skip("measuring one PU", "taskset is not installed");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    let first: String = list.chars().take_while(char::is_ascii_digit).collect();
    let one = Run::new("taskset").args(["-c", &first, env!("CARGO_BIN_EXE_threadtalk")]);
    let outcome = one.args(["topo", "--measure"]).run().expect_code(0);
    assert!(outcome.stdout_text().contains("there is nothing to measure"), "{outcome}");
}

#[test]
fn only_this_machine_can_be_measured() {
    let refused = threadtalk(&["topo", "--measure", "--on", "core:2"]).run().expect_code(125);
    assert!(refused.stderr_text().contains("cannot be used with '--on"), "{refused}");
    let alone = threadtalk(&["topo", "--pairs", "3"]).run().expect_code(125);
    assert!(alone.stderr_text().contains("--measure"), "{alone}");
    let missing = threadtalk(&["topo", "--costs", "measured:/nonexistent"]).run().expect_code(125);
    assert!(
        missing.stderr_text().contains("cannot read the latencies '/nonexistent'"),
        "{missing}"
    );
}
