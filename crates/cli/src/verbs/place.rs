//! `threadtalk place`: matrix or profile and machine in, plan out; `text.rs` is what people read.

mod text;

use super::topo;
use crate::{family, input};
use anyhow::{Context, bail};
use placement::{Effort, Plan, PolicyKind, Request, Tasks, lower_bound, place};
use profile::Profile;
use std::path::{Path, PathBuf};
use types::{CommMatrix, ThreadIdentity};

/// Compute where each thread should run
#[derive(clap::Args)]
pub struct Args {
    /// A profile folder, a square CSV matrix of non-negative integers, or - for a matrix on stdin
    input: PathBuf,
    /// Take this process of a profile: 0 is the first one, the others have the numbers of their profiles'
    /// names [default: the one that talks most]
    #[arg(long, value_name = "NUMBER")]
    process: Option<u32>,
    /// Machine to place on: an hwloc XML file or a synthetic description ('pack:2 core:8 pu:2')
    /// [default: this machine]
    #[arg(long, value_name = "MACHINE")]
    on: Option<String>,
    /// locality, or another one of: compact, scatter, complace, eagermap, treematch, distance, balance,
    /// balanced-locality, load-balance, detloc, os
    #[arg(long, default_value = "locality", value_name = "P")]
    policy: String,
    /// latency, measured:FILE (from 'topo --measure -o FILE'), complace, or numbers from the root of
    /// the tree down over the levels that branch
    #[arg(long, default_value = "latency", value_name = "COSTS", allow_hyphen_values = true)]
    costs: String,
    /// How hard the solver tries: fast, default or max
    #[arg(long, default_value = "default", value_name = "EFFORT")]
    effort: String,
    /// Seed of the solver's random choices; the same seed gives the same plan
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    /// Write the plan to this file, for 'threadtalk run --plan'
    #[arg(short, long, value_name = "PLAN")]
    output: Option<PathBuf>,
    /// Replace an existing PLAN
    #[arg(long)]
    force: bool,
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let policy: PolicyKind = args.policy.parse().context("--policy")?;
    let effort: Effort = args.effort.parse().context("--effort")?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let request = Request { policy, seed: args.seed, effort, jobs };
    let threads = read_input(&args.input, args.process)?;
    let machine = topo::machine(args.on.as_deref())?;
    let costs = topo::costs(&args.costs, &machine)?;
    let placement = place(&threads.tasks, &machine, &costs, &request)
        .with_context(|| format!("cannot place '{}'", args.input.display()))?;
    let bound = lower_bound(&threads.tasks, &machine, &costs)?;
    let plan =
        Plan { lower_bound: Some(bound), ..Plan::new(&placement, &machine, &threads.identities) };
    if let Some(path) = &args.output {
        plan.write(path, args.force)?;
    }
    let text = match args.json {
        true => plan.to_json(),
        false => text::table(&placement, bound, &machine, &costs, &threads),
    };
    topo::print(&text)?;
    if let Some(path) = args.output.as_ref().filter(|_| !args.json) {
        topo::print(&format!("\nplan written to {}\n", path.display()))?;
    }
    Ok(0)
}

/// What is placed, and what is known about it.
struct Threads {
    tasks: Tasks,
    /// Empty for a bare matrix.
    identities: Vec<ThreadIdentity>,
    /// Name of each thread; empty for a bare matrix.
    names: Vec<String>,
}

fn read_input(path: &Path, process: Option<u32>) -> anyhow::Result<Threads> {
    if path.is_dir() {
        return Ok(from_profile(&family::load_saying(path, process)?));
    }
    if process.is_some() {
        bail!("--process is for profile folders; leave it out for a matrix");
    }
    Ok(from_matrix(&input::matrix(path)?))
}

fn from_matrix(matrix: &CommMatrix) -> Threads {
    Threads { tasks: Tasks::from(matrix), identities: Vec::new(), names: Vec::new() }
}

/// The profile's talk, with its threads' work and identities.
fn from_profile(profile: &Profile) -> Threads {
    let name = |thread: &profile::ThreadRow| match thread.start_symbol.is_empty() {
        true => thread.identity.name.clone(),
        false => thread.start_symbol.clone(),
    };
    Threads {
        tasks: report::tasks(profile),
        identities: profile.threads.iter().map(|t| t.identity.clone()).collect(),
        names: profile.threads.iter().map(name).collect(),
    }
}
