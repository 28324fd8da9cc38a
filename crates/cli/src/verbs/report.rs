//! `threadtalk report`: what a profile says, in the terminal, as JSON or as a page.

use crate::family;
use crate::output::Output;
use anyhow::{Context, anyhow};
use placement::Plan;
use profile::Profile;
use report::{CompareError, Findings, Setting, TextStyle};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use topology::{CostModel, Topology};

/// Show which threads talk, how much, through which memory and code, and where they could run
///
/// Without options the findings are printed, best first: who talks to whom, the hot lines of memory
/// with their bytes and the code that meets on them (as perf c2c report, but counted), the hot code
/// over all lines, and placements computed for the machine that the profile was recorded on. Profiles
/// recorded with --matrix or --undirected hold no lines and code. Of a program of several processes
/// the one that talks most is shown. The text fits the terminal, or 80 columns in a pipe.
#[derive(clap::Args)]
pub struct Args {
    /// Profile folder (NAME.tt)
    profile: PathBuf,
    /// Print the findings as JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Write one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also show this plan's placement, as the one recommended
    #[arg(long)]
    plan: Option<PathBuf>,
    /// Of a plan for several applications, the one whose profile this is: its name or number
    #[arg(long, requires = "plan", value_name = "APP")]
    app: Option<String>,
    /// Place on this machine: an hwloc XML file or a synthetic description ('pack:2 core:8 pu:2')
    /// [default: the one that the profile was recorded on]
    #[arg(long, value_name = "MACHINE")]
    on: Option<String>,
    /// Costs of communication: latency, measured:FILE (from 'topo --measure -o FILE'), complace, or
    /// numbers from the root of the tree down over the levels that branch
    #[arg(long, default_value = "latency", value_name = "COSTS", allow_hyphen_values = true)]
    costs: String,
    /// How many of the hottest lines of memory to show [default: 10, with the details of those that
    /// carry at least 1 %; with --json 100, with --html 200]
    #[arg(long, value_name = "N")]
    lines: Option<usize>,
    /// Show this process: 0 is the first one, the others have the numbers of their profiles' names
    /// [default: the one that talks most]
    #[arg(long, value_name = "NUMBER")]
    process: Option<u32>,
    /// Replace the HTML file if it exists
    #[arg(long, requires = "html")]
    force: bool,
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let family::Shown { profile, number, why } = family::load(&args.profile, args.process)?;
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
    if args.process.is_none() && number != 0 {
        findings.verdict.details.insert(0, which_process(&profile, number, why));
    }
    let mut out = match &args.html {
        Some(path) => Output::file(path, args.force)?,
        None => Output::stdout(),
    };
    let text = if args.html.is_some() {
        report::page(&findings, &profile)
    } else if args.json {
        serde_json::to_string_pretty(&findings)? + "\n"
    } else {
        let (colour, width) = (out.wants_colour(), out.width());
        report::text(&findings, &profile, TextStyle { colour, width, lines: args.lines })
    };
    let name = out.name();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader of a pipe has seen enough: `| head` is no failure.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(0),
        Err(error) => return Err(anyhow!(error)).with_context(|| format!("cannot write {name}")),
        Ok(()) => out.finish()?,
    }
    if let Some(path) = &args.html {
        eprintln!("threadtalk: the report is in {}; open it in a browser", path.display());
    }
    Ok(0)
}

/// That the report is not about the first process.
fn which_process(profile: &Profile, number: u32, why: &str) -> String {
    format!(
        "This is process {number}, which {why} (of {}); --process 0 shows the first one.",
        1 + profile.meta.processes.len()
    )
}

/// The findings; that no placement could be computed is one of them, unless the plan, machine or costs
/// that the user gave are to blame.
fn findings(profile: &Profile, setting: &Setting<'_>, lines: usize) -> anyhow::Result<Findings> {
    match report::compare(profile, setting) {
        Ok(placement) => Ok(Findings::new(profile, placement, lines)),
        Err(error @ CompareError::OtherMachine { .. }) => Err(error.into()),
        Err(CompareError::Costs(error)) if setting.costs != CostModel::default() => {
            Err(error).context("--costs")
        }
        Err(error) => {
            let mut findings = Findings::new(profile, None, lines);
            findings.warnings.push(format!("No placement is shown: {error}."));
            Ok(findings)
        }
    }
}
