//! What simulation costs, and how far it can be trusted (`make bench-simulate`).
//!
//! Kernels of `benches/kernels/suites/` are recorded with a trace for some seconds of CPU time,
//! which is simulated:
//! * *speed*: CPU time for each access, natively, traced, and simulated under one plan, under
//!   several, and with a part of the sets;
//! * *sets*: how far that part is from all sets;
//! * *prediction*: whether the cost that `place` expects orders policies as simulated time does
//!   (Spearman's rank correlation), on four machines;
//! * *communication* (`communication.rs`): the definition of communication against transfers.
//!
//! Times are of a machine that may be busy: only their ratios mean something, and those little.

mod communication;

use anyhow::{Context, ensure};
use clap::Parser;
use profile::Profile;
use serde_json::Value;
use std::path::{Path, PathBuf};
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk};

/// Measure the speed of simulation, set sampling, and how well placement predicts.
#[derive(Parser)]
#[command(name = "simulate", max_term_width = 100)]
struct Options {
    /// Kernels, by the names of their files
    #[arg(long, value_delimiter = ',', default_values_t = KERNELS.map(|k| k.0.to_string()))]
    kernels: Vec<String>,
    /// Threads of each
    #[arg(long, default_value_t = 8)]
    threads: usize,
    /// CPU time after which a program that is traced is ended, seconds
    #[arg(long, default_value_t = 4)]
    seconds: u32,
}

/// File, and compiler.
const KERNELS: [(&str, Compiler); 10] = [
    ("is.c", Compiler::Gcc),
    ("cg.c", Compiler::Gcc),
    ("mg.f90", Compiler::Gfortran),
    ("ft.c", Compiler::Gcc),
    ("sp.f90", Compiler::Gfortran),
    ("radix.c", Compiler::Gcc),
    ("ocean.c", Compiler::Gcc),
    ("water.c", Compiler::Gcc),
    ("barnes.c", Compiler::Gcc),
    ("fluidanimate.c", Compiler::Gcc),
];

/// In `tests/machines/`.
const MACHINES: [&str; 4] = [
    "broadwell-2s.synthetic",
    "nehalem-ex-4s.synthetic",
    "epyc-7763-nps4.synthetic",
    "sinuca-table-5.1.xml",
];

const POLICIES: [&str; 6] =
    ["locality", "scatter", "distance", "balance", "balanced-locality", "load-balance"];

/// A kernel that has been traced.
struct Traced {
    name: String,
    profile: PathBuf,
    /// CPU time of an access, ns.
    native: f64,
    traced: f64,
    accesses: f64,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let scratch = Scratch::new();
    let mut traced = Vec::new();
    for (name, compiler) in KERNELS.iter().filter(|k| options.kernels.iter().any(|n| n == k.0)) {
        traced.push(trace(name, *compiler, &options, &scratch)?);
    }
    ensure!(!traced.is_empty(), "there is no such kernel; see --help");
    println!("speed: CPU time per access, ns; times native in brackets");
    println!(
        "{:<15} {:>9} {:>6} {:>14} {:>16} {:>9} {:>16}  all sets and 1/16 differ",
        "kernel", "accesses", "native", "traced", "simulated", "a plan", "1/16 of sets"
    );
    for kernel in &traced {
        speed(kernel)?;
    }
    println!("\nprediction: rank correlation of expected cost and simulated time, {} policies", {
        POLICIES.len()
    });
    println!("{:<15} {}", "kernel", MACHINES.map(|m| format!("{m:>26}")).join(""));
    for kernel in &traced {
        prediction(kernel)?;
    }
    communication::table(traced.iter().map(|kernel| (kernel.name.as_str(), &*kernel.profile)))
}

fn trace(
    name: &str,
    compiler: Compiler,
    options: &Options,
    scratch: &Scratch,
) -> anyhow::Result<Traced> {
    let source = format!("benches/kernels/suites/{name}");
    let target =
        Target::new(compiler, &source).flags(&["-O2", "-fopenmp", "-pthread"]).flags(&["-lm"]);
    let binary = target.build()?;
    let threads = options.threads.to_string();
    let command = [binary.to_str().context("a path that is not UTF-8")?, &threads, "1"];
    let native = Run::new(command[0]).args(&command[1..]);
    let native = passively(native).run_natively();
    ensure!(native.exit_code == Some(0), "{native}");
    let threadtalk = Threadtalk::built();
    // How many accesses that were.
    let (whole, profile) = (scratch.join("whole.tt"), scratch.join(&format!("{name}.tt")));
    let exact = passively(threadtalk.record(&whole, &["--force", "--matrix"], &command)).run();
    ensure!(exact.exit_code == Some(0), "{exact}");
    let all = accesses(&whole)?;
    let limit = format!("ulimit -t {}; exec \"$@\"", options.seconds);
    let limited = [&["sh", "-c", &limit, "sh"][..], &command].concat();
    let run = passively(threadtalk.record(&profile, &["--trace"], &limited)).run();
    let found = simulate(&profile, &["--policy", "scatter"], &MACHINES[..1])?.1;
    let count = found["accesses"].as_f64().context("accesses")?;
    Ok(Traced {
        name: name.into(),
        profile,
        native: native.cpu.as_secs_f64() * 1e9 / all,
        traced: run.cpu.as_secs_f64() * 1e9 / count,
        accesses: count,
    })
}

fn passively(run: Run) -> Run {
    run.env("OMP_WAIT_POLICY", "passive")
}

fn accesses(profile: &Path) -> anyhow::Result<f64> {
    let profile = Profile::load(profile)?;
    Ok(profile.threads.iter().map(|thread| (thread.loads + thread.stores) as f64).sum())
}

/// Simulates a trace; what that took, and gave.
fn simulate(
    profile: &Path,
    options: &[&str],
    machines: &[&str],
) -> anyhow::Result<(Outcome, Value)> {
    let mut run = Threadtalk::built().verb("simulate").arg(profile).arg("--json").args(options);
    for machine in machines {
        run = run.arg("--on").arg(test_support::paths::root().join("tests/machines").join(machine));
    }
    let done = run.run();
    ensure!(done.exit_code == Some(0), "{done}");
    let json = serde_json::from_slice(&done.stdout)?;
    Ok((done, json))
}

/// One line of the first table.
fn speed(kernel: &Traced) -> anyhow::Result<()> {
    let on = &MACHINES[..1];
    let one = &["--policy", "scatter"][..];
    let (full, all) = simulate(&kernel.profile, one, on)?;
    let more: Vec<&str> = POLICIES.iter().flat_map(|policy| ["--policy", policy]).collect();
    let (several, _) = simulate(&kernel.profile, &more, on)?;
    let (part, sampled) =
        simulate(&kernel.profile, &[one, &["--sample-sets", "1/16"]].concat(), on)?;
    let each = |outcome: &Outcome| outcome.cpu.as_secs_f64() * 1e9 / kernel.accesses;
    let times = |ns: f64| format!("{ns:.0} ({:.0}x)", ns / kernel.native);
    let further = (each(&several) / each(&full) - 1.0) / (POLICIES.len() - 1) as f64;
    println!(
        "{:<15} {:>8.1}M {:>6.2} {:>14} {:>16} {:>+8.0}% {:>16}  {}",
        kernel.name,
        kernel.accesses / 1e6,
        kernel.native,
        times(kernel.traced),
        times(each(&full)),
        100.0 * further,
        times(each(&part)),
        difference(&all["scenarios"][0], &sampled["scenarios"][0])?
    );
    Ok(())
}

/// How far a part of the sets is from all: L1 misses, lines from outside, time; with half the
/// intervals that it gave.
fn difference(all: &Value, part: &Value) -> anyhow::Result<String> {
    let number = |of: &Value, path: &str| of.pointer(path).and_then(Value::as_f64).context("JSON");
    let misses = |of: &Value| -> anyhow::Result<f64> {
        Ok(number(of, "/total/lines")? - number(of, "/total/hits/L1")?)
    };
    let memory = |of: &Value| -> anyhow::Result<f64> {
        Ok(number(of, "/total/local")? + number(of, "/total/remote")?)
    };
    let percent = |a: f64, b: f64| 100.0 * (b / a - 1.0);
    let time = number(all, "/total/time_ns")?;
    Ok(format!(
        "L1 misses {:+.1} % ± {:.1}, memory {:+.1} % ± {:.1}, time {:+.1} % ± {:.1}",
        percent(misses(all)?, misses(part)?),
        100.0 * number(part, "/margins/hits/L1")? / misses(all)?,
        percent(memory(all)?, memory(part)?),
        100.0 * (number(part, "/margins/local")? + number(part, "/margins/remote")?) / memory(all)?,
        percent(time, number(part, "/total/time_ns")?),
        100.0 * number(part, "/margins/time_ns")? / time,
    ))
}

/// One line of the second table.
fn prediction(kernel: &Traced) -> anyhow::Result<()> {
    let policies: Vec<&str> = POLICIES.iter().flat_map(|policy| ["--policy", policy]).collect();
    let (_, json) = simulate(&kernel.profile, &policies, &MACHINES)?;
    let scenarios = json["scenarios"].as_array().context("scenarios")?;
    let mut cells = String::new();
    for machine in 0..MACHINES.len() {
        let of = scenarios.iter().filter(|s| s["machine"] == machine);
        let pairs = of.map(|s| (s["predicted_ns"].as_f64(), s["total"]["time_ns"].as_f64()));
        let (costs, times): (Vec<f64>, Vec<f64>) =
            pairs.filter_map(|(cost, time)| Some((cost?, time?))).unzip();
        let spread = spread(&times);
        cells += &match spearman(&costs, &times) {
            Some(found) => format!("{:>26}", format!("{found:+.2} (times {spread:.1} %)")),
            None => format!("{:>26}", "all alike"),
        };
    }
    println!("{:<15} {cells}", kernel.name);
    Ok(())
}

/// By how much the longest is longer than the shortest, %.
fn spread(times: &[f64]) -> f64 {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    100.0 * (most / least - 1.0)
}

/// Ranks from 1; those that are equal share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let equal = values.iter().filter(|other| *other == value).count() as f64;
        below + (equal + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// Spearman's rank correlation; `None` where one of the lists has nothing but equal values.
fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - mean) * (y - mean)).sum()
    };
    let scale = (product(&a, &a) * product(&b, &b)).sqrt();
    (scale > 0.0).then(|| product(&a, &b) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_correlate_as_they_are_ordered() {
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 90.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(spearman(&[1.0, 1.0], &[3.0, 2.0]), None);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
    }
}
