//! Recording by sampling: what is found of programs with known communication, and running programs
//! that are attached to, left, and notice nothing.
//!
//! Amounts are estimates and the machine may be busy, so these tests look at who talks to whom, at
//! true and false sharing, and at what becomes of the program.

use e2e::sampling::{
    Beside, attach, can_sample, note, noted, refused, sample, signal, talkers, talkers_with, total,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use test_support::threadtalk::profile_json;
use test_support::{Compiler, Run, Scratch, Target, Threadtalk, probe};

/// Asserts that exactly the threads of each pair talk, in both directions together.
#[track_caller]
fn only_pairs_talk(profile: &Path, pairs: usize) {
    for kind in ["raw", "waw"] {
        let matrix = Threadtalk::built().matrix(profile, kind);
        for a in 1..=2 * pairs {
            for b in a + 1..=2 * pairs {
                let talk = matrix.get(a, b) + matrix.get(b, a);
                let is_pair = a % 2 == 1 && b == a + 1;
                assert_eq!(talk > 0, is_pair, "{kind} T{a}, T{b}: {talk}");
            }
        }
    }
}

#[test]
fn pairs_are_found_and_what_they_share() {
    if !can_sample("pairs") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    for (how, truly) in [("same", true), ("apart", false)] {
        let profile = scratch.join(how);
        let outcome = sample(&profile, &[], &[program.to_str().unwrap(), "2", "2500", how]);
        let outcome = outcome.expect_code(0);
        assert_eq!(outcome.stdout_text(), "ready\ndone\n");
        only_pairs_talk(&profile, 2);
        let json = profile_json(&profile);
        let [right, wrong] =
            if truly { ["raw_true", "raw_false"] } else { ["raw_false", "raw_true"] };
        assert!(total(&json, right) > 0 && total(&json, wrong) == 0, "{how}: {}", json["totals"]);
        assert_eq!(json["mode"], "sampled");
        assert_eq!((total(&json, "threads"), total(&json, "loads")), (5, 0));
        let sampled = &json["sampled"];
        assert!(sampled["hits"].as_u64().unwrap() > 0, "{sampled}");
        let decoded = sampled["decoded"].as_f64().unwrap() / sampled["samples"].as_f64().unwrap();
        assert!(decoded > 0.65, "{sampled}");
        // The line has a name, and so has the code.
        let lines = export(&profile, "lines");
        assert!(lines.contains("lines+0x0..0x40 (talkers"), "{lines}");
        let objects = export(&profile, "objects");
        assert!(objects.contains("static,lines (talkers"), "{objects}");
        let sites = export(&profile, "sites");
        assert!(sites.contains(",talk,") && sites.contains("talkers.c,"), "{sites}");
    }
}

fn export(profile: &Path, what: &str) -> String {
    let outcome = Threadtalk::built().verb("export").arg(profile).arg(what).run();
    outcome.expect_code(0).stdout_text()
}

#[test]
fn estimates_lie_in_their_intervals() {
    if !can_sample("intervals") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    let profile = scratch.join("one.tt");
    // All but single events that have certainly happened have an interval. Where others keep the
    // machine busy, the two may never run at the same time in a short run.
    let has_intervals = |milliseconds: &str| {
        let command = [program.to_str().unwrap(), "1", milliseconds, "same"];
        let options = ["--slice", "500ms", "--transfer-ns", "100", "--force"];
        sample(&profile, &options, &command).expect_code(0);
        let rows = export(&profile, "comm");
        let rows: Vec<Vec<&str>> =
            rows.lines().skip(1).map(|row| row.trim().split(',').collect()).collect();
        let number = |row: &Vec<&str>, column: usize| row[column].parse::<u64>().unwrap();
        assert!(rows.len() >= 4, "{rows:?}");
        for row in &rows {
            let [count, hits, low, high] = [5, 6, 7, 8].map(|column| number(row, column));
            assert!(hits >= 1 && low <= count && count <= high, "{row:?}");
        }
        rows.iter().any(|row| number(row, 7) < number(row, 8))
    };
    let found = ["1500", "3000", "6000", "12000"].into_iter().any(has_intervals);
    assert!(found, "{}", export(&profile, "comm"));
    let basis = &profile_json(&profile)["sampled"]["basis"];
    assert!(
        basis["by"] == "counters" || basis["source"] == "given" || basis["by"] == "period",
        "{basis}"
    );
    let report = Threadtalk::built().verb("report").arg(&profile).run().expect_code(0);
    let text = report.stdout_text();
    assert!(text.contains("95 % interval") && !text.contains("loads"), "{text}");
    // Threads are placed by estimates as by counts.
    Threadtalk::built().verb("place").arg(&profile).run().expect_code(0);
}

#[test]
fn nothing_is_found_where_nothing_is_shared() {
    if !can_sample("nothing shared") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    let profile = scratch.join("alone.tt");
    sample(&profile, &[], &[program.to_str().unwrap(), "2", "1500", "alone"]).expect_code(0);
    let json = profile_json(&profile);
    // All read one flag, which is written once: at most that.
    assert!(total(&json, "raw") + total(&json, "waw") <= 4, "{}", json["totals"]);
    // Where transfers themselves are sampled, there is nothing to sample.
    let sampled = &json["sampled"];
    let enough = sampled["samples"].as_u64().unwrap() > 100;
    assert!(enough || sampled["basis"]["by"] == "counters", "{sampled}");
}

#[test]
fn output_and_status_are_the_programs_own() {
    if !can_sample("status") {
        return;
    }
    let scratch = Scratch::new();
    let run = |name: &str, script: &str| sample(&scratch.join(name), &[], &["sh", "-c", script]);
    let outcome = run("seven.tt", "echo out; echo err >&2; exit 7").expect_code(7);
    assert_eq!(outcome.stdout_text(), "out\n");
    assert!(outcome.stderr_text().starts_with("err\n"), "{outcome}");
    let outcome = run("killed.tt", "kill -9 $$").expect_code(137);
    assert!(outcome.stderr_text().contains("killed by SIGKILL"), "{outcome}");
    assert_eq!(profile_json(&scratch.join("killed.tt"))["exit_signal"], 9);
}

#[test]
fn children_have_profiles_of_their_own() {
    if !can_sample("children") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    let profile = scratch.join("children.tt");
    let script = format!("{0} 1 800 same; {0} 1 800 apart; true", program.display());
    sample(&profile, &[], &["sh", "-c", &script]).expect_code(0);
    let json = profile_json(&profile);
    let rows = json["processes"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (row, sharing) in rows.iter().zip(["raw_true", "raw_false"]) {
        assert_eq!((row["parent"].as_u64(), row["threads"].as_u64()), (Some(0), Some(3)), "{row}");
        let child = profile_json(&profile.join(row["profile"].as_str().unwrap()));
        assert!(total(&child, sharing) > 0, "{}", child["totals"]);
        assert_eq!(total(&child, sharing), total(&child, "raw"), "{}", child["totals"]);
    }
    let profile = scratch.join("first.tt");
    sample(&profile, &["--no-follow"], &["sh", "-c", &script]).expect_code(0);
    assert_eq!(profile_json(&profile)["processes"].as_array().unwrap().len(), 0);
}

#[test]
fn a_running_program_is_sampled_and_goes_on() {
    if !can_sample("attach") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    let mut beside = Beside::start(&program, &["2", "600000", "same"]);
    let profile = scratch.join("attached.tt");
    attach(&profile, beside.pid(), &["--duration", "2s"]).run().expect_code(0);
    only_pairs_talk(&profile, 2);
    let json = profile_json(&profile);
    assert_eq!(
        (&json["sampled"]["attached"], &json["exit_code"]),
        (&Value::Bool(true), &Value::Null)
    );
    assert_eq!(json["command"][1], "2");
    assert!(beside.runs());

    // Ctrl-C ends the sampling and keeps what there is.
    let profile = scratch.join("interrupted.tt");
    let run = attach(&profile, beside.pid(), &["--transfer-ns", "100"]);
    let outcome = run.run_meanwhile(|pid| {
        std::thread::sleep(Duration::from_millis(4000));
        signal(pid, "INT");
    });
    let outcome = outcome.expect_code(0);
    assert!(outcome.stderr_text().contains("Sampling was ended by SIGINT"), "{outcome}");
    assert_eq!(total(&profile_json(&profile), "threads"), 5);
    assert!(beside.runs());
}

/// Asserts that the profile names function and line of the code that talks, and the data.
#[track_caller]
fn code_is_named(profile: &Path) {
    let sites = export(profile, "sites");
    assert!(sites.contains(",talk,") && sites.contains("talkers.c,"), "{sites}");
    assert!(!sites.contains("(deleted)"), "{sites}");
    let lines = export(profile, "lines");
    assert!(lines.contains("lines+0x"), "{lines}");
    assert_eq!(note(&profile_json(profile), "code-without-names"), None);
}

#[test]
fn what_a_running_program_was_started_from_has_names_when_it_is_deleted_or_replaced() {
    if !can_sample("deleted program") {
        return;
    }
    let scratch = Scratch::new();
    let (before, running) = (scratch.join("before.tt"), scratch.join("talkers"));
    std::fs::copy(talkers(), &running).unwrap();
    let beside = Beside::start(&running, &["1", "600000", "same"]);
    let options = ["--duration", "1s", "--transfer-ns", "100"];
    attach(&before, beside.pid(), &options).run().expect_code(0);
    code_is_named(&before);
    std::fs::remove_file(&running).unwrap();
    let deleted = scratch.join("deleted.tt");
    attach(&deleted, beside.pid(), &options).run().expect_code(0);
    code_is_named(&deleted);
    // Another program under the same name must not lend its names.
    std::fs::copy("/bin/true", &running).unwrap();
    let replaced = scratch.join("replaced.tt");
    attach(&replaced, beside.pid(), &options).run().expect_code(0);
    code_is_named(&replaced);
    assert_eq!(
        export(&before, "sites").lines().count(),
        export(&replaced, "sites").lines().count()
    );
}

/// Asserts that the threads of `talk` are known by it, and that a plan for them binds them all.
#[track_caller]
fn threads_are_recognised(profile: &Path, program: &Path, pairs: usize) {
    let rows = export(profile, "threads");
    let known = rows.lines().filter(|row| row.contains("talkers") && row.contains(",talk,"));
    assert_eq!(known.count(), 2 * pairs, "{rows}");
    let plan = profile.with_extension("json");
    let place = Threadtalk::built().verb("place").arg(profile).arg("-o").arg(&plan);
    place.run().expect_code(0);
    let run = Threadtalk::built().verb("run").arg("--plan").arg(&plan).arg("--").arg(program);
    let outcome = run.args(["2", "300", "same"]).run().expect_code(0);
    let all = 2 * pairs + 1;
    let sentence = format!("{all} of {all} planned threads ran where the plan says");
    assert!(outcome.stderr_text().contains(&sentence), "{outcome}");
}

#[test]
fn sampled_threads_are_known_by_what_they_run_so_plans_bind_them() {
    if !can_sample("start routines") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    let profile = scratch.join("launched.tt");
    let command = [program.to_str().unwrap(), "2", "1500", "same"];
    let fixed = ["--transfer-ns", "100"];
    sample(&profile, &fixed, &command).expect_code(0);
    threads_are_recognised(&profile, &program, 2);
    // Of threads that ran before, it is not known which thread created them.
    if !probe::is_root() {
        return probe::skip(
            "start routines of running programs",
            "reading their memory takes root",
        );
    }
    let beside = Beside::start(&program, &["2", "600000", "same"]);
    let profile = scratch.join("attached.tt");
    let options = ["--duration", "1500ms", "--transfer-ns", "100"];
    attach(&profile, beside.pid(), &options).run().expect_code(0);
    threads_are_recognised(&profile, &program, 2);
}

#[test]
fn what_only_the_program_can_see_has_names() {
    if !can_sample("another mount namespace") {
        return;
    }
    if !probe::is_root() || probe::command("unshare").is_none() {
        return probe::skip("another mount namespace", "needs root and unshare");
    }
    let scratch = Scratch::new();
    // A place that is empty for us, and a memory file system for the program.
    let place = scratch.join("place");
    std::fs::create_dir(&place).unwrap();
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/talkers && exec {0}/talkers 1 600000 apart",
        place.display(),
        talkers().display()
    );
    let beside = Beside::start(Path::new("unshare"), &["-m", "sh", "-c", &script]);
    let profile = scratch.join("inside.tt");
    let options = ["--duration", "1s", "--transfer-ns", "100"];
    attach(&profile, beside.pid(), &options).run().expect_code(0);
    assert!(!place.join("talkers").exists());
    code_is_named(&profile);
}

#[test]
fn a_program_that_dies_is_kept_up_to_then() {
    if !can_sample("killed while attached") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    let mut beside = Beside::start(&program, &["1", "600000", "apart"]);
    let profile = scratch.join("dead.tt");
    let target = beside.pid();
    let outcome = attach(&profile, target, &["--transfer-ns", "100"]).run_meanwhile(|_| {
        std::thread::sleep(Duration::from_millis(4000));
        signal(target, "KILL");
    });
    outcome.expect_code(0);
    assert!(beside.ends(), "the program was not killed");
    let json = profile_json(&profile);
    assert!(total(&json, "raw_false") > 0, "{}", json["totals"]);
}

#[test]
fn another_program_in_the_process_begins_anew() {
    if !can_sample("exec while attached") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    let script = format!("echo ready; sleep 4; exec {} 1 1500 same", program.display());
    let beside = Beside::start(Path::new("/bin/sh"), &["-c", &script]);
    let profile = scratch.join("exec.tt");
    attach(&profile, beside.pid(), &["--transfer-ns", "100"]).run().expect_code(0);
    let json = profile_json(&profile);
    assert_eq!(noted(&json, "program-replaced")["count"], 1);
    assert_eq!(total(&json, "threads"), 3, "{json}");
    only_pairs_talk(&profile, 1);
}

#[test]
fn a_thousand_threads_are_told_apart() {
    if !can_sample("1,024 threads") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers());
    let profile = scratch.join("many.tt");
    let command = [program.to_str().unwrap(), "512", "3000", "rests"];
    sample(&profile, &[], &command).expect_code(0);
    let json = profile_json(&profile);
    assert_eq!(total(&json, "threads"), 1025);
}

#[test]
fn a_static_program_can_be_sampled() {
    if !can_sample("static") {
        return;
    }
    let (scratch, program) = (Scratch::new(), talkers_with(&["-static"]));
    let profile = scratch.join("static.tt");
    sample(&profile, &[], &[program.to_str().unwrap(), "1", "1500", "same"]).expect_code(0);
    only_pairs_talk(&profile, 1);
}

#[test]
fn what_cannot_be_attached_to_is_refused() {
    if !can_sample("refusals") {
        return;
    }
    let scratch = Scratch::new();
    let profile = scratch.join("refused.tt");
    let run = |pid| attach(&profile, pid, &["--duration", "1s"]).run();
    refused(&run(4_000_000_000), &profile, &["there is no process 4000000000"]);
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        refused(&run(2), &profile, &["process 2 is a thread of the kernel"]);
    }
    let threadtalk = test_support::paths::release().join("threadtalk");
    let script = format!(
        "exec {} record --pid $$ -o {} --duration 1s",
        threadtalk.display(),
        profile.display()
    );
    let own = Run::new("sh").args(["-c", &script]).run();
    refused(&own, &profile, &["is this threadtalk itself"]);
}

#[test]
fn a_process_that_is_named_twice_is_sampled_once() {
    if !can_sample("a process named twice") {
        return;
    }
    let scratch = Scratch::new();
    let (profile, beside) =
        (scratch.join("twice.tt"), Beside::start(&talkers(), &["1", "600000", "same"]));
    let pid = beside.pid().to_string();
    let options = ["--pid", &pid, "--duration", "300ms"];
    attach(&profile, beside.pid(), &options).run().expect_code(0);
    let json = profile_json(&profile);
    assert_eq!(json["processes"].as_array().map_or(0, Vec::len), 0, "{json}");
}

/// Two that know nothing of each other: the report is about the one that works, wherever it was
/// named.
#[test]
fn of_processes_that_were_named_none_is_anothers_child() {
    if !can_sample("two processes") {
        return;
    }
    let scratch = Scratch::new();
    let (profile, program) = (scratch.join("two.tt"), talkers());
    let quiet = Beside::start(&program, &["1", "600000", "alone"]);
    let busy = Beside::start(&program, &["1", "600000", "same"]);
    let options = ["--pid", &busy.pid().to_string(), "--duration", "500ms"];
    let said = attach(&profile, quiet.pid(), &options).run().expect_code(0).stderr_text();
    assert!(said.contains("sampled 1 more process; profiles in "), "{said}");
    assert!(!said.contains("child process"), "{said}");
    let report = Threadtalk::built().verb("report").arg(&profile).run().expect_code(0);
    let report = report.stdout_text();
    assert!(report.contains("This is process 1, which "), "{report}");
    assert!(report.contains("Other processes"), "{report}");
}

/// Workers of io_uring belong to the process, but they are none of its threads: no plan could place
/// them.
#[test]
fn workers_of_the_kernel_are_not_listed() {
    if !can_sample("workers of the kernel") {
        return;
    }
    let source = "tests/programs/stress/kernel_workers.c";
    let program = Target::new(Compiler::Gcc, source).flags(&["-O2", "-pthread"]).build().unwrap();
    let scratch = Scratch::new();
    for options in [&[][..], &["--watch"]] {
        let profile = scratch.join("workers.tt");
        let options = [options, &["--force"]].concat();
        let outcome = sample(&profile, &options, &[program.to_str().unwrap()]).expect_code(0);
        match outcome.stdout_text().as_str() {
            "no io_uring\n" => return probe::skip("workers of the kernel", "there is no io_uring"),
            said => assert_eq!(said, "32000 reads\n"),
        }
        let threads = profile_json(&profile)["totals"]["threads"].as_u64();
        assert_eq!(threads, Some(2), "{options:?}");
    }
}

#[test]
fn another_users_process_is_refused() {
    if !probe::is_root() || probe::command("setpriv").is_none() {
        return probe::skip("another user", "needs root and setpriv");
    }
    if !can_sample("another user") {
        return;
    }
    let folder = tempfile_for_all();
    let profile = folder.join("refused.tt");
    let threadtalk = test_support::paths::release().join("threadtalk");
    let beside = Beside::start(Path::new("/bin/sh"), &["-c", "echo ready; exec sleep 600"]);
    let outcome = Run::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&threadtalk)
        .args(["record", "--duration", "1s", "--pid", &beside.pid().to_string(), "-o"])
        .arg(&profile)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .run();
    if outcome.exit_code == Some(126) || outcome.exit_code == Some(127) {
        probe::skip("another user", "the build cannot be reached by other users");
    } else {
        refused(&outcome, &profile, &["belongs to another user"]);
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// A folder that every user may write into.
fn tempfile_for_all() -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("threadtalk-e2e-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    folder
}

#[test]
fn what_belongs_to_exact_recordings_is_refused() {
    let scratch = Scratch::new();
    let profile = scratch.join("refused.tt");
    for option in ["--matrix", "--undirected", "--reference", "--exact", "--no-code-cache"] {
        let outcome = sample(&profile, &[option], &["true"]);
        refused(&outcome, &profile, &["cannot be used with", "--sample"]);
    }
    refused(
        &sample(&profile, &["--rate", "0"], &["true"]),
        &profile,
        &["lies between 1 and 100000"],
    );
    let both = ["--rate", "100", "--budget", "5"];
    refused(&sample(&profile, &both, &["true"]), &profile, &["cannot be used with"]);
    let exact = Threadtalk::built().verb("record").arg("-o").arg(&profile);
    let outcome = exact.args(["--duration", "1s", "--", "true"]).run();
    refused(&outcome, &profile, &["--sample"]);
    let outcome = attach(&profile, 1, &["--", "true"]).run();
    refused(&outcome, &profile, &["cannot be used with"]);
    let missing = sample(&profile, &[], &["/nonexistent/program"]);
    assert_eq!(missing.exit_code, Some(127), "{missing}");
}

#[test]
fn what_cannot_be_watched_says_so() {
    if !can_sample("programs that cannot be watched") {
        return;
    }
    let scratch = Scratch::new();
    let profile = scratch.join("refused.tt");
    let binary = talkers_with(&["-static"]);
    let outcome = sample(&profile, &["--watch"], &[binary.to_str().unwrap(), "100"]);
    refused(&outcome, &profile, &["is statically linked", "without --watch, it can be sampled"]);
    if !probe::is_root() || probe::command("setpriv").is_none() {
        return probe::skip("a program that becomes another user", "needs root and setpriv");
    }
    // The library comes into setpriv, and not into what that executes.
    let profile = scratch.join("other.tt");
    let command =
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "/bin/sleep", "0.1"];
    sample(&profile, &["--watch"], &command).expect_code(0);
    let note = noted(&profile_json(&profile), "not-watched");
    assert_eq!(note["reason"]["code"], "not-loaded");
}
