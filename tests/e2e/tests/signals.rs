//! Signals that are sent to us, and programs when we are gone: signals are the program's, its
//! status is passed on and what was recorded is kept; of us it sees nothing.

use e2e::{assert_unchanged, launch, native, stress};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use test_support::{Run, Scratch, Terminal, Threadtalk, probe};

const PATIENCE: Duration = Duration::from_secs(100);

/// The ways to run a program; each with whether it leaves a profile.
fn verbs(scratch: &Scratch) -> Vec<(Vec<String>, bool)> {
    let plan = scratch.join("plan.json");
    if !plan.exists() {
        launch::plan(&plan, &[0]);
    }
    let profile = profile(scratch).to_string_lossy().into_owned();
    let (plan, kept) = (plan.display(), scratch.join("profile.plan.json"));
    let mut verbs = vec![
        (format!("record --force -o {profile}"), true),
        (format!("run --plan {plan}"), false),
        (format!("tune --force -o {}", kept.display()), true),
    ];
    if can_sample() {
        verbs.push((format!("record --sample --force -o {profile}"), true));
        verbs.push((format!("record --sample --watch --force -o {profile}"), true));
        verbs.push(("calibrate".into(), false));
        verbs.push(("top --interval 50ms".into(), false));
    }
    let words = |line: String| line.split(' ').map(str::to_owned).collect();
    verbs.into_iter().map(|(line, profiled)| (words(line), profiled)).collect()
}

fn profile(scratch: &Scratch) -> PathBuf {
    scratch.join("profile.tt")
}

fn can_sample() -> bool {
    let scratch = Scratch::new();
    let run = Threadtalk::built().verb("record").args(["--sample", "-o"]);
    let outcome = run.arg(scratch.join("p.tt")).args(["--", "sleep", "0.2"]).run();
    if outcome.exit_code == Some(125) {
        probe::skip("signals while sampling", outcome.stderr_text().trim());
    }
    outcome.exit_code == Some(0)
}

/// A command that runs beside the test, with its output in a file; killed at its end.
struct Beside {
    child: Child,
    output: PathBuf,
}

impl Beside {
    fn start(scratch: &Scratch, words: &[String]) -> Self {
        let output = scratch.join("output");
        let file = std::fs::File::create(&output).expect("a file for the output");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
        command.env("XDG_CACHE_HOME", test_support::paths::cache()).env_remove("LD_PRELOAD");
        Self { child: command.spawn().expect("it starts"), output }
    }

    fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it goes on");
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.output).expect("its output")
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(signal: &str, pid: u32) {
    Run::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).run().expect_code(0);
}

fn program(arguments: &[&str]) -> Vec<String> {
    stress::command("signalled", arguments)
}

/// `threadtalk VERB -- PROGRAM`, once the program has made its file.
fn running(scratch: &Scratch, verb: &[String], mode: &str) -> Beside {
    let file = scratch.join("ready");
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_dir_all(profile(scratch));
    let threadtalk = Threadtalk::built().path().to_string_lossy().into_owned();
    let command = program(&[mode, file.to_str().unwrap()]);
    let words = [&[threadtalk], verb, &["--".into()], &command].concat();
    let beside = Beside::start(scratch, &words);
    wait_for("the program starts", || file.exists());
    beside
}

#[test]
fn what_is_sent_to_us_reaches_the_program() {
    let scratch = Scratch::new();
    for (verb, profiled) in verbs(&scratch) {
        println!("{verb:?}");
        let mut beside = running(&scratch, &verb, "waits");
        Run::new(&program(&[])[0])
            .args(["send", &beside.child.id().to_string()])
            .run()
            .expect_code(0);
        let status = beside.end();
        let said = beside.said();
        assert_eq!(status.code(), Some(3), "{status} {said}");
        assert_eq!(said.matches(": 1 times, value 0\n").count(), 15, "{said}");
        assert_eq!(said.matches("40: 1 times, value 1234\n").count(), 1, "{said}");
        assert_eq!(profile(&scratch).join("profile.json").exists(), profiled);
    }
}

#[test]
fn who_dies_of_what_is_sent_to_us_leaves_a_profile() {
    let scratch = Scratch::new();
    for (verb, profiled) in verbs(&scratch) {
        println!("{verb:?}");
        let mut beside = running(&scratch, &verb, "dies");
        kill("USR1", beside.child.id());
        let status = beside.end();
        assert_eq!(status.code(), Some(128 + 10), "{status}");
        assert_eq!(profile(&scratch).join("profile.json").exists(), profiled);
    }
}

/// Who asks for a signal again and again does not ask for an end.
#[test]
fn a_signal_that_comes_often_kills_nobody() {
    let scratch = Scratch::new();
    let file = scratch.join("ready");
    let script = format!(
        "trap 'n=$((n+1)); echo $n' USR2; touch {}; while [ ${{n:-0}} -lt 5 ]; do :; done",
        file.display()
    );
    let threadtalk = Threadtalk::built().path().to_string_lossy().into_owned();
    let path = profile(&scratch);
    let words = [&threadtalk, "record", "-o", path.to_str().unwrap(), "--", "sh", "-c", &script];
    let mut beside = Beside::start(&scratch, &words.map(String::from));
    wait_for("the script starts", || file.exists());
    for count in 1..=5 {
        kill("USR2", beside.child.id());
        wait_for("the signal arrives", || beside.said().lines().count() == count);
    }
    assert_eq!(beside.end().code(), Some(0));
}

#[test]
fn sampling_of_a_running_program_ends_with_a_profile() {
    if !can_sample() {
        return;
    }
    let scratch = Scratch::new();
    let mut sleeper = Beside::start(&scratch, &["sleep".into(), "600".into()]);
    let threadtalk = Threadtalk::built().path().to_string_lossy().into_owned();
    let pid = sleeper.child.id().to_string();
    for signal in ["USR1", "RTMIN"] {
        let path = profile(&scratch);
        let words = [&threadtalk, "record", "--force", "--pid", &pid, "-o", path.to_str().unwrap()];
        let mut beside = Beside::start(&scratch, &words.map(String::from));
        let status = Path::new("/proc").join(beside.child.id().to_string()).join("status");
        let caught = || {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
            u64::from_str_radix(line.unwrap_or("0"), 16).unwrap() >> 9 & 1 != 0
        };
        wait_for("signals are looked after", caught);
        kill(signal, beside.child.id());
        let status = beside.end();
        assert_eq!(status.code(), Some(0), "{signal} {status}");
        assert!(path.join("profile.json").exists());
        assert!(sleeper.child.try_wait().expect("a child").is_none(), "the program has ended");
    }
}

/// One that a wrapper has set before it executed us.
#[test]
fn an_alarm_that_was_set_before_is_the_programs() {
    let scratch = Scratch::new();
    let (file, path) = (scratch.join("ready"), profile(&scratch));
    let threadtalk = Threadtalk::built().path().to_string_lossy().into_owned();
    let words = [&threadtalk, "record", "--force", "-o", path.to_str().unwrap(), "--"];
    let words = words.map(String::from);
    let command = program(&["dies", file.to_str().unwrap()]);
    for seconds in ["2", "10", "50"] {
        let all = [&program(&["alarm", seconds]), &words[..], &command].concat();
        let mut beside = Beside::start(&scratch, &all);
        let status = beside.end();
        // Too early where the program had not begun.
        if file.exists() {
            assert_eq!(status.code(), Some(128 + 14), "{status}");
            assert!(path.join("profile.json").exists());
            return;
        }
    }
    panic!("the program did not start within 50 seconds");
}

/// The kernel tells only the session's leader, which natively would be the program.
#[test]
fn a_program_that_would_lead_the_session_is_told_when_its_terminal_is_closed() {
    let scratch = Scratch::new();
    let (file, path) = (scratch.join("ready"), profile(&scratch));
    let mut command = Command::new(Threadtalk::built().path());
    command.arg("record").arg("-o").arg(&path).arg("--").args(program(&["dies"])).arg(&file);
    command.env("XDG_CACHE_HOME", test_support::paths::cache());
    let mut terminal = Terminal::start(&mut command, true).expect("a terminal");
    wait_for("the program starts", || file.exists());
    terminal.close();
    let status = terminal.end().expect("it ends");
    assert_eq!(status.code(), Some(128 + 1), "{status}");
    assert!(path.join("profile.json").exists());
}

/// As after `nohup`.
#[test]
fn what_we_were_told_to_ignore_the_program_ignores() {
    let scratch = Scratch::new();
    let threadtalk = Threadtalk::built().path().display().to_string();
    let script = "kill -USR1 $$; echo alive";
    let line = format!(
        "trap '' USR1; exec '{threadtalk}' record -o '{}' -- sh -c '{script}'",
        profile(&scratch).display()
    );
    let outcome = Run::new("sh").args(["-c", &line]).run().expect_code(0);
    assert_eq!(outcome.stdout_text(), "alive\n");
}

#[test]
fn when_we_are_killed_the_program_ends() {
    let scratch = Scratch::new();
    for (verb, _) in verbs(&scratch) {
        println!("{verb:?}");
        let mut beside = running(&scratch, &verb, "dies");
        let me = scratch.join("ready").to_string_lossy().into_owned();
        let runs = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let line =
                |p: &std::fs::DirEntry| std::fs::read(p.path().join("cmdline")).unwrap_or_default();
            let mut lines = processes.map(|p| String::from_utf8_lossy(&line(&p)).into_owned());
            // The program, and what else of ours was started with this command line.
            lines.any(|line| line.contains(&me))
        };
        assert!(runs());
        beside.child.kill().expect("it runs");
        beside.end();
        wait_for("the program ends", || !runs());
    }
}

/// The signal for the parent's end is the program's own business.
#[test]
fn the_signal_for_the_parents_end_is_the_programs_own() {
    let scratch = Scratch::new();
    let program = program(&[]).remove(0);
    let threadtalk = Threadtalk::built().path().to_string_lossy().into_owned();
    let own: Vec<String> = [&program, "parent"].map(String::from).into();
    let alone = native(&own);
    let heir = native(&[&[program.clone(), "heir".into()], &own[..]].concat());
    assert!(alone.stdout_text().contains("parent's end 0\n"), "{alone}");
    assert!(heir.stdout_text().contains("parent's end 12\n"), "{heir}");
    for (verb, _) in verbs(&scratch) {
        if !matches!(verb[0].as_str(), "record" | "run") {
            continue;
        }
        println!("{verb:?}");
        let words = [std::slice::from_ref(&threadtalk), &verb[..], &["--".into()], &own].concat();
        assert_unchanged(&alone, &native(&words));
        assert_unchanged(&heir, &native(&[&[program.clone(), "heir".into()], &words[..]].concat()));
    }
}
