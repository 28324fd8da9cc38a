//! How often does `tune` decide wrongly? (`make bench-tune`)
//!
//! Runs a program beside itself with more or less work, so that the true ratio is known, in pairs
//! as `tune` does, many more than it takes. Then lets `statistics::Race` decide from many places in
//! that series on, and counts its outcomes: what is wrong, what is left open, and how many pairs it
//! took. The places are not independent of each other, but the noise is a real machine's.

use clap::Parser;
use statistics::{Outcome, Race};
use std::path::PathBuf;
use test_support::{Compiler, Run, Scratch, Target};

/// Count wrong decisions of `tune` where the truth is known.
#[derive(Parser)]
#[command(name = "tune", max_term_width = 100)]
struct Options {
    /// Pairs of runs for each truth
    #[arg(long, default_value_t = 240)]
    pairs: usize,
    /// Most pairs before a decision is left open
    #[arg(long, default_value_t = 120)]
    most: usize,
    /// Fail when more than this part of the decisions is wrong
    #[arg(long)]
    check: Option<f64>,
}

/// True differences in time, of the second run of a pair.
const TRUTHS: [f64; 7] = [0.0, 0.01, -0.01, 0.03, -0.03, 0.10, -0.10];
/// Candidates with the same truth that are compared at once in the last row of a program.
const SEVERAL: usize = 3;
/// What may be wrong, as in `tune`.
const ALPHA: f64 = 0.05;

/// A program whose work is a number.
struct Program {
    name: &'static str,
    path: PathBuf,
    /// Takes some 50 ms.
    work: usize,
}

/// Steps of arithmetic in one thread: as little noise as there can be.
const SPIN: &str = r"
#include <stdlib.h>
int main(int argc, char **argv) {
    volatile unsigned long sum = argc;
    for (long step = atol(argv[1]); step > 0; step--) sum = sum * 31 + step;
    return 0;
}
";

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let scratch = Scratch::new();
    let source = scratch.join("spin.c");
    std::fs::write(&source, SPIN)?;
    let spin = Target::new(Compiler::Gcc, source.to_str().expect("UTF-8")).flags(&["-O2"]);
    let pairs = Target::new(Compiler::Gcc, "examples/pairs.c").flags(&["-O2", "-pthread"]);
    let programs = [
        Program { name: "spin", path: spin.build()?, work: 12_000_000 },
        Program { name: "pairs", path: pairs.build()?, work: 800 },
    ];
    println!("program  truth    faster  slower    same    open   wrong  pairs");
    let mut worst: f64 = 0.0;
    for program in &programs {
        for truth in TRUTHS {
            let ratios = series(program, truth, options.pairs);
            worst = worst.max(row(program.name, truth, &ratios, &options, 1));
            if truth == 0.0 {
                worst = worst.max(row(program.name, truth, &ratios, &options, SEVERAL));
            }
        }
    }
    match options.check {
        Some(most) if worst > most => {
            anyhow::bail!("{:.1} % of decisions are wrong", worst * 100.0)
        }
        _ => Ok(()),
    }
}

/// Ratios of pairs whose second run has this much more work; who goes first changes.
fn series(program: &Program, truth: f64, pairs: usize) -> Vec<f64> {
    let other = (program.work as f64 * (1.0 + truth)).round() as usize;
    let seconds = |work: usize| {
        let run = Run::new(program.path.to_str().expect("UTF-8"));
        run.arg(work.to_string()).run().expect_code(0).wall.as_secs_f64()
    };
    let pair = |number: usize| match number % 2 {
        0 => {
            let first = seconds(program.work);
            seconds(other) / first
        }
        _ => seconds(other) / seconds(program.work),
    };
    (0..pairs).map(pair).collect()
}

/// Decides from many places of the series on and prints what came of it; the part that is wrong.
fn row(name: &str, truth: f64, ratios: &[f64], options: &Options, candidates: usize) -> f64 {
    let last = ratios.len().saturating_sub(options.most * candidates).max(1);
    let (mut counts, mut taken, mut wrong) = ([0usize; 4], Vec::new(), 0usize);
    for start in 0..last {
        let (outcome, pairs) = decide(ratios, start, options.most, candidates);
        counts[column(outcome)] += 1;
        taken.push(pairs as f64);
        wrong += usize::from(is_wrong(truth, outcome));
    }
    let part = |count: usize| count as f64 / last as f64;
    let [faster, slower, same, open] = counts.map(|count| 100.0 * part(count));
    let of = if candidates > 1 { format!(" ×{candidates}") } else { String::new() };
    println!(
        "{name:<8} {:>5.1} %{of:<3} {faster:>4.0} % {slower:>5.0} % {same:>5.0} % {open:>5.0} % {:>6.1}%  {:.0}",
        truth * 100.0,
        100.0 * part(wrong),
        benches::statistics::spread(taken.into_iter()).median
    );
    part(wrong)
}

fn column(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Faster => 0,
        Outcome::Slower => 1,
        Outcome::Same => 2,
        Outcome::Open => 3,
    }
}

/// The outcome from a place of the series on, and after how many pairs.
fn decide(ratios: &[f64], start: usize, most: usize, candidates: usize) -> (Outcome, usize) {
    let mut race = Race::new(candidates, ALPHA);
    for pair in 0..most {
        for candidate in race.open() {
            let place = start + pair * candidates + candidate;
            if let Some(ratio) = ratios.get(place) {
                race.add(candidate, *ratio);
            }
        }
        if race.open().is_empty() {
            return (race.outcome(race.best()), pair + 1);
        }
    }
    (race.outcome(race.best()), most)
}

/// Whether an outcome contradicts the truth. Of a difference of 1 %, nothing says that it is none.
fn is_wrong(truth: f64, outcome: Outcome) -> bool {
    match outcome {
        Outcome::Faster => truth >= 0.0,
        Outcome::Slower => truth <= 0.0,
        Outcome::Same => truth.abs() > statistics::NO_DIFFERENCE,
        Outcome::Open => false,
    }
}
