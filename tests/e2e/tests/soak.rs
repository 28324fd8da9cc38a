//! The soak: mixed runs of the distribution's programs, several at once, compared with native ones.
//!
//! `THREADTALK_SOAK_RUNS` sets the number of runs (default: one of each command); `make soak` does
//! 200, and adds the mix of `stress.rs`, and runs all once more with `THREADTALK_CACHE_KIB`, which
//! makes the code cache too small for most of them, and twice in windows (THREADTALK_SOAK_BUDGET).
//! Ten thousand short processes under a service of `auto` are part of `make soak`, too.

use e2e::soak::{self, Soaked};
use e2e::{passed_on, stress};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use test_support::{Outcome, Run, Scratch, Threadtalk, probe};

const AT_ONCE: usize = 4;

/// What differs between a native and a recorded run, if anything.
fn difference(alone: &Outcome, recorded: &Outcome) -> Option<&'static str> {
    [
        ("it took too long", recorded.timed_out),
        ("its exit status changed", recorded.exit_code != Some(passed_on(alone))),
        ("its output changed", recorded.stdout != alone.stdout),
        ("it left processes behind", recorded.left_processes),
    ]
    .into_iter()
    .find_map(|(what, differs)| differs.then_some(what))
}

/// The mix; with the stress programs when there are more runs than commands.
fn mix(runs: Option<usize>) -> Vec<Soaked> {
    let mut mix = soak::commands();
    if runs.is_some_and(|runs| runs > mix.len()) {
        let words = |(name, arguments): &(&str, &[&str])| stress::command(name, arguments);
        mix.extend(
            stress::ALL.iter().map(|entry| Soaked { words: words(entry), stdin: Vec::new() }),
        );
    }
    mix
}

/// A recording of the command: exact, or with THREADTALK_SOAK_BUDGET in windows, with a thousand
/// changes in a second between them.
fn record(threadtalk: &Threadtalk, profile: &Path, words: &[String]) -> Run {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Ok(budget) = std::env::var("THREADTALK_SOAK_BUDGET") else {
        return threadtalk.record(profile, &[], &words);
    };
    let record = threadtalk.verb("record").args(["--budget", &budget, "-o"]).arg(profile);
    record.arg("--").args(words).env("THREADTALK_SWITCH_US", "1000")
}

#[test]
fn mixed_runs_of_the_distributions_programs() {
    let runs: Option<usize> = std::env::var("THREADTALK_SOAK_RUNS")
        .ok()
        .map(|text| text.parse().expect("THREADTALK_SOAK_RUNS is a number"));
    let (scratch, threadtalk, mix) = (Scratch::new(), Threadtalk::built(), mix(runs));
    let runs = runs.unwrap_or(mix.len());
    let alone: Vec<Outcome> = mix.iter().map(|command| command.native(&scratch)).collect();
    let next = AtomicUsize::new(0);
    let faults = Mutex::new(Vec::new());
    let work = || {
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= runs {
                break;
            }
            let (command, alone) = (&mix[run % mix.len()], &alone[run % mix.len()]);
            let profile = scratch.join(&format!("run-{run}.tt"));
            let record = command.settle(record(&threadtalk, &profile, &command.words), &scratch);
            let recorded = record.timeout(Duration::from_secs(180)).run();
            if let Some(what) = difference(alone, &recorded) {
                let fault = format!("run {run}: {what}\nNATIVE {alone}\nRECORDED {recorded}");
                faults.lock().unwrap().push(fault);
            }
            let _ = std::fs::remove_dir_all(profile);
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of {runs} runs failed:\n{}", faults.len(), faults.join("\n\n"));
    println!("{runs} runs of {} commands, {AT_ONCE} at once, none failed", mix.len());
}

/// Short processes under a service that looks after all of this user's: none stays, none is kept in
/// mind, and the service ends. `THREADTALK_SOAK_SHORT` sets their number.
#[test]
fn short_processes_under_a_service() {
    let Ok(count) = std::env::var("THREADTALK_SOAK_SHORT") else {
        return probe::skip("soak: short processes", "THREADTALK_SOAK_SHORT is not set");
    };
    let count: u32 = count.parse().expect("THREADTALK_SOAK_SHORT is a number");
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let auto = |args: &[&str]| {
        let run = threadtalk.verb("auto").env("THREADTALK_STATE_DIR", scratch.join("state"));
        run.args(args).timeout(Duration::from_secs(900))
    };
    let id = std::process::Command::new("id").arg("-u").output().expect("id").stdout;
    let user = String::from_utf8_lossy(&id).trim().to_owned();
    // Those that compute at all are bursts beyond the 0.3 s from which a process is looked after.
    let line = format!(
        "i=0; while [ $i -lt {count} ]; do /bin/true & \
         [ $((i % 50)) = 0 ] && (timeout 2 sh -c 'while :; do :; done' &) ; \
         [ $((i % 8)) = 7 ] && wait; i=$((i+1)); done; wait"
    );
    let service = auto(&["--user", &user, "--sense", "load", "-q"]);
    let outcome = service.run_meanwhile(|pid| {
        // Until it has settled, its memory grows.
        std::thread::sleep(Duration::from_secs(3));
        let before = resident(pid);
        let shell = Run::new("sh").args(["-c", &line]).timeout(Duration::from_secs(600));
        shell.run().expect_code(0);
        std::thread::sleep(Duration::from_secs(5));
        let after = resident(pid);
        assert!(after > 0, "the service has ended");
        assert!(after < before + GROWTH_KB, "{before} KB resident before, {after} KB after");
        let files = descriptors(pid);
        assert!(files < 64, "{files} files are open");
        let status = auto(&["--status", "--json"]).run().expect_code(0).stdout_text();
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let programs = status[0]["programs"].as_object().expect("programs").len();
        assert!(programs <= 256, "{programs} programs are kept in mind");
        auto(&["--stop"]).run().expect_code(0);
    });
    outcome.expect_code(0);
    let left = std::fs::read_dir(scratch.join("state")).map_or(0, |all| {
        let name = |file: std::fs::DirEntry| file.file_name().to_string_lossy().into_owned();
        all.flatten().map(name).filter(|name| !name.ends_with(".lock")).count()
    });
    assert_eq!(left, 0, "files of the service stay behind");
}

/// What the service may grow by: tables of what is there now, and what the allocator keeps.
const GROWTH_KB: u64 = 16 << 10;

/// Resident memory of a process, KB.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(usize::MAX, Iterator::count)
}
