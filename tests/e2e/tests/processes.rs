//! Child processes: each is recorded into a profile of its own, complete to the cell, however it came
//! to be; what cannot be recorded runs as always and is named.

use e2e::known::{Runtime, program};
use e2e::{assert_unchanged, native};
use serde_json::Value;
use std::path::{Path, PathBuf};
use test_support::matrix::Expected;
use test_support::threadtalk::profile_json;
use test_support::{Outcome, Run, Scratch, Threadtalk};

fn family() -> PathBuf {
    program("family", &["-O2"])
}

/// What a ring of so many participants must cause.
fn truth(participants: u64) -> Expected {
    let ring = ["pattern", "ring", &participants.to_string(), "4", "256", "64"];
    let alone = Run::new(family()).args(ring).run().expect_code(0);
    let expected = Expected::from_output(&alone.stdout_text(), "raw").unwrap();
    assert!(expected.total() > 0, "the program printed no truth\n{alone}");
    expected
}

#[track_caller]
fn assert_complete(profile: &Path, participants: u64, recorded: &Outcome) {
    // Forked processes share a few lines with nobody, but their runtime was started by another.
    let noise = Runtime::Pthreads.noise(9);
    let matrix = Threadtalk::built().matrix(profile, "raw");
    assert_eq!(matrix.threads as u64, participants + 1, "{}\n{recorded}", profile.display());
    let complaints = matrix.complaints(&truth(participants), |from, to| noise.of(from, to) + 8);
    let name = profile.display();
    assert!(complaints.is_empty(), "{name}\n{}\n{recorded}", complaints.join("\n"));
}

fn processes(profile: &Path) -> Vec<Value> {
    profile_json(profile)["processes"].as_array().unwrap().clone()
}

/// Records `family HOW` and compares the children's profiles, by participants, with their truth.
#[track_caller]
fn children(how: &str, participants: &[u64]) {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("family.tt");
    let family = family();
    let alone = native(&[family.to_string_lossy().into_owned(), how.into()]);
    let command = [family.to_str().unwrap(), how];
    let recorded = threadtalk.record(&profile, &["--block", "64"], &command).run();
    assert_unchanged(&alone, &recorded);
    let list = processes(&profile);
    let threads: Vec<u64> = list.iter().map(|p| p["threads"].as_u64().unwrap() - 1).collect();
    assert_eq!(threads, participants, "{list:#?}\n{recorded}");
    for (process, participants) in list.iter().zip(participants) {
        assert_eq!(process["exit_code"].as_i64(), Some(0), "{process:#}\n{recorded}");
        let path = profile.join(process["profile"].as_str().unwrap());
        assert_complete(&path, *participants, &recorded);
        let child = profile_json(&path);
        assert_eq!(child["command"], process["command"]);
        assert!(child["command"][0].as_str().unwrap().contains("family"), "{child}");
        // Whatever reads a profile reads a child's.
        threadtalk.verb("report").arg(&path).run().expect_code(0);
    }
    if how != "thread" {
        assert_complete(&profile, 4, &recorded);
    }
}

macro_rules! families {
    ($($test:ident: $how:literal [$($participants:literal),+]),+ $(,)?) => {
        $(#[test]
        fn $test() {
            children($how, &[$($participants),+]);
        })+
    };
}

families!(
    forked: "fork" [3], forked_by_a_thread: "thread" [3], forked_by_a_child: "nested" [3, 2],
    cloned_onto_a_stack_of_its_own: "clone" [3], executed_after_fork: "exec" [3],
    executed_after_vfork: "vfork" [3], spawned: "spawn" [3],
    forked_when_an_execution_failed: "failing" [3],
);

#[test]
fn children_run_natively_when_they_are_not_to_be_followed() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("family.tt");
    for how in ["fork", "exec", "vfork", "spawn", "clone"] {
        let family = family();
        let command = [family.to_str().unwrap(), how];
        let options = ["--block", "64", "--no-follow", "--force"];
        let recorded = threadtalk.record(&profile, &options, &command).run().expect_code(0);
        assert_eq!(processes(&profile), [] as [Value; 0], "{how}\n{recorded}");
        assert!(!profile.join("processes").exists(), "{how}\n{recorded}");
        assert!(recorded.stderr_text().contains("1 child process "), "{how}\n{recorded}");
        assert_complete(&profile, 4, &recorded);
    }
}

#[test]
fn the_report_names_child_processes() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("sh.tt");
    let command = ["sh", "-c", "true; /bin/ls /proc/self/comm; exec /bin/cat /dev/null"];
    let recorded = threadtalk.record(&profile, &[], &command).run().expect_code(0);
    let said = recorded.stderr_text();
    assert!(said.contains("followed 1 child process; profiles in "), "{recorded}");
    let list = processes(&profile);
    assert_eq!(list.len(), 1, "{list:#?}");
    assert_eq!(list[0]["command"], serde_json::json!(["/bin/ls", "/proc/self/comm"]));
    let report = threadtalk.verb("report").arg(&profile).run().expect_code(0).stdout_text();
    assert!(report.contains("processes/1-ls.tt"), "{report}");
}

#[test]
fn the_environment_is_the_users_in_every_process() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let tunables = ["", "glibc.malloc.check=0", "glibc.pthread.rseq=1:glibc.malloc.check=0"];
    for tunables in tunables.into_iter().map(Some).chain([None]) {
        let set = |run: Run| match tunables {
            Some(value) => run.env("GLIBC_TUNABLES", value),
            None => run.env_remove("GLIBC_TUNABLES"),
        };
        for command in [vec!["env"], vec!["sh", "-c", "env; env"]] {
            let native = Run::new(command[0]).args(&command[1..]).env("NO_COLOR", "1");
            let alone = set(native.env_remove("LD_PRELOAD")).run();
            let profile = scratch.join("env.tt");
            let recorded = set(threadtalk.record(&profile, &["--force"], &command)).run();
            assert_unchanged(&alone, &recorded);
        }
    }
}
