//! What `simulate` says, against what is predicted and counted, and what it costs
//! (`make bench-simulate`).
//!
//! Three tables: communication by blocks against real transfers (`accurate.rs`), predicted cost
//! against simulated time (`ranks.rs`), CPU time against native runs (`speed.rs`). Kernels are
//! those of `benches/kernels/suites/` after NAS.

#![allow(clippy::missing_errors_doc, reason = "used only here: no library for others")]

mod accurate;
mod ranks;
mod speed;

use anyhow::{Context, ensure};
use benches::mode;
use clap::{Parser, ValueEnum};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk, paths};

/// Simulated against predicted cost and counted communication, and what simulating costs.
#[derive(Parser)]
#[command(name = "simulate", max_term_width = 100)]
pub struct Options {
    /// Only these tables
    #[arg(long, value_enum, value_delimiter = ',')]
    tables: Vec<Which>,
    /// Kernels
    #[arg(long, value_delimiter = ',', default_value = "is,cg,mg,ft,sp")]
    kernels: Vec<String>,
    /// Threads of each kernel
    #[arg(long, default_value_t = 8)]
    threads: usize,
    /// Multiplies the work of each kernel
    #[arg(long, default_value_t = 1)]
    scale: usize,
    /// Turns of the table of speed
    #[arg(long, default_value_t = 3)]
    pairs: usize,
    /// Two kernels, three sizes of blocks, a part of the sets, one turn
    #[arg(long)]
    quick: bool,
}

/// The tables.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Accurate,
    Ranks,
    Speed,
}

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(1800);

fn main() -> anyhow::Result<()> {
    let mut options = Options::parse();
    mode::check_built();
    if options.quick {
        options.kernels.truncate(2);
        options.pairs = 1;
    }
    let scratch = Scratch::new();
    let mut kernels = Vec::new();
    for name in &options.kernels {
        match Kernel::build(name, &options) {
            Ok(kernel) => kernels.push(kernel),
            Err(error) => println!("{name}: left out: {error:#}"),
        }
    }
    ensure!(!kernels.is_empty(), "no kernel");
    println!("{} threads, scale {}", options.threads, options.scale);
    for which in Which::value_variants() {
        if !options.tables.is_empty() && !options.tables.contains(which) {
            continue;
        }
        println!();
        match which {
            Which::Accurate => accurate::table(&kernels, &options, scratch.path())?,
            Which::Ranks => ranks::table(&kernels, &options, scratch.path())?,
            Which::Speed => speed::table(&kernels, &options)?,
        }
    }
    Ok(())
}

/// A kernel that is compiled.
pub struct Kernel {
    /// Of its file, without the ending.
    pub name: String,
    binary: PathBuf,
    arguments: [String; 2],
}

impl Kernel {
    fn build(name: &str, options: &Options) -> anyhow::Result<Self> {
        let suites = paths::root().join("benches/kernels/suites");
        let kinds = [("c", Compiler::Gcc), ("cpp", Compiler::Gxx), ("f90", Compiler::Gfortran)];
        let found = kinds.iter().find(|(end, _)| suites.join(format!("{name}.{end}")).exists());
        let (end, compiler) = found.context("there is no such kernel in benches/kernels/suites")?;
        let source = format!("benches/kernels/suites/{name}.{end}");
        let target = Target::new(*compiler, &source);
        let binary = target.flags(&["-O2", "-g", "-fopenmp", "-pthread", "-lm"]).build()?;
        let arguments = [options.threads, options.scale].map(|number| number.to_string());
        Ok(Self { name: name.into(), binary, arguments })
    }

    /// A run of it.
    pub fn natively(&self) -> anyhow::Result<Outcome> {
        done(Run::new(&self.binary).args(&self.arguments))
    }

    /// A verb with the kernel behind `--`.
    pub fn under(&self, verb: Run) -> anyhow::Result<Outcome> {
        done(verb.arg("--").arg(&self.binary).args(&self.arguments))
    }

    /// Its profile with a trace.
    pub fn trace(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let profile = folder.join(format!("{}.tt", self.name));
        if !profile.exists() {
            let record = Threadtalk::built().verb("record").args(["--trace", "-o"]).arg(&profile);
            self.under(record)?;
        }
        Ok(profile)
    }
}

/// Runs a command that has to succeed. Threads that wait shall sleep: spinning is not what is
/// measured.
pub fn done(run: Run) -> anyhow::Result<Outcome> {
    let outcome = run.env("OMP_WAIT_POLICY", "passive").timeout(PATIENCE).run();
    ensure!(outcome.exit_code == Some(0) && !outcome.timed_out, "{outcome}");
    Ok(outcome)
}

/// What `simulate --json` says of a trace.
pub fn simulate(profile: &Path, arguments: &[String]) -> anyhow::Result<Value> {
    let run = Threadtalk::built().verb("simulate").arg(profile).arg("--json").args(arguments);
    Ok(serde_json::from_slice(&done(run)?.stdout)?)
}
