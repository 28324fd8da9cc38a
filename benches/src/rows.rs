//! What is measured: kernels, programs, servers.

use crate::mode::Mode;
use crate::servers::Server;
use crate::{inputs, kernels};
use anyhow::{Context, ensure};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use test_support::run::OwnPeak;
use test_support::{Outcome, probe};

/// One row of the table.
pub struct Row {
    pub name: String,
    /// Why it is there.
    pub why: &'static str,
    /// Runs that make one measurement; more than one for what is over at once.
    pub repeat: u32,
    pub work: Work,
}

/// What a row runs.
pub enum Work {
    Plain(Input),
    Kernel(kernels::Kernel),
    Server(Box<dyn Server>),
}

/// A command that ends by itself.
pub struct Input {
    pub command: PathBuf,
    pub arguments: Vec<String>,
    /// Whether its output must be the same in all modes.
    pub compare: bool,
}

/// What one measurement gave.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// User plus system time of all processes involved, seconds.
    pub cpu: f64,
    /// Seconds from start to end.
    pub wall: f64,
    /// Most memory of the largest process, bytes.
    pub peak_bytes: u64,
    /// Memory of the process that was started alone: of the recorder, where there is one.
    pub own: OwnPeak,
    /// Hash of standard output, where that must be the same.
    pub output: u64,
    /// Time in which 99 of 100 requests to a server were answered, milliseconds; 0 for others.
    pub answered: f64,
}

impl Row {
    /// The same row, measured by that many runs at a time.
    pub fn times(mut self, repeat: u32) -> Self {
        self.repeat = repeat;
        self
    }

    /// Makes ready what all runs use; the reason when the row cannot be measured here.
    pub fn prepare(&mut self) -> anyhow::Result<Result<(), String>> {
        match &mut self.work {
            Work::Plain(input) => {
                // It runs there, whether or not it has inputs.
                std::fs::create_dir_all(inputs::folder())?;
                let name = input.command.to_string_lossy().into_owned();
                let found = if input.command.is_absolute() {
                    input.command.exists().then(|| input.command.clone())
                } else {
                    command_beyond_shims(&name)
                };
                Ok(found.map(|path| input.command = path).ok_or(format!("no {name} here")))
            }
            Work::Kernel(kernel) => kernel.build(),
            Work::Server(server) => server.prepare(),
        }
    }

    /// Runs the row once in a mode.
    pub fn measure(&self, mode: Mode, scratch: &Path) -> anyhow::Result<Sample> {
        let mut total = Sample::default();
        for _ in 0..self.repeat {
            let sample = self.run(mode, scratch)?;
            total.cpu += sample.cpu;
            total.wall += sample.wall;
            total.peak_bytes = total.peak_bytes.max(sample.peak_bytes);
            let (own, of_run) = (&mut total.own, sample.own);
            own.bytes = own.bytes.max(of_run.bytes);
            own.with_children_bytes = own.with_children_bytes.max(of_run.with_children_bytes);
            total.output = sample.output;
            total.answered = total.answered.max(sample.answered);
        }
        Ok(total)
    }

    /// Where recorded runs write the profile.
    pub fn profile(&self, scratch: &Path) -> PathBuf {
        match &self.work {
            Work::Server(server) => server.profile(scratch),
            Work::Plain(_) | Work::Kernel(_) => scratch.join(PROFILE),
        }
    }

    /// Samples by mode, after `pairs` runs in each, in turns; no turn begins after `until`, but the
    /// first. `look` is told after each run which mode it was, and where the profile lies.
    pub fn turns(
        &self,
        modes: &[Mode],
        (pairs, until): (usize, Option<Instant>),
        scratch: &Path,
        mut look: impl FnMut(usize, &Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Vec<Sample>>> {
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); modes.len()];
        let in_time = || until.is_none_or(|until| Instant::now() < until);
        for turn in (0..pairs).take_while(|turn| *turn == 0 || in_time()) {
            // The mode that runs first may find the machine warmer or colder: begin elsewhere each
            // time.
            for k in 0..modes.len() {
                let which = (k + turn) % modes.len();
                samples[which].push(self.measure(modes[which], scratch)?);
                look(which, &self.profile(scratch))?;
            }
        }
        let first = samples[0][0].output;
        for (mode, samples) in modes.iter().zip(&samples) {
            let same = samples.iter().all(|sample| sample.output == first);
            ensure!(same, "{}: the output in mode {mode:?} differs", self.name);
        }
        Ok(samples)
    }

    /// A single run.
    pub fn run(&self, mode: Mode, scratch: &Path) -> anyhow::Result<Sample> {
        let (profile, output) = (self.profile(scratch), scratch.join("output"));
        let mut answered = 0.0;
        let (outcome, compare) = match &self.work {
            Work::Plain(input) => {
                let run = mode.run(&[], &input.command, &input.arguments, &profile);
                let run = run.directory(inputs::folder()).stdout_to(&output);
                (run.timeout(LIMIT).run(), input.compare)
            }
            Work::Kernel(kernel) => {
                let mut run =
                    mode.run(&kernel.wrapper, kernel.binary(), &kernel.arguments, &profile);
                for (name, value) in &kernel.environment {
                    run = run.env(name, value);
                }
                (run.stdout_to(&output).timeout(LIMIT).run(), true)
            }
            Work::Server(server) => {
                let (outcome, time) = server.run(mode, scratch)?;
                answered = time;
                (outcome, false)
            }
        };
        check(&outcome).with_context(|| format!("{} in mode {mode:?}", self.name))?;
        Ok(Sample {
            cpu: outcome.cpu.as_secs_f64(),
            wall: outcome.wall.as_secs_f64(),
            peak_bytes: outcome.peak_bytes,
            own: outcome.own,
            output: if compare { hash(&output)? } else { 0 },
            answered,
        })
    }
}

/// Name of the profile of a recorded run.
pub const PROFILE: &str = "bench.tt";
/// Most time for one run.
pub const LIMIT: Duration = Duration::from_secs(300);

fn hash(path: &Path) -> anyhow::Result<u64> {
    let (mut file, mut hasher) = (File::open(path)?, DefaultHasher::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        let bytes = file.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(hasher.finish());
        }
        hasher.write(&buffer[..bytes]);
    }
}

fn check(outcome: &Outcome) -> anyhow::Result<()> {
    ensure!(!outcome.timed_out, "it took too long\n{outcome}");
    ensure!(outcome.exit_code == Some(0), "it fails\n{outcome}");
    Ok(())
}

/// The command's full path. A wrapper script of a version manager would be measured as a shell, so
/// the distribution's own folders come first.
fn command_beyond_shims(name: &str) -> Option<PathBuf> {
    let usual = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
    usual.into_iter().find(|path| path.is_file()).or_else(|| probe::command(name))
}
