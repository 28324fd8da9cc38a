//! `threadtalk auto`: places threads and pages while programs run. Neighbours: `daemon` observes
//! and acts, `online` decides, `auto/tell.rs` words what they tell.

mod tell;

pub use tell::program_text;

use super::record::dial::duty;
use super::record::sampled as how;
use super::{place, topo};
use crate::choice::one_of;
use crate::output::OUTPUT;
use crate::said::{refuse, say, say_if_of_another, several};
use anyhow::Context;
use clap::ArgGroup;
use daemon::auto::{self, Options, Outcome};
use daemon::metric::{Metric, Source};
use daemon::sense::Wish;
use daemon::targets::Wanted;
use daemon::{DaemonError, journal, status};
use online::{Policy, Settings};
use placement::Plan;
use recorder::Target;
use recorder::launch::check_plan;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

const WHAT: &str = "What to look after";
const DECIDE: &str = "Decisions";
const SERVICE: &str = "Services and logs";

/// Place threads and pages while programs run, and undo what does not help
///
/// Looks at which threads communicate and which nodes use which pages, binds threads and moves
/// pages where that pays, measures whether it helps if anything tells how much work is done, and
/// gives everything back at the end. What programs pin themselves is left alone.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  threadtalk auto -- ./app 4\n  threadtalk auto --pid 1234\n  \
                        threadtalk auto --log app.log -- ./app; threadtalk auto --replay app.log")]
#[command(group(ArgGroup::new("what").required(true).args([
    "command", "pid", "cgroup", "user", "service", "status", "stop", "restore", "replay",
])))]
pub struct Args {
    /// Look after this running process and what it starts; may be given several times
    #[arg(short, long, value_name = "PID", help_heading = WHAT, num_args = 1..)]
    pid: Vec<u32>,
    /// Look after the processes of this cgroup, a folder below /sys/fs/cgroup
    #[arg(long, value_name = "PATH", help_heading = WHAT)]
    cgroup: Option<PathBuf>,
    /// Look after the processes of this user that compute for some time
    #[arg(long, value_name = "NAME", help_heading = WHAT)]
    user: Option<String>,
    /// Look after the processes of all users that compute for some time
    #[arg(long, help_heading = WHAT)]
    service: bool,
    /// How threads and pages are placed: integrated, or as in the papers cdsm, kmaf, carrefour or
    /// autopin
    #[arg(long, value_name = "POLICY", default_value = "integrated", help_heading = DECIDE)]
    policy: Policy,
    /// Begin with the placement of an earlier run: a profile, or a plan
    #[arg(long, value_name = "PROFILE", conflicts_with = "data_only", help_heading = DECIDE)]
    profile: Option<PathBuf>,
    /// Place threads only
    #[arg(long, conflicts_with = "data_only", help_heading = DECIDE)]
    threads_only: bool,
    /// Move pages only
    #[arg(long, help_heading = DECIDE)]
    data_only: bool,
    /// Change a constant, like mapping_ms=100; may be given several times
    #[arg(long, value_name = "NAME=VALUE", help_heading = DECIDE, hide_short_help = true)]
    set: Vec<String>,
    /// What to look with
    #[arg(long, value_parser = one_of::<Wish>(), value_name = "SENSE", default_value = "best", help_heading = DECIDE)]
    sense: Wish,
    /// Maximum cost of samples, in percent of the programs' processor time
    #[arg(long, value_name = "PERCENT", value_parser = how::budget, default_value = "1", help_heading = DECIDE, hide_short_help = true)]
    budget: f64,
    /// Part of the time in windows, like 5%
    #[arg(long, value_name = "SHARE", value_parser = duty, default_value = "5%", help_heading = DECIDE, hide_short_help = true)]
    duty: f64,
    /// A file that begins with a number that grows with the work done
    #[arg(long, value_name = "FILE", help_heading = DECIDE)]
    metric: Option<PathBuf>,
    /// A shell command that prints such a number
    #[arg(long, value_name = "COMMAND", conflicts_with = "metric", help_heading = DECIDE)]
    metric_command: Option<String>,
    /// Bind and move nothing, only say what would be done
    #[arg(long, help_heading = DECIDE)]
    dry_run: bool,
    /// End after this long, like 10s; the programs go on
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = DECIDE)]
    duration: Option<Duration>,
    /// Show what running services do
    #[arg(long, help_heading = SERVICE)]
    status: bool,
    /// End running services; what they have bound is given back
    #[arg(long, help_heading = SERVICE)]
    stop: bool,
    /// Give back what was bound by a threadtalk that was killed
    #[arg(long, help_heading = SERVICE)]
    restore: bool,
    /// Write everything that was seen and done to this file
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    log: Option<PathBuf>,
    /// Decide again what a log says was seen, and show it as a timeline
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    replay: Option<PathBuf>,
    /// Print the result as JSON: the status or the timeline
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long, help_heading = OUTPUT)]
    quiet: bool,
    /// Replace the log if it exists
    #[arg(long, requires = "log", help_heading = OUTPUT)]
    force: bool,
    /// The program to start and its arguments, after --
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number with a unit, like 10s"))
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    if args.status {
        return tell::status(&status::all(), args.json);
    }
    if args.stop {
        match auto::stop() {
            0 => say("no service of this user runs"),
            count => say(&format!("ended {}", several(count, "service"))),
        }
        return Ok(0);
    }
    if args.restore {
        let restored = journal::restore().context("the journals cannot be read")?;
        say(&format!(
            "gave {} back what they had, from {}",
            several(restored.threads, "thread"),
            several(restored.journals, "journal")
        ));
        return Ok(0);
    }
    if let Some(path) = &args.replay {
        return replay(path, args.json);
    }
    look_after(args)
}

fn replay(path: &Path, json: bool) -> anyhow::Result<i32> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let lines = online::read_log(BufReader::new(file))
        .with_context(|| format!("{} cannot be replayed", path.display()))?;
    let replayed =
        online::replay(&lines).with_context(|| format!("{} cannot be replayed", path.display()))?;
    tell::timeline(&replayed, json)
}

fn look_after(mut args: Args) -> anyhow::Result<i32> {
    let command = std::mem::take(&mut args.command);
    let resolve = match args.sense {
        Wish::Windows => Target::resolve,
        _ => Target::resolve_any,
    };
    let target = match command.is_empty() {
        true => None,
        false => match resolve(&command) {
            Ok(target) => Some(target),
            Err(error) => return Ok(refuse(&error)),
        },
    };
    if args.profile.is_some() && target.is_none() {
        anyhow::bail!("--profile is for a program that is started here: write it after --");
    }
    if args.profile.is_some() && args.sense == Wish::Windows {
        anyhow::bail!(
            "--profile cannot begin a program that is recorded in windows; leave out --sense windows"
        );
    }
    let wanted = wanted(&args)?;
    let quiet = args.quiet;
    let plan = args.profile.as_deref().map(recorded).transpose()?;
    if let (Some(plan), Some(target)) = (&plan, &target) {
        say_if_of_another(plan, target);
    }
    let options = Options { plan, ..options(args)? };
    let tell = |seconds: f64, line: &str| {
        if !quiet {
            say(&format!("{seconds:7.1} s  {line}"));
        }
    };
    let outcome = match (&target, wanted) {
        (Some(target), _) => auto::launch(target, options, &tell),
        (None, wanted) => auto::attach(wanted, options, &tell),
    };
    let outcome = match outcome {
        Err(DaemonError::Recorder(error)) => return Ok(refuse(&error)),
        outcome => outcome?,
    };
    if !quiet {
        tell::outcome(&outcome);
    }
    let Outcome { ended, .. } = outcome;
    Ok(ended.map_or(0, |ended| ended.ending.shell_code()))
}

/// The plan of a plan file or of a profile, for this machine.
fn recorded(path: &Path) -> anyhow::Result<Plan> {
    let machine = topo::machine(None)?;
    let plan = match path.is_dir() {
        true => place::plan_of(path, &machine)?,
        false => Plan::read(path)?.of_app(None)?,
    };
    check_plan(&plan, &machine)?;
    Ok(plan)
}

fn wanted(args: &Args) -> anyhow::Result<Wanted> {
    Ok(match (&args.cgroup, &args.user) {
        (Some(path), _) => Wanted::Cgroup(path.clone()),
        (None, Some(name)) => Wanted::User(auto::user(name)?),
        (None, None) if args.service => Wanted::Everyone,
        (None, None) => Wanted::Processes(how::each_once(args.pid.clone())),
    })
}

fn options(args: Args) -> anyhow::Result<Options> {
    let mut settings = Settings::of(args.policy);
    if args.threads_only {
        settings.data = false;
    }
    if args.data_only {
        settings.threads = false;
    }
    args.set.iter().try_for_each(|text| settings.set(text))?;
    if let Some(path) = args.log.as_ref().filter(|path| path.exists() && !args.force) {
        anyhow::bail!("{} exists; choose another name or add --force", path.display());
    }
    let source = args.metric.map(Source::File);
    let metric = source.or_else(|| args.metric_command.map(Source::Command)).map(Metric::new);
    Ok(Options {
        settings,
        sense: args.sense,
        budget: args.budget / 100.0,
        duty: args.duty,
        log: args.log,
        dry: args.dry_run,
        metric,
        duration: args.duration,
        service: args.service,
        plan: None,
    })
}
