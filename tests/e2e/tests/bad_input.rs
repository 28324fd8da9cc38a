//! Everything that cannot work: the right exit code, one clear sentence that names what to do,
//! nothing lost and nothing left behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use test_support::run::{children, wait_until};
use test_support::threadtalk::{left_in_shared_memory, own_sentence};
use test_support::{Compiler, ControlGroup, Outcome, Run, Scratch, Target, Threadtalk, probe};

/// Asserts a refusal: exit `code`, one sentence of ours that holds all `words`, nothing left.
#[track_caller]
fn refused(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.exit_code, Some(code), "{outcome}");
    assert!(outcome.stdout.is_empty(), "something was printed on standard output\n{outcome}");
    let sentence = own_sentence(outcome).to_lowercase();
    for word in words {
        assert!(sentence.contains(&word.to_lowercase()), "'{word}' is not in: {sentence}");
    }
    assert!(!outcome.stderr_text().contains("panicked"), "{outcome}");
    assert!(!outcome.left_processes, "{outcome}");
    assert_eq!(left_in_shared_memory(), Vec::<PathBuf>::new());
}

fn executable(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A small dynamic program: prints a line, starts one thread, returns 0.
fn small_program() -> PathBuf {
    e2e::stress::program("close_fds")
}

/// Records `command`, which must be refused before anything is written.
#[track_caller]
fn record_refused(scratch: &Scratch, command: &str, code: i32, words: &[&str]) {
    let profile = scratch.join("refused.tt");
    let outcome = Threadtalk::built().record(&profile, &[], &[command]).run();
    refused(&outcome, code, words);
    assert!(!profile.exists(), "a profile was left behind");
}

mod programs {
    use super::*;

    #[test]
    fn missing() {
        let scratch = Scratch::new();
        record_refused(&scratch, "/nonexistent/program", 127, &["/nonexistent/program"]);
        record_refused(&scratch, "no-such-program-here", 127, &["no-such-program-here"]);
    }

    #[test]
    fn not_executable() {
        let scratch = Scratch::new();
        let file = scratch.join("data");
        std::fs::write(&file, "hello").unwrap();
        record_refused(&scratch, file.to_str().unwrap(), 126, &["data", "execut"]);
        record_refused(&scratch, scratch.path().to_str().unwrap(), 126, &[]);
    }

    #[test]
    fn not_an_elf_file() {
        let scratch = Scratch::new();
        let file = scratch.join("text");
        executable(&file, b"just some text\n");
        record_refused(&scratch, file.to_str().unwrap(), 126, &["text", "ELF"]);
        executable(&file, b"");
        record_refused(&scratch, file.to_str().unwrap(), 126, &["text", "ELF"]);
        executable(&file, b"\x7fELF");
        record_refused(&scratch, file.to_str().unwrap(), 126, &["text", "ELF"]);
    }

    #[test]
    fn statically_linked() {
        let scratch = Scratch::new();
        let target = Target::new(Compiler::Gcc, "tests/programs/stress/close_fds.c");
        let binary = target.flags(&["-static", "-pthread"]).build().unwrap();
        let words = ["static", "or sample it with 'threadtalk record --sample'"];
        record_refused(&scratch, binary.to_str().unwrap(), 125, &words);
    }

    /// They would refuse by themselves, in words that say nothing of what to do.
    #[test]
    fn with_sanitizers() {
        let built = |flag: &str| {
            let program = Target::new(Compiler::Gcc, "tests/programs/known/talkers.c");
            program.flags(&["-O1", "-g", "-pthread", flag]).build()
        };
        let scratch = Scratch::new();
        for (flag, words) in [
            ("-fsanitize=thread", ["ThreadSanitizer", "--sample"]),
            ("-fsanitize=address", ["ASAN_OPTIONS=verify_asan_link_order=0", "--sample"]),
        ] {
            match built(flag) {
                Ok(program) => record_refused(&scratch, program.to_str().unwrap(), 125, &words),
                Err(error) => probe::skip(flag, &format!("gcc has no library for it: {error}")),
            }
        }
        // What the sentence tells to do works.
        if let Ok(program) = built("-fsanitize=address") {
            let profile = scratch.join("address.tt");
            let command = [program.to_str().unwrap(), "1", "100", "same"];
            let run = Threadtalk::built().record(&profile, &[], &command);
            let outcome = run.env("ASAN_OPTIONS", "verify_asan_link_order=0").run();
            assert_eq!(outcome.expect_code(0).stdout_text(), "ready\ndone\n");
            assert!(profile.exists());
        }
    }

    #[test]
    fn of_32_bits() {
        let scratch = Scratch::new();
        let mut bytes = std::fs::read(small_program()).unwrap();
        (bytes[4], bytes[18], bytes[19]) = (1, 3, 0); // ELFCLASS32, EM_386
        let file = scratch.join("small");
        executable(&file, &bytes);
        record_refused(&scratch, file.to_str().unwrap(), 125, &["32-bit"]);
    }

    #[test]
    fn of_another_processor() {
        let scratch = Scratch::new();
        let mut bytes = std::fs::read(small_program()).unwrap();
        (bytes[18], bytes[19]) = (183, 0); // EM_AARCH64
        let file = scratch.join("other");
        executable(&file, &bytes);
        record_refused(&scratch, file.to_str().unwrap(), 125, &["x86-64"]);
    }

    #[test]
    fn setuid() {
        if !probe::is_root() {
            return probe::skip("a setuid program", "only root can make one of another user's");
        }
        let scratch = Scratch::new();
        let file = scratch.join("privileged");
        std::fs::copy(small_program(), &file).unwrap();
        std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o4755)).unwrap();
        record_refused(&scratch, file.to_str().unwrap(), 125, &["setuid"]);
    }

    #[test]
    fn one_that_wants_what_cannot_be_is_told_so_and_goes_on() {
        let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
        let command = e2e::stress::command("asks_for_more", &[]);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let recorded =
            threadtalk.record(&scratch.join("asks.tt"), &[], &words).run().expect_code(0);
        let answers =
            "a shadow stack: Operation not supported\ndispatch: Invalid argument\n200000\n";
        assert_eq!(recorded.stdout_text(), answers, "{recorded}");
    }

    #[test]
    fn one_that_starts_no_threads_is_recorded_with_a_warning() {
        let scratch = Scratch::new();
        let profile = scratch.join("true.tt");
        Threadtalk::built().record(&profile, &[], &["true"]).run().expect_code(0);
        let json = test_support::threadtalk::profile_json(&profile);
        assert_eq!(json["totals"]["threads"], 1, "{json}");
        assert_eq!(json["warnings"], serde_json::json!([{"code": "one-thread"}]), "{json}");
    }
}

mod outputs {
    use super::*;

    #[test]
    fn an_existing_profile_is_refused_before_the_program_runs() {
        let scratch = Scratch::new();
        let (profile, witness) = (scratch.join("kept.tt"), scratch.join("witness"));
        let threadtalk = Threadtalk::built();
        threadtalk.record(&profile, &[], &["true"]).run().expect_code(0);
        let touch = ["touch", witness.to_str().unwrap()];
        let outcome = threadtalk.record(&profile, &[], &touch).run();
        refused(&outcome, 125, &["kept.tt", "--force"]);
        assert!(!witness.exists(), "the program ran");
        threadtalk.record(&profile, &["--force"], &touch).run().expect_code(0);
        assert!(witness.exists());
    }

    #[test]
    fn what_is_no_profile_is_not_replaced_even_by_force() {
        let scratch = Scratch::new();
        let folder = scratch.join("mine");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("thesis.txt"), "years of work").unwrap();
        let outcome = Threadtalk::built().record(&folder, &["--force"], &["true"]).run();
        assert_eq!(outcome.exit_code, Some(125), "{outcome}");
        assert_eq!(std::fs::read(folder.join("thesis.txt")).unwrap(), b"years of work");
    }

    #[test]
    fn a_folder_that_cannot_be_written() {
        let outcome = Threadtalk::built().record(Path::new("/proc/x.tt"), &[], &["true"]).run();
        refused(&outcome, 125, &["/proc"]);
    }

    #[test]
    fn no_permission() {
        if !probe::is_root() {
            return probe::skip("no permission", "the test changes its user, which needs root");
        }
        let scratch = Scratch::new();
        let profile = scratch.join("x.tt");
        let binary = test_support::paths::release().join("threadtalk");
        let outcome = Run::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(binary)
            .args(["record", "--exact", "-o"])
            .arg(&profile)
            .args(["--", "true"])
            .run();
        refused(&outcome, 125, &["permission", "no_permission"]);
    }

    #[test]
    fn without_address_space_for_the_shadow() {
        let scratch = Scratch::new();
        let command = e2e::stress::command("fills_memory", &["1"]);
        let binary = test_support::paths::release().join("threadtalk");
        let script = format!(
            "ulimit -v 8000000; exec {} record --exact -o {} -- {}",
            binary.display(),
            scratch.join("x.tt").display(),
            command.join(" ")
        );
        let outcome = Run::new("sh").args(["-c", &script]).run();
        assert_eq!(
            outcome.stdout_text(),
            "done\n",
            "the program has not run to its end\n{outcome}"
        );
        assert_eq!(outcome.exit_code, Some(125), "{outcome}");
        for word in ["no room for the shadow memory", "ulimit -v"] {
            assert!(own_sentence(&outcome).contains(word), "{outcome}");
        }
        assert!(!scratch.join("x.tt").exists(), "a profile was left\n{outcome}");
    }

    /// Where the program's memory has just room and the shadow has not: the kernel ends the
    /// program, what was recorded until then stays, and the report says what has happened.
    #[test]
    fn without_memory_for_the_shadow() {
        const MIB: u64 = 60;
        let scratch = Scratch::new();
        let Some(group) = ControlGroup::create("memory").filter(|g| g.limit((MIB + 20) << 20))
        else {
            return probe::skip("no memory", "no control group may be made here");
        };
        let command = e2e::stress::command("fills_memory", &[&MIB.to_string()]).join(" ");
        let alone = Run::new("sh").args(["-c", &group.script(&command)]).run().expect_code(0);
        assert_eq!(alone.stdout_text(), "done\n");
        let profile = scratch.join("x.tt");
        let record = format!(
            "{} record --exact -o {} -- {command}",
            test_support::paths::release().join("threadtalk").display(),
            profile.display()
        );
        let outcome = Run::new("sh").args(["-c", &group.script(&record)]).run();
        let threads =
            test_support::threadtalk::profile_json(&profile)["totals"]["threads"].as_u64();
        match outcome.exit_code {
            // With swap space there is room.
            Some(0) => assert_eq!((outcome.stdout_text().as_str(), threads), ("done\n", Some(4))),
            _ => {
                assert_eq!(outcome.exit_code, Some(128 + 9), "{outcome}");
                assert!(outcome.stderr_text().contains("killed by SIGKILL"), "{outcome}");
                assert!(threads >= Some(2), "{outcome}");
            }
        }
    }

    #[test]
    fn a_full_disk() {
        let scratch = Scratch::new();
        let disk = scratch.join("disk");
        std::fs::create_dir(&disk).unwrap();
        let mount = Run::new("mount").args(["-t", "tmpfs", "-o", "size=8k", "none"]).arg(&disk);
        if mount.run().exit_code != Some(0) {
            return probe::skip("a full disk", "mounting a small one is not allowed here");
        }
        let profile = disk.join("x.tt");
        let outcome = Threadtalk::built().record(&profile, &[], &["true"]).run();
        let left: Vec<_> = std::fs::read_dir(&disk).unwrap().flatten().map(|e| e.path()).collect();
        Run::new("umount").arg(&disk).run().expect_code(0);
        refused(&outcome, 125, &["space"]);
        assert_eq!(left, Vec::<PathBuf>::new(), "a partial profile was left");
    }

    #[test]
    fn without_proc() {
        let threadtalk = test_support::paths::release().join("threadtalk");
        let script = |rest: &str| format!("umount -l /proc && {rest}");
        let hidden = |rest: &str| Run::new("unshare").args(["-m", "sh", "-c", &script(rest)]).run();
        if hidden("true").exit_code != Some(0) {
            return probe::skip("without /proc", "unmounting it is not allowed here");
        }
        let scratch = Scratch::new();
        let record = format!(
            "exec {} record -o {} -- true",
            threadtalk.display(),
            scratch.join("x.tt").display()
        );
        refused(&hidden(&record), 125, &["mount -t proc"]);
    }

    /// The signal comes while we try whether the folder takes a profile.
    #[test]
    fn an_interruption_before_the_start_leaves_nothing() {
        let library = Target::new(Compiler::Gcc, "tests/programs/stress/interrupted.c");
        let library = library.flags(&["-O2", "-shared", "-fPIC"]).build().unwrap();
        let scratch = Scratch::new();
        let profile = scratch.join("x.tt");
        let run = Threadtalk::built().record(&profile, &[], &["true"]);
        let outcome = run.env("LD_PRELOAD", library.as_os_str()).run();
        assert_eq!(outcome.signal, Some(15), "{outcome}");
        let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn an_export_to_a_full_disk() {
        let scratch = Scratch::new();
        let profile = scratch.join("x.tt");
        let threadtalk = Threadtalk::built();
        threadtalk.record(&profile, &[], &["true"]).run().expect_code(0);
        let script = format!(
            "exec {} export {} matrix --format csv > /dev/full",
            test_support::paths::release().join("threadtalk").display(),
            profile.display()
        );
        refused(&Run::new("sh").args(["-c", &script]).run(), 125, &["space"]);
    }

    #[test]
    fn a_reader_that_goes_away_ends_an_export_quietly() {
        let scratch = Scratch::new();
        let profile = scratch.join("x.tt");
        let threadtalk = Threadtalk::built();
        let binary = e2e::known::Runtime::Pthreads.target(&["-O2"]).build().unwrap();
        let command = [binary.to_str().unwrap(), "all-to-all", "200", "1", "4", "64"];
        threadtalk.record(&profile, &[], &command).run().expect_code(0);
        let script = format!(
            "{} export {} matrix --format csv | head -n 1 | wc -l",
            test_support::paths::release().join("threadtalk").display(),
            profile.display()
        );
        let outcome = Run::new("bash").args(["-o", "pipefail", "-c", &script]).run();
        assert_eq!(outcome.stdout_text().trim(), "1", "{outcome}");
        // On a busy machine it says after a while what it is doing.
        let is_progress = |line: &str| line.starts_with("threadtalk: reading ");
        assert!(outcome.stderr_text().lines().all(is_progress), "{outcome}");
    }
}

mod files {
    use super::*;

    /// `threadtalk place INPUT OPTIONS` on a file of this content.
    fn place(scratch: &Scratch, content: &str, options: &[&str]) -> Outcome {
        let input = scratch.join("matrix.csv");
        std::fs::write(&input, content).unwrap();
        Threadtalk::built().verb("place").arg(&input).args(options).run()
    }

    #[test]
    fn matrices() {
        let scratch = Scratch::new();
        refused(&place(&scratch, "", &[]), 125, &["matrix.csv", "empty"]);
        refused(&place(&scratch, "0,1\n1\n", &[]), 125, &["matrix.csv", "line 2"]);
        refused(&place(&scratch, "0,1,2\n1,0,2\n", &[]), 125, &["matrix.csv", "square"]);
        refused(&place(&scratch, "0,-1\n1,0\n", &[]), 125, &["matrix.csv", "-1", "line 1"]);
        refused(&place(&scratch, "0,x\n1,0\n", &[]), 125, &["matrix.csv", "x", "line 1"]);
        refused(&place(&scratch, "0,1.5\n1,0\n", &[]), 125, &["matrix.csv", "1.5"]);
        let huge = "0,99999999999999999999999\n1,0\n";
        refused(&place(&scratch, huge, &[]), 125, &["matrix.csv", "count"]);
        let missing = Threadtalk::built().verb("place").arg("/nonexistent.csv").run();
        refused(&missing, 125, &["/nonexistent.csv"]);
    }

    #[test]
    fn machines() {
        let scratch = Scratch::new();
        let xml = scratch.join("machine.xml");
        let on = ["--on", xml.to_str().unwrap()];
        std::fs::write(&xml, "<topology><object").unwrap();
        refused(&place(&scratch, "0,1\n1,0\n", &on), 125, &["machine.xml"]);
        refused(&Threadtalk::built().verb("topo").args(on).run(), 125, &["machine.xml"]);
        std::fs::write(&xml, "").unwrap();
        refused(&Threadtalk::built().verb("topo").args(on).run(), 125, &["machine.xml"]);
        std::fs::remove_file(&xml).unwrap();
        refused(&Threadtalk::built().verb("topo").args(on).run(), 125, &["machine.xml"]);
    }

    #[test]
    fn policies_and_costs() {
        let scratch = Scratch::new();
        let policy = place(&scratch, "0,1\n1,0\n", &["--policy", "localty"]);
        assert_eq!(policy.exit_code, Some(125), "{policy}");
        assert!(policy.stderr_text().contains("locality"), "no suggestion\n{policy}");
        let machine = ["--on", "pack:2 core:2 pu:2", "--costs"];
        let costs = |text| place(&scratch, "0,1\n1,0\n", &[&machine[..], &[text]].concat());
        refused(&costs("1,2"), 125, &["3"]);
        refused(&costs("180,50,10,1"), 125, &["3"]);
    }

    #[test]
    fn profiles() {
        let scratch = Scratch::new();
        let (profile, threadtalk) = (scratch.join("p.tt"), Threadtalk::built());
        let report = || threadtalk.verb("report").arg(&profile).run();
        refused(&report(), 125, &["p.tt"]);
        threadtalk.record(&profile, &[], &["true"]).run().expect_code(0);
        report().expect_code(0);
        let json = profile.join("profile.json");
        let text = std::fs::read_to_string(&json).unwrap();
        let newer = text.replacen("\"schema_version\": ", "\"schema_version\": 999", 1);
        assert_ne!(newer, text);
        std::fs::write(&json, newer).unwrap();
        refused(&report(), 125, &["999", "update"]);
        std::fs::write(&json, &text[..text.len() / 2]).unwrap();
        refused(&report(), 125, &["profile.json"]);
        std::fs::write(&json, &text).unwrap();
        std::fs::write(profile.join("threads.parquet"), "PAR1").unwrap();
        refused(&report(), 125, &["threads.parquet"]);
        std::fs::remove_file(profile.join("threads.parquet")).unwrap();
        refused(&report(), 125, &["threads.parquet"]);
    }

    #[test]
    fn plans() {
        let scratch = Scratch::new();
        let (plan, threadtalk) = (scratch.join("plan.json"), Threadtalk::built());
        let run = || threadtalk.verb("run").arg("--plan").arg(&plan).args(["--", "true"]).run();
        refused(&run(), 125, &["plan.json"]);
        std::fs::write(&plan, "{").unwrap();
        refused(&run(), 125, &["plan.json"]);
        // A plan for a machine that has far more processing units than this one.
        let machine = ["--on", "pack:8 core:64 pu:8", "--policy", "scatter"];
        let options = [&machine[..], &["-o", plan.to_str().unwrap(), "--force"]].concat();
        place(&scratch, "0,1,1\n1,0,1\n1,1,0\n", &options).expect_code(0);
        // The program runs all the same, and nothing is bound.
        let json = scratch.join("run.json");
        let run = threadtalk.verb("run").arg("--plan").arg(&plan).arg("-o").arg(&json);
        let outcome = run.args(["--", "sh", "-c", "echo runs; exit 3"]).run().expect_code(3);
        assert_eq!(outcome.stdout_text(), "runs\n");
        for word in ["PU P#", "does not have", "the program runs without it"] {
            assert!(outcome.stderr_text().contains(word), "{word}: {outcome}");
        }
        let told = std::fs::read_to_string(&json).unwrap();
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert!(told["not_bound_because"].as_str().unwrap().contains("does not have"), "{told}");
    }
}

#[test]
fn wrong_arguments() {
    for arguments in [&["record"][..], &["record", "--nonsense"], &["frobnicate"], &[]] {
        let binary = test_support::paths::release().join("threadtalk");
        let outcome = Run::new(binary).args(arguments).run().expect_code(125);
        assert!(outcome.stderr_text().contains("Usage"), "{outcome}");
    }
}

mod interruptions {
    use super::*;
    use std::time::{Duration, Instant};

    /// Waits until the process that `parent` has started has got into its work: by the processor
    /// time that it has used, since on a busy machine no other time says how far it is.
    fn wait_for_child(parent: u32) {
        let deadline = Instant::now() + Duration::from_secs(40);
        while Instant::now() < deadline {
            let busy = |pid: &str| ticks_used(pid).is_some_and(|ticks| ticks >= 60);
            if children(parent).split_whitespace().any(busy) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no child appeared, or it does not work");
    }

    /// Processor time of a process, in hundredths of a second.
    fn ticks_used(pid: &str) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name: state, …; user and system time are the fields 14 and 15.
        let mut fields = stat[stat.rfind(')')? + 2..].split(' ').skip(11);
        Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
    }

    #[track_caller]
    fn interrupted_by(signal: &str, to_group: bool, code: i32) {
        let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
        let profile = scratch.join("interrupted.tt");
        let binary = e2e::known::Runtime::Pthreads.target(&["-O2"]).build().unwrap();
        // Far more rounds than can be done in the time.
        let command = [binary.to_str().unwrap(), "ring", "4", "1000000", "1024", "64"];
        let record =
            threadtalk.record_endless(&profile, &[], &command).timeout(Duration::from_secs(60));
        let outcome = record.run_meanwhile(|pid| {
            wait_for_child(pid);
            let target = if to_group { format!("-{pid}") } else { pid.to_string() };
            Run::new("kill").args([signal, "--", &target]).run().expect_code(0);
        });
        assert_eq!(outcome.exit_code, Some(code), "{outcome}");
        assert!(!outcome.left_processes, "{outcome}");
        assert_eq!(left_in_shared_memory(), Vec::<PathBuf>::new());
        let matrix = threadtalk.matrix(&profile, "raw");
        assert!(matrix.get(1, 2) > 16384, "the profile holds too little\n{outcome}");
    }

    #[test]
    fn ctrl_c() {
        interrupted_by("-INT", true, 130);
    }

    #[test]
    fn a_signal_to_threadtalk_alone() {
        interrupted_by("-TERM", false, 143);
        interrupted_by("-INT", false, 130);
        interrupted_by("-HUP", false, 129);
    }

    /// What was recorded is not kept, so there is nothing to wait for.
    #[test]
    fn a_simulation_ends_when_it_is_asked_to() {
        let threadtalk = Threadtalk::built();
        let binary = e2e::known::Runtime::Pthreads.target(&["-O2"]).build().unwrap();
        let machine = "pack:2 numa:1(memory=1GiB) l3:1(size=8MiB) core:4 l2:1(size=256KiB) \
                       l1d:1(size=32KiB) pu:1";
        // Far more repetitions than can be done in the time.
        let simulate = threadtalk
            .verb("simulate")
            .args(["--on", machine, "--repeat", "1000", "--"])
            .arg(binary)
            .args(["pairs", "4", "400", "256", "64"])
            .timeout(Duration::from_secs(60));
        let outcome = simulate.run_meanwhile(|pid| {
            let used = || ticks_used(&pid.to_string()).unwrap_or(u64::MAX);
            let alone = || children(pid).trim().is_empty();
            wait_until("the program to begin", || !alone());
            wait_until("the program to end", alone);
            let before = used();
            wait_until("the simulation to work", || used() >= before.saturating_add(50));
            Run::new("kill").args(["-INT", &pid.to_string()]).run().expect_code(0);
        });
        const SIGINT: i32 = 2;
        assert_eq!(outcome.signal, Some(SIGINT), "{outcome}");
    }

    #[test]
    fn a_closed_pipe_ends_the_program_as_it_would_alone() {
        let scratch = Scratch::new();
        let profile = scratch.join("pipe.tt");
        let script = format!(
            "{} record --exact -o {} -- seq 1 10000000 | head -n 1; exit ${{PIPESTATUS[0]}}",
            test_support::paths::release().join("threadtalk").display(),
            profile.display()
        );
        let outcome = Run::new("bash").args(["-c", &script]).run().expect_code(141);
        assert_eq!(outcome.stdout, b"1\n");
        assert!(profile.join("profile.json").exists(), "{outcome}");
    }
}
