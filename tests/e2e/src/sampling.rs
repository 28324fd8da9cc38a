//! What tests of sampling have in common: talking programs, beside the test or recorded, and
//! refusals.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use test_support::run::favour;
use test_support::threadtalk::own_sentence;
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk, probe};

pub fn talkers_with(flags: &[&str]) -> PathBuf {
    let target = Target::new(Compiler::Gcc, "tests/programs/known/talkers.c").flags(flags);
    target.flags(&["-O2", "-g", "-pthread"]).build().unwrap_or_else(|error| panic!("{error}"))
}

pub fn talkers() -> PathBuf {
    talkers_with(&[])
}

/// Whether anything can be sampled here; says so if not.
pub fn can_sample(what: &str) -> bool {
    let scratch = Scratch::new();
    let outcome = sample(&scratch.join("probe.tt"), &[], &["true"]);
    let refused = outcome.exit_code == Some(125);
    if refused {
        probe::skip(what, &own_sentence(&outcome));
    }
    !refused
}

/// `threadtalk record --sample`.
pub fn sample(profile: &Path, options: &[&str], command: &[&str]) -> Outcome {
    let run = Threadtalk::built().verb("record").arg("--sample").arg("-o").arg(profile);
    run.args(options).arg("--").args(command).favoured().run()
}

/// `threadtalk record --pid`, not yet run.
pub fn attach(profile: &Path, pid: u32, options: &[&str]) -> Run {
    let run = Threadtalk::built().verb("record").arg("--pid").arg(pid.to_string());
    run.arg("-o").arg(profile).args(options).favoured()
}

/// A program that runs beside the test; killed at the end if need be.
pub struct Beside(Child);

impl Beside {
    /// Starts it and waits for its first line.
    pub fn start(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        favour(&mut command);
        let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has ended, or soon does: its threads are gone before it can be waited for.
    pub fn ends(&mut self) -> bool {
        (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            !self.runs()
        })
    }

    pub fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

pub fn total(json: &Value, name: &str) -> u64 {
    json["totals"][name].as_u64().unwrap()
}

/// The note of `profile.json` with this code, if there is one.
pub fn note<'a>(json: &'a Value, code: &str) -> Option<&'a Value> {
    json["warnings"].as_array().unwrap().iter().find(|note| note["code"] == code)
}

/// The same; panics without one.
#[track_caller]
pub fn noted(json: &Value, code: &str) -> Value {
    note(json, code).cloned().unwrap_or_else(|| panic!("no note {code}: {}", json["warnings"]))
}

/// Asserts a refusal in one sentence with these words, and no profile.
#[track_caller]
pub fn refused(outcome: &Outcome, profile: &Path, words: &[&str]) {
    assert_eq!(outcome.exit_code, Some(125), "{outcome}");
    let stderr = outcome.stderr_text();
    for word in words {
        assert!(stderr.contains(word), "'{word}' is not in: {stderr}");
    }
    assert!(!stderr.contains("panicked") && !profile.exists(), "{outcome}");
}
