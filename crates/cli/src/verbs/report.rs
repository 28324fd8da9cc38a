//! `threadtalk report`: what a profile says, in the terminal, as JSON or as a page.

use crate::output::Output;
use anyhow::{Context, anyhow};
use placement::Plan;
use profile::Profile;
use report::{CompareError, Findings, TextStyle};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// Show which threads talk, how much, through which memory and code, and where they could run
///
/// Without options the findings are printed, best first: who talks to whom, the hot lines of memory
/// with their bytes and the code that meets on them (as perf c2c report, but counted), the hot code
/// over all lines, and placements computed for the machine that the profile was recorded on. Profiles
/// recorded with --matrix or --undirected hold no lines and code. The text fits the terminal, or 80
/// columns in a pipe.
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
    /// How many of the hottest lines of memory to show [default: 10, with the details of those that
    /// carry at least 1 %; with --json 100, with --html 200]
    #[arg(long, value_name = "N")]
    lines: Option<usize>,
    /// Replace the HTML file if it exists
    #[arg(long, requires = "html")]
    force: bool,
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let profile = Profile::load(&args.profile)?;
    let plan = args.plan.as_deref().map(Plan::read).transpose()?;
    let lines = args.lines.unwrap_or(match (&args.html, args.json) {
        (Some(_), _) => 200,
        (_, true) => 100,
        _ => 10,
    });
    let findings = findings(&profile, plan.as_ref(), lines)?;
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

/// The findings; that no placement could be computed is one of them, unless the plan that the user
/// gave is to blame.
fn findings(profile: &Profile, plan: Option<&Plan>, lines: usize) -> anyhow::Result<Findings> {
    match report::compare(profile, plan) {
        Ok(placement) => Ok(Findings::new(profile, placement, lines)),
        Err(error @ CompareError::OtherMachine { .. }) => Err(error.into()),
        Err(error) => {
            let mut findings = Findings::new(profile, None, lines);
            findings.warnings.push(format!("No placement is shown: {error}."));
            Ok(findings)
        }
    }
}
