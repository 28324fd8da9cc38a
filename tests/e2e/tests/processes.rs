//! Child processes: each is recorded into a profile of its own, complete to the cell, however it
//! came to be; what cannot be recorded runs as always and is named.

use e2e::known::{Runtime, program};
use e2e::{assert_unchanged, native, stress};
use serde_json::Value;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use test_support::matrix::Expected;
use test_support::threadtalk::profile_json;
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk, probe};

fn family() -> PathBuf {
    program("family", &["-O2"])
}

/// What a ring of that many participants must cause.
fn truth(participants: u64) -> Expected {
    let ring = ["pattern", "ring", &participants.to_string(), "4", "256", "64"];
    let alone = Run::new(family()).args(ring).run_natively().expect_code(0);
    let expected = Expected::from_output(&alone.stdout_text(), "raw").unwrap();
    assert!(expected.total() > 0, "the program printed no truth\n{alone}");
    expected
}

#[track_caller]
fn assert_complete(profile: &Path, participants: u64, recorded: &Outcome) {
    // Forked processes share a few lines with no other process, but their runtime was started by
    // another.
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
fn the_report_is_about_the_process_that_talks_most() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("sh.tt");
    let ring = Runtime::Pthreads.target(&["-O2"]).build().unwrap_or_else(|error| panic!("{error}"));
    let script = "\"$0\" ring 2 4 64 64; \"$0\" ring 4 4 256 64; \"$0\" ring 3 4 64 64; true";
    let command = ["sh", "-c", script, ring.to_str().unwrap()];
    let said = threadtalk.record(&profile, &[], &command).run().expect_code(0).stderr_text();
    assert!(
        said.contains("processes/2-") && said.contains(" communicates most: 5 threads, "),
        "{said}"
    );
    assert!(!said.contains("nothing to place"), "{said}");
    let report = |arguments: &[&str]| {
        let run = threadtalk.verb("report").arg(&profile).args(arguments).run();
        run.expect_code(0).stdout_text()
    };
    let most = report(&[]);
    assert!(most.contains("\n5 threads make "), "{most}");
    assert!(most.contains("This is process 2, which communicates most (of 4)"), "{most}");
    assert!(most.contains("Child processes"), "{most}");
    assert!(report(&["--process", "0"]).contains("a single thread"));
    assert!(report(&["--process", "3"]).contains("\n4 threads make "));
    let beyond = threadtalk.verb("report").arg(&profile).args(["--process", "9"]).run();
    let said = beyond.expect_code(125).stderr_text();
    assert!(said.contains("has no process 9; its report lists the processes"), "{said}");
}

#[test]
fn other_verbs_take_the_process_that_talks_most_and_say_so() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("sh.tt");
    let ring = Runtime::Pthreads.target(&["-O2"]).build().unwrap_or_else(|error| panic!("{error}"));
    let script = "\"$0\" ring 2 4 64 64; \"$0\" ring 4 4 256 64; true";
    let command = ["sh", "-c", script, ring.to_str().unwrap()];
    threadtalk.record(&profile, &[], &command).run().expect_code(0);
    // Lines of a matrix, and of a table with its heading.
    for (what, lines) in [("matrix", [5, 3, 1]), ("threads", [6, 4, 2])] {
        for (process, lines) in [None, Some("1"), Some("0")].into_iter().zip(lines) {
            let run = threadtalk.verb("export").arg(&profile).arg(what);
            let run = process.into_iter().fold(run, |run, n| run.args(["--process", n]));
            let outcome = run.run().expect_code(0);
            assert_eq!(outcome.stdout_text().lines().count(), lines, "{process:?} {outcome}");
            let said = outcome.stderr_text().contains("threadtalk: process 2 of ");
            assert_eq!(said, process.is_none(), "{outcome}");
        }
    }
    let place = |arguments: &[&str]| {
        let run = threadtalk.verb("place").arg(&profile).args(arguments);
        run.args(["--on", "pack:2 core:4 pu:1"]).run()
    };
    let outcome = place(&[]).expect_code(0);
    assert!(outcome.stdout_text().starts_with("5 threads on "), "{outcome}");
    assert!(outcome.stderr_text().contains("threadtalk: process 2 of "), "{outcome}");
    let outcome = place(&["--process", "1"]).expect_code(0);
    assert!(outcome.stdout_text().starts_with("3 threads on "), "{outcome}");
    assert!(!outcome.stderr_text().contains("threadtalk: process "), "{outcome}");
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
            let alone = set(native.env_remove("LD_PRELOAD")).run_natively();
            let profile = scratch.join("env.tt");
            let recorded = set(threadtalk.record(&profile, &["--force"], &command)).run();
            assert_unchanged(&alone, &recorded);
        }
    }
}

/// Records `odd_processes ARGUMENTS`: nothing changes, and a note names `program` and the `reason`.
#[track_caller]
fn not_recorded(scratch: &Scratch, arguments: &[&str], reason: &str, program: &str) {
    let command = stress::command("odd_processes", arguments);
    let alone = native(&command);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let recorded = Threadtalk::built().record(&scratch.join("odd.tt"), &["--force"], &words).run();
    assert_unchanged(&alone, &recorded);
    let said = recorded.stderr_text();
    let named = said.lines().any(|line| line.contains(reason) && line.contains(program));
    assert!(named, "no note with '{reason}' and {program}\n{recorded}");
}

#[test]
fn a_static_program_runs_natively_and_is_named() {
    let source = "tests/programs/stress/odd_processes.c";
    let Ok(program) = Target::new(Compiler::Gcc, source).flags(&["-static", "-pthread"]).build()
    else {
        return probe::skip("static", "there is no static C library");
    };
    let program = program.to_str().unwrap();
    not_recorded(&Scratch::new(), &["program", program], "statically linked", program);
}

/// Whether the tests run as root; says so if not.
fn is_root(test: &str) -> bool {
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        probe::skip(test, "it needs root");
    }
    root
}

#[test]
fn a_setuid_program_runs_natively_and_is_named() {
    if !is_root("setuid") {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.join("other");
    std::fs::copy("/bin/true", &program).unwrap();
    std::os::unix::fs::chown(&program, Some(65534), None).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let program = program.to_str().unwrap();
    not_recorded(&scratch, &["program", program], "setuid", program);
}

#[test]
fn processes_in_another_root_go_on() {
    if !is_root("chroot") {
        return;
    }
    let (scratch, root) = (Scratch::new(), Scratch::new());
    let copy = |from: &str, to: &str| {
        let to = root.join(to.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    };
    copy("/bin/true", "program");
    let libraries = Run::new("ldd").arg("/bin/true").run().expect_code(0).stdout_text();
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        copy(library, library);
    }
    let folder = root.join("");
    not_recorded(&scratch, &["root", folder.to_str().unwrap()], "cannot be opened", "/program");
    // What was forked there could still be recorded.
    let forked = processes(&scratch.join("odd.tt"));
    assert!(forked.iter().any(|p| p["exit_code"] == 6 && p["threads"] == 1), "{forked:#?}");
}

#[test]
fn processes_of_another_user_go_on() {
    if !is_root("setuid") {
        return;
    }
    let scratch = Scratch::new();
    not_recorded(&scratch, &["user"], "cannot be opened", "/bin/true");
    let forked = processes(&scratch.join("odd.tt"));
    assert!(forked.iter().any(|p| p["exit_code"] == 7 && p["threads"] == 1), "{forked:#?}");
}

#[test]
fn a_program_may_preload_into_its_children() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let library = stress::library(Compiler::Gcc, "preloaded.c", "-O2");
    let script = format!("LD_PRELOAD={library} sh -c 'echo $LD_PRELOAD; env'; echo $LD_PRELOAD.");
    let command = ["sh".to_owned(), "-c".into(), script];
    let alone = native(&command);
    assert!(alone.stdout_text().starts_with("preloaded\n"), "{alone}");
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let profile = scratch.join("preload.tt");
    let recorded = threadtalk.record(&profile, &[], &words).run();
    let own = |text: String| text.replace("NO_COLOR=1\n", "");
    assert_eq!(own(alone.stdout_text()), own(recorded.stdout_text()), "{recorded}");
    assert_eq!(processes(&profile).len(), 2, "{recorded}");
}

#[test]
fn a_recorder_may_be_recorded() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (outer, inner) = (scratch.join("outer.tt"), scratch.join("inner.tt"));
    let binary = test_support::paths::release().join("threadtalk");
    let family = family();
    let [binary, within, family] = [&binary, &inner, &family].map(|path| path.to_str().unwrap());
    let command = [binary, "record", "--exact", "-o", within, "--", family, "fork"];
    let recorded = threadtalk.record(&outer, &[], &command).run().expect_code(0);
    assert!(recorded.stderr_text().contains("recorded by another recorder"), "{recorded}");
    assert_complete(&inner, 4, &recorded);
    assert!(outer.join("profile.json").exists(), "{recorded}");
}

#[test]
fn more_children_than_there_is_room_for_run_natively() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("many.tt");
    let command = ["sh", "-c", "for i in 1 2 3; do /bin/echo $i; done; (echo 4); /bin/echo 5"];
    let run = threadtalk.record(&profile, &[], &command).env("THREADTALK_CHILDREN", "2");
    let recorded = run.run().expect_code(0);
    assert_eq!(recorded.stdout_text(), "1\n2\n3\n4\n5\n");
    assert_eq!(processes(&profile).len(), 2, "{recorded}");
    let note = "not recorded because there were more than 2 in one recording";
    assert!(recorded.stderr_text().contains(note), "{recorded}");
}

#[test]
fn a_program_that_executes_another_right_after_a_fork_leaves_its_child_whole() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (profile, family) = (scratch.join("exec.tt"), family());
    let script = format!("{0} fork & exec {0} spawn", family.display());
    let recorded = threadtalk.record(&profile, &[], &["sh", "-c", &script]).run().expect_code(0);
    assert_complete(&profile, 4, &recorded);
    let talking: Vec<Value> =
        processes(&profile).into_iter().filter(|p| p["threads"].as_u64() > Some(1)).collect();
    for process in &talking {
        let path = profile.join(process["profile"].as_str().unwrap());
        let participants = process["threads"].as_u64().unwrap() - 1;
        assert_complete(&path, participants, &recorded);
    }
    assert!(talking.len() >= 2, "{talking:#?}\n{recorded}");
}

#[test]
fn a_child_that_was_killed_is_told_with_its_signal() {
    let script = "import os, signal\n\
        def killed(by):\n\
        \x20   ready, begun = os.pipe()\n\
        \x20   child = os.fork()\n\
        \x20   if child == 0:\n\
        \x20       os.write(begun, b'.')\n\
        \x20       while True: signal.pause()\n\
        \x20   os.read(ready, 1)\n\
        \x20   os.kill(child, by)\n\
        \x20   return child\n\
        os.waitpid(killed(signal.SIGKILL), 0)\n\
        os.waitid(os.P_PID, killed(signal.SIGTERM), os.WEXITED)\n\
        child = os.fork()\n\
        if child == 0: os._exit(5)\n\
        os.waitpid(child, 0)\n";
    let python = "/usr/bin/python3";
    if probe::command(python).is_none() {
        return probe::skip(python, "not installed");
    }
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("killed.tt");
    let recorded = threadtalk.record(&profile, &[], &[python, "-c", script]).run().expect_code(0);
    let ends: Vec<_> = processes(&profile)
        .iter()
        .map(|p| (p["exit_code"].as_i64(), p["exit_signal"].as_i64()))
        .collect();
    assert_eq!(ends, [(None, Some(9)), (None, Some(15)), (Some(5), None)], "{recorded}");
}

/// The processes of a script that runs a command twelve times, recorded with these options; `true`
/// for those that ran natively because others of the program had been alone.
fn of_a_script(options: &[&str], command: &str) -> Vec<bool> {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("script.tt");
    let script = format!("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do {command} >/dev/null; done");
    let mut record = threadtalk.verb("record");
    record = record.args(options).arg("-o").arg(&profile).args(["--", "sh", "-c", &script]);
    record.run().expect_code(0);
    let is_left = |process: &Value| process["unrecorded"]["code"] == "lone";
    processes(&profile).iter().map(is_left).collect()
}

#[test]
fn a_program_that_is_always_alone_is_recorded_eight_times_within_a_budget() {
    let left = of_a_script(&["--budget", "2x"], "/bin/cat /dev/null");
    assert_eq!(left, [[false; 8].as_slice(), &[true; 4]].concat());
    assert_eq!(of_a_script(&["--exact"], "/bin/cat /dev/null"), [false; 12]);
    assert_eq!(of_a_script(&["--duty", "20%"], "/bin/cat /dev/null"), [false; 12]);
}

#[test]
fn programs_with_threads_or_shared_memory_and_scripts_are_always_recorded() {
    let threads = format!("{} pattern ring 4 4 256 64", family().display());
    let forks = format!("{} fork", family().display());
    for command in [&threads, &forks, "/bin/sh -c :"] {
        let left = of_a_script(&["--budget", "2x"], command);
        assert!(left.len() >= 12 && !left.contains(&true), "{command}: {left:?}");
    }
}
