//! `threadtalk tune`: record a program, place it, and measure whether that helps.
//!
//! `plans.rs` computes the candidates, `worth.rs` says when none is worth timing, `elsewhere.rs`
//! when another process is the one to tune; `measure.rs` runs the program unplaced and placed,
//! `compare.rs` does so until it is clear which is faster, `summary.rs` prints it.

mod compare;
mod elsewhere;
mod measure;
mod plans;
mod summary;
pub mod worth;

use super::{record, topo};
use crate::choice::{CostNames, one_of_but};
use crate::output::OUTPUT;
use crate::progress::Steps;
use crate::said::{refuse, say};
use analysis::{Choice, has_enough_windows};
use compare::{Limits, Verdict, compare};
use measure::{Runner, Stop};
use placement::{Plan, PolicyKind};
use profile::{Counted, Profile};
use recorder::child::stdin_offset;
use recorder::record::Wishes;
use recorder::session::SessionOptions;
use recorder::{Ending, Streams, Target};
use report::Reliability;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use summary::Summary;
use topology::{Costs, Topology};
use windows::Dial;

/// Measure whether placement makes a program faster
///
/// Records the program within three times its own time, places its threads, and compares placed
/// with unplaced runs.
///
/// Where there are several NUMA nodes, data is planned, too: threads and data, threads only, and
/// data only are compared.
///
/// Placement does not matter where threads hardly communicate, where all pairs communicate alike,
/// or where all CPUs are equally near. Then tune says so and times nothing, unless --policy is
/// given.
///
/// While runs are timed, the program's output is discarded, and progress is shown on standard
/// error.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  threadtalk tune -- ./app 4")]
pub struct Args {
    /// Longest time for comparing, like 30s
    ///
    /// Runs go on until it is clear which are faster, or that they differ by less than 1 %. At
    /// least three runs of each are compared.
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = longest)]
    time: Duration,
    /// Most runs of each [default: as many as it takes]
    #[arg(long, value_name = "N")]
    runs: Option<usize>,
    /// Placement policy [default: locality, or the fastest of several]
    ///
    /// By default, locality, compact and scatter are compared where runs are short.
    #[arg(long, value_name = "POLICY", value_parser = one_of_but::<PolicyKind>(&["os"]))]
    policy: Option<PolicyKind>,
    /// Costs of communication: latency, complace, measured:FILE (from 'topo --measure -o FILE'), or
    /// a number for each branching level, from the root down (100,10)
    #[arg(long, default_value = "latency", value_name = "COSTS", value_parser = CostNames, hide_possible_values = true, allow_hyphen_values = true, hide_short_help = true)]
    costs: String,
    /// Write the plan to this file, if it wins [default: NAME.plan.json]
    ///
    /// The profile goes beside it, as NAME.tt. NAME is the program's.
    #[arg(short, long, value_name = "PLAN", help_heading = OUTPUT)]
    output: Option<PathBuf>,
    /// Print the result as JSON, and not the program's output
    #[arg(long, help_heading = OUTPUT)]
    json: bool,
    /// Replace the plan and the profile if they exist
    #[arg(long, help_heading = OUTPUT)]
    force: bool,
    /// The program and its arguments, after --
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Why nothing is compared. Another process may be `elsewhere`, the one to tune.
fn say_why_not(
    summary: &mut Summary,
    (profile, machine): (&Profile, &Topology),
    elsewhere: Option<&str>,
    reason: &str,
) {
    match elsewhere {
        Some(who) => summary.elsewhere(who),
        None if plans::saw_too_little(profile, machine) => summary.not_enough(),
        None => summary.does_not_matter(reason),
    }
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    check(&args)?;
    let (policy, machine) = (args.policy, topo::machine(None)?);
    let costs = topo::costs(&args.costs, &machine)?;
    let target = match Target::resolve(&args.command) {
        Ok(target) => target,
        Err(error) => return Ok(refuse(&error)),
    };
    let (plan_path, profile_path) = destinations(&args, &target)?;
    let input_from = stdin_offset();
    let timed = Streams::Discarded { input_from: input_from.unwrap_or(0) };
    let streams = if args.json { timed } else { Streams::Inherited };
    say("recording (the program's output follows; that of the timed runs is discarded)");
    let several_nodes = plans::has_several_nodes(&machine, &costs);
    let options = options(policy, several_nodes);
    let recording = match record::record_here(&target, None, options, streams, Wishes::default()) {
        Ok(recording) => recording,
        Err(error) => return Ok(refuse(&error)),
    };
    record::save(&recording, &profile_path, args.force)?;
    record::tell(&recording.profile, &profile_path);
    let ended = recording.ended;
    if ended.interrupted.is_some() || ended.ending != Ending::Exited(0) {
        say(&format!("the program {}: nothing to compare, stopped", ended.ending.in_words()));
        return Ok(code_after(ended.interrupted, ended.ending));
    }

    let profile = told(&recording.profile);
    let mut summary = Summary::new(&args.command, profile, &profile_path);
    let elsewhere = elsewhere::who_talks(profile, &profile_path);
    if !several_nodes {
        summary.one_node();
    }
    let joint = match elsewhere.is_some() {
        true => Vec::new(),
        false => joint_plans(profile, &machine, &costs, policy)?,
    };
    let runner = || {
        let (own_input, runs) = (input_from.is_some(), Steps::new("runs"));
        Runner { target: &target, streams: timed, own_input, runs }
    };
    if !joint.is_empty() {
        return finish(&args, runner(), &joint, &plan_path, summary);
    }
    if let Some(reason) = plans::why_not(profile, &machine) {
        let elsewhere = elsewhere.filter(|_| machine.allowed_pus() > 1);
        say_why_not(&mut summary, (profile, &machine), elsewhere.as_deref(), &reason);
        return summary.print(args.json);
    }
    if let Some(who) = elsewhere {
        say(&format!("note: {who}"));
    }
    let candidates = plans::candidates(profile, &machine, &costs, policy)?;
    // A policy that the user names is compared in any case, and so is what few windows suggest.
    let tells = policy.is_none() && has_enough_windows(profile);
    let promised = tells.then_some(&candidates[0]);
    let not_worth = |plan| worth::not_worth(profile, plan, &machine, &costs);
    if let Some(not_worth) = promised.and_then(not_worth) {
        summary.not_worth(&not_worth);
        return summary.print(args.json);
    }
    finish(&args, runner(), &candidates, &plan_path, summary)
}

/// The joint plan and its parts, if there is one whose data can be placed here.
fn joint_plans(
    profile: &Profile,
    machine: &Topology,
    costs: &Costs,
    policy: Option<PolicyKind>,
) -> anyhow::Result<Vec<Plan>> {
    let joint = plans::with_data(profile, machine, costs, policy)?;
    let data = joint.first().and_then(|plan| plan.data.as_ref());
    if let Some(reason) = data.and_then(recorder::data::why_not) {
        say(&format!("note: the plan's data is left out: {reason}"));
        return Ok(Vec::new());
    }
    Ok(joint)
}

/// Compares the candidates, keeps the plan that wins, and prints the result.
fn finish(
    args: &Args,
    runner: Runner<'_>,
    candidates: &[Plan],
    plan_path: &Path,
    mut summary: Summary,
) -> anyhow::Result<i32> {
    let limits = Limits { time: args.time, rounds: args.runs };
    let compared = compare(&runner, candidates, limits);
    drop(runner); // Its line makes room for the result.
    let (plan, verdict) = match compared {
        Ok(compared) => compared,
        Err(Stop::Interrupted { signal }) => {
            candidates[0].write(plan_path, args.force)?;
            let plan = plan_path.display();
            say(&format!("interrupted; the plan so far, not compared, is in {plan}"));
            return Ok(128 + signal);
        }
        Err(Stop::Failed(error)) => return Err(error),
    };
    let kept = keep(plan, &verdict, plan_path, args.force)?;
    summary.compared(plan, verdict, kept);
    summary.print(args.json)
}

/// The profile; says so if too little was observed to tell who communicates with whom.
fn told(profile: &Profile) -> &Profile {
    let reliability = Reliability::of(profile, Choice::of_talk(profile));
    if let Some(too_few) = reliability.and_then(|found| found.too_few) {
        say(&format!("note: {too_few}"));
    }
    profile
}

/// Refuses arguments that leave nothing to compare.
fn check(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.runs.is_none_or(|runs| runs >= 3),
        "--runs needs 3 or more: fewer runs decide nothing"
    );
    anyhow::ensure!(
        args.policy != Some(PolicyKind::Os),
        "--policy os binds no thread, so there is nothing to compare; name another policy"
    );
    Ok(())
}

/// Where the plan and the profile go.
fn destinations(args: &Args, target: &Target) -> anyhow::Result<(PathBuf, PathBuf)> {
    let usual = || PathBuf::from(format!("{}.plan.json", target.name()));
    let plan_path = args.output.clone().unwrap_or_else(usual);
    let profile_path = profile_beside(&plan_path);
    check_plan_file(&plan_path, args.force)?;
    record::check_output(&profile_path, args.force)?;
    Ok((plan_path, profile_path))
}

/// Writes the plan if placed runs are faster, and says so if an older plan stays. Returns the path
/// if it was written.
fn keep<'p>(
    plan: &Plan,
    verdict: &Verdict,
    path: &'p Path,
    force: bool,
) -> anyhow::Result<Option<&'p Path>> {
    if verdict.placed_wins() {
        plan.write(path, force)?;
        return Ok(Some(path));
    }
    if path.exists() {
        say(&format!("{} is the plan of an earlier run, left as it was", path.display()));
    }
    Ok(None)
}

/// A time that is not 0.
fn longest(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("no run fits into no time".into()) } else { Ok(time) }
}

/// Times as long as natively that the recording may take: it is one run of at least seven.
const RECORDED: f64 = 3.0;

/// What is recorded. A placement needs the matrix only; `detloc` also asks when threads
/// communicate, and `locality`, by which code, which tells when a phase begins. Where it matters
/// where data lies, pages are recorded, and what allocated them.
fn options(policy: Option<PolicyKind>, several_nodes: bool) -> SessionOptions {
    let windows = Some(Dial::Budget(RECORDED));
    let usual = SessionOptions { windows, ..SessionOptions::default() };
    if several_nodes {
        return SessionOptions { counted: Counted::Detail, pages: true, ..usual };
    }
    match policy {
        None | Some(PolicyKind::Locality) => SessionOptions { counted: Counted::Detail, ..usual },
        Some(PolicyKind::Detloc) => SessionOptions { counted: Counted::Matrix, ..usual },
        _ => SessionOptions { counted: Counted::Matrix, slice: Duration::ZERO, ..usual },
    }
}

/// `x.plan.json` and `x.json` have their profile in `x.tt`.
fn profile_beside(plan: &Path) -> PathBuf {
    let name = plan.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.strip_suffix(".json").unwrap_or(&name);
    let stem = stem.strip_suffix(".plan").unwrap_or(stem);
    plan.with_file_name(format!("{stem}.tt"))
}

fn check_plan_file(path: &Path, force: bool) -> anyhow::Result<()> {
    let exists = path.symlink_metadata().is_ok();
    anyhow::ensure!(
        force || !exists,
        "{} exists already; choose another name with -o, or replace it with --force",
        path.display()
    );
    Ok(())
}

fn code_after(interrupted: Option<i32>, ending: Ending) -> i32 {
    match (ending, interrupted) {
        // A program that ends well on Ctrl-C: tell the shell that it was one.
        (Ending::Exited(0), Some(signal)) => 128 + signal,
        (ending, _) => ending.shell_code(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_lies_beside_the_plan() {
        for (plan, profile) in [
            ("a/tuned.json", "a/tuned.tt"),
            ("app.plan.json", "app.tt"),
            ("x", "x.tt"),
            ("/tmp/v1.2", "/tmp/v1.2.tt"),
        ] {
            assert_eq!(profile_beside(Path::new(plan)), PathBuf::from(profile));
        }
    }

    #[test]
    fn the_exit_code_tells_of_an_interruption() {
        assert_eq!(code_after(Some(2), Ending::Killed(2)), 130);
        assert_eq!(code_after(Some(15), Ending::Exited(0)), 143);
        assert_eq!(code_after(None, Ending::Exited(3)), 3);
    }
}
