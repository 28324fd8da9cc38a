//! Programs where nothing can be gained: how much longer they take with `auto` than without, in
//! pairs of runs of which the first is one and then the other.

use crate::Options;
use anyhow::ensure;
use std::path::Path;
use std::time::Duration;
use test_support::{Compiler, Run, Scratch, Target, Threadtalk, probe};

/// Programs of one thread, programs whose threads all do the same, and programs that share nothing,
/// with their arguments: threads and size.
const PROGRAMS: [(&str, usize, usize); 10] = [
    ("stencil", 0, 1),
    ("matmul", 0, 1),
    ("spmv", 0, 1),
    ("nbody", 0, 1),
    ("sort", 0, 1),
    ("hash", 0, 1),
    ("blocks", 0, 1),
    ("stencil", 1, 1),
    ("nbody", 1, 1),
    ("hash", 1, 1),
];
/// What `auto` may cost.
const MAX_LOSS: f64 = 0.01;
/// Part of intervals that do not contain the true ratio, at most.
const ALPHA: f64 = 0.05;
/// A run is repeated by a shell until it takes about so long, s.
const LONG: f64 = 1.0;

/// The table, and what was slower for certain.
pub fn run(options: &Options) -> anyhow::Result<Vec<String>> {
    let scratch = Scratch::new();
    let pairs = options.pick(9, 2);
    println!("\nnothing to gain: time with auto over time without, {pairs} pairs, 95 % interval");
    let mut missed = Vec::new();
    let mut all = statistics::Ratios::default();
    for (name, threads, scale) in PROGRAMS {
        let target = Target::new(Compiler::Gcc, &format!("benches/kernels/{name}.c"));
        let binary = target.flags(&["-O2", "-fopenmp", "-pthread", "-lm"]).build()?;
        let threads = if threads == 0 { probe::cpus() } else { threads };
        let line = repeated(&binary, threads, scale)?;
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

/// A shell's line that runs a program until it has taken about as long as is wanted.
fn repeated(binary: &Path, threads: usize, scale: usize) -> anyhow::Result<String> {
    let once = format!("'{}' {threads} {scale} >/dev/null", binary.display());
    let took = seconds(&once, None)?;
    let times = (LONG / took.max(0.01)).ceil();
    Ok(format!("i=0; while [ $i -lt {times} ]; do {once} || exit 1; i=$((i+1)); done"))
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
