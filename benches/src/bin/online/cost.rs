//! What `auto` itself takes: processor time with a program that rests and with one that computes,
//! and memory.

use crate::Options;
use crate::partners::{Partners, done};
use anyhow::Context;
use test_support::Outcome;

/// Parts of the machine at rest, and of the program under load.
const MAX_AT_REST: f64 = 0.005;
const MAX_UNDER_LOAD: f64 = 0.015;
/// Most memory, bytes.
const MAX_BYTES: u64 = 80 << 20;

/// The table, and what was missed. What `auto` takes to start is measured apart, and taken off.
pub fn run(options: &Options) -> anyhow::Result<Vec<String>> {
    let partners = Partners::new()?;
    let seconds: u32 = options.pick(20, 5);
    println!("\ncost of auto itself over {seconds} s, without what it takes to start");
    let start = done(partners.auto().args(["--", "sleep", "0.3"]))?;
    let rest = done(partners.auto().args(["--", "sleep", &seconds.to_string()]))?;
    let load = done(partners.auto().arg("--").args(partners.program(seconds)))?;
    let [start_s, rest_s, load_s] =
        [own_seconds(&start)?, own_seconds(&rest)?, own_seconds(&load)?];
    let cpus = test_support::probe::cpus() as f64;
    let at_rest = (rest_s - start_s).max(0.0) / f64::from(seconds) / cpus;
    let busy = (load.cpu.as_secs_f64() - load_s).max(0.1);
    let under_load = (load_s - start_s).max(0.0) / busy;
    let bytes = load.own.bytes.max(rest.own.bytes);
    println!("  start                   {start_s:.2} s of processor time");
    println!("  at rest                 {:.2} % of the machine (target 0.5)", 100.0 * at_rest);
    println!("  under load              {:.2} % of the program (target 1.5)", 100.0 * under_load);
    println!("  memory                  {} MiB (target 80)", bytes >> 20);
    let mut missed = Vec::new();
    missed.extend((at_rest > MAX_AT_REST).then(|| "processor time at rest".to_owned()));
    missed.extend((under_load > MAX_UNDER_LOAD).then(|| "processor time under load".to_owned()));
    missed.extend((bytes > MAX_BYTES).then(|| "memory".to_owned()));
    Ok(missed)
}

/// What `auto` says that it took.
fn own_seconds(outcome: &Outcome) -> anyhow::Result<f64> {
    let said = outcome.stderr_text();
    let part = said.split("this took").nth(1).and_then(|text| text.split_whitespace().next());
    let seconds = part.and_then(|text| text.parse().ok());
    seconds.with_context(|| format!("auto does not say what it took\n{outcome}"))
}
