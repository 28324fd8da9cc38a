//! `threadtalk tune`: what is kept, what is dropped, and what happens when it is cut short.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use test_support::run::{children, wait_until};
use test_support::threadtalk::left_in_shared_memory;
use test_support::{Compiler, Run, Scratch, Target, Threadtalk, probe};

/// Four threads in two pairs, `examples/pairs.c`.
fn pairs() -> PathBuf {
    let target = Target::new(Compiler::Gcc, "examples/pairs.c").flags(&["-O2", "-pthread"]);
    target.build().unwrap_or_else(|error| panic!("{error}"))
}

fn tune(plan: &Path, options: &[&str], command: &[&str]) -> Run {
    Threadtalk::built().verb("tune").arg("-o").arg(plan).args(options).arg("--").args(command)
}

fn one_cpu() -> bool {
    let one = probe::cpus() < 2;
    if one {
        probe::skip("tune", "one CPU leaves nothing to place");
    }
    one
}

#[test]
fn the_verdict_follows_from_the_interval_and_decides_about_the_plan() {
    if one_cpu() {
        return;
    }
    let scratch = Scratch::new();
    let (plan, binary) = (scratch.join("t.json"), pairs());
    let command = [binary.to_str().unwrap(), "1500"];
    let run = tune(&plan, &["--json", "--runs", "4", "--policy", "locality"], &command);
    let outcome = run.run().expect_code(0);
    // Standard output is JSON and nothing else: the program's own output is not there.
    let json: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let ratio = &json["wall_ratio"];
    let number = |value: &Value| value.as_f64().unwrap_or(f64::INFINITY);
    let (low, high) = (number(&ratio["low"]), number(&ratio["high"]));
    assert!(low <= number(&ratio["estimate"]) && number(&ratio["estimate"]) <= high, "{json}");
    let verdict = if high < 1.0 {
        "placed is faster"
    } else if low > 1.0 {
        "placed is slower"
    } else if low > 0.99 && high < 1.01 {
        "no difference"
    } else {
        "not clear"
    };
    assert_eq!(json["verdict"], verdict, "{json}");
    assert_eq!(plan.exists(), verdict == "placed is faster", "{json}");
    assert_eq!(json["plan"].is_string(), plan.exists(), "{json}");
    // It ends as soon as it is clear.
    let pairs = json["pairs"].as_u64().unwrap();
    assert!(pairs == 4 || pairs == 3 && verdict != "not clear", "{json}");
    assert_eq!(json["threads"], 5, "{json}");
    // The profile stays either way. It was recorded within a budget.
    let profile = test_support::threadtalk::profile_json(&scratch.join("t.tt"));
    assert_eq!((&profile["mode"], &profile["windows"]["asked"]), (&"windows".into(), &"3x".into()));
}

/// Threads that swap partners halfway.
#[test]
fn a_placement_for_each_phase_is_compared_with_one_for_all() {
    if one_cpu() {
        return;
    }
    let scratch = Scratch::new();
    let target = Target::new(Compiler::Gcc, "tests/programs/launch/two_phases.c");
    let binary = target.flags(&["-O2", "-g", "-pthread"]).build();
    let binary = binary.unwrap_or_else(|error| panic!("{error}"));
    let mut said = String::new();
    // Windows may see too little of a phase, mostly on a busy machine: in about half of the runs.
    for exchanges in ["2000", "8000", "2000", "8000", "2000", "8000", "32000"] {
        let command = [binary.to_str().unwrap(), exchanges];
        let options = ["--force", "--json", "--runs", "3"];
        let outcome = tune(&scratch.join("t.json"), &options, &command).run().expect_code(0);
        said = outcome.stderr_text();
        if said.contains("(locality by phase, locality") {
            return;
        }
    }
    panic!("{said}");
}

#[test]
fn a_program_with_nothing_to_place_is_not_timed() {
    if one_cpu() {
        return;
    }
    let scratch = Scratch::new();
    let (plan, ran) = (scratch.join("t.json"), scratch.join("ran"));
    let script = format!("echo once; echo x >>{}", ran.display());
    let outcome = tune(&plan, &[], &["sh", "-c", &script]).run().expect_code(0);
    assert!(outcome.stdout_text().starts_with("once\n"), "{outcome}");
    let said = "Placement does not matter here: the program has a single thread.";
    assert!(outcome.stdout_text().contains(said), "{outcome}");
    assert_eq!(std::fs::read_to_string(ran).unwrap(), "x\n", "it ran more than once");
    assert!(!plan.exists());
}

/// A plan binds the threads of the program itself: which one is to be tuned instead of a shell is
/// said.
#[test]
fn of_a_shell_that_starts_the_program_it_is_said_which_one_to_tune() {
    if one_cpu() {
        return;
    }
    let (scratch, binary) = (Scratch::new(), pairs());
    let plan = scratch.join("t.json");
    let command = format!("{} 100", binary.to_str().unwrap());
    let outcome = tune(&plan, &[], &["sh", "-c", &format!("{command}; true")]).run();
    let text = outcome.expect_code(0).stdout_text();
    assert!(text.contains(&format!("(threadtalk tune -- {command})")), "{text}");
    assert!(text.contains("Nothing was timed.") && !plan.exists(), "{text}");
}

/// Two threads that talk on CPUs that are all equally far apart; sixteen that all talk alike.
#[test]
fn a_program_that_no_placement_helps_is_left_alone() {
    if one_cpu() {
        return;
    }
    let scratch = Scratch::new();
    let (source, ran) = (scratch.join("alike.c"), scratch.join("ran"));
    std::fs::write(&source, ALIKE).unwrap();
    let target = Target::new(Compiler::Gcc, source.to_str().unwrap()).flags(&["-O2", "-pthread"]);
    let binary = target.build().unwrap_or_else(|error| panic!("{error}"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let mut cases = vec![("16", "saves")];
    // With one level and a core for each, every placement costs the same.
    let topo = Threadtalk::built().verb("topo").arg("--json").run().expect_code(0);
    let machine: Value = serde_json::from_slice(&topo.stdout).unwrap();
    if machine["costs"]["levels"].as_array().unwrap().len() == 1 {
        cases.push(("2", "all placements of its 2 threads cost the same"));
    } else {
        probe::skip("tune on one level", "the CPUs here are not all equally far apart");
    }
    for (threads, reason) in cases {
        let plan = scratch.join(&format!("{threads}.json"));
        let command = [&path(&binary), threads, &path(&ran)].map(|s: &str| s.to_owned());
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let outcome = tune(&plan, &["--json"], &command).run().expect_code(0);
        let json: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        assert_eq!(json["verdict"], "does not matter", "{outcome}");
        assert!(json["reason"].as_str().unwrap().contains(reason), "{outcome}");
        let number = |name: &str| json["numbers"][name].as_f64().unwrap();
        assert!(number("expected_cost") > 0.0 && number("lines_taken") > 0.0, "{outcome}");
        assert!(number("lower_bound") <= number("plan_cost"), "{outcome}");
        assert!(!plan.exists(), "{outcome}");
        assert_eq!(std::fs::read_to_string(&ran).unwrap(), "x", "it ran more than once");
        std::fs::remove_file(&ran).unwrap();
    }
}

/// All threads write lines of their own and read every thread's, in rounds. The initial thread is
/// one of them. There are enough lines that what the barriers add, which is not even, hardly
/// counts.
const ALIKE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { LINES = 8 };
static struct { _Alignas(64) volatile long value; } cell[64][LINES];
static pthread_barrier_t barrier;
static int threads;
static void *work(void *argument) {
    long me = (long)argument, sum = 0;
    for (int round = 0; round < 300; round++) {
        for (int line = 0; line < LINES; line++) cell[me][line].value = round;
        pthread_barrier_wait(&barrier);
        for (int other = 0; other < threads; other++)
            for (int line = 0; line < LINES; line++) sum += cell[other][line].value;
        pthread_barrier_wait(&barrier);
    }
    return (void *)sum;
}
int main(int argc, char **argv) {
    pthread_t thread[64];
    threads = atoi(argv[1]);
    pthread_barrier_init(&barrier, 0, threads);
    for (long t = 1; t < threads; t++) pthread_create(&thread[t], 0, work, (void *)t);
    work(0);
    for (int t = 1; t < threads; t++) pthread_join(thread[t], 0);
    FILE *file = fopen(argv[2], "a");
    fputc('x', file);
    return fclose(file);
}
"#;

#[test]
fn a_program_that_fails_stops_it_with_its_status() {
    let scratch = Scratch::new();
    let plan = scratch.join("t.json");
    let outcome = tune(&plan, &[], &["sh", "-c", "exit 9"]).run().expect_code(9);
    assert!(outcome.stderr_text().contains("exited with status 9"), "{outcome}");
    assert!(!plan.exists() && scratch.join("t.tt").exists(), "{outcome}");
}

#[test]
fn what_exists_is_not_replaced_and_nothing_runs() {
    let scratch = Scratch::new();
    let (plan, witness) = (scratch.join("t.json"), scratch.join("witness"));
    std::fs::write(&plan, "mine").unwrap();
    let touch = ["touch", witness.to_str().unwrap()];
    let outcome = tune(&plan, &[], &touch).run().expect_code(125);
    assert!(outcome.stderr_text().contains("t.json exists already"), "{outcome}");
    assert!(!witness.exists(), "the program ran");
    assert_eq!(std::fs::read(&plan).unwrap(), b"mine");
}

#[test]
fn every_run_reads_the_same_input() {
    if one_cpu() {
        return;
    }
    // Counts its input in a thread and writes the count where runs add up.
    let scratch = Scratch::new();
    let (plan, input, counts) =
        (scratch.join("t.json"), scratch.join("input"), scratch.join("counts"));
    std::fs::write(&input, "0123456789").unwrap();
    let source = scratch.join("reader.c");
    std::fs::write(&source, READER).unwrap();
    let reader = Target::new(Compiler::Gcc, source.to_str().unwrap()).flags(&["-pthread"]);
    let script = format!(
        "exec {} tune --runs 3 --policy locality -o {} -- {} {} <{}",
        test_support::paths::release().join("threadtalk").display(),
        plan.display(),
        reader.build().unwrap().display(),
        counts.display(),
        input.display()
    );
    Run::new("sh").args(["-c", &script]).run().expect_code(0);
    let counts = std::fs::read_to_string(counts).unwrap();
    // Recording, first look, three pairs.
    assert_eq!(counts, "10\n".repeat(8));
}

/// A thread writes what the main thread then reads: something to place.
const READER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static char text[100];
static long count;
static void *read_all(void *none) { count = read(0, text, sizeof text); return none; }
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_create(&thread, 0, read_all, 0);
    pthread_join(thread, 0);
    FILE *file = fopen(argv[argc - 1], "a");
    fprintf(file, "%ld\n", count);
    return fclose(file);
}
"#;

/// Interrupts a tuning when `ready` says so, and returns its folder.
fn interrupted(ready: impl Fn(u32, &Scratch) -> bool) -> Scratch {
    let scratch = Scratch::new();
    let (plan, binary) = (scratch.join("t.json"), pairs());
    let command = [binary.to_str().unwrap(), "20000"];
    let run = tune(&plan, &["--runs", "500"], &command).timeout(Duration::from_secs(120));
    let outcome = run.run_meanwhile(|pid| {
        wait_until("the phase to interrupt", || ready(pid, &scratch));
        std::thread::sleep(Duration::from_millis(100));
        let group = format!("-{pid}");
        Run::new("kill").args(["-INT", "--", &group]).run().expect_code(0);
    });
    assert_eq!(outcome.exit_code, Some(130), "{outcome}");
    assert!(!outcome.left_processes, "{outcome}");
    assert_eq!(left_in_shared_memory(), Vec::<PathBuf>::new());
    assert!(scratch.join("t.tt").join("profile.json").exists(), "{outcome}");
    scratch
}

#[test]
fn interrupted_while_recording_it_keeps_the_profile() {
    let scratch = interrupted(|pid, _| !children(pid).trim().is_empty());
    assert!(!scratch.join("t.json").exists());
}

#[test]
fn interrupted_while_timing_it_keeps_the_plan_too() {
    if one_cpu() {
        return;
    }
    let timing =
        |pid, scratch: &Scratch| scratch.join("t.tt").exists() && !children(pid).trim().is_empty();
    let scratch = interrupted(timing);
    let plan = std::fs::read_to_string(scratch.join("t.json")).unwrap();
    assert!(plan.contains("\"slots\""), "{plan}");
}
