//! The microbenchmarks as programs: building, running, and reading the truth that they print.

use anyhow::{Context, ensure};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use test_support::{Compiler, Run, Target};

/// The programs of `benches/sampling/programs/`.
pub const NAMES: [&str; 4] = ["write_volume", "false_sharing", "read_write", "point_to_point"];

/// How participants store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Store {
    Xchg,
    Mov,
    Add,
}

/// One microbenchmark with its arguments.
pub struct Micro {
    pub name: &'static str,
    binary: PathBuf,
    pub threads: usize,
    pub fraction: f64,
    arguments: Vec<String>,
}

/// What a run has printed about itself.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Truth {
    /// Start and length of the shared memory.
    pub regions: Vec<(u64, u64)>,
    /// Pairs of threads that meet there, the lower one first.
    pub pairs: Vec<(usize, usize)>,
    /// Share of the shared accesses that can only be false sharing.
    pub false_share: f64,
    /// Transfers that the processor counted.
    pub counted: Option<u64>,
    /// RAW and WAW events of this run that the program saw itself.
    pub events: Option<u64>,
    /// Those of them that were false sharing; all words tell where it is not said.
    pub false_events: Option<u64>,
}

impl Micro {
    /// Compiles it; `iterations` are each participant's.
    pub fn build(
        name: &'static str,
        (threads, iterations): (usize, u64),
        fraction: f64,
        pinned: bool,
        store: Store,
    ) -> anyhow::Result<Self> {
        let source = format!("benches/sampling/programs/{name}.c");
        let binary = Target::new(Compiler::Gcc, &source).flags(&["-O2", "-pthread"]).build()?;
        let place = if pinned { "pin" } else { "free" };
        let store = format!("{store:?}").to_lowercase();
        let numbers = [threads.to_string(), iterations.to_string(), fraction.to_string()];
        let arguments = numbers.into_iter().chain([place.to_string(), store]).collect();
        Ok(Self { name, binary, threads, fraction, arguments })
    }

    /// The words of the command.
    pub fn command(&self) -> Vec<&str> {
        let binary = self.binary.to_str().expect("the build folder's path is UTF-8");
        [binary].into_iter().chain(self.arguments.iter().map(String::as_str)).collect()
    }

    /// Runs it natively, counting transfers where the counter is there.
    pub fn natively(&self, counter: Option<&str>) -> anyhow::Result<Truth> {
        let run = Run::new(&self.binary).args(&self.arguments);
        let run = match counter {
            Some(counter) => run.env("COUNTER", counter),
            None => run.env_remove("COUNTER"),
        };
        truth_of(run)
    }
}

/// What a run of the program, recorded or not, has printed.
pub fn truth_of(run: Run) -> anyhow::Result<Truth> {
    let outcome = run.run();
    ensure!(outcome.exit_code == Some(0), "{outcome}");
    Truth::read(&outcome.stdout_text())
}

impl Truth {
    fn read(output: &str) -> anyhow::Result<Self> {
        let mut truth = Self::default();
        for line in output.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let odd = || format!("the program said '{line}'");
            match words[..] {
                ["region", _, start, bytes] => {
                    let start = u64::from_str_radix(start.trim_start_matches("0x"), 16);
                    truth.regions.push((start.with_context(odd)?, bytes.parse()?));
                }
                ["pair", a, b, _] => {
                    truth.pairs.push((a.parse().with_context(odd)?, b.parse().with_context(odd)?));
                }
                ["false", share] => truth.false_share = share.parse().with_context(odd)?,
                ["counted", count] => truth.counted = Some(count.parse().with_context(odd)?),
                ["events", count] => truth.events = Some(count.parse().with_context(odd)?),
                ["false_events", count] => {
                    truth.false_events = Some(count.parse().with_context(odd)?);
                }
                _ => {}
            }
        }
        ensure!(!truth.regions.is_empty(), "the program names no shared memory");
        Ok(truth)
    }

    /// Share of false sharing in this run's events, if the program saw it.
    pub fn told_false(&self) -> Option<f64> {
        let events = self.events.filter(|&events| events > 0)?;
        Some(self.false_events? as f64 / events as f64)
    }

    /// Whether an address lies in the shared memory.
    pub fn is_shared(&self, address: u64) -> bool {
        self.regions.iter().any(|&(start, bytes)| address.wrapping_sub(start) < bytes)
    }

    /// Whether two threads are expected to meet.
    pub fn meet(&self, a: usize, b: usize) -> bool {
        self.pairs.contains(&(a.min(b), a.max(b)))
    }
}

/// The path of a profile as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("the build folder's path is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_is_read() {
        let output = "region line0 0x1000 64\npair 1 2 0.5\nfalse 0.25\naccesses 1 77\ncounted 9\nevents 4\n";
        let truth = Truth::read(output).unwrap();
        assert_eq!(truth.told_false(), None);
        let told = Truth::read(&format!("{output}false_events 3\n")).unwrap();
        assert_eq!(told.told_false(), Some(0.75));
        assert_eq!(truth.regions, [(0x1000, 64)]);
        assert_eq!((truth.false_share, truth.counted, truth.events), (0.25, Some(9), Some(4)));
        assert!(truth.meet(2, 1) && !truth.meet(1, 3));
        assert!(truth.is_shared(0x103f) && !truth.is_shared(0x1040) && !truth.is_shared(0xfff));
        assert!(Truth::read("pair 1 2 1\n").is_err());
    }
}
