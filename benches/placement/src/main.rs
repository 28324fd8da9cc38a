//! `make bench-placement`: quality and CPU time of the placement policies, side by side in one run.
//!
//! Every policy places every family of graphs (`graphs.rs`) on every machine (`machines.rs`) for
//! every number of threads. The ratio is cost against the best known (`best.rs`); the time is CPU
//! time of the whole call, reference placements included, the median of several runs. The table
//! (`summary.rs`) has the quartiles of these over all problems, the slowest problem's, and in
//! "runs" how far apart the fastest and the slowest run of a problem are, for the median problem.
//! Before these, the exact tier, on machines of its own: all others are too large for it. After
//! them, plans for threads and data together against pairs of policies (`joint.rs`).

mod best;
mod graphs;
mod joint;
mod machines;
mod random;
mod summary;

use anyhow::Result;
use best::Best;
use clap::{Parser, ValueEnum};
use graphs::Family;
use machines::Machine;
use placement::{Effort, PolicyKind, Request, Tasks, place};
use summary::{Measured, Summary};

/// Compare placement policies
#[derive(Parser)]
struct Args {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "16,32,64,128,256,512,1024")]
    threads: Vec<usize>,
    /// Families of graphs [default: all]
    #[arg(long, value_delimiter = ',', value_enum)]
    families: Vec<Family>,
    /// Machines [default: all]
    #[arg(long, value_delimiter = ',')]
    machines: Vec<String>,
    /// Efforts of the solver
    #[arg(long, value_delimiter = ',', default_value = "fast,default")]
    efforts: Vec<Effort>,
    /// Runs of each, of which the median counts
    #[arg(long, default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seeds tried by each run of the solver; more than one is for --improve
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Print a line for every placement, not only the summary
    #[arg(long)]
    all: bool,
    /// Leave out the other policies and the exact tier
    #[arg(long)]
    solver_only: bool,
    /// Only plans for threads and data together
    #[arg(long)]
    joint_only: bool,
    /// Threads of the programs for these
    #[arg(long, default_value_t = 32)]
    joint_threads: usize,
    /// Write better placements found to best-known.csv
    #[arg(long)]
    improve: bool,
}

/// A way to place: its name in tables, and what to ask for.
struct Way {
    name: String,
    request: Request,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut best = Best::read()?;
    let mut summary = Summary::default();
    let ways = ways(&args);
    let machines = machines::all()?;
    let wanted =
        |m: &&Machine| args.machines.is_empty() || args.machines.iter().any(|n| n == m.name);
    if args.joint_only {
        return joint_plans(&args, machines);
    }
    if !args.solver_only && args.machines.is_empty() {
        exact_tier(&args, &mut summary)?;
        summary.print(machines::SMALL_THREADS);
        summary = Summary::default();
    }
    for &threads in &args.threads {
        for machine in machines.iter().filter(wanted) {
            for &family in families(&args) {
                problem(&args, &ways, machine, family, threads, &mut best, &mut summary);
            }
        }
        summary.print(threads);
    }
    if args.improve {
        println!("{} better placements written", best.write()?);
    }
    if args.solver_only { Ok(()) } else { joint_plans(&args, machines) }
}

/// Plans for threads and data on the machines that are wanted.
fn joint_plans(args: &Args, machines: Vec<Machine>) -> Result<()> {
    let wanted =
        |m: &Machine| args.machines.is_empty() || args.machines.iter().any(|n| n == m.name);
    let machines: Vec<Machine> = machines.into_iter().filter(wanted).collect();
    if let Some(machine) = machines.first() {
        joint::compare(&machines, args.joint_threads)?;
        joint::large(machine, args.joint_threads)?;
    }
    Ok(())
}

fn families(args: &Args) -> &[Family] {
    if args.families.is_empty() { Family::value_variants() } else { &args.families }
}

fn ways(args: &Args) -> Vec<Way> {
    let mut ways = Vec::new();
    if !args.solver_only {
        for policy in ["complace", "eagermap", "treematch", "scotch"] {
            match policy.parse() {
                Ok(kind) => ways.push(Way { name: policy.into(), request: Request::new(kind) }),
                Err(_) => println!("without {policy}: build with --features {policy}"),
            }
        }
    }
    for &effort in &args.efforts {
        let request = Request { effort, ..Request::new(PolicyKind::Locality) };
        ways.push(Way { name: format!("locality, {effort}"), request });
    }
    ways
}

/// Places all families on the machines that are small enough to be solved exactly.
fn exact_tier(args: &Args, summary: &mut Summary) -> Result<()> {
    let threads = machines::SMALL_THREADS;
    for machine in &machines::small()? {
        for family in families(args) {
            let tasks = Tasks::from(&family.matrix(threads));
            let request = Request::new(PolicyKind::Locality);
            let (_, mut runs) = timed(&tasks, machine, &request, args.runs as usize);
            runs.sort_by(f64::total_cmp);
            let problem = format!("{} on {}", family.name(), machine.name);
            summary.add(threads, "locality, exact", Measured { problem, ratio: None, runs });
        }
    }
    Ok(())
}

/// The cost of a placement, and the CPU time of each run, ms.
fn timed(tasks: &Tasks, machine: &Machine, request: &Request, runs: usize) -> (f64, Vec<f64>) {
    let mut cost = 0.0;
    let run = |_| {
        let start = cpu_ms();
        let placed = place(tasks, &machine.topology, &machine.costs, request);
        let taken = cpu_ms() - start;
        cost = placed.expect("a placement").cost;
        taken
    };
    let times = (0..runs).map(run).collect();
    (cost, times)
}

/// Places one matrix on one machine in all ways.
fn problem(
    args: &Args,
    ways: &[Way],
    machine: &Machine,
    family: Family,
    threads: usize,
    best: &mut Best,
    summary: &mut Summary,
) {
    let key = (machine.name.to_string(), family.name().to_string(), threads);
    let tasks = Tasks::from(&family.matrix(threads));
    let mut found = Vec::new();
    for way in ways {
        let seeds = if way.request.policy == PolicyKind::Locality { args.seeds } else { 1 };
        let mut cheapest = f64::INFINITY;
        let mut times = Vec::new();
        for seed in 0..seeds {
            let request = Request { seed, ..way.request };
            let (cost, runs) = timed(&tasks, machine, &request, args.runs as usize);
            times.extend(runs);
            best.offer(&key, cost, &format!("{} (seed {seed})", way.name));
            cheapest = cheapest.min(cost);
        }
        times.sort_by(f64::total_cmp);
        found.push((way, cheapest, times));
    }
    let known = best.cost(&key).unwrap_or(0.0);
    for (way, cost, runs) in found {
        let ratio = if known > 0.0 { cost / known } else { 1.0 };
        let problem = format!("{} on {}", family.name(), machine.name);
        let measured = Measured { problem, ratio: Some(ratio), runs };
        if args.all {
            println!(
                "{:<22} {:<15} {threads:>5}  {:<18} {cost:>14.0} {ratio:>7.4} {:>9.2} ms",
                machine.name,
                family.name(),
                way.name,
                measured.cpu_ms()
            );
        }
        summary.add(threads, &way.name, measured);
    }
}

/// CPU time of this process so far, s.
fn cpu_seconds() -> f64 {
    cpu_ms() / 1e3
}

/// CPU time of this process so far, ms.
fn cpu_ms() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure that the pointer names.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}
