//! The soak: mixed runs of the distribution's programs, several at once, compared with native ones.
//!
//! `THREADTALK_SOAK_RUNS` sets the number of runs (default: one of each command); `make soak` does
//! 200, and adds the mix of `stress.rs`, and runs all once more with `THREADTALK_CACHE_KIB`, which
//! makes the code cache too small for most of them.

use e2e::soak::{self, Soaked};
use e2e::{passed_on, stress};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use test_support::{Outcome, Scratch, Threadtalk};

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
            let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
            let profile = scratch.join(&format!("run-{run}.tt"));
            let record = command.settle(threadtalk.record(&profile, &[], &words), &scratch);
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
