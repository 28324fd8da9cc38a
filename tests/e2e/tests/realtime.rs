//! Real-time threads of different priorities on one processor: no lock of ours may be waited for
//! without lending the holder its waiter's priority. Each way of counting has locks of its own.

use e2e::{assert_unchanged, native, stress};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use test_support::{Outcome, Run, Scratch, Threadtalk, probe};

/// What makes the threads of `realtime.c` meet at a lock.
const MEETINGS: [&str; 4] = ["code", "lines", "threads", "forks"];
const TIME: Duration = Duration::from_secs(60);

/// Such programs would keep each other from running.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Whether the machine allows real-time threads; says so if not.
fn is_possible() -> bool {
    let command = stress::command("realtime", &["probe"]);
    let probed = Run::new(&command[0]).args(&command[1..]).run();
    if probed.exit_code != Some(0) {
        probe::skip("real-time threads", probed.stderr_text().trim_end());
    }
    probed.exit_code == Some(0)
}

/// Runs the program natively and under `run`, which gets its command line, and compares.
fn all_end(meetings: &[&str], run: impl Fn(&Threadtalk, &Scratch, &[&str]) -> Outcome) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_possible() {
        return;
    }
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    for meeting in meetings {
        let command = stress::command("realtime", &[meeting]);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        println!("{words:?}");
        assert_unchanged(&native(&command), &run(&threadtalk, &scratch, &words));
    }
}

fn all_end_recorded(mode: &[&str]) {
    all_end(&MEETINGS, |threadtalk, scratch, words| {
        let profile = scratch.join("realtime.tt");
        let options = [mode, &["--force"]].concat();
        threadtalk.record(&profile, &options, words).timeout(TIME).run()
    });
}

#[test]
fn while_details_are_counted() {
    all_end_recorded(&[]);
}

#[test]
fn while_matrices_are_counted() {
    all_end_recorded(&["--matrix"]);
}

#[test]
fn while_undirected_pairs_are_counted() {
    all_end_recorded(&["--undirected"]);
}

#[test]
fn while_the_reference_counts() {
    all_end_recorded(&["--reference"]);
}

/// Threads and processes that the C library does not know are not watched.
#[test]
fn while_they_are_watched() {
    all_end(&["code", "lines"], |threadtalk, scratch, words| {
        let profile = scratch.join("watched.tt");
        let record =
            threadtalk.verb("record").args(["--sample", "--watch", "--force", "-o"]).arg(profile);
        record.arg("--").args(words).timeout(TIME).run()
    });
}
