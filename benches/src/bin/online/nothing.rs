//! Programs where nothing can be gained: how much longer they take with `auto` than without, in
//! pairs of runs of which the first is one and then the other.

use crate::Options;
use anyhow::ensure;
use std::path::Path;
use std::time::Duration;
use test_support::{Compiler, Run, Scratch, Target, Threadtalk, probe};

/// Programs of one thread, programs whose threads all do the same, and programs that share nothing,
/// with their number of threads; 0: as many as there are processors.
const PROGRAMS: [(&str, usize); 10] = [
    ("stencil", 0),
    ("matmul", 0),
    ("spmv", 0),
    ("nbody", 0),
    ("sort", 0),
    ("hash", 0),
    ("blocks", 0),
    ("stencil", 1),
    ("nbody", 1),
    ("hash", 1),
];
/// What `auto` may cost.
const MAX_LOSS: f64 = 0.01;
/// Part of intervals that do not contain the true ratio, at most.
const ALPHA: f64 = 0.05;

/// The table, and what was slower for certain.
pub fn run(options: &Options) -> anyhow::Result<Vec<String>> {
    let scratch = Scratch::new();
    let (pairs, long_s) = (options.pick(5, 2), options.pick(2.5, 1.0));
    println!(
        "\nnothing to gain: time with auto over time without, {pairs} pairs of runs of {long_s} s, 95 % interval"
    );
    let mut missed = Vec::new();
    let mut all = statistics::Ratios::default();
    for (name, threads) in PROGRAMS {
        let target = Target::new(Compiler::Gcc, &format!("benches/kernels/{name}.c"));
        let binary = target.flags(&["-O2", "-fopenmp", "-pthread", "-lm"]).build()?;
        let threads = if threads == 0 { probe::cpus() } else { threads };
        let line = long(&binary, threads, long_s)?;
        let mut ratios = statistics::Ratios::default();
        for pair in 0..pairs {
            let (with, without) = match pair % 2 {
                0 => (seconds(&line, Some(&scratch))?, seconds(&line, None)?),
                _ => {
                    let without = seconds(&line, None)?;
                    (seconds(&line, Some(&scratch))?, without)
                }
            };
            ratios.add(with / without);
            all.add(with / without);
        }
        let name = format!("{name}, {threads} threads");
        let found = tell(&name, ratios);
        missed.extend((found.low > 1.0 + MAX_LOSS).then(|| format!("{name} is slower with auto")));
    }
    let found = tell("all", all);
    missed.extend((found.low > 1.0 + MAX_LOSS).then(|| "programs are slower with auto".into()));
    Ok(missed)
}

fn tell(name: &str, ratios: statistics::Ratios) -> statistics::Ratio {
    let found = ratios.interval(ALPHA);
    println!("  {name:<22} {:.3}  ({:.3} to {:.3})", found.estimate, found.low, found.high);
    found
}

/// A shell's line that runs a program of so much work that it takes about as long as is wanted.
fn long(binary: &Path, threads: usize, wanted: f64) -> anyhow::Result<String> {
    let with = |scale: usize| format!("'{}' {threads} {scale} >/dev/null", binary.display());
    // The first run of a program reads it from the disk.
    seconds(&with(1), None)?;
    let took = seconds(&with(1), None)?;
    Ok(with((wanted / took.max(0.01)).ceil() as usize))
}

/// How long a line takes, with `auto` if it gets a folder for its state.
fn seconds(line: &str, auto: Option<&Scratch>) -> anyhow::Result<f64> {
    let run = match auto {
        Some(scratch) => {
            let run = Threadtalk::built().verb("auto");
            let run = run.env("THREADTALK_STATE_DIR", scratch.join("state"));
            run.args(["-q", "--", "sh", "-c", line])
        }
        None => Run::new("sh").args(["-c", line]),
    };
    let outcome = run.timeout(Duration::from_secs(120)).run();
    ensure!(outcome.exit_code == Some(0), "{outcome}");
    Ok(outcome.wall.as_secs_f64())
}
