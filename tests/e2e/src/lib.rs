//! End-to-end tests: real programs through the built binary, seen from outside.
//!
//! Needs `make build` first. This library holds what several test files share: the target programs
//! with the flags they are compiled with ([`known`], [`stress`]), and what tests of [`sampling`]
//! have in common. The tests are in `tests/`:
//!
//! * `known.rs`: programs with known truth, every cell of the matrix;
//! * `traps.rs`: what instrumentation finds hard, with exact truth;
//! * `exact.rs`: the engine against the reference, event by event;
//! * `endings.rs`: programs that end in all ways, and what is kept of them;
//! * `processes.rs`: child processes, followed and not;
//! * `realtime.rs`: threads with real-time priorities, which must not wait for lower ones;
//! * `signals.rs`: signals that are sent to us, and programs when we are gone;
//! * `unchanged.rs`: output and exit status native and recorded;
//! * `real.rs`: programs of the distribution;
//! * `flushes.rs`: code caches that are too small, so that code is given up and translated anew;
//! * `store.rs`: translated code that earlier recordings have kept;
//! * `generated.rs`: programs that make code while they run;
//! * `data.rs`: data on the nodes that a plan says; `virtual_data.rs`: on nodes of a virtual
//!   machine;
//! * `bad_input.rs`: everything that cannot work must say so in one sentence and leave nothing;
//! * `workflow.rs`: record, report, export, place, run, tune, one after the other;
//! * `sampled.rs`: recording by sampling, started and running programs;
//! * `sampled_faults.rs`: what goes wrong meanwhile is said, and nothing stays armed;
//! * `transfers.rs`: sampling an event that is counted, too, against what programs have counted;
//! * `recorder.rs`: the recorder apart from the engine, with a fake agent;
//! * `patterns.rs`: which pattern the report recognises, and what differs between runs;
//! * `launch.rs`: threads under a plan;
//! * `tune.rs`: recording, placing and comparing in one;
//! * `stress.rs`: a mix of programs, many runs, eight at once;
//! * `callers.rs`: call paths of code sites;
//! * `objects.rs`: to which variables and heap blocks events belong;
//! * `findings.rs`: what the report says of programs with known flaws;
//! * `pages.rs`: who uses which page, and where pages should lie;
//! * `virtual_numa.rs`: machines with several memory nodes, emulated;
//! * `soak.rs`: a mix of the distribution's programs.

#![allow(missing_docs, reason = "used only here: no library for others")]

pub mod data;
pub mod events;
pub mod known;
pub mod launch;
pub mod sampling;
pub mod soak;
pub mod stress;
pub mod truth;

use test_support::{Outcome, Run};

/// Runs `command` natively; it must end.
#[track_caller]
pub fn native(command: &[String]) -> Outcome {
    Run::new(&command[0]).args(&command[1..]).run_natively()
}

/// The exit code that Threadtalk passes on for an ended program: its own, or 128 + signal.
pub fn passed_on(native: &Outcome) -> i32 {
    native.exit_code.unwrap_or_else(|| 128 + native.signal.expect("exited or was killed"))
}

/// Asserts that a recorded run behaved as the native one: same standard output, same status, and
/// what the program said on standard error first, before anything of ours.
#[track_caller]
pub fn assert_unchanged(native: &Outcome, recorded: &Outcome) {
    let same_stdout = native.stdout == recorded.stdout;
    let same_stderr = recorded.stderr.starts_with(&native.stderr);
    let same_status = recorded.exit_code == Some(passed_on(native));
    assert!(
        same_stdout && same_stderr && same_status && !recorded.timed_out,
        "changed by the recording: stdout same {same_stdout}, stderr same {same_stderr}, status \
         same {same_status}\nNATIVE {native}\nRECORDED {recorded}"
    );
    assert!(!recorded.left_processes, "processes were left behind\n{recorded}");
}
