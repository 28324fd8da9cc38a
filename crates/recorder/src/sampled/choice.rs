//! Which event is sampled how often, by which detector, and how its samples become volumes.
//!
//! Best first: an event that counts transfers between caches, since each of its samples is one and
//! its count is the volume; then accesses with addresses from the hardware; then time. What
//! responds is found out by `perf::probe`. Users who know better name an event, which is then taken
//! whatever the probe says.

use crate::error::RecorderError;
use perf::probe::{Answer, Probed, Source, can_open, probe_named};
use perf::{Armed, Event, Rate, cost};
use profile::{Basis, Detector, Note};
use sampling::Stream;

/// Part of the program's processor time that samples may cost unless told otherwise. What they cost
/// is measured on a loop that uses no caches; programs lose up to twice that, which stays below 5
/// %.
pub const DEFAULT_BUDGET: f64 = 0.02;
/// What a sample is taken to cost where it cannot be measured, nanoseconds.
const USUAL_SAMPLE_NS: f64 = 15_000.0;
/// What a transfer is taken to take where it cannot be measured, nanoseconds: between cores of one
/// die of recent servers it is 50 to 150.
const USUAL_TRANSFER_NS: f64 = 100.0;

/// How often to sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wish {
    /// This many samples per second of a busy processor.
    Rate(f64),
    /// As many as cost this part of the program's processor time.
    Budget(f64),
    /// One in this many events.
    Period(u64),
}

/// An event that the user has named.
#[derive(Clone, PartialEq, Debug)]
pub enum Asked {
    /// It counts lines that come from other cores' caches.
    Transfers(Event),
    /// Whatever it counts, samples of it are matched.
    Plain(Event),
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
    /// The event that is sampled.
    pub event: Event,
    /// How often it is sampled.
    pub rate: Rate,
    /// Samples per second of a busy processor that `rate` comes to, at most.
    pub per_second: f64,
    /// What a sample costs the thread that is sampled, nanoseconds.
    pub sample_ns: f64,
    /// What it costs that a sampled thread gets a processor and loses it again, nanoseconds.
    pub switch_ns: f64,
    /// Part of the program's processor time that its samples may cost; `None` where a rate was
    /// asked for.
    pub budget: Option<f64>,
    /// What its samples stand for.
    pub stream: Stream,
    /// How communication is found in the samples.
    pub detector: Detector,
    /// What amounts are derived from.
    pub basis: Basis,
    /// What an armed debug register costs here; `None`: not known.
    pub armed: Option<Armed>,
    /// Why this, in a sentence.
    pub reason: String,
    /// The user has named the event.
    pub named: bool,
    /// What speaks against it all the same.
    pub warning: Option<Note>,
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

/// What the user has named, if it can be had.
///
/// # Errors
/// Why it cannot.
pub fn choose_named(
    probed: &Probed,
    asked: &Asked,
    wish: Wish,
    transfer: TransferTime,
) -> Result<Choice, RecorderError> {
    let (event, source) = match asked {
        Asked::Transfers(event) => (event, Source::Transfers),
        Asked::Plain(event) => (event, source_of(event)),
    };
    can_open(event)?;
    let answer = probe_named(event, source).answer;
    let of_what = match asked {
        Asked::Transfers(_) => "the event of transfers",
        Asked::Plain(_) => "the event to sample",
    };
    let (Answer::Works(seen) | Answer::Fails { why: seen, .. }) = &answer;
    let reason = format!("'{}' was named as {of_what}; tried here: {seen}", event.name);
    let doubted = || Note::EventDoubted { event: event.name.clone(), tried: seen.clone() };
    let warning = (!answer.works()).then(doubted);
    let choice = made(probed, source, event, wish, transfer);
    Ok(Choice { reason, named: true, warning, ..choice })
}

/// What samples of an event that is not one of transfers stand for: time, or accesses.
fn source_of(event: &Event) -> Source {
    match event {
        _ if event.is_clock() => Source::Clock,
        _ if event.is_time() => Source::Cycles,
        _ => Source::Named,
    }
}

/// The clock for the watching library, which samples inside the program: what it arms and what
/// traps cost as much again as its samples.
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
    let most = max_per_second(source, event);
    let at_most = |per_second| cost::Chosen { per_second, limit: cost::Limit::Most };
    let chosen = match wish {
        Wish::Budget(budget) => by_budget(budget),
        Wish::Rate(per_second) => at_most(per_second),
        Wish::Period(period) => at_most(most / period.max(1) as f64),
    };
    let rate = match (wish, source) {
        (Wish::Period(period), _) => Rate::Period(period),
        // By the kernel's regulation, since how often they come depends on the program; each stands
        // for the time since the one before.
        (_, Source::Cycles | Source::Instructions) => {
            Rate::PerSecond(chosen.per_second.round().max(1.0) as u64)
        }
        (_, Source::Clock) => chosen.clock_period(),
        _ => chosen.prime_period(most),
    };
    let (stream, basis) = match source {
        Source::Transfers => (Stream::Transfers, Basis::Counters { event: event.name.clone() }),
        Source::Clock | Source::Cycles | Source::Instructions => {
            (Stream::Waiting, transfer.basis())
        }
        Source::Precise | Source::Memory | Source::Named => (Stream::Accesses, Basis::Period),
    };
    let detector = match source {
        Source::Transfers => Detector::Transfers,
        _ => Detector::Matching,
    };
    let (event, per_second) = (event.clone(), chosen.per_second);
    let switch_ns = probed.cost.as_ref().map_or(0.0, |cost| cost.switch_ns);
    let budget = match wish {
        Wish::Budget(budget) => Some(budget),
        Wish::Rate(_) | Wish::Period(_) => None,
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
        named: false,
        warning: None,
    }
}

/// How often an event comes on a processor in a second at most.
fn max_per_second(source: Source, event: &Event) -> f64 {
    match source {
        _ if event.watched().is_some() => cost::MAX_TRAPS,
        Source::Transfers => cost::MAX_TRANSFERS,
        Source::Clock => 1e9,
        _ => cost::MAX_OPERATIONS,
    }
}

fn reason(source: Source, event: &str, probed: &Probed) -> String {
    let missing = || {
        let tried = probed.responses.iter().find(|response| response.source == Source::Transfers);
        match tried.map(|response| &response.answer) {
            Some(Answer::Fails { why, .. }) => why.clone(),
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
        Some(Answer::Fails { why, remedy: Some(remedy) }) if !why.contains(remedy) => {
            format!("{why}; {remedy}")
        }
        Some(Answer::Fails { why, .. }) => why.clone(),
        _ => "no event responds; 'threadtalk doctor' says more".into(),
    }
}
