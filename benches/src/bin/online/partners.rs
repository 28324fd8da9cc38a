//! The program that most parts run: threads in pairs that pass a buffer back and forth for a given
//! time (`tests/programs/known/partners.c`), with its profile and plans.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk};

/// Buffer of each pair, KB.
const BUFFER_KB: &str = "256";

/// Pairs of threads, as many as there are processors, and what was recorded of them.
pub struct Partners {
    scratch: Scratch,
    binary: PathBuf,
    /// The plan for one application, and for two.
    plan: PathBuf,
    compact: PathBuf,
    two: PathBuf,
}

impl Partners {
    /// Compiles, records and places them.
    pub fn new() -> anyhow::Result<Self> {
        let scratch = Scratch::new();
        let target = Target::new(Compiler::Gcc, "tests/programs/known/partners.c");
        let binary = target.flags(&["-O2", "-g", "-pthread"]).build()?;
        let path = |name: &str| scratch.join(name);
        let (plan, compact) = (path("plan.json"), path("compact.json"));
        let two = path("two.json");
        let found = Self { binary, plan, compact, two, scratch };
        found.prepare()?;
        Ok(found)
    }

    fn prepare(&self) -> anyhow::Result<()> {
        let threadtalk = Threadtalk::built();
        let profile = self.scratch.join("partners.tt");
        let copy = self.scratch.join("other.tt");
        let program = self.words("1", "0", None);
        let record = |profile: &Path| {
            done(threadtalk.verb("record").arg("-o").arg(profile).arg("--").args(&program))
        };
        record(&profile)?;
        record(&copy)?;
        let place = || threadtalk.verb("place").arg(&profile);
        done(place().arg("-o").arg(&self.plan))?;
        done(place().args(["--policy", "compact"]).arg("-o").arg(&self.compact))?;
        done(place().arg(&copy).arg("-o").arg(&self.two))?;
        Ok(())
    }

    /// The program and its arguments.
    fn words(&self, seconds: &str, change: &str, work: Option<&Path>) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = vec![text(&self.binary), seconds.into(), change.into(), BUFFER_KB.into()];
        words.push(work.map(text).unwrap_or_default());
        words.push(test_support::probe::cpus().to_string());
        words
    }

    /// The file that the program writes its work into.
    fn work(&self) -> PathBuf {
        self.scratch.join("work")
    }

    /// One application, or two at once, for some seconds; the turns that all have done.
    pub fn turns(&self, how: &How, two: bool, seconds: u32, change: u32) -> anyhow::Result<f64> {
        let (seconds, change) = (seconds.to_string(), change.to_string());
        let work = self.work();
        let program = self.words(&seconds, &change, Some(&work));
        let outcome = match (how, two) {
            (How::Plan(of), false) => done(self.under(self.plan_of(*of), None, &program))?,
            (How::Plan(Of::Compact), true) => {
                let line = self.under_line(&self.compact, None, &program);
                done(Run::new("sh").args(["-c", &both(&line, &line)]))?
            }
            (How::Plan(Of::Computed), true) => {
                let [a, b] = ["0", "1"].map(|app| self.under_line(&self.two, Some(app), &program));
                done(Run::new("sh").args(["-c", &both(&a, &b)]))?
            }
            (How::Prefixed(prefix), false) => done(prefixed(prefix, &program))?,
            (How::Prefixed(prefix), true) => {
                let line = quoted(&program);
                let all = ["sh".into(), "-c".into(), both(&line, &line)];
                done(prefixed(prefix, &all))?
            }
            (How::Auto(args), _) => {
                let auto = self.auto().args(["-q", "--metric"]).arg(&work).args(*args).arg("--");
                let line = quoted(&program);
                done(match two {
                    true => auto.args(["sh", "-c", &both(&line, &line)]),
                    false => auto.args(&program),
                })?
            }
        };
        turns_in(&outcome)
    }

    /// `auto`, with state of its own.
    pub fn auto(&self) -> Run {
        let state = self.scratch.join("state");
        let run = Threadtalk::built().verb("auto").env("THREADTALK_STATE_DIR", state);
        run.timeout(Duration::from_secs(300))
    }

    /// The program for some seconds, without anything.
    pub fn program(&self, seconds: u32) -> Vec<String> {
        self.words(&seconds.to_string(), "0", None)
    }

    fn plan_of(&self, of: Of) -> &Path {
        match of {
            Of::Computed => &self.plan,
            Of::Compact => &self.compact,
        }
    }

    fn under(&self, plan: &Path, app: Option<&str>, program: &[String]) -> Run {
        let run = Threadtalk::built().verb("run").args(["-q", "--plan"]).arg(plan);
        let run = app.into_iter().fold(run, |run, app| run.args(["--app", app]));
        run.arg("--").args(program).timeout(Duration::from_secs(300))
    }

    /// The same as a line for a shell.
    fn under_line(&self, plan: &Path, app: Option<&str>, program: &[String]) -> String {
        let threadtalk = Threadtalk::built().path().to_string_lossy().into_owned();
        let plan = plan.to_string_lossy().into_owned();
        let mut words = vec![threadtalk, "run".into(), "-q".into(), "--plan".into(), plan];
        words.extend(app.into_iter().flat_map(|app| ["--app".to_owned(), app.to_owned()]));
        words.push("--".into());
        words.extend_from_slice(program);
        quoted(&words)
    }
}

/// How the program is placed.
pub enum How {
    /// By what a command in front of it does; empty: by the scheduler.
    Prefixed(&'static [&'static str]),
    /// By a plan.
    Plan(Of),
    /// By `auto` with these arguments.
    Auto(&'static [&'static str]),
}

/// Which plan.
#[derive(Clone, Copy)]
pub enum Of {
    /// By its communication.
    Computed,
    /// Neighbours beside each other.
    Compact,
}

fn prefixed(prefix: &[&str], words: &[String]) -> Run {
    let all: Vec<String> =
        prefix.iter().map(ToString::to_string).chain(words.iter().cloned()).collect();
    Run::new(&all[0]).args(&all[1..]).timeout(Duration::from_secs(300))
}

fn both(a: &str, b: &str) -> String {
    format!("{a} & {b} & wait")
}

fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Runs to the end, which must be a good one.
pub fn done(run: Run) -> anyhow::Result<Outcome> {
    let outcome = run.run();
    ensure!(outcome.exit_code == Some(0), "{outcome}");
    Ok(outcome)
}

/// The turns that the program, or several, told in the end.
fn turns_in(outcome: &Outcome) -> anyhow::Result<f64> {
    let text = outcome.stdout_text();
    let told = text.lines().filter_map(|line| line.strip_prefix("turns ")?.split(',').next());
    let turns: Vec<f64> = told.filter_map(|turns| turns.parse().ok()).collect();
    ensure!(!turns.is_empty(), "the program has told no work\n{outcome}");
    Some(turns.iter().sum()).context("no turns")
}
