//! `threadtalk doctor`: what can be sampled on this machine, what cannot, why, and what would
//! change that.

use super::record::sampled::event;
use crate::output::{Destination, print};
use perf::cost::{self, Chosen, Limit};
use perf::probe::{Answer, Detector, Probed, Response, Source, probe_named};
use perf::{Event, Watchpoints};
use recorder::probed::probed_anew;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Show what can be sampled here, and how to enable more
///
/// Tries each source on something that it must notice, in less than a second: transfers on a cache
/// line that two threads pass back and forth, counters and clocks on work, watchpoints on a write.
/// Then measures what a sample costs here. The default rate of 'record --sample' follows from that.
///
/// The exit code is 1 when nothing can be sampled.
#[derive(clap::Args)]
pub struct Args {
    /// Maximum cost of sampling, in percent of the program's processor time
    #[arg(long, default_value_t = 100.0 * recorder::sampled::DEFAULT_BUDGET, value_name = "PERCENT", value_parser = percent)]
    budget: f64,
    /// Also try this event as a count of cache-line transfers ('record --transfers')
    #[arg(long, value_name = "EVENT", value_parser = event)]
    transfers: Option<Event>,
    /// Also try this event on memory accesses ('record --event')
    #[arg(long, value_name = "EVENT", value_parser = event)]
    event: Option<Event>,
    #[command(flatten)]
    to: Destination,
}

/// Exit code when nothing can be sampled.
const NOTHING: i32 = 1;
/// Changes when the meaning of a field does.
const JSON_VERSION: u32 = 1;

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 100.0 => Ok(value),
        _ => Err("write a share in percent, above 0 and up to 100".into()),
    }
}

/// Runs the verb; returns the process's exit code.
pub fn run(args: Args) -> anyhow::Result<i32> {
    let out = args.to.open()?;
    let (probed, named) = (probed_anew(), named(&args));
    let text = match args.to.json {
        true => format!("{:#}\n", as_json(&probed, &named, args.budget)),
        false => as_text(&probed, &named, args.budget),
    };
    print(out, &text)?;
    Ok(if probed.sampled().is_some() { 0 } else { NOTHING })
}

/// What comes of the events that the user has named.
fn named(args: &Args) -> Vec<Response> {
    let transfers = args.transfers.iter().map(|event| (event, Source::Transfers));
    let plain = args.event.iter().map(|event| (event, Source::Named));
    transfers.chain(plain).map(|(event, source)| probe_named(event, source)).collect()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn chosen(probed: &Probed, budget: f64) -> Option<Chosen> {
    let cost = probed.cost.as_ref().ok()?;
    Some(cost::choose_rate(cost.sample_ns, budget / 100.0, cpus()))
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Transfers => "transfers",
        Source::Precise => "precise",
        Source::Memory => "memory",
        Source::Instructions => "instructions",
        Source::Cycles => "cycles",
        Source::Clock => "clock",
        Source::Named => "event",
    }
}

/// What a source is good for.
fn use_of(source: Source) -> &'static str {
    match source {
        Source::Transfers => {
            "cache lines that came from another core's cache, which is communication"
        }
        Source::Precise => "addresses from the hardware",
        Source::Memory => "operations on memory",
        Source::Instructions => "instructions",
        Source::Cycles => "cycles of the processor",
        Source::Clock => "time on a processor",
        Source::Named => "what was named",
    }
}

fn detector_name(detector: Option<Detector>) -> &'static str {
    match detector {
        Some(Detector::Transfers) => "transfers",
        Some(Detector::Matching) => "matching",
        None => "none",
    }
}

fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Budget => "budget",
        Limit::Reader => "reader",
        Limit::Kernel => "kernel",
        Limit::Most => "most",
    }
}

fn as_text(probed: &Probed, named: &[Response], budget: f64) -> String {
    let mut text = machine(probed);
    let mut lines: Vec<String> = probed.responses.iter().chain(named).map(source_lines).collect();
    // An event may have another code on the next processor of its family.
    lines.dedup();
    text.extend(lines);
    let points = &probed.watchpoints;
    let how = match &points.why {
        Some(why) => why.clone(),
        None => format!("{} debug registers are free for each thread", points.free),
    };
    entry(&mut text, "watchpoints", points.usable(), &how);
    text.push_str(&remedies(probed.responses.iter().chain(named)));
    text.push('\n');
    text.push_str(&armed(points));
    match &probed.cost {
        Ok(cost) => {
            let _ = writeln!(
                text,
                "A sample costs {:.1} µs of the thread's time (± {:.1}, {} samples).",
                cost.sample_ns / 1e3,
                cost.spread_ns / 1e3,
                cost.samples
            );
            if cost.switch_ns > 0.0 {
                let _ = writeln!(
                    text,
                    "Each time that a sampled thread takes turns with an unsampled one costs it {:.1} µs more.",
                    cost.switch_ns / 1e3
                );
            }
        }
        Err(why) => {
            let _ = writeln!(text, "What a sample costs is not known: {why}.");
        }
    }
    if let (Some(chosen), Some((_, event))) = (chosen(probed, budget), probed.sampled()) {
        let because = match chosen.limit {
            Limit::Budget => format!("{budget} % of the program's CPU time"),
            Limit::Reader => format!("2 % of a processor to read those of {} processors", cpus()),
            Limit::Kernel => "all that kernel.perf_event_max_sample_rate allows".to_string(),
            Limit::Most => "a higher rate would show nothing more".to_string(),
        };
        let (rate, name) = (chosen.per_second, &event.name);
        let _ = writeln!(
            text,
            "Default rate: {rate:.0} samples of {name} a second and processor ({because})."
        );
    }
    let _ = writeln!(text, "{}", choice(probed));
    text
}

/// What an armed debug register costs, where that is much.
fn armed(points: &Watchpoints) -> String {
    let Some(slow) = points.armed.filter(|armed| armed.is_slow()) else { return String::new() };
    format!(
        "While any debug register is armed, stores across two cache lines take {:.1} times as long: programs with \
         unaligned vectors (AVX) may take three times as long with '--watch'.\n",
        slow.stores
    )
}

fn machine(probed: &Probed) -> String {
    let processor = &probed.processor;
    let name = if processor.name.is_empty() { "unknown" } else { &processor.name };
    let family = probed.family.as_ref().map_or("no events known", |family| family.name.as_str());
    let place = if processor.is_virtual { ", in a virtual machine" } else { "" };
    let paranoid = match probed.paranoid {
        None => "not there: no perf_event in this kernel, or /proc/sys is hidden".to_string(),
        Some(level) => {
            let samples = probed.sampled().is_some();
            format!("{level} ({})", paranoid(level, samples && !is_privileged()))
        }
    };
    let rate = probed.max_sample_rate.map_or("unknown".to_string(), |rate| rate.to_string());
    format!(
        "processor             {name} ({family}){place}, {} usable\n\
         perf_event_paranoid   {paranoid}\n\
         max samples a second  {rate}\n\n",
        cpus()
    )
}

/// Whether the kernel may let us do what users may not. Where /proc does not say, it may.
fn is_privileged() -> bool {
    /// Of the kernel's capability.h: CAP_SYS_ADMIN and CAP_PERFMON.
    const PRIVILEGES: u64 = 1 << 21 | 1 << 38;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    effective.is_none_or(|set| set & PRIVILEGES != 0)
}

/// What a level lets users do who are not root. `user_samples`: we are such a user, and may sample.
fn paranoid(level: i32, user_samples: bool) -> &'static str {
    match level {
        ..=-1 => "users may sample everything",
        0 => "users may sample all processors, without raw tracepoints",
        1 => "users may sample their own programs and the kernel under them",
        2 => "users may sample their own programs",
        // Only some distributions' kernels know these levels; to others they are the one before.
        _ if user_samples => {
            "users may sample their own programs; this kernel knows no stricter level"
        }
        _ => {
            "only root and CAP_PERFMON may sample, if the kernel knows this level, as Debian's and Ubuntu's do"
        }
    }
}

fn source_lines(response: &Response) -> String {
    let mut text = String::new();
    let name = source_name(response.source);
    let how = match &response.answer {
        Answer::Works(how) => format!("{} ({how})", use_of(response.source)),
        Answer::Fails { why, .. } => why.clone(),
    };
    entry(&mut text, name, response.works(), &how);
    // What is called like its source needs no name.
    if let Some(event) = response.event.as_ref().filter(|event| event.name != name) {
        let _ = writeln!(text, "{:18} event {}", "", event.name);
    }
    text
}

fn entry(text: &mut String, name: &str, works: bool, how: &str) {
    let mark = if works { "yes" } else { "no" };
    let _ = writeln!(text, "{name:<13} {mark:<4} {how}");
}

/// What would change what does not work, each once.
fn remedies<'a>(responses: impl Iterator<Item = &'a Response>) -> String {
    let mut found: Vec<(&'a str, Vec<&str>)> = Vec::new();
    for response in responses {
        let Answer::Fails { remedy: Some(remedy), .. } = &response.answer else { continue };
        let name = source_name(response.source);
        match found.iter_mut().find(|(known, _)| known == remedy) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => found.push((remedy, vec![name])),
        }
    }
    let mut text = String::new();
    for (remedy, names) in found {
        let _ = writeln!(text, "\nto enable {}:\n    {remedy}", names.join(", "));
    }
    text
}

/// Which detector would be chosen.
fn choice(probed: &Probed) -> String {
    let by_itself = match probed.detector() {
        Some(Detector::Transfers) => "samples of transfers, and their count as volume",
        Some(Detector::Matching) => "matching of samples",
        None => return "Nothing can be sampled here; record exactly, without --sample.".into(),
    };
    let watch = match probed.can_watch() {
        true => "; '--watch' takes watchpoints in the program, armed by samples",
        false => "",
    };
    format!("'record --sample' and '--pid' would choose: {by_itself}{watch}.")
}

fn as_json(probed: &Probed, named: &[Response], budget: f64) -> Value {
    let chosen = chosen(probed, budget);
    let points = &probed.watchpoints;
    json!({
        "version": JSON_VERSION,
        "processor": {
            "name": probed.processor.name,
            "vendor": probed.processor.vendor,
            "family": probed.processor.family,
            "model": probed.processor.model,
            "virtual": probed.processor.is_virtual,
            "events": probed.family.as_ref().map(|family| &family.name),
            "events_source": probed.family.as_ref().map(|family| &family.source),
            "usable": cpus(),
        },
        "perf_event_paranoid": probed.paranoid,
        "max_sample_rate": probed.max_sample_rate,
        "sources": probed.responses.iter().map(response_json).collect::<Vec<_>>(),
        "named": named.iter().map(response_json).collect::<Vec<_>>(),
        "watchpoints": {
            "works": points.usable(),
            "free": points.free,
            "traps": points.traps,
            "signals": points.signals,
            "armed_slowdown": points.armed.map(|armed| armed.stores),
            "trap_ns": points.armed.map(|armed| armed.trap_ns),
            "why": points.why,
        },
        "cost": probed.cost.as_ref().ok().map(|cost| json!({
            "sample_ns": cost.sample_ns,
            "spread_ns": cost.spread_ns,
            "samples": cost.samples,
            "switch_ns": cost.switch_ns,
        })),
        "sampled": probed.sampled().map(|(source, event)| json!({
            "source": source_name(source),
            "event": event.name,
        })),
        "rate": chosen.map(|chosen| json!({
            "per_second": chosen.per_second,
            "limit": limit_name(chosen.limit),
            "budget_percent": budget,
        })),
        "detector": detector_name(probed.detector()),
        "can_watch": probed.can_watch(),
        "probing_ms": probed.took.as_secs_f64() * 1e3,
    })
}

fn response_json(response: &Response) -> Value {
    let (how, why, remedy) = match &response.answer {
        Answer::Works(how) => (Some(how), None, None),
        Answer::Fails { why, remedy } => (None, Some(why), remedy.as_ref()),
    };
    json!({
        "source": source_name(response.source),
        "event": response.event.as_ref().map(|event| &event.name),
        "config": response.event.as_ref().map(|event| format!("{:#x}", event.config)),
        "works": response.works(),
        "how": how,
        "why": why,
        "remedy": remedy,
    })
}

#[cfg(test)]
mod tests {
    use super::{armed, paranoid};
    use perf::{Armed, Watchpoints};

    #[test]
    fn a_level_that_the_kernel_does_not_know_forbids_nothing() {
        assert!(paranoid(3, false).starts_with("only root"));
        assert!(paranoid(4, true).starts_with("users may sample their own programs"));
        assert_eq!(paranoid(2, true), paranoid(2, false));
    }

    #[test]
    fn what_armed_registers_cost_is_said_where_it_is_much() {
        let points =
            |cost| Watchpoints { free: 4, traps: true, signals: true, armed: cost, why: None };
        let said = |stores| armed(&points(Some(Armed { stores, trap_ns: 1.0 })));
        assert!(said(7.74).contains("take 7.7 times as long"));
        assert_eq!(said(1.0) + &armed(&points(None)), "");
    }
}
