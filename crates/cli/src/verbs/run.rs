//! `threadtalk run`: start a program with every thread, and all data, where a plan puts it, and
//! show what is in force. `data.rs` tells of data, `phases.rs` of changes
//! of placement, `fit.rs` whether the plan fits the run.

mod data;
mod fit;
mod phases;

use super::topo;
use crate::output::{OUTPUT, Output};
use crate::said::{refuse, say, say_if_of_another, say_more, several};
use anyhow::Context;
use daemon::DaemonError;
use placement::Plan;
use recorder::data::Sight;
use recorder::launch::{
    Binding, Come, How, LaunchReport, Onlooker, Outcome, Via, check_plan, launch, launch_unplaced,
};
use recorder::sampled::Choice;
use recorder::{RecorderError, Streams, Target};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Threads outside the plan, or missing, that are named one by one.
const NAMED: usize = 8;

/// Start a program with threads and data where a plan puts them
#[derive(clap::Args)]
pub struct Args {
    /// The plan, from 'threadtalk place -o PLAN' or 'threadtalk tune -o PLAN'
    #[arg(long, value_name = "PLAN")]
    plan: PathBuf,
    /// Application to start, by name or number, if the plan is for several
    #[arg(long, value_name = "APP", hide_short_help = true)]
    app: Option<String>,
    /// Who binds the threads
    #[arg(long, value_enum, default_value = "threadtalk", value_name = "WHO")]
    via: Who,
    /// What of the plan is applied
    #[arg(long, value_enum, default_value = "all", value_name = "WHAT")]
    apply: What,
    /// Say every so often where data is while the program runs, like 10s
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, hide_short_help = true)]
    data_every: Option<Duration>,
    /// Look early whether the plan fits this run
    ///
    /// Samples the beginning, for at most TIME, and says whether another placement would make what
    /// the threads communicate cheaper.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration,
          num_args = 0..=1, default_missing_value = "10s", require_equals = true)]
    verify: Option<Duration>,
    /// Print nothing unless threads or data were elsewhere than planned
    #[arg(short, long, help_heading = OUTPUT)]
    quiet: bool,
    /// Write what was in force, of threads and data, to this file, as JSON
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output", help_heading = OUTPUT)]
    force: bool,
    /// The program and its arguments, after --
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Who binds the threads.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Who {
    /// Threadtalk, each thread as it appears
    Threadtalk,
    /// The program's OpenMP runtime, by OMP_PLACES and OMP_PROC_BIND; only its team is bound
    Omp,
}

/// What of a plan is applied.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Threads and data
    All,
    /// Threads only
    Threads,
    /// Data only
    Data,
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let plan = Plan::read(&args.plan)?.of_app(args.app.as_deref())?;
    let target = match Target::resolve(&args.command) {
        Ok(target) => target,
        Err(error) => return Ok(refuse(&error)),
    };
    let machine = topo::machine(None)?;
    // Refused before the program runs.
    let file = args.output.as_ref().map(|path| Output::file(path, args.force)).transpose()?;
    let via = match args.via {
        Who::Threadtalk => Via::Shim,
        Who::Omp => Via::OpenMp,
    };
    let how = How {
        via,
        threads: args.apply != What::Data,
        data: args.apply != What::Threads,
        every: args.data_every,
    };
    if let Err(error) = check_plan(&plan, &machine) {
        return unplaced(&target, &how, &error, file);
    }
    say_if_of_another(&plan, &target);
    let verify = args.verify.map(|most| (most, fit::choose()));
    let beside = Beside { began: Instant::now(), verify, verdict: OnceLock::new() };
    let report = match launch(&target, &plan, &how, Streams::Inherited, &beside) {
        Ok(report) => report,
        Err(error) => return Ok(refuse(&error)),
    };
    if !args.quiet || !report.as_planned() {
        if how.threads && (!report.bindings.is_empty() || report.inactive.is_some()) {
            tell(&report);
        }
        if let (Some(planned), true) = (&plan.phases, how.threads) {
            phases::tell(planned, report.phases.as_ref());
        }
        if let Some(found) = &report.data {
            data::tell(found);
        }
    }
    let verdict = match beside.verify {
        Some((_, Err(error))) => Some(Err(error)),
        _ => beside.verdict.into_inner(),
    };
    if let Some(verdict) = verdict.as_ref().filter(|verdict| !args.quiet || !fit::is_good(verdict))
    {
        say(&fit::sentence(verdict));
    }
    let fit = verdict.as_ref().map_or(serde_json::Value::Null, fit::json);
    write_report(&report, fit, file)?;
    Ok(report.ended.ending.shell_code())
}

/// Runs the program without a plan that cannot be used here.
fn unplaced(
    target: &Target,
    how: &How,
    error: &RecorderError,
    file: Option<Output>,
) -> anyhow::Result<i32> {
    let reason = error.to_string();
    say(&format!("{reason}; the program runs without it"));
    match launch_unplaced(target, how, Streams::Inherited, reason) {
        Ok(report) => {
            write_report(&report, serde_json::Value::Null, file)?;
            Ok(report.ended.ending.shell_code())
        }
        Err(error) => Ok(refuse(&error)),
    }
}

fn write_report(
    report: &LaunchReport,
    fit: serde_json::Value,
    file: Option<Output>,
) -> anyhow::Result<()> {
    let Some(mut file) = file else { return Ok(()) };
    let name = file.name();
    let mut all = json(report);
    all["fit"] = fit;
    writeln!(file, "{all:#}").with_context(|| format!("cannot write {name}"))?;
    file.finish()
}

/// What is looked at and told while the program runs.
struct Beside {
    began: Instant,
    /// For how long to look whether the plan fits, and how.
    verify: Option<(Duration, Result<Choice, DaemonError>)>,
    verdict: OnceLock<fit::Looked>,
}

impl Onlooker for Beside {
    fn sees(&self, sights: Vec<Sight>) {
        data::tell_while_running(self.began.elapsed(), &sights);
    }

    fn goes_along(&self, pid: u32, is_over: &dyn Fn() -> bool, _: &dyn Fn() -> Vec<Come>) {
        if let Some((most, Ok(choice))) = &self.verify {
            let _ = self.verdict.set(fit::look(pid, *most, choice, is_over));
        }
    }
}

/// The bindings in force, then every difference from the plan in words.
fn tell(report: &LaunchReport) {
    if let Some(reason) = &report.inactive {
        return say(&format!("nothing was bound: {reason}"));
    }
    let planned = report.bindings.len();
    let placed = report.bindings.iter().filter(|b| b.outcome == Outcome::AsPlanned).count();
    say(&format!("{placed} of {} ran where the plan says", several(planned, "planned thread")));
    say_more(&table(&report.bindings));
    for line in differences(report) {
        say(&line);
    }
}

fn table(bindings: &[Binding]) -> String {
    let bound = |b: &Binding| match &b.bound {
        Some(cpus) => cpus.iter().map(|os| format!("P#{os}")).collect::<Vec<_>>().join(","),
        None => "-".into(),
    };
    let width = bindings.iter().map(|b| bound(b).len()).max().unwrap_or(0).max("bound".len());
    let mut out = format!("  {:>6}  {:>7}  {:<width$}  name\n", "thread", "planned", "bound");
    for b in bindings {
        let (thread, planned) = (format!("T{}", b.thread), format!("P#{}", b.planned_os));
        let line = format!("  {thread:>6}  {planned:>7}  {:<width$}  {}", bound(b), b.name);
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// One sentence per kind of difference.
fn differences(report: &LaunchReport) -> Vec<String> {
    let mut lines = Vec::new();
    for b in &report.bindings {
        let (thread, planned) = (b.thread, b.planned_os);
        let at = b.bound.as_ref().map(ToString::to_string).unwrap_or_default();
        match &b.outcome {
            Outcome::ProgramsOwn => lines.push(format!(
                "T{thread} ran on CPUs {at} instead of P#{planned}: the program sets that affinity \
                 itself, which takes precedence"
            )),
            Outcome::Moved => lines.push(format!(
                "T{thread} was moved from P#{planned} to CPUs {at} by another program during the run"
            )),
            Outcome::Refused(why) => {
                lines.push(format!("T{thread} could not be bound to P#{planned}: {why}"));
            }
            Outcome::Elsewhere => lines.push(format!(
                "T{thread} ran on CPUs {at} instead of P#{planned}: the OpenMP runtime did not bind \
                 it there; check that the program uses one and that the thread is in its team"
            )),
            Outcome::Unread => lines.push(format!(
                "T{thread} ended before its binding could be read back (planned: P#{planned})"
            )),
            Outcome::AsPlanned | Outcome::NotSeen => {}
        }
    }
    let missing: Vec<String> = report
        .bindings
        .iter()
        .filter(|b| b.outcome == Outcome::NotSeen)
        .map(|b| {
            if b.name.is_empty() {
                format!("T{}", b.thread)
            } else {
                format!("T{} ({})", b.thread, b.name)
            }
        })
        .collect();
    if !missing.is_empty() {
        lines.push(format!(
            "{} of the plan never appeared: {}; record again if the program now runs with another \
             number of threads",
            several(missing.len(), "thread"),
            list(&missing, missing.len())
        ));
    }
    if report.unplanned_count > 0 {
        let unlisted = report.unplanned_count as usize - report.unplanned.len();
        let names = counted(report.unplanned.iter().map(|t| match t.start_routine.is_empty() {
            true => t.name.clone(),
            false => format!("{} ({})", t.name, t.start_routine),
        }));
        lines.push(format!(
            "{} not in the plan ran unbound: {}",
            several(report.unplanned_count as usize, "thread"),
            list(&names, names.len() + unlisted)
        ));
    }
    lines
}

/// Each text once, with how often it came, in the order of appearance.
fn counted(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: Vec<(String, usize)> = Vec::new();
    for text in texts {
        match seen.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => seen.push((text, 1)),
        }
    }
    let line = |(text, count)| if count == 1 { text } else { format!("{text} x {count}") };
    seen.into_iter().map(line).collect()
}

/// The first few, and how many more there are.
fn list(names: &[String], count: usize) -> String {
    let shown = names.len().min(NAMED);
    let mut text = names[..shown].join(", ");
    if count > shown {
        let _ = write!(text, " and {} more", count - shown);
    }
    text
}

fn json(report: &LaunchReport) -> serde_json::Value {
    let outcome = |outcome: &Outcome| match outcome {
        Outcome::AsPlanned => "as planned",
        Outcome::ProgramsOwn => "program's own",
        Outcome::Moved => "moved",
        Outcome::Refused(_) => "refused",
        Outcome::Elsewhere => "elsewhere",
        Outcome::Unread => "not read back",
        Outcome::NotSeen => "not seen",
    };
    let bindings: Vec<_> = report
        .bindings
        .iter()
        .map(|b| {
            serde_json::json!({
                "thread": b.thread,
                "planned_pu_os": b.planned_os,
                "bound_pus_os": b.bound.as_ref().map(|set| set.iter().collect::<Vec<_>>()),
                "tid": b.tid,
                "name": b.name,
                "outcome": outcome(&b.outcome),
            })
        })
        .collect();
    let unplanned: Vec<_> = report
        .unplanned
        .iter()
        .map(|t| serde_json::json!({ "name": t.name, "start_routine": t.start_routine }))
        .collect();
    serde_json::json!({
        "exit_code": report.ended.ending.shell_code(),
        "wall_seconds": report.ended.wall.as_secs_f64(),
        "cpu_seconds": report.ended.cpu.as_secs_f64(),
        "as_planned": report.as_planned(),
        "via": match report.via {
            Via::Shim => "threadtalk",
            Via::OpenMp => "omp",
            Via::Onlooker => "auto",
        },
        "not_bound_because": report.inactive,
        "bindings": bindings,
        "unplanned_threads": report.unplanned_count,
        "unplanned": unplanned,
        "phases": report.phases.as_ref().map(phases::json),
        "data": report.data.as_ref().map(data::json),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use recorder::launch::Unplanned;
    use recorder::{Ended, Ending};

    fn report(outcomes: &[(Outcome, &[usize])]) -> LaunchReport {
        let bindings = outcomes
            .iter()
            .enumerate()
            .map(|(i, (outcome, bound))| Binding {
                thread: i as u32,
                planned_os: 3,
                bound: (!bound.is_empty()).then(|| bound.iter().copied().collect()),
                tid: 100,
                name: "worker".into(),
                outcome: outcome.clone(),
            })
            .collect();
        let (wall, cpu) = (Duration::from_secs(1), Duration::from_secs(2));
        LaunchReport {
            ended: Ended {
                ending: Ending::Exited(4),
                wall,
                cpu,
                system: Duration::ZERO,
                interrupted: None,
                survivors: 0,
            },
            bindings,
            unplanned: Vec::new(),
            unplanned_count: 0,
            via: Via::Shim,
            inactive: None,
            data: None,
            phases: None,
        }
    }

    #[test]
    fn the_table_shows_planned_and_bound() {
        let report = report(&[(Outcome::AsPlanned, &[3]), (Outcome::NotSeen, &[])]);
        assert_eq!(
            table(&report.bindings),
            "  thread  planned  bound  name\n\
             \u{20}     T0      P#3  P#3    worker\n\
             \u{20}     T1      P#3  -      worker\n"
        );
    }

    #[test]
    fn every_difference_is_said() {
        let mut report = report(&[
            (Outcome::ProgramsOwn, &[0, 1]),
            (Outcome::Refused("no".into()), &[0]),
            (Outcome::NotSeen, &[]),
            (Outcome::AsPlanned, &[3]),
        ]);
        report.unplanned_count = 300;
        let start_routine = "libx.so+0x10".to_string();
        let helper = Unplanned { name: "helper".into(), start_routine };
        let nameless = Unplanned { name: "x".into(), start_routine: String::new() };
        report.unplanned = vec![helper.clone(), nameless, helper];
        assert_eq!(
            differences(&report),
            [
                "T0 ran on CPUs 0-1 instead of P#3: the program sets that affinity itself, which takes \
                 precedence",
                "T1 could not be bound to P#3: no",
                "1 thread of the plan never appeared: T2 (worker); record again if the program now \
                 runs with another number of threads",
                "300 threads not in the plan ran unbound: helper (libx.so+0x10) x 2, x and 297 more",
            ]
        );
        assert_eq!(json(&report)["exit_code"], 4);
        assert_eq!(json(&report)["bindings"][0]["bound_pus_os"], serde_json::json!([0, 1]));
    }
}
