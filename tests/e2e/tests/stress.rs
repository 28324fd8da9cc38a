//! A mix of programs, many runs, eight at once: none may fail, change its output or hang.
//!
//! `THREADTALK_STRESS_RUNS` sets the number of runs (default 100; `make stress` does 1000).

use e2e::known::Runtime;
use e2e::{native, passed_on, stress};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use test_support::{Outcome, Scratch, Threadtalk};

const AT_ONCE: usize = 8;

/// All command lines of the mix.
fn mix() -> Vec<Vec<String>> {
    let mut mix: Vec<Vec<String>> =
        stress::ALL.iter().map(|(name, arguments)| stress::command(name, arguments)).collect();
    for runtime in [Runtime::Pthreads, Runtime::Cxx, Runtime::GnuOpenMp, Runtime::LlvmOpenMp] {
        let binary = runtime.target(&["-O2"]).build().unwrap_or_else(|error| panic!("{error}"));
        let words = [binary.to_str().unwrap(), "neighbours", "8", "4", "128", "64"];
        mix.push(words.iter().map(ToString::to_string).collect());
    }
    mix
}

/// What is wrong with a recorded run, if anything.
fn fault(alone: &Outcome, recorded: &Outcome) -> Option<&'static str> {
    [
        ("it took too long", recorded.timed_out),
        ("its exit status changed", recorded.exit_code != Some(passed_on(alone))),
        ("its output changed", recorded.stdout != alone.stdout),
        ("its error output changed", !recorded.stderr.starts_with(&alone.stderr)),
        ("it left processes behind", recorded.left_processes),
    ]
    .into_iter()
    .find_map(|(what, wrong)| wrong.then_some(what))
}

#[test]
fn a_mix_of_programs_eight_at_once() {
    let runs: usize = std::env::var("THREADTALK_STRESS_RUNS")
        .map_or(100, |text| text.parse().expect("THREADTALK_STRESS_RUNS is a number"));
    let (scratch, threadtalk, mix) = (Scratch::new(), Threadtalk::built(), mix());
    let alone: Vec<Outcome> = mix.iter().map(|command| native(command)).collect();
    let next = AtomicUsize::new(0);
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run >= runs {
                        break;
                    }
                    let which = run % mix.len();
                    let words: Vec<&str> = mix[which].iter().map(String::as_str).collect();
                    let profile = scratch.join(&format!("run-{run}.tt"));
                    let record = threadtalk.record(&profile, &[], &words);
                    let recorded = record.timeout(Duration::from_secs(180)).run();
                    if let Some(what) = fault(&alone[which], &recorded) {
                        faults.lock().unwrap().push(format!("run {run}: {what}\n{recorded}"));
                    }
                    let _ = std::fs::remove_dir_all(profile);
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of {runs} runs failed:\n{}", faults.len(), faults.join("\n\n"));
    println!("{runs} runs, {AT_ONCE} at once, none failed");
}
