//! Programs that end in all ways: the status is passed on, and the profile of what ran is complete.

use e2e::known::Runtime;
use e2e::{assert_unchanged, native, passed_on, stress};
use test_support::matrix::Expected;
use test_support::threadtalk::profile_json;
use test_support::{Scratch, Threadtalk};

/// Records `command`, which prints its truth before it ends; its matrix must be complete.
#[track_caller]
fn complete_after(command: Vec<String>) {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("ending.tt");
    let alone = native(&command);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let recorded = threadtalk.record(&profile, &[], &words).run();
    assert_unchanged(&alone, &recorded);

    let expected = Expected::from_output(&alone.stdout_text(), "raw").unwrap();
    assert!(expected.total() > 0, "the program printed no truth\n{alone}");
    let noise = Runtime::Pthreads.noise(9);
    let matrix = threadtalk.matrix(&profile, "raw");
    // A mutex-based barrier is the most that these programs use.
    let complaints = matrix.complaints(&expected, |from, to| noise.of(from, to) + 16);
    assert!(complaints.is_empty(), "{}\n{recorded}", complaints.join("\n"));

    let json = profile_json(&profile);
    assert_eq!(json["exit_code"].as_i64(), alone.exit_code.map(i64::from), "{json}");
    assert_eq!(json["exit_signal"].as_i64(), alone.signal.map(i64::from), "{json}");
    assert_eq!(recorded.exit_code, Some(passed_on(&alone)));
}

/// The ring of `pthreads.c`, ended as said.
#[track_caller]
fn ring_ended_by(how: &str) {
    let binary = Runtime::Pthreads.target(&["-O2"]).build().unwrap();
    let words = [binary.to_str().unwrap(), "ring", "4", "4", "256", "64", how];
    complete_after(words.iter().map(ToString::to_string).collect());
}

macro_rules! endings {
    ($($test:ident: $how:literal),+ $(,)?) => {
        $(#[test]
        fn $test() {
            ring_ended_by($how);
        })+
    };
}

endings!(
    returned: "return", immediate_exit: "exit0", aborted: "abort", killed: "kill",
    segmentation_fault: "segv", threads_never_released: "stay",
);

macro_rules! stress_endings {
    ($($test:ident: [$($argument:literal),+]),+ $(,)?) => {
        $(#[test]
        fn $test() {
            complete_after(stress::command("endings", &[$($argument),+]));
        })+
    };
}

stress_endings!(
    exit_code: ["exit", "4"], immediate_exit_code: ["_exit", "5"], alarm_clock: ["alarm"],
    initial_thread_gone_first: ["thread-exit"], cancelled_thread: ["cancel"],
    exit_handlers: ["atexit"], highest_code: ["return", "255"],
);

#[test]
fn a_core_dump_holds_little_of_the_engine() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if !pattern.starts_with("core") {
        return test_support::probe::skip("core", "core dumps go elsewhere here");
    }
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let aborting = stress::command("endings", &["abort"]).join(" ");
    let script = format!("ulimit -c unlimited; exec {aborting}");
    let recorded = threadtalk
        .record(&scratch.join("core.tt"), &[], &["sh", "-c", &script])
        .directory(scratch.join(""))
        .run()
        .expect_code(134);
    let entries = std::fs::read_dir(scratch.join("")).unwrap().flatten();
    let core = entries.filter(|e| e.file_name().to_string_lossy().starts_with("core"));
    let sizes: Vec<u64> = core.map(|e| e.metadata().unwrap()).map(|m| m.len()).collect();
    let small = sizes.iter().all(|bytes| *bytes < 256 << 20);
    assert!(small, "core dumps of {sizes:?} bytes\n{recorded}");
}
