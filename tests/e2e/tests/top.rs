//! The live view from outside: what it finds in running and started programs, as text and in a
//! terminal, and that programs and terminals are left as they should be.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use test_support::threadtalk::own_sentence;
use test_support::{Compiler, Outcome, Run, Scratch, Target, Terminal, Threadtalk, probe};

fn talkers() -> &'static Path {
    // Built once: a running program whose file is replaced has no names.
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Target::new(Compiler::Gcc, "tests/programs/known/talkers.c");
        let target = target.flags(&["-O2", "-g", "-pthread", "-DFOR_TOP"]);
        target.build().unwrap_or_else(|error| panic!("{error}"))
    })
}

fn top(args: &[&str]) -> Run {
    Threadtalk::built().verb("top").args(args).timeout(Duration::from_secs(120))
}

/// Whether anything can be sampled here; says so if not.
fn can_sample(what: &str) -> bool {
    let outcome = top(&["--sample", "--batch", "1", "--", "sleep", "0.2"]).run();
    let refused = outcome.exit_code == Some(125);
    if refused {
        probe::skip(what, &own_sentence(&outcome));
    }
    !refused
}

/// A program that runs beside the test; killed at its end.
struct Beside(Child);

impl Beside {
    fn talkers(how: &str) -> Self {
        let mut command = Command::new(talkers());
        let child = command.args(["1", "600000", how]).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("its first line");
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn goes_on(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_none()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The last picture of a batch.
fn last_picture(outcome: &Outcome) -> String {
    let text = outcome.stdout_text();
    let start = text.rfind("\nMatrix").unwrap_or_else(|| panic!("no matrix in {text}"));
    text[start..].to_string()
}

#[test]
fn a_running_program_is_shown_and_goes_on() {
    if !can_sample("top --pid") {
        return;
    }
    let mut program = Beside::talkers("apart");
    let outcome = top(&["--pid", &program.pid(), "--batch", "4"]).run().expect_code(0);
    let text = outcome.stdout_text();
    assert!(text.starts_with("talkers"), "{text}");
    assert_eq!(text.matches("\nMatrix").count(), 4, "{text}");
    let picture = last_picture(&outcome);
    let line = picture.lines().find(|line| line.contains("lines+0x0..0x40"));
    let line = line.unwrap_or_else(|| panic!("the line of memory is missing in {text}"));
    assert!(line.contains("100 %") && line.contains("talk talkers.c:"), "{line}");
    assert!(program.goes_on());
}

/// A started program, looked at in one of two ways: to its end, with its output and status.
fn is_shown_to_its_end(way: &[&str], words: &str) -> String {
    let program = talkers();
    let command = [program.to_str().expect("a plain path"), "1", "2500", "apart"];
    let args = [way, &["--interval", "500ms", "--"]].concat();
    let outcome = top(&args).args(command).run().expect_code(0);
    let text = outcome.stdout_text();
    assert!(text.contains("ready\n") && text.contains("done\n"), "{text}");
    assert!(text.contains("  [ended]") && text.contains(words), "{text}");
    let outcome = top(&[way, &["--", "sh", "-c", "exit 7"]].concat()).run();
    assert_eq!(outcome.exit_code, Some(7), "{}", outcome.stderr_text());
    text
}

#[test]
fn a_program_is_started_in_windows_and_shown_to_its_end() {
    let text = is_shown_to_its_end(&[], "windows of exact recording");
    // Each its own word of one line: nothing but false sharing, and hardly anything else at all.
    let hot = text.lines().rfind(|line| line.contains("lines+0x0..0x40"));
    let hot = hot.unwrap_or_else(|| panic!("the line of memory is missing in {text}"));
    assert!(hot.contains("100 %") && hot.contains("talk talkers.c:"), "{hot}");
    // The last picture: a line is part of all.
    let title = text.lines().rfind(|line| line.contains(" transfers/s")).expect("a title");
    let all = title.split(" transfers/s").next().and_then(|before| before.rsplit(' ').next());
    let (all, line) = (amount(all.unwrap()), amount(hot.split_whitespace().nth(1).unwrap()));
    assert!(line > 0.2 * all && line <= 1.1 * all, "{title}; {hot}");
}

/// `47M` and `1.3k` as numbers.
fn amount(text: &str) -> f64 {
    let (digits, unit) =
        text.split_at(text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len()));
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        other => panic!("{other} in {text}"),
    };
    factor * digits.parse::<f64>().unwrap_or_else(|_| panic!("{text} is no number"))
}

#[test]
fn a_program_is_started_sampled_and_shown_to_its_end() {
    if !can_sample("top --sample -- CMD") {
        return;
    }
    let text = is_shown_to_its_end(&["--sample"], " samples/s");
    assert!(text.contains("lines+0x0..0x40"), "{text}");
}

/// Threads 1 and 2 share a line, and so do 3 and 4.
#[test]
fn windows_tell_who_communicates_with_whom() {
    let program = talkers();
    let command = [program.to_str().expect("a plain path"), "2", "600000", "same"];
    let args = ["--window", "1min", "--batch", "6", "--"];
    let outcome = top(&args).args(command).run().expect_code(0);
    let picture = last_picture(&outcome);
    let rows = picture.lines().skip_while(|line| !line.contains("Matrix")).skip(1);
    let mut rows = rows.map(|row| row.split_whitespace().collect::<Vec<_>>());
    let takers = rows.next().expect("a row of takers");
    let mut pairs = Vec::new();
    for row in rows.take(takers.len()) {
        let (giver, cells) = row.split_first().expect("a giver");
        let busy = takers.iter().zip(cells).filter(|(_, cell)| !["·", "\\", "0"].contains(cell));
        // The initial thread has started them all.
        pairs.extend(busy.map(|(taker, _)| (*giver, *taker)).filter(|p| p.0 != "0" && p.1 != "0"));
    }
    pairs.sort_unstable();
    assert_eq!(pairs, [("1", "2"), ("2", "1"), ("3", "4"), ("4", "3")], "{picture}");
}

/// Nothing is told of threads that have ended once the window is over.
#[test]
fn rates_end_with_the_threads() {
    let program = talkers();
    let command = [program.to_str().expect("a plain path"), "1", "1000", "same", "20000"];
    let args = ["--window", "1s", "--interval", "500ms", "--batch", "12", "--"];
    let outcome = top(&args).args(command).run().expect_code(0);
    let text = outcome.stdout_text();
    let titles: Vec<&str> = text.lines().filter(|line| line.contains(" transfers/s")).collect();
    assert!(titles.iter().any(|title| title.contains(": 3 threads, ")), "{titles:?}");
    let last = titles.last().unwrap();
    assert!(last.contains(": 1 thread, 0 transfers/s"), "{titles:?}");
}

#[test]
fn what_cannot_be_recorded_is_sampled() {
    if !can_sample("top of a static program") {
        return;
    }
    let target = Target::new(Compiler::Gcc, "tests/programs/known/talkers.c");
    let target = target.flags(&["-O2", "-g", "-pthread", "-static", "-DFOR_TOP_STATIC"]);
    let program = target.build().unwrap_or_else(|error| panic!("{error}"));
    let command = [program.to_str().expect("a plain path"), "1", "1500", "same"];
    let outcome = top(&["--"]).args(command).run().expect_code(0);
    assert!(outcome.stderr_text().contains("it is sampled instead"), "{}", outcome.stderr_text());
    assert!(outcome.stdout_text().contains(" samples/s"), "{}", outcome.stdout_text());
}

#[test]
fn a_terminal_gets_a_view_and_is_given_back() {
    if !can_sample("top in a terminal") {
        return;
    }
    let mut program = Beside::talkers("same");
    let mut view = drawn(&["--pid", &program.pid()], true);
    // Words: only what changes is drawn, so longer texts are in pieces.
    view.wait_for("Matrix");
    view.press("3");
    view.wait_for("written by");
    view.press("?");
    view.wait_for("forget");
    view.press("q");
    assert_eq!(view.end().and_then(|status| status.code()), Some(0));
    for part in ["\x1b[?1049h", "\x1b[?1049l"] {
        assert!(view.written().contains(part), "{part:?} is missing in {:?}", view.written());
    }
    assert!(program.goes_on());
}

/// The view in a terminal once it has drawn something.
fn drawn(args: &[&str], terminal_controls: bool) -> Terminal {
    let mut command = Command::new(Threadtalk::built().path());
    command.arg("top").args(args).env("TERM", "xterm-256color");
    // Nothing of tests is kept for the user's own runs.
    command.env("XDG_CACHE_HOME", test_support::paths::cache());
    let mut terminal = Terminal::start(&mut command, terminal_controls).expect("a terminal");
    terminal.wait_for("\x1b[?1049h");
    terminal
}

/// Whether or not SIGHUP tells it.
#[test]
fn the_view_ends_with_its_terminal_and_the_program_goes_on() {
    if !can_sample("top in a terminal that is closed") {
        return;
    }
    let mut program = Beside::talkers("same");
    for terminal_controls in [true, false] {
        let mut view = drawn(&["--pid", &program.pid()], terminal_controls);
        view.close();
        let status = view.end().expect("the view ends");
        assert_eq!(status.code(), Some(0), "{terminal_controls} {status}");
        assert!(program.goes_on());
    }
}

#[test]
fn the_view_ends_when_signals_ask_it_to_and_the_program_goes_on() {
    if !can_sample("top in a terminal, ended by signals") {
        return;
    }
    let mut program = Beside::talkers("same");
    for signal in ["HUP", "TERM"] {
        let mut view = drawn(&["--pid", &program.pid(), "--interval", "1h"], true);
        let kill = format!("kill -{signal} {}", view.pid());
        Run::new("sh").args(["-c", &kill]).run().expect_code(0);
        let status = view.end().expect("the view ends");
        assert_eq!(status.code(), Some(0), "{signal} {status}");
        assert!(program.goes_on());
    }
}

/// What the program writes into this file when it starts.
fn started(file: &Path) -> String {
    for _ in 0..12_000 {
        match std::fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    panic!("the program does not start");
}

/// As when the reader quits.
#[test]
fn a_started_program_ends_with_the_terminal_of_the_view() {
    let scratch = Scratch::new();
    let pid = scratch.join("pid");
    let script =
        format!("echo $$ > '{}'; exec '{}' 1 600000 same", pid.display(), talkers().display());
    for terminal_controls in [true, false] {
        let mut view = drawn(&["--", "sh", "-c", &script], terminal_controls);
        let number = started(&pid);
        view.close();
        assert!(view.end().is_some(), "the view goes on");
        assert!(!Path::new("/proc").join(number.trim()).exists(), "the program goes on");
        std::fs::remove_file(&pid).expect("the file is there");
    }
}

/// The second one talks: it is shown, and the first one when a key asks for it.
#[test]
fn of_several_processes_the_one_that_talks_is_shown_and_others_can_be_seen() {
    if !can_sample("top of two processes") {
        return;
    }
    let mut sleeper = Beside(Command::new("sleep").arg("600").spawn().expect("sleep starts"));
    let mut program = Beside::talkers("same");
    let pids = ["--pid", &sleeper.pid(), "--pid", &program.pid()];
    let text = top(&pids).args(["--batch", "2"]).run().expect_code(0).stdout_text();
    assert!(text.contains(&format!(", pid {} (2 of 2): ", program.pid())), "{text}");
    assert!(text.contains("\nProcesses"), "{text}");
    let mut view = drawn(&pids, true);
    view.wait_for("talkers");
    view.press("n");
    view.wait_for("sleep");
    view.press("q");
    assert_eq!(view.end().and_then(|status| status.code()), Some(0));
    assert!(program.goes_on() && sleeper.goes_on());
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let cases: [(&[&str], &str); 5] = [
        (&["--watch", "--pid", "1"], "required"),
        (&["--pid", "4194305"], "there is no process 4194305"),
        (&["--", "/nonexistent/program"], "/nonexistent/program"),
        (&["--interval", "1ms", "--pid", "1"], "every 50ms"),
        (&[], "required"),
    ];
    for (args, words) in cases {
        let outcome = top(args).run();
        let text = outcome.stderr_text();
        assert!(text.contains(words), "{args:?}: {text}");
        assert!(matches!(outcome.exit_code, Some(125..=127)), "{args:?}: {:?}", outcome.exit_code);
    }
}
