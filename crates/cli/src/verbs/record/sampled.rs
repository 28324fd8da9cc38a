//! `threadtalk record --sample` and `--pid`: finds out what can be sampled, samples, keeps the
//! profile.

use super::dial::Budget;
use super::{Args as Record, SAMPLING, check_output, tell};
use crate::progress::{Later, Waiting};
use crate::said::{refuse, say, several};
use anyhow::Context;
use perf::{Event, Rate};
use profile::Basis;
use recorder::machine::Machine;
use recorder::probed::probed;
use recorder::sampled::{self, Asked, Choice, SampleOptions, SampledRecording, TransferTime, Wish};
use recorder::transfer_time::transfer_ns;
use recorder::{Streams, Target};
use std::cell::Cell;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Slices when sampling: shorter ones have hardly a hit each.
const SLICE: Duration = Duration::from_millis(100);
/// Pairs of processors whose latency is measured: each takes about a millisecond.
const PAIRS: usize = 6;

/// How to sample.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// End after this long, like 10s; the program goes on
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "sampling", help_heading = SAMPLING, hide_short_help = true)]
    pub duration: Option<Duration>,
    /// Samples per second of a busy processor [default: what --budget allows]
    #[arg(long, value_name = "HZ", value_parser = rate, requires = "sampling", help_heading = SAMPLING, hide_short_help = true)]
    rate: Option<f64>,
    /// Maximum cost, in percent of the program's processor time; `None`: the default.
    #[arg(skip)]
    pub budget: Option<f64>,
    /// Count and sample this event as cache-line transfers [default: what is known of the
    /// processor, if it responds]
    ///
    /// Events are named as in perf: r1643, cpu/event=0x43,umask=0x16/, or mem:0x404040/8:w for
    /// accesses to an address that a debug register watches.
    #[arg(long, value_name = "EVENT", value_parser = event, requires = "sampling", conflicts_with_all = ["event", "watch"], help_heading = SAMPLING, hide_short_help = true)]
    transfers: Option<Event>,
    /// Sample this event instead of time, like cycles or cpu/mem-loads/pp
    #[arg(long, value_name = "EVENT", value_parser = event, requires = "sampling", conflicts_with = "watch", help_heading = SAMPLING, hide_short_help = true)]
    event: Option<Event>,
    /// Number of events per sample (of a clock: nanoseconds)
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..), requires = "sampling", conflicts_with_all = ["rate", "budget", "watch"], help_heading = SAMPLING, hide_short_help = true)]
    period: Option<u64>,
    /// Time of a cache-line transfer between cores, nanoseconds [default: measured]
    #[arg(long, value_name = "NS", value_parser = transfer, requires = "sampling", help_heading = SAMPLING, hide_short_help = true)]
    transfer_ns: Option<f64>,
    /// Sample with the processor's debug registers, from inside the program
    ///
    /// They watch what other threads have written. This finds rare sharing, too, and the exact
    /// bytes.
    #[arg(long, requires = "sample", help_heading = SAMPLING, hide_short_help = true)]
    watch: bool,
}

impl Args {
    /// Whether anything was said of how to sample.
    pub fn are_given(&self) -> bool {
        let Self { duration, rate, budget: _, transfers, event, period, transfer_ns, watch } = self;
        let numbers = rate.is_some() || period.is_some() || transfer_ns.is_some();
        let events = transfers.is_some() || event.is_some();
        duration.is_some() || numbers || events || *watch
    }

    /// How a verb samples that lets only this be chosen.
    pub fn usual(rate: Option<f64>, budget: Option<f64>, watch: bool) -> Self {
        let (transfers, event, period) = (None, None, None);
        Self { duration: None, rate, budget, transfers, event, period, transfer_ns: None, watch }
    }
}

/// What an event is named by, as in perf; errors are phrases.
pub fn event(text: &str) -> Result<Event, String> {
    perf::named(text).map_err(|error| error.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number with a unit, like 10s"))?;
    if length.is_zero() { Err("the time must be longer than 0".into()) } else { Ok(length) }
}

/// A number in a range.
fn number(text: &str, low: f64, high: f64, what: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    match (low..=high).contains(&number) {
        true => Ok(number),
        false => Err(format!("{what} lies between {low} and {high}")),
    }
}

pub fn rate(text: &str) -> Result<f64, String> {
    number(text, 1.0, 100_000.0, "a rate in samples per second")
}

pub fn budget(text: &str) -> Result<f64, String> {
    number(text, 0.01, 100.0, "a budget in percent")
}

fn transfer(text: &str) -> Result<f64, String> {
    number(text, 1.0, 1e6, "the time of a transfer in nanoseconds")
}

/// Runs the verb; returns the process's exit code.
pub fn run(mut args: Record) -> anyhow::Result<i32> {
    args.pid = each_once(args.pid);
    args.how.budget = args.budget.map(Budget::percent);
    if args.how.budget.is_some_and(|percent| percent > 100.0) {
        anyhow::bail!(
            "sampling costs at most 100 % of the program's time; choose a smaller --budget"
        );
    }
    let target = match args.pid.is_empty() {
        true if args.how.watch => Some(Target::resolve(&args.command)),
        true => Some(Target::resolve_any(&args.command)),
        false => None,
    };
    let target = match target.transpose() {
        Ok(target) => target,
        Err(error) => {
            return Ok(refuse(&error.or_sample("without --watch, it can be sampled")));
        }
    };
    let name = match &target {
        Some(target) => target.name(),
        None => process_name(args.pid[0]),
    };
    let path = args.output.clone().unwrap_or_else(|| format!("{name}.tt").into());
    check_output(&path, args.force)?;
    if target.is_none() {
        // Ctrl-C ends the sampling, and comes too early for nothing.
        recorder::signals::forward();
    }
    let options = match options(&args.how) {
        Ok(options) => options,
        Err(error) => return Ok(refuse(&error)),
    };
    let slice = args.slice.unwrap_or(options.slice);
    let options = SampleOptions {
        slice,
        follow: !args.no_follow,
        objects: !args.no_objects,
        cached: !args.no_code_cache,
        ..options
    };
    let xml = Machine::here(!args.no_code_cache).xml;
    let recording = match sample(target.as_ref(), &args.pid, &options, xml) {
        Ok(recording) => recording,
        Err(error) => return Ok(refuse(&error)),
    };
    let status = recording.ended.map(|ended| ended.ending);
    let SampledRecording { profile, children, .. } = recording;
    let writing = Waiting::new(format!("writing {}", path.display()));
    profile.save_with(&path, args.force, children.into_iter()).with_context(|| match status {
        Some(ending) => {
            format!("the program {}, but its profile could not be saved", ending.in_words())
        }
        None => "the profile could not be saved".into(),
    })?;
    drop(writing);
    say(&how(&options.choice));
    tell(&profile, &path);
    Ok(status.map_or(0, |ending| ending.shell_code()))
}

/// Samples the program, or without one these processes.
fn sample(
    target: Option<&Target>,
    pids: &[u32],
    options: &SampleOptions,
    xml: String,
) -> Result<SampledRecording, recorder::RecorderError> {
    let making = Later::new("making the profile");
    if let Some(target) = target {
        return sampled::launch(target, options, xml, Streams::Inherited, &|| making.begin());
    }
    say(&attached(pids, options));
    // Elsewhere that line is enough.
    let waiting = stderr().is_terminal().then(|| Waiting::new("sampling".into()));
    let waiting = Cell::new(waiting);
    sampled::attach(pids, options, xml, &|| {
        drop(waiting.take());
        making.begin();
    })
}

/// Processes that were named, those that were named again left out.
pub fn each_once(pids: Vec<u32>) -> Vec<u32> {
    let mut seen = std::collections::HashSet::new();
    pids.into_iter().filter(|&pid| seen.insert(pid)).collect()
}

/// Settings for this machine.
///
/// # Errors
/// When nothing can be sampled here.
pub fn options(args: &Args) -> Result<SampleOptions, recorder::RecorderError> {
    let trying = Waiting::new("finding out what can be sampled".into());
    let (choice, duration) = (choose(args)?, args.duration);
    drop(trying);
    Ok(SampleOptions { choice, slice: SLICE, follow: true, duration, objects: true, cached: true })
}

/// What is sampled on this machine.
pub fn choose(args: &Args) -> Result<Choice, recorder::RecorderError> {
    let wish = match (args.rate, args.budget, args.period) {
        (Some(rate), ..) => Wish::Rate(rate),
        (None, Some(percent), _) => Wish::Budget(percent / 100.0),
        (None, None, Some(period)) => Wish::Period(period),
        (None, None, None) => Wish::Budget(sampled::DEFAULT_BUDGET),
    };
    let asked = args.transfers.clone().map(Asked::Transfers);
    let asked = asked.or_else(|| args.event.clone().map(Asked::Plain));
    let (probed, transfer) = (probed(), transfer_time(args.transfer_ns));
    let mut choice = match (asked, args.watch) {
        (Some(asked), _) => sampled::choose_named(&probed, &asked, wish, transfer)?,
        (None, true) => sampled::choose_for_watching(&probed, wish, transfer)?,
        (None, false) => sampled::choose(&probed, wish, transfer)?,
    };
    // Measured only where it is needed.
    if let Basis::Latency { source, .. } = &choice.basis
        && source == "assumed"
        && let Some(ns) = transfer_ns(measured_ns)
    {
        choice.basis = TransferTime::Measured(ns).basis();
    }
    Ok(choice)
}

fn transfer_time(given: Option<f64>) -> TransferTime {
    given.map_or(TransferTime::Unknown, TransferTime::Given)
}

/// What a line takes between processors of this machine, nanoseconds: the median over a few pairs.
fn measured_ns() -> Option<f64> {
    let topology = topology::Topology::discover().ok()?;
    let measured = latency::measure(&topology, PAIRS, &|_, _| ()).ok()?;
    let mut all: Vec<f64> = measured.pairs.iter().map(|pair| pair.latency_ns).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// One line when sampling of running processes begins.
fn attached(pids: &[u32], options: &SampleOptions) -> String {
    let listed: Vec<String> = pids.iter().map(u32::to_string).collect();
    let until = match options.duration {
        Some(duration) => format!("for {}", humantime::format_duration(duration)),
        None => "until it ends; Ctrl-C ends the sampling, and the program goes on".into(),
    };
    format!("sampling process {} {until}", listed.join(", "))
}

/// What was sampled and why, and what amounts mean.
fn how(choice: &Choice) -> String {
    let Choice { event, per_second, reason, basis, rate, .. } = choice;
    let often = match *rate {
        Rate::Period(period) if !event.is_clock() => {
            format!("once in {}", several(period as usize, "event"))
        }
        _ => format!("about {per_second:.0} times a second"),
    };
    let amounts = match basis {
        Basis::Counters { event } => format!("amounts are those that '{event}' counted"),
        Basis::Latency { transfer_ns, source } => format!(
            "amounts are estimated from time spent waiting, at {transfer_ns:.0} ns for a line ({source})"
        ),
        Basis::Period => "amounts are accesses, estimated from the sampling period".into(),
    };
    format!("sampled '{}' {often}: {reason}; {amounts}", event.name)
}

/// A running process's name, for the profile's.
fn process_name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let plain = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let name: String = name.trim().chars().map(plain).collect();
    if name.is_empty() || name.starts_with('.') { format!("process-{pid}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert_eq!(rate("500"), Ok(500.0));
        assert_eq!(
            rate("0"),
            Err("a rate in samples per second lies between 1 and 100000".to_string())
        );
        assert_eq!(budget("x"), Err("'x' is not a number".to_string()));
        assert!(budget("NaN").is_err() && transfer("1e9").is_err());
        assert_eq!(duration("0s"), Err("the time must be longer than 0".to_string()));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
    }
}
