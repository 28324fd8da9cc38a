//! What `auto` gains, what it costs, and how it compares (`make bench-online`).
//!
//! | part | tells |
//! | --- | --- |
//! | `policies` | work done under each policy, over that of the scheduler: one application, and two |
//! | `partners` | `auto` against `run --plan`, over some time, with fixed and with changing partners |
//! | `nothing` | programs where nothing can be gained: time with `auto` over time without |
//! | `cost` | processor time and memory of `auto` itself, at rest and under load |
//! | `decisions` | processor time of the decider for a million pages |
//!
//! `policies.rs`, `nothing.rs`, `cost.rs` and `decisions.rs` hold the parts, `partners.rs` the
//! program that most of them run.

mod cost;
mod decisions;
mod nothing;
mod partners;
mod policies;

use clap::{Parser, ValueEnum};

/// Measure online placement.
#[derive(Parser)]
#[command(name = "online", max_term_width = 100)]
pub struct Options {
    /// Take about 3 minutes instead of 15
    #[arg(long)]
    quick: bool,
    /// Only these parts
    #[arg(long, value_enum, num_args = 1..)]
    part: Vec<Part>,
    /// Fail when a target is missed
    #[arg(long)]
    check: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Policies,
    Partners,
    Nothing,
    Cost,
    Decisions,
}

impl Options {
    /// The first where all is measured, the second where it is to be quick.
    fn pick<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }
}

/// A line about a target that was missed; none if it was reached.
pub type Missed = Option<String>;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let wants = |part| options.part.is_empty() || options.part.contains(&part);
    let mut missed: Vec<String> = Vec::new();
    if wants(Part::Decisions) {
        missed.extend(decisions::run());
    }
    if wants(Part::Cost) {
        missed.extend(cost::run(&options)?);
    }
    if wants(Part::Policies) {
        policies::run(&options)?;
    }
    if wants(Part::Partners) {
        missed.extend(policies::against_the_plan(&options)?);
    }
    if wants(Part::Nothing) {
        missed.extend(nothing::run(&options)?);
    }
    missed.iter().for_each(|line| println!("target missed: {line}"));
    anyhow::ensure!(!options.check || missed.is_empty(), "{} targets missed", missed.len());
    Ok(())
}
