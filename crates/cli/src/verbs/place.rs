//! `threadtalk place`: matrix or profile and machine in, plan out.

use super::topo;
use crate::input;
use anyhow::Context;
use placement::{Effort, Placement, Plan, PolicyKind, Request, Tasks, lower_bound, place};
use profile::Profile;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use topology::{Costs, Hierarchy, Topology};
use types::{CommMatrix, ThreadIdentity};

/// Compute where each thread should run
#[derive(clap::Args)]
pub struct Args {
    /// A profile folder, a square CSV matrix of non-negative integers, or - for a matrix on stdin
    input: PathBuf,
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
    let threads = read_input(&args.input)?;
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
        false => table(&placement, bound, &machine, &costs, &threads),
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

fn read_input(path: &Path) -> anyhow::Result<Threads> {
    if path.is_dir() {
        return Ok(from_profile(&Profile::load(path)?));
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

/// The placement for people.
fn table(
    placement: &Placement,
    bound: f64,
    machine: &Topology,
    costs: &Costs,
    threads: &Threads,
) -> String {
    let mut out = String::new();
    let count = threads.tasks.len();
    let _ = writeln!(
        out,
        "{count} thread{} on {} by {} (seed {})\n",
        if count == 1 { "" } else { "s" },
        machine.describe(),
        placement.policy,
        placement.seed
    );
    if placement.pu_logical.is_empty() {
        out.push_str("No thread is bound: the operating system decides.\n\n");
    } else {
        out.push_str(&places(placement, machine, threads));
    }
    out.push_str(&prediction(placement, bound, machine, costs));
    out
}

/// A line per thread.
fn places(placement: &Placement, machine: &Topology, threads: &Threads) -> String {
    let mut out = String::new();
    let places: Vec<String> = placement.pu_logical.iter().map(|&pu| machine.place_of(pu)).collect();
    let width = places.iter().map(String::len).max().unwrap_or(0).max("place".len());
    let heading = format!("{:>6}  {:>5}  {:>5}  {:<width$}", "thread", "PU L#", "PU P#", "place");
    let named = !threads.names.is_empty();
    let _ = writeln!(out, "{}", if named { heading + "  name" } else { heading.trim_end().into() });
    for (thread, place) in places.iter().enumerate() {
        let (logical, os) = (placement.pu_logical[thread], placement.pu_os[thread]);
        let line = format!(
            "{:>6}  {logical:>5}  {os:>5}  {place:<width$}  {}",
            format!("T{thread}"),
            threads.names.get(thread).map_or("", String::as_str)
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.push('\n');
    out
}

/// The predicted cost beside the baselines'.
fn prediction(placement: &Placement, bound: f64, machine: &Topology, costs: &Costs) -> String {
    let mut out = String::new();
    let levels = Hierarchy::new(machine).levels;
    let prices: Vec<String> = levels
        .iter()
        .zip(&costs.per_level)
        .map(|(level, cost)| format!("between {} {}", level.between, number(*cost, costs.unit)))
        .collect();
    if prices.is_empty() {
        out.push_str("There is only one PU, so placement makes no difference.\n");
        return out;
    }
    let _ = writeln!(out, "cost of one event: {}", prices.join(", "));
    let _ = writeln!(out, "predicted cost, sum over pairs of threads of events x cost:");
    let line = |out: &mut String, name: &str, cost: f64, note: String| {
        let cost = number(cost, costs.unit);
        let _ = writeln!(out, "{}", format!("  {name:<10} {cost:>18}  {note}").trim_end());
    };
    line(&mut out, "this plan", placement.cost, shared(placement.shared_cores));
    let baselines = &placement.baselines;
    let ratio = |other: f64| match placement.cost > 0.0 {
        true if other > 100.0 * placement.cost => "over 100 times this plan".into(),
        true => format!("{:.2} times this plan", other / placement.cost),
        false => String::new(),
    };
    let compact = match placement.compact_shared_cores > placement.shared_cores {
        true => {
            format!("{}, but {}", ratio(baselines.compact), shared(placement.compact_shared_cores))
        }
        false => ratio(baselines.compact),
    };
    line(&mut out, "compact", baselines.compact, compact);
    line(&mut out, "scatter", baselines.scatter, ratio(baselines.scatter));
    let expected = format!("{} (expected)", ratio(baselines.random));
    line(&mut out, "random", baselines.random, expected.trim().into());
    line(&mut out, "bound", bound, "no placement costs less".into());
    out.push_str(&standing(placement.cost, baselines.os, bound));
    out
}

/// Less than this part of the operating system's expected cost is not worth a plan.
const WORTH: f64 = 0.03;

/// Where the plan stands between chance and what is possible at all. Chance uses every core before it
/// shares one, as the operating system does.
fn standing(cost: f64, chance: f64, bound: f64) -> String {
    if chance <= 0.0 {
        return "Nobody talks, so placement makes no difference to communication.\n".into();
    }
    if chance - bound < WORTH * chance {
        let most = (1.0 - bound / chance) * 100.0;
        return format!(
            "Placement hardly matters here: no placement saves more than {most:.1} % of what the \
             operating system's costs on average.\n"
        );
    }
    let part = (chance - cost) / (chance - bound) * 100.0;
    match part {
        ..0.0 => "It costs more than what the operating system does is expected to.\n".into(),
        99.95.. => "No placement is noticeably better: it reaches the bound.\n".into(),
        _ => format!(
            "It saves {:.0} % of what the operating system's placement costs on average: at least \
             {part:.0} % of what can be saved.\n",
            (1.0 - cost / chance) * 100.0
        ),
    }
}

fn shared(cores: usize) -> String {
    match cores {
        0 => String::new(),
        1 => "1 core holds more than one thread".into(),
        n => format!("{n} cores hold more than one thread"),
    }
}

/// A cost with its unit, with a decimal where it is small and has one.
fn number(cost: f64, unit: &str) -> String {
    let text = match cost >= 1000.0 || (cost - cost.round()).abs() < 0.05 {
        true => format!("{cost:.0}"),
        false => format!("{cost:.1}"),
    };
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}
