//! `threadtalk calibrate`: records a program exactly, in windows and by sampling, and says how far
//! these are apart.
//!
//! `analysis::calibration` compares, `calibrate/text.rs` prints.

mod text;

use super::record;
use super::record::dial::Budget;
use super::record::sampled::{Args as How, budget, options, rate};
use crate::family;
use crate::output::{Destination, print};
use crate::progress::Waiting;
use crate::said::{refuse, say};
use analysis::{Calibration, calibration};
use anyhow::{Context, bail};
use profile::{Counted, Profile};
use recorder::child::stdin_offset;
use recorder::machine::Machine;
use recorder::record::Wishes;
use recorder::sampled::{self, SampleOptions};
use recorder::session::SessionOptions;
use recorder::{Ended, Ending, Streams, Target};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use windows::Dial;

/// Show how far estimates for a program can be trusted
///
/// Runs the command three times with the same input: recorded exactly, in windows as 'record' does
/// by default, and sampled. Threads that race take turns differently in each run. Differences that
/// come from that are no fault of the estimates.
///
/// Of a command with several processes, the one that communicates most is compared.
#[derive(clap::Args)]
pub struct Args {
    /// Samples per second of a busy processor [default: what --budget allows]
    #[arg(long, value_name = "HZ", value_parser = rate)]
    rate: Option<f64>,
    /// Maximum cost of sampling, in percent of the program's processor time [default: 2]
    #[arg(long, value_name = "PERCENT", value_parser = budget, conflicts_with = "rate")]
    budget: Option<f64>,
    /// Sample with the processor's debug registers, as 'record --watch' does
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    to: Destination,
    /// The program and its arguments, after --
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Version of the JSON; it is raised when the meaning of a field changes.
const VERSION: u32 = 1;

/// What is printed as JSON.
#[derive(Serialize)]
struct Printed<'a> {
    version: u32,
    command: Vec<String>,
    /// How was sampled: event, detectors, rate, samples, yield.
    sampling: &'a profile::Sampling,
    /// Seconds of the exact and of the sampled run.
    wall_seconds: [f64; 2],
    #[serde(flatten)]
    calibration: &'a Calibration,
    /// The same for the recording in windows.
    windows: InWindows<'a>,
}

/// How a recording in windows compares.
#[derive(Serialize)]
struct InWindows<'a> {
    recording: &'a profile::Windows,
    wall_seconds: f64,
    #[serde(flatten)]
    calibration: &'a Calibration,
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let target = match Target::resolve(&args.command) {
        Ok(target) => target,
        Err(error) => return Ok(refuse(&error)),
    };
    let out = args.to.open()?;
    let how = How::usual(args.rate, args.budget, args.watch);
    let trying = Waiting::new("finding out what can be sampled".into());
    let options = options(&how);
    drop(trying);
    let options = match options {
        Ok(options) => options,
        Err(error) => return Ok(refuse(&error)),
    };
    let again = Streams::Discarded { input_from: stdin_offset().unwrap_or(0) };
    let first = if args.to.json { again } else { Streams::Inherited };
    say("recording exactly (the program's output follows; that of the further runs is discarded)");
    let exact = match recorded(&target, None, first) {
        Ok(exact) => exact,
        Err(code) => return Ok(code),
    };
    say("recording a second run in windows");
    let windows = match recorded(&target, Some(Budget::dial(None)), again) {
        Ok(windows) => windows,
        Err(code) => return Ok(code),
    };
    say("sampling a third run");
    let sampled = match sample(&target, &options, again) {
        Ok(sampled) => sampled,
        Err(code) => return Ok(code),
    };
    let Some(sampling) = &sampled.meta.sampled else { bail!("the third run was not sampled") };
    let Some(recording) = &windows.meta.windows else { bail!("there were no windows") };
    let compare = |profile: &Profile| {
        calibration(&exact, profile)
            .context("two recordings have no thread in common, so nothing can be compared")
    };
    let (found, of_windows) = (compare(&sampled)?, compare(&windows)?);
    let words = args.command.iter().map(|word| word.to_string_lossy().into_owned());
    let printed = Printed {
        version: VERSION,
        command: words.collect(),
        sampling,
        wall_seconds: [exact.meta.wall_seconds, sampled.meta.wall_seconds],
        calibration: &found,
        windows: InWindows {
            recording,
            wall_seconds: windows.meta.wall_seconds,
            calibration: &of_windows,
        },
    };
    let text = match args.to.json {
        true => serde_json::to_string_pretty(&printed)? + "\n",
        false => text::text(&printed),
    };
    print(out, &text)?;
    Ok(0)
}

/// The profile of the process that communicates most, exact without a dial; an exit code when there
/// is nothing to compare.
fn recorded(target: &Target, windows: Option<Dial>, streams: Streams) -> Result<Profile, i32> {
    let options = SessionOptions {
        counted: Counted::Detail,
        windows,
        slice: Duration::ZERO,
        ..SessionOptions::default()
    };
    let recording = record::record_here(target, None, options, streams, Wishes::default());
    let recording = recording.map_err(|error| refuse(&error))?;
    if let Some(code) = stopped(&recording.ended) {
        return Err(code);
    }
    let children = recording.processes.profiles().flatten().map(|(_, child)| child);
    Ok(talks_most(recording.profile, children))
}

/// The same of a sampled run.
fn sample(target: &Target, options: &SampleOptions, streams: Streams) -> Result<Profile, i32> {
    let waiting = stderr().is_terminal().then(|| Waiting::new("sampling".into()));
    let xml = Machine::here(true).xml;
    let recording = sampled::launch(target, options, xml, streams, &|| ());
    drop(waiting);
    let recording = recording.map_err(|error| refuse(&error))?;
    if let Some(code) = recording.ended.as_ref().and_then(stopped) {
        return Err(code);
    }
    let children = recording.children.into_iter().map(|(_, child)| child);
    Ok(talks_most(recording.profile, children))
}

/// The profile of the process that communicates most.
fn talks_most(first: Profile, children: impl Iterator<Item = Profile>) -> Profile {
    children.fold(first, |best, child| {
        if family::talk(&child.meta) > family::talk(&best.meta) { child } else { best }
    })
}

/// The exit code when a run did not end well: then there is nothing to compare.
fn stopped(ended: &Ended) -> Option<i32> {
    if ended.interrupted.is_none() && ended.ending == Ending::Exited(0) {
        return None;
    }
    say(&format!("the program {}: nothing to compare, stopped", ended.ending.in_words()));
    Some(match (ended.ending, ended.interrupted) {
        (Ending::Exited(0), Some(signal)) => 128 + signal,
        (ending, _) => ending.shell_code(),
    })
}
