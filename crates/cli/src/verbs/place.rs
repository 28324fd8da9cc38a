//! `threadtalk place`: matrix or profile and machine in, plan out; `text.rs` is what people read.

mod data;
pub mod phases;
mod same;
mod text;

use super::simulate::Verifier;
use super::topo;
use super::tune::worth::hardly_talk;
use crate::choice::{CostNames, one_of};
use crate::kind;
use crate::output::OUTPUT;
use crate::said::say;
use crate::{family, input};
use analysis::{Choice, MatrixKind};
use anyhow::{Context, bail, ensure};
use placement::{
    App, DataPolicy, DataUse, Effort, Placement, Plan, PolicyKind, Request, Tasks, lower_bound,
    place,
};
use profile::Profile;
use report::{Reliability, RunPhases};
use std::path::{Path, PathBuf};
use topology::{Costs, Topology};
use types::{CommMatrix, ThreadIdentity};

/// Compute where each thread should run
///
/// From a profile with pages (record --pages), the plan says where data goes, too.
///
/// With several inputs, each is an application, and all are placed together on one machine: no two
/// threads share a core while another core is free. Applications that communicate more count more,
/// so recordings should be about equally long. 'run' and 'export' take one application with --app.
///
/// Of plans of equal cost, the one in natural order is given: T0 on L#0, and so on.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Profile folders, or matrices: CSV files, or - for stdin
    ///
    /// A matrix is square and has non-negative integers.
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Process of the profile, by its number: 0 is the first one [default: the one that
    /// communicates most]
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    process: Option<u32>,
    /// Events of a profile that threads are placed by [default: transfers; undirected if recorded
    /// so]
    #[arg(long, value_parser = one_of::<MatrixKind>(), hide_short_help = true)]
    kind: Option<MatrixKind>,
    /// Machine to place on: hwloc XML file, or a description like 'pack:2 core:8 pu:2'
    /// [default: this one]
    #[arg(long, value_name = "MACHINE")]
    on: Option<String>,
    /// Placement policy for threads
    ///
    /// Without it, threads and data are planned together where pages were recorded; elsewhere it is
    /// locality.
    #[arg(long, value_name = "POLICY", value_parser = one_of::<PolicyKind>())]
    policy: Option<PolicyKind>,
    /// Placement policy for data: which NUMA node each page goes to [default: auto, if pages were
    /// recorded]
    #[arg(long, value_name = "POLICY", value_parser = one_of::<DataPolicy>(), hide_short_help = true)]
    data: Option<DataPolicy>,
    /// The inputs are runs of one program: make one plan of them, if their pattern is the same
    #[arg(long, hide_short_help = true)]
    same_program: bool,
    /// Costs of communication: latency, complace, measured:FILE (from 'topo --measure -o FILE'), or
    /// a number for each branching level, from the root down (100,10)
    #[arg(long, default_value = "latency", value_name = "COSTS", value_parser = CostNames, hide_possible_values = true, allow_hyphen_values = true, hide_short_help = true)]
    costs: String,
    /// How hard the solver tries
    #[arg(long, default_value = "default", value_name = "EFFORT", value_parser = one_of::<Effort>(), hide_short_help = true)]
    effort: Effort,
    /// Seed of the solver's random choices; the same seed gives the same plan
    #[arg(long, default_value_t = 0, value_name = "N", hide_short_help = true)]
    seed: u64,
    /// Simulate the plan beside other policies on the machine, with the accesses of the profile
    /// ('record --trace'), to see whether the expected costs hold
    #[arg(long, value_name = "HOW", value_parser = ["simulate"], conflicts_with = "json", hide_short_help = true)]
    verify: Option<String>,
    /// Print the result as JSON
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Write the plan to this file, for 'threadtalk run --plan'
    #[arg(short, long, value_name = "PLAN", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output", help_heading = OUTPUT)]
    force: bool,
}

const EXAMPLES: &str = "\
Examples:
  threadtalk place app.tt -o app.plan.json
  threadtalk place app.tt --on 'pack:2 core:8 pu:2'";

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let policy = args.policy.unwrap_or_default();
    let request = Request { policy, seed: args.seed, effort: args.effort, jobs };
    let mut applications = read_inputs(&args.inputs, &args)?;
    let verifier = args.verify.is_some().then(|| verifier(&args)).transpose()?;
    if args.same_program {
        applications = vec![same::merge(applications, &args.inputs)?];
    }
    let data = data::wanted(&args, &applications)?;
    let machine = topo::machine(args.on.as_deref())?;
    let costs = topo::costs(&args.costs, &machine)?;
    let all: Vec<&Tasks> = applications.iter().map(|app| &app.tasks).collect();
    let tasks = Tasks::side_by_side(&all);
    let paths: Vec<String> = args.inputs.iter().map(|path| path.display().to_string()).collect();
    let placed = match data {
        Some(data) => {
            data::joint(&applications[0], data, args.policy, (&machine, &costs), &request)
        }
        None => place(&tasks, &machine, &costs, &request).map(|placement| (placement, None)),
    };
    let (placement, plan_data) =
        placed.with_context(|| format!("cannot place '{}'", paths.join("', '")))?;
    let bound = lower_bound(&tasks, &machine, &costs)?;
    let plan = plan(&placement, &machine, &costs, &applications);
    let plan = Plan { lower_bound: Some(bound), events: events(&applications), ..plan };
    let plan = match (data, plan_data) {
        (Some(data), Some(found)) => {
            Plan { policy: data::threads(args.policy, data), ..plan }.with_data(found)
        }
        _ => plan,
    };
    let (plan, phases) =
        phases::with_phases(plan, &placement, &applications, (&machine, &costs), &request)?;
    if let Some(path) = &args.output {
        plan.write(path, args.force)?;
    }
    // A plan as such says nothing of what it rests on.
    if args.json {
        applications.iter().filter_map(text::too_few).for_each(|text| say(&text));
    }
    let text = match args.json {
        true => plan.to_json(),
        false => text::table(&placement, &plan, &machine, &costs, &applications) + &phases,
    };
    topo::print(&text)?;
    if let Some(path) = args.output.as_ref().filter(|_| !args.json) {
        topo::print(&format!("\nplan written to {}\n", path.display()))?;
    }
    if let Some(verifier) = verifier {
        let name = args.on.as_ref().map_or("this machine".into(), |on| format!("'{on}'"));
        topo::print(&format!("\n{}", verifier.verify(machine, &name, plan)?))?;
    }
    Ok(0)
}

/// What simulates the plan beside other policies.
fn verifier(args: &Args) -> anyhow::Result<Verifier> {
    let [input] = &args.inputs[..] else {
        bail!("--verify simulates the accesses of one run; give one profile");
    };
    Verifier::open(&family::folder(input, args.process)?)
}

/// The plan; of several applications, which thread is whose stands in it.
fn plan(
    placement: &Placement,
    machine: &Topology,
    costs: &Costs,
    applications: &[Application],
) -> Plan {
    if let [only] = applications {
        return Plan::new(placement, machine, &only.identities)
            .with_names(&only.program, &only.routines);
    }
    let apps: Vec<App<'_>> = applications
        .iter()
        .map(|app| App { name: &app.name, tasks: &app.tasks, identities: &app.identities })
        .collect();
    Plan::of_apps(placement, machine, costs, &apps)
}

/// What events are that threads are placed by, as far as that is known.
fn events(applications: &[Application]) -> String {
    let mut all: Vec<&str> = applications.iter().map(|app| app.events.as_str()).collect();
    all.retain(|events| !events.is_empty());
    all.dedup();
    all.join("; ")
}

/// What is placed, and what is known about it.
struct Application {
    /// Of its file; unlike that of any other application.
    name: String,
    tasks: Tasks,
    /// Empty for a bare matrix.
    identities: Vec<ThreadIdentity>,
    /// Name of each thread; empty for a bare matrix.
    names: Vec<String>,
    /// File name of the program; empty for a bare matrix.
    program: String,
    /// Name of each thread's start routine, or empty; none for a bare matrix.
    routines: Vec<String>,
    /// What events are, for people; empty for a bare matrix.
    events: String,
    /// That they hardly communicate, if so; never known of a bare matrix.
    quiet: Option<String>,
    /// Who uses which page, if that was recorded.
    usage: Option<DataUse>,
    /// Whether it is several processes.
    together: bool,
    /// Its phases, if who communicates with whom changes.
    phases: Option<RunPhases>,
    /// How far the amounts can be trusted, if they were sampled.
    reliability: Option<Reliability>,
}

fn read_inputs(paths: &[PathBuf], args: &Args) -> anyhow::Result<Vec<Application>> {
    let from_stdin = paths.iter().filter(|path| path.as_os_str() == "-").count();
    ensure!(from_stdin < 2, "standard input can be read once only; name files instead");
    ensure!(
        args.process.is_none() || paths.len() == 1,
        "--process is for a single profile; of several, name the folders of the processes"
    );
    let mut applications: Vec<Application> = Vec::new();
    for path in paths {
        let mut application = read_input(path, args)?;
        let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let taken = |name: &String| applications.iter().any(|other| other.name == *name);
        // The same program twice is two applications.
        let numbered = (2..).map(|number| format!("{stem}-{number}"));
        let mut names = [stem.clone()].into_iter().chain(numbered);
        application.name = names.find(|name| !taken(name)).unwrap_or_default();
        applications.push(application);
    }
    Ok(applications)
}

fn read_input(path: &Path, args: &Args) -> anyhow::Result<Application> {
    if path.is_dir() {
        let profile = family::load_saying(path, args.process)?;
        let choice = kind::choice(&profile, args.kind, None)
            .with_context(|| format!("cannot place '{}'", path.display()))?;
        if let Some(note) = report::ran_apart(&profile) {
            say(&format!("note: {}", report::sentence(&note)));
        }
        if profile.meta.together.is_some() {
            say(
                "note: 'threadtalk run' binds the threads of the program that it starts, not those of other \
                 processes, and their pages are not planned together; 'threadtalk auto' places processes while \
                 they run",
            );
        }
        return Ok(from_profile(&profile, choice));
    }
    if args.process.is_some() || args.kind.is_some() {
        bail!("--process and --kind are for profile folders; leave them out for a matrix");
    }
    Ok(from_matrix(&input::matrix(path)?))
}

/// The plan that 'place' makes of a profile for a machine, unless told otherwise.
///
/// # Errors
/// When the profile cannot be read, or its threads cannot be placed.
pub fn plan_of(path: &Path, machine: &Topology) -> anyhow::Result<Plan> {
    let profile = family::load_saying(path, None)?;
    let choice = kind::choice(&profile, None, None)
        .with_context(|| format!("cannot place '{}'", path.display()))?;
    let application = from_profile(&profile, choice);
    let costs = topo::costs("latency", machine)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let request = Request { jobs, ..Request::new(PolicyKind::default()) };
    let (placement, data) =
        data::joint(&application, DataPolicy::Auto, None, (machine, &costs), &request)
            .with_context(|| format!("cannot place '{}'", path.display()))?;
    let plan = Plan::new(&placement, machine, &application.identities)
        .with_names(&application.program, &application.routines);
    Ok(match data {
        Some(data) => plan.with_data(data),
        None => plan,
    })
}

fn from_matrix(matrix: &CommMatrix) -> Application {
    let tasks = Tasks::from(matrix);
    Application {
        name: String::new(),
        tasks,
        identities: Vec::new(),
        names: Vec::new(),
        program: String::new(),
        routines: Vec::new(),
        events: String::new(),
        quiet: None,
        usage: None,
        together: false,
        phases: None,
        reliability: None,
    }
}

/// The profile's communication, with its threads' work and identities.
fn from_profile(profile: &Profile, choice: Choice) -> Application {
    let name = |thread: &profile::ThreadRow| match thread.start_symbol.is_empty() {
        true => thread.identity.name.clone(),
        false => thread.start_symbol.clone(),
    };
    Application {
        name: String::new(),
        tasks: report::tasks(profile, choice),
        identities: profile.threads.iter().map(|t| t.identity.clone()).collect(),
        names: profile.threads.iter().map(name).collect(),
        program: profile.meta.command.first().map_or(String::new(), |path| {
            Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
        }),
        routines: profile.threads.iter().map(|t| t.start_symbol.clone()).collect(),
        events: choice.kind().words(profile.meta.parameters.block_bytes),
        quiet: hardly_talk(profile),
        // Bytes that threads share have no cost in time that could be added to that of memory.
        usage: report::data_use(profile)
            .map(DataUse::joined)
            .filter(|_| !choice.kind().is_shared()),
        together: profile.meta.together.is_some(),
        phases: RunPhases::of(profile, choice).filter(|_| !choice.kind().is_shared()),
        reliability: Reliability::of(profile, choice),
    }
}
