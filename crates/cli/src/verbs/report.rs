//! `threadtalk report`: what a profile says, in the terminal, as JSON or as a page.

use crate::choice::{CostNames, one_of};
use crate::family;
use crate::output::{OUTPUT, Output, print};
use analysis::PageSize;
use anyhow::Context;
use clap::ArgGroup;
use placement::Plan;
use profile::{Note, Profile};
use report::{Changes, CompareError, Findings, MemoryUse, Setting, TextStyle};
use std::path::{Path, PathBuf};
use topology::{CostModel, Topology};

/// Show which threads communicate, through which memory and code
///
/// Without options, the findings are printed, most important first: which threads communicate, the
/// hot cache lines with their bytes and code (like perf c2c report, but counted), the hot code over
/// all cache lines, and placements computed for the recorded machine. Profiles recorded with
/// --matrix or --undirected hold no cache lines and no code. The text fits the terminal, or 80
/// columns in a pipe.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  threadtalk report app.tt\n  threadtalk report app.tt --html app.html"
)]
#[command(group(ArgGroup::new("file").args(["output", "html"])))]
pub struct Args {
    /// Profile folder (NAME.tt)
    profile: PathBuf,
    /// Maximum number of hot cache lines [default: 10]
    ///
    /// With --json the default is 100, with --html 200. By default, text shows details only of
    /// cache lines that carry at least 1 % of the events.
    #[arg(long, value_name = "N")]
    lines: Option<usize>,
    /// Process of the profile, by its number: 0 is the first one [default: the one that
    /// communicates most]
    #[arg(long, value_name = "NUMBER", hide_short_help = true)]
    process: Option<u32>,
    /// Profile of an earlier run, to say what became of each object since; 'threadtalk diff'
    /// compares the threads, too
    #[arg(hide_short_help = true, long, value_name = "PROFILE")]
    before: Option<PathBuf>,
    /// Also show this plan's placement, as the one recommended
    #[arg(long, help_heading = PLACEMENT, hide_short_help = true)]
    plan: Option<PathBuf>,
    /// Application whose profile this is, by name or number, if the plan is for several
    #[arg(long, requires = "plan", value_name = "APP", help_heading = PLACEMENT, hide_short_help = true)]
    app: Option<String>,
    /// Size of the pages that the metrics of memory are about
    #[arg(hide_short_help = true, long, default_value = "4KiB", value_parser = one_of::<PageSize>())]
    page_size: PageSize,
    /// Machine to place on: hwloc XML file, or a description like 'pack:2 core:8 pu:2'
    /// [default: the recorded one]
    #[arg(long, value_name = "MACHINE", help_heading = PLACEMENT)]
    on: Option<String>,
    /// Costs of communication: latency, complace, measured:FILE (from 'topo --measure -o FILE'), or
    /// a number for each branching level, from the root down (100,10)
    #[arg(long, default_value = "latency", value_name = "COSTS", value_parser = CostNames, hide_possible_values = true, allow_hyphen_values = true, help_heading = PLACEMENT, hide_short_help = true)]
    costs: String,
    /// Write a self-contained HTML page to this file
    #[arg(long, value_name = "FILE", conflicts_with = "json", help_heading = OUTPUT)]
    html: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Write the result to this file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "file", help_heading = OUTPUT)]
    force: bool,
}

const PLACEMENT: &str = "Placement";

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let family::Shown { profile, number, why, together } =
        family::load(&args.profile, args.process)?;
    let plan = match &args.plan {
        Some(path) => Some(Plan::read(path)?.of_app(args.app.as_deref())?),
        None => None,
    };
    let machine = args.on.as_deref().map(Topology::from_spec).transpose().context("--on")?;
    let costs: CostModel = args.costs.parse().context("--costs")?;
    let setting = Setting { plan: plan.as_ref(), machine: machine.as_ref(), costs };
    let lines = args.lines.unwrap_or(match (&args.html, args.json) {
        (Some(_), _) => 200,
        (_, true) => 100,
        _ => 10,
    });
    let mut findings = findings(&profile, &setting, lines)?;
    findings.memory = MemoryUse::of(&profile, &setting, args.page_size);
    if let Some(path) = &args.before {
        findings.changes = Some(changes(path, &profile)?);
    }
    if together {
        let all =
            "These are all processes that communicate with each other; --process NUMBER shows one.";
        findings.verdict.details.insert(0, all.into());
    } else if args.process.is_none() && number != 0 {
        findings.verdict.details.insert(0, which_process(&profile, number, why));
    }
    let out = match args.html.as_ref().or(args.output.as_ref()) {
        Some(path) => Output::file(path, args.force)?,
        None => Output::stdout(),
    };
    let text = if args.html.is_some() {
        report::page(&findings, &profile, &setting)
    } else if args.json {
        serde_json::to_string_pretty(&findings)? + "\n"
    } else {
        let (colour, width) = (out.wants_colour(), out.width());
        report::text(&findings, &profile, TextStyle { colour, width, lines: args.lines })
    };
    print(out, &text)?;
    if let Some(path) = &args.html {
        eprintln!("threadtalk: the report is in {}; open it in a browser", path.display());
    }
    Ok(0)
}

/// What became of the objects since an earlier recording.
fn changes(path: &Path, now: &Profile) -> anyhow::Result<Changes> {
    let before = family::load_saying(path, None)?;
    let found = analysis::object_changes(&before, now).with_context(|| {
        format!(
            "cannot compare with '{}': one of the profiles holds no objects; record without --matrix \
             and --undirected",
            path.display()
        )
    })?;
    Ok(Changes::of(&found))
}

/// That the report is not about the first process.
fn which_process(profile: &Profile, number: u32, why: &str) -> String {
    format!(
        "This is process {number}, which {why} (of {}); --process 0 shows the first one.",
        1 + profile.meta.processes.len()
    )
}

/// The findings; that no placement could be computed is one of them, unless the plan, machine or
/// costs that the user gave are to blame.
fn findings(profile: &Profile, setting: &Setting<'_>, lines: usize) -> anyhow::Result<Findings> {
    match report::compare(profile, setting) {
        Ok(placement) => Ok(Findings::new(profile, placement, lines)),
        Err(error @ CompareError::OtherMachine { .. }) => Err(error.into()),
        Err(CompareError::Costs(error)) if setting.costs != CostModel::default() => {
            Err(error).context("--costs")
        }
        Err(error) => {
            let mut findings = Findings::new(profile, None, lines);
            findings.warnings.push(Note::NoPlacement { why: error.to_string() }.into());
            Ok(findings)
        }
    }
}
