//! The built `threadtalk` binary, seen from outside.

use crate::{Matrix, Outcome, Run, paths};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The binary under test.
pub struct Threadtalk {
    binary: PathBuf,
}

impl Threadtalk {
    /// The binary that `make build` leaves; panics, saying so, when it is not there.
    pub fn built() -> Self {
        let binary = paths::release().join("threadtalk");
        assert!(binary.exists(), "{} is missing: run `make build`", binary.display());
        Self { binary }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.binary
    }

    /// `threadtalk VERB …`.
    pub fn verb(&self, verb: &str) -> Run {
        // A user's settings must not change what tests see.
        Run::new(&self.binary).arg(verb).env("NO_COLOR", "1").env_remove("LD_PRELOAD")
    }

    /// `threadtalk record --exact -o PROFILE OPTIONS -- COMMAND`. Target programs must end natively
    /// first.
    #[track_caller]
    pub fn record(&self, profile: &Path, options: &[&str], command: &[&str]) -> Run {
        expect_end_natively(command);
        self.record_endless(profile, options, command)
    }

    /// The same for a program that ends only when it is interrupted.
    pub fn record_endless(&self, profile: &Path, options: &[&str], command: &[&str]) -> Run {
        let run = self.verb("record").arg("--exact").arg("-o").arg(profile);
        run.args(options).arg("--").args(command)
    }

    /// The matrix of `kind` in a profile, of its first process; panics when it cannot be exported.
    #[track_caller]
    pub fn matrix(&self, profile: &Path, kind: &str) -> Matrix {
        let run = self.verb("export").arg(profile).arg("matrix");
        let outcome = run.args(["--kind", kind, "--format", "csv"]).run().expect_code(0);
        Matrix::from_csv(&outcome.stdout_text()).expect("the export is a square CSV")
    }
}

/// Panics unless the command ends natively, if its program is one that tests have compiled. Each
/// command is tried once in a process.
#[track_caller]
fn expect_end_natively(command: &[&str]) {
    static KNOWN: Mutex<BTreeSet<Vec<String>>> = Mutex::new(BTreeSet::new());
    if !Path::new(command[0]).starts_with(paths::build().join("programs")) {
        return;
    }
    let command: Vec<String> = command.iter().map(ToString::to_string).collect();
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if !known().contains(&command) {
        Run::new(&command[0]).args(&command[1..]).run_natively();
        known().insert(command);
    }
}

/// `profile.json` of a profile folder; panics when it is not there or not JSON.
#[track_caller]
pub fn profile_json(profile: &Path) -> serde_json::Value {
    let file = profile.join("profile.json");
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("reading {}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Shared-memory files of ours that are left on the machine.
pub fn left_in_shared_memory() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let ours = |path: &PathBuf| path.to_string_lossy().to_lowercase().contains("threadtalk");
    entries.map(|entry| entry.path()).filter(ours).collect()
}

/// The sentence that Threadtalk itself said on stderr: its only line starting `threadtalk:`.
#[track_caller]
pub fn own_sentence(outcome: &Outcome) -> String {
    let stderr = outcome.stderr_text();
    let own: Vec<&str> = stderr.lines().filter(|line| line.starts_with("threadtalk:")).collect();
    assert_eq!(own.len(), 1, "expected one sentence of our own\n{outcome}");
    own[0].to_owned()
}
