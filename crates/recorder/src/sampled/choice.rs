//! Which event is sampled how often, by which detector, and how its samples become volumes.
//!
//! Best first: an event that counts transfers between caches, since each of its samples is one and its
//! count is the volume; then accesses with addresses from the hardware; then time. What responds is
//! found out by `perf::probe`.

use crate::error::RecorderError;
use perf::probe::{Probed, Source};
use perf::{Armed, Event, Rate, cost};
use profile::{Basis, Detector};
use sampling::Stream;

/// Part of the program's processor time that samples may cost unless told otherwise. What they cost is
/// measured on a loop that uses no caches; programs lose up to twice that, which stays below 5 %.
pub const DEFAULT_BUDGET: f64 = 0.02;
/// What a sample is taken to cost where it cannot be measured, nanoseconds.
const USUAL_SAMPLE_NS: f64 = 15_000.0;
/// What a transfer is taken to take where it cannot be measured, nanoseconds: between cores of one die
/// of recent servers it is 50 to 150.
const USUAL_TRANSFER_NS: f64 = 100.0;

/// How often to sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wish {
    /// So many samples per second of a busy processor.
    Rate(f64),
    /// As many as cost this part of the program's processor time.
    Budget(f64),
}

/// What a transfer of a line takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TransferTime {
    /// Measured on this machine, ns.
    Measured(f64),
    /// Given by the user, ns.
    Given(f64),
    /// Neither.
    Unknown,
}

impl TransferTime {
    /// Nanoseconds.
    pub fn ns(self) -> f64 {
        match self {
            Self::Measured(ns) | Self::Given(ns) => ns,
            Self::Unknown => USUAL_TRANSFER_NS,
        }
    }

    /// As the profile says it.
    pub fn basis(self) -> Basis {
        let source = match self {
            Self::Measured(_) => "measured",
            Self::Given(_) => "given",
            Self::Unknown => "assumed",
        };
        Basis::Latency { transfer_ns: self.ns(), source: source.into() }
    }
}

/// What is sampled.
#[derive(Clone, Debug)]
pub struct Choice {
    pub event: Event,
    pub rate: Rate,
    /// Samples per second of a busy processor that `rate` comes to, at most.
    pub per_second: f64,
    /// What a sample costs the thread that is sampled, nanoseconds.
    pub sample_ns: f64,
    /// What it costs that a sampled thread gets a processor and loses it again, nanoseconds.
    pub switch_ns: f64,
    /// Part of the program's processor time that its samples may cost; `None` where a rate was asked for.
    pub budget: Option<f64>,
    /// What its samples stand for.
    pub stream: Stream,
    pub detector: Detector,
    pub basis: Basis,
    /// What an armed debug register costs here; `None`: not known.
    pub armed: Option<Armed>,
    /// Why this, in a sentence.
    pub reason: String,
}

/// Chooses by what responds.
///
/// # Errors
/// When nothing can be sampled here.
pub fn choose(
    probed: &Probed,
    wish: Wish,
    transfer: TransferTime,
) -> Result<Choice, RecorderError> {
    let transfers = probed.working(Source::Transfers).map(|event| (Source::Transfers, event));
    let Some((source, event)) = transfers.or_else(|| probed.sampled()) else {
        return Err(RecorderError::NothingToSample { why: why_nothing(probed) });
    };
    Ok(made(probed, source, event, wish, transfer))
}

/// The clock for the watching library, which samples inside the program: what it arms and what traps
/// cost as much again as its samples.
///
/// # Errors
/// When the clock cannot be sampled here.
pub fn choose_for_watching(
    probed: &Probed,
    wish: Wish,
    transfer: TransferTime,
) -> Result<Choice, RecorderError> {
    let Some(event) = probed.working(Source::Clock) else {
        return Err(RecorderError::NothingToSample { why: why_nothing(probed) });
    };
    let wish = match wish {
        Wish::Budget(budget) => Wish::Budget(budget / 2.0),
        rate => rate,
    };
    let choice = made(probed, Source::Clock, event, wish, transfer);
    let reason = "debug registers tell when a thread comes to what another one has written".into();
    Ok(Choice { detector: Detector::Watchpoints, reason, ..choice })
}

fn made(
    probed: &Probed,
    source: Source,
    event: &Event,
    wish: Wish,
    transfer: TransferTime,
) -> Choice {
    let sample_ns = probed.cost.as_ref().map_or(USUAL_SAMPLE_NS, |cost| cost.sample_ns);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let by_budget = |budget| cost::choose_rate(sample_ns, budget, cpus);
    let chosen = match wish {
        Wish::Budget(budget) => by_budget(budget),
        Wish::Rate(per_second) => cost::Chosen { per_second, limit: cost::Limit::Most },
    };
    let (rate, stream, basis) = match source {
        Source::Transfers => (
            chosen.period(cost::MOST_TRANSFERS),
            Stream::Transfers,
            Basis::Counters { event: event.name.clone() },
        ),
        Source::Clock => (chosen.clock_period(), Stream::Waiting, transfer.basis()),
        Source::Cycles | Source::Instructions => {
            // By the kernel's regulation, since how often they come depends on the program; each stands
            // for the time since the one before.
            (
                Rate::PerSecond(chosen.per_second.round().max(1.0) as u64),
                Stream::Waiting,
                transfer.basis(),
            )
        }
        Source::Precise | Source::Memory => {
            (chosen.period(cost::MOST_OPERATIONS), Stream::Accesses, Basis::Period)
        }
    };
    let detector = match source {
        Source::Transfers => Detector::Transfers,
        _ => Detector::Matching,
    };
    let (event, per_second) = (event.clone(), chosen.per_second);
    let switch_ns = probed.cost.as_ref().map_or(0.0, |cost| cost.switch_ns);
    let budget = match wish {
        Wish::Budget(budget) => Some(budget),
        Wish::Rate(_) => None,
    };
    let reason = reason(source, &event.name, probed);
    Choice {
        event,
        rate,
        per_second,
        sample_ns,
        switch_ns,
        budget,
        stream,
        detector,
        basis,
        armed: probed.watchpoints.armed,
        reason,
    }
}

fn reason(source: Source, event: &str, probed: &Probed) -> String {
    let missing = || {
        let tried = probed.responses.iter().find(|response| response.source == Source::Transfers);
        match tried.map(|response| &response.answer) {
            Some(perf::probe::Answer::Fails { why, .. }) => why.clone(),
            _ => "no event counts transfers here".to_string(),
        }
    };
    match source {
        Source::Transfers => format!("'{event}' counts lines that come from other cores' caches"),
        Source::Precise => {
            format!("'{event}' gives addresses; of transfers: {}", missing())
        }
        _ => format!("'{event}' is what can be sampled here; of transfers: {}", missing()),
    }
}

/// Why nothing can be sampled: what the clock says, which is there before anything else is.
fn why_nothing(probed: &Probed) -> String {
    let clock = probed.responses.iter().find(|response| response.source == Source::Clock);
    match clock.map(|response| &response.answer) {
        Some(perf::probe::Answer::Fails { why, remedy: Some(remedy) }) if !why.contains(remedy) => {
            format!("{why}; {remedy}")
        }
        Some(perf::probe::Answer::Fails { why, .. }) => why.clone(),
        _ => "no event responds; 'threadtalk doctor' says more".into(),
    }
}
