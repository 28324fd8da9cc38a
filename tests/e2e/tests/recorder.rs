//! The recorder apart from the engine: a fake agent writes a known recording into the session.

use e2e::launch::fake_agent;
use std::time::{Duration, Instant};
use test_support::threadtalk::{left_in_shared_memory, own_sentence, profile_json};
use test_support::{Run, Scratch, Threadtalk};

/// `threadtalk record` with the fake agent in `mode`.
fn record(scratch: &Scratch, mode: &str, options: &[&str], command: &[&str]) -> Run {
    let profile = scratch.join("fake.tt");
    let run = Threadtalk::built().record(&profile, options, command);
    run.env("THREADTALK_LIB_DIR", fake_agent(scratch)).env("FAKE_MODE", mode)
}

#[test]
fn what_the_agent_wrote_is_what_the_profile_holds() {
    let scratch = Scratch::new();
    let script = "echo out; echo err >&2; exit 3";
    let outcome = record(&scratch, "", &["--block", "128"], &["sh", "-c", script]).run();
    assert_eq!((outcome.exit_code, outcome.stdout_text().as_str()), (Some(3), "out\n"));
    assert!(outcome.stderr_text().starts_with("err\n"), "{outcome}");
    let profile = scratch.join("fake.tt");
    let matrix = |kind| Threadtalk::built().matrix(&profile, kind);
    assert_eq!((matrix("raw").get(1, 2), matrix("raw").get(1, 0)), (1000, 7));
    assert_eq!((matrix("waw").get(1, 2), matrix("invalidation").get(1, 2)), (5, 3));
    let json = profile_json(&profile);
    let totals = &json["totals"];
    assert_eq!((&totals["threads"], &totals["loads"]), (&3.into(), &303.into()), "{json}");
    assert_eq!((&totals["raw"], &totals["stores"]), (&1007.into(), &33.into()), "{json}");
    assert_eq!((&totals["raw_true"], &totals["raw_false"]), (&607.into(), &400.into()), "{json}");
    assert_eq!(totals["instructions"], 3003, "{json}");
    let parameters = serde_json::json!(
        {"block_bytes": 128, "counted": "detail", "slice_ns": 10_000_000}
    );
    assert_eq!(json["parameters"], parameters);
    assert_eq!(json["exit_code"], 3);
    assert_eq!(json["command"], serde_json::json!(["sh", "-c", script]));
    assert_eq!(json["warnings"], serde_json::json!([]));
}

#[test]
fn limits_that_were_reached_are_in_the_profile_and_on_standard_error() {
    let scratch = Scratch::new();
    let outcome = record(&scratch, "limits", &[], &["true"]).run().expect_code(0);
    let profile = scratch.join("fake.tt");
    let json = profile_json(&profile);
    let report = Threadtalk::built().verb("report").arg(&profile).arg("--json").run();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let [notes, worded] = [&json, &report].map(|json| json["warnings"].as_array().unwrap());
    assert_eq!(notes.len(), 11, "{json}");
    for (note, worded) in notes.iter().zip(worded) {
        assert_eq!(
            (&note["code"], &note["count"]),
            (&worded["code"], &worded["count"]),
            "{report}"
        );
        let said = format!("threadtalk: note: {}\n", worded["text"].as_str().unwrap());
        assert!(outcome.stderr_text().contains(&said), "{said}{outcome}");
    }
}

#[test]
fn nothing_recorded_is_a_failure_with_the_reason_and_the_programs_status() {
    let scratch = Scratch::new();
    for (mode, script, words) in [
        ("silent", "exit 3", ["was not loaded into the program", "exited with status 3"]),
        ("fail", "kill -9 $$", ["no room for the shadow memory", "was killed by SIGKILL"]),
    ] {
        let outcome = record(&scratch, mode, &[], &["sh", "-c", script]).run().expect_code(125);
        let sentence = own_sentence(&outcome);
        assert!(words.iter().all(|word| sentence.contains(word)), "{words:?}: {sentence}");
        assert!(!scratch.join("fake.tt").exists());
    }
}

#[test]
fn a_missing_agent_is_named_before_the_program_runs() {
    let scratch = Scratch::new();
    let witness = scratch.join("witness");
    let run = record(&scratch, "", &[], &["touch", witness.to_str().unwrap()]);
    let outcome = run.env("THREADTALK_LIB_DIR", "/nonexistent").run().expect_code(125);
    let sentence = own_sentence(&outcome);
    assert!(sentence.contains("libthreadtalk_agent.so: looked in /nonexistent"), "{sentence}");
    assert!(!witness.exists(), "the program ran");
}

#[test]
fn what_the_program_inherits_is_what_the_user_gave() {
    let scratch = Scratch::new();
    let script = "echo $0 [$LD_PRELOAD] [$THREADTALK_SESSION]; cat; ls /proc/self/fd | wc -l";
    let native = Run::new("sh").args(["-c", script, "name"]).stdin("typed\n").run();
    let run = record(&scratch, "", &[], &["sh", "-c", script, "name"]).stdin("typed\n");
    let recorded = run.run().expect_code(0);
    assert_eq!(recorded.stdout_text(), native.stdout_text(), "{recorded}");
}

#[test]
fn processes_that_live_on_are_noted_and_not_waited_for() {
    let scratch = Scratch::new();
    let pid = scratch.join("pid");
    let script =
        format!("sleep 600 >/dev/null 2>&1 </dev/null & echo $! >{}; exit 4", pid.display());
    let outcome = record(&scratch, "", &[], &["sh", "-c", &script]).run();
    let sleeping = std::fs::read_to_string(pid).unwrap();
    // It is still there, so no process has waited for it.
    Run::new("kill").arg(sleeping.trim()).run().expect_code(0);
    assert_eq!(outcome.exit_code, Some(4), "{outcome}");
    assert!(outcome.stderr_text().contains("1 process was left running"), "{outcome}");
}

#[test]
fn a_recorder_that_is_killed_takes_the_program_with_it() {
    let scratch = Scratch::new();
    let started = scratch.join("started");
    let script = format!("echo $$ >{}; exec sleep 600", started.display());
    let run = record(&scratch, "", &[], &["sh", "-c", &script]);
    let outcome = run.run_meanwhile(|pid| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::fs::read_to_string(&started).map_or(true, |text| text.is_empty()) {
            assert!(Instant::now() < deadline, "the program did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Run::new("kill").args(["-KILL", &pid.to_string()]).run().expect_code(0);
    });
    assert_eq!(outcome.signal, Some(9), "{outcome}");
    let program = std::fs::read_to_string(started).unwrap();
    let gone = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", program.trim()));
        status.map_or(true, |text| text.contains("State:\tZ"))
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !gone() {
        assert!(Instant::now() < deadline, "the program lives on\n{outcome}");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left_in_shared_memory(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_command_that_is_not_given_is_asked_for() {
    let outcome = Threadtalk::built().verb("record").arg("--exact").run();
    assert!(outcome.exit_code != Some(0), "{outcome}");
    assert!(outcome.stderr_text().contains("<CMD>"), "{outcome}");
}
