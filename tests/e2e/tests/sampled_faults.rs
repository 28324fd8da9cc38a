//! What goes wrong while a program is sampled: it is said, and nothing stays armed.

use e2e::sampling::{
    Beside, attach, can_sample, note, noted, refused, sample, signal, talkers, total,
};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use test_support::Scratch;
use test_support::threadtalk::profile_json;

/// A reader that stands still for longer than its rings last.
#[test]
fn records_that_find_no_room_are_counted_and_shown() {
    if !can_sample("lost records") {
        return;
    }
    let scratch = Scratch::new();
    let (profile, beside) =
        (scratch.join("lost.tt"), Beside::start(&talkers(), &["1", "600000", "same"]));
    // Rings have room for some thousand samples: at this rate for less than a second.
    let options = ["--rate", "20000", "--transfer-ns", "100", "--duration", "8s"];
    let outcome = attach(&profile, beside.pid(), &options).run_meanwhile(|pid| {
        std::thread::sleep(Duration::from_secs(3));
        signal(pid, "STOP");
        std::thread::sleep(Duration::from_secs(4));
        signal(pid, "CONT");
    });
    let outcome = outcome.expect_code(0);
    let json = profile_json(&profile);
    let lost = json["sampled"]["lost"].as_u64().unwrap();
    assert!(lost > 0 && json["sampled"]["samples"].as_u64().unwrap() > 0, "{}", json["sampled"]);
    let sentence =
        format!("{lost} records were lost because the reader did not get its turn in time");
    assert!(outcome.stderr_text().contains(&sentence), "{outcome}");
    assert_eq!(noted(&json, "records-lost")["count"], lost);
    // What is there is still right.
    assert!(total(&json, "raw_true") > 0 && total(&json, "raw_false") == 0, "{}", json["totals"]);
}

/// Events of a process, as its descriptors show them.
fn events_of(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().contains("perf_event")).count()
}

/// Kills threadtalk while it samples: the program goes on, and can be sampled again.
#[test]
fn nothing_stays_armed_when_the_recorder_is_killed() {
    if !can_sample("a killed recorder") {
        return;
    }
    let scratch = Scratch::new();
    let mut beside = Beside::start(&talkers(), &["2", "600000", "same"]);
    let profile = scratch.join("killed.tt");
    let mut armed = 0;
    let run = attach(&profile, beside.pid(), &["--transfer-ns", "100"]);
    let outcome = run.run_meanwhile(|pid| {
        armed = (0..100)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(50));
                events_of(pid)
            })
            .find(|&events| events > 0)
            .unwrap_or(0);
        signal(pid, "KILL");
    });
    assert_eq!((outcome.signal, armed > 0), (Some(9), true), "{outcome}");
    assert!(beside.runs() && events_of(beside.pid()) == 0 && !profile.exists());
    let again = scratch.join("again.tt");
    let options = ["--transfer-ns", "100", "--duration", "1s"];
    attach(&again, beside.pid(), &options).run().expect_code(0);
    assert!(total(&profile_json(&again), "raw_true") > 0);
}

#[test]
fn a_program_that_outlives_its_sampling_is_said_to() {
    if !can_sample("a duration") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    let sampled = |duration: &str| {
        let profile = scratch.join(duration);
        let command = [program.to_str().unwrap(), "1", "1500", "same"];
        let outcome = sample(&profile, &["--duration", duration], &command).expect_code(0);
        assert_eq!(outcome.stdout_text(), "ready\ndone\n");
        profile_json(&profile)
    };
    assert_eq!(noted(&sampled("500ms"), "duration-over")["duration_ns"], 500_000_000);
    assert_eq!(note(&sampled("1h"), "duration-over"), None);
}

#[test]
fn a_process_that_is_stopped_says_why_nothing_was_seen() {
    if !can_sample("a stopped process") {
        return;
    }
    let scratch = Scratch::new();
    let beside = Beside::start(&talkers(), &["1", "600000", "same"]);
    signal(beside.pid(), "STOP");
    let profile = scratch.join("stopped.tt");
    let options = ["--duration", "300ms", "--transfer-ns", "100"];
    attach(&profile, beside.pid(), &options).run().expect_code(0);
    noted(&profile_json(&profile), "never-sampled");
}

#[test]
fn numbers_of_threads_and_of_ended_processes_are_refused_by_what_they_are() {
    if !can_sample("threads and ended processes") {
        return;
    }
    let scratch = Scratch::new();
    let profile = scratch.join("refused.tt");
    let run = |pid| attach(&profile, pid, &["--duration", "1s"]).run();
    let beside = Beside::start(&talkers(), &["1", "600000", "same"]);
    let pid = beside.pid();
    let tids = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let tids = tids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let other = tids.into_iter().find(|&tid: &u32| tid != pid).unwrap();
    refused(&run(other), &profile, &[&format!("{other} is a thread of process {pid}; sample")]);
    let mut ended = Command::new("true").spawn().unwrap();
    while !is_zombie(ended.id()) {
        std::thread::sleep(Duration::from_millis(10));
    }
    refused(&run(ended.id()), &profile, &[&format!("process {} has ended", ended.id())]);
    ended.wait().unwrap();
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| stat.contains(") Z "))
}
