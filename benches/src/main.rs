//! What recording costs: CPU time of recorded against native kernels (`make bench`).
//!
//! Each kernel of `benches/kernels/` is compiled at `-O2` and at `-O3 -march=x86-64-v3` and run with
//! as many threads as this process may use CPUs, natively and under `threadtalk record --exact`, in
//! alternating pairs. Compared is user plus system time of the whole process tree, as `wait4`
//! reports it: for the recorded run that includes writing the profile. Output must be the same.
//!
//! * [`measure`]: runs the pairs;
//! * [`statistics`]: medians and spreads.

mod measure;
mod statistics;

use anyhow::Context;
use clap::Parser;
use statistics::{Spread, spread};
use test_support::probe;

/// CPU time of recorded against native kernels.
#[derive(Parser)]
#[command(name = "bench", max_term_width = 100)]
pub struct Options {
    /// Only kernels whose name contains one of these
    kernels: Vec<String>,
    /// Pairs of a native and a recorded run for each kernel
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Threads (default: the CPUs this process may use)
    #[arg(long)]
    threads: Option<usize>,
    /// Multiplies the work of each kernel
    #[arg(long, default_value_t = 1)]
    scale: usize,
    /// Engine optimisations to switch off, as a bit set
    #[arg(long, value_name = "BITS")]
    disable: Option<u32>,
    /// Translate only, count nothing
    #[arg(long)]
    translate_only: bool,
    /// Fail when the median is above 2.5 or the worst kernel above 6
    #[arg(long)]
    check: bool,
}

/// The kernels, each with the reason it is there.
const KERNELS: &[(&str, &str)] = &[
    ("stencil", "streams, neighbours"),
    ("matmul", "dense inner loops"),
    ("spmv", "indirect reads"),
    ("lu", "shrinking loops, many barriers"),
    ("nbody", "arithmetic"),
    ("sort", "scattered writes"),
    ("hash", "random atomics"),
    ("prodcons", "queues, locks"),
];

/// How the kernels are compiled.
const VARIANTS: &[(&str, &[&str])] = &[("O2", &["-O2"]), ("O3v3", &["-O3", "-march=x86-64-v3"])];

/// Targets: median and worst CPU-time ratio.
const MOST_MEDIAN: f64 = 2.5;
const MOST_WORST: f64 = 6.0;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let threads = options.threads.unwrap_or_else(probe::cpus);
    println!(
        "{threads} threads, {} pairs each; CPU seconds (user + system), median and range",
        options.pairs
    );
    println!(
        "{:<16} {:>10} {:>10} {:>7}  {:<13} why",
        "kernel", "native", "recorded", "ratio", "range"
    );
    let mut medians: Vec<(f64, String)> = Vec::new();
    for (kernel, why) in KERNELS {
        for (variant, flags) in VARIANTS {
            let name = format!("{kernel}-{variant}");
            if !options.kernels.is_empty()
                && !options.kernels.iter().any(|k| name.contains(k.as_str()))
            {
                continue;
            }
            if *variant == "O3v3" && !probe::has_v3() {
                println!("{name:<16} skipped: this processor is no x86-64-v3");
                continue;
            }
            let pairs = measure::pairs(kernel, flags, threads, &options).context(name.clone())?;
            let ratio = print_line(&name, why, &pairs);
            medians.push((ratio.median, name));
        }
    }
    summary(medians, options.check)
}

/// Prints a kernel's line; returns the spread of its ratios.
fn print_line(name: &str, why: &str, pairs: &[measure::Pair]) -> Spread {
    let native = spread(pairs.iter().map(|p| p.native));
    let recorded = spread(pairs.iter().map(|p| p.recorded));
    let ratio = spread(pairs.iter().map(|p| p.recorded / p.native));
    println!(
        "{name:<16} {:>10.3} {:>10.3} {:>7.2}  {:<13} {why}",
        native.median,
        recorded.median,
        ratio.median,
        format!("{:.2} to {:.2}", ratio.least, ratio.most),
    );
    ratio
}

/// Prints the last line, and fails when that was asked for and a target is missed.
fn summary(mut medians: Vec<(f64, String)>, check: bool) -> anyhow::Result<()> {
    anyhow::ensure!(!medians.is_empty(), "no kernel of that name");
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = spread(medians.iter().map(|(ratio, _)| *ratio)).median;
    let (worst, name) = medians.last().expect("not empty");
    println!(
        "median {median:.2}x (target {MOST_MEDIAN}), worst {worst:.2}x {name} (target {MOST_WORST})"
    );
    anyhow::ensure!(!check || (median <= MOST_MEDIAN && *worst <= MOST_WORST), "target missed");
    Ok(())
}
