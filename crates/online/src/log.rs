//! The log: a line of JSON for the beginning, each observation, each decision that is not empty,
//! and the end. Replaying it gives the same decisions, which is checked.
//!
//! A number that is read back from JSON may differ in its last bit. So what is logged is decided on
//! as it will be read back ([`as_logged`]), and decisions are compared as they are read back.

use crate::decider::Decider;
use crate::decision::Decision;
use crate::machine::{Machine, MachineError};
use crate::observation::Observation;
use crate::settings::Settings;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead};
use topology::{Topology, TopologyError};

/// Version of the log; readers refuse newer ones. A new field of an observation raises it if it may
/// change decisions.
const LOG_VERSION: u32 = 4;
/// The first version whose logs say where they end.
const WITH_END: u32 = 4;

/// A line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The first one.
    Begin {
        /// Of the log.
        version: u32,
        /// What was looked at, in words.
        target: String,
        /// By which it was looked at, in words.
        sense: String,
        /// How it is decided.
        settings: Box<Settings>,
        /// The machine, as hwloc XML.
        machine: String,
        /// Processors that may be used.
        allowed: Vec<u32>,
    },
    /// What was seen.
    Saw(Box<Observation>),
    /// What followed from it.
    Did(Decision),
    /// The last one.
    End {
        /// When `auto` ended, ns after the start.
        at_ns: u64,
    },
}

impl Line {
    /// The first line.
    pub fn begin(target: &str, sense: &str, settings: &Settings, machine: &Machine) -> Self {
        Self::Begin {
            version: LOG_VERSION,
            target: target.into(),
            sense: sense.into(),
            settings: Box::new(settings.clone()),
            machine: machine.topology().to_xml().into(),
            allowed: machine.allowed().to_vec(),
        }
    }
}

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LogError {
    #[error("line {line} of the log cannot be read: {error}")]
    Line { line: usize, error: serde_json::Error },
    #[error("the log cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("this is no log of 'threadtalk auto': it does not begin as one")]
    NoBeginning,
    #[error("the log has version {0}, which this threadtalk does not know; use a newer one")]
    Version(u32),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// A decision that was another one when it was replayed.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// When, ns after the start.
    pub at_ns: u64,
    /// As it is in the log.
    pub logged: Decision,
    /// As it came out now.
    pub replayed: Decision,
}

/// A log that was replayed.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// What was looked at, in words.
    pub target: String,
    /// By which it was looked at, in words.
    pub sense: String,
    /// Decisions that were not empty, and when they were made.
    pub decisions: Vec<(u64, Decision)>,
    /// Observations.
    pub observations: usize,
    /// The first decision that differs; `None`: all are the same.
    pub difference: Option<Difference>,
    /// Whether the log goes on to the end; `None`: its version does not say so.
    pub complete: Option<bool>,
}

/// The lines of a log. A last line that is cut off is left out: its writer was killed.
///
/// # Errors
/// When another line is no line of a log.
pub fn read_log(text: impl BufRead) -> Result<Vec<Line>, LogError> {
    let mut lines = Vec::new();
    let mut broken = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line?;
        if let Some(error) = broken.take() {
            return Err(error);
        }
        match serde_json::from_str(&line) {
            Ok(line) => lines.push(line),
            Err(error) => broken = Some(LogError::Line { line: number, error }),
        }
    }
    match (lines.is_empty(), broken) {
        (true, Some(_)) => Err(LogError::NoBeginning),
        _ => Ok(lines),
    }
}

/// What has been written and is read back.
fn round_trip<T: Serialize + for<'a> Deserialize<'a>>(value: &T) -> Option<T> {
    serde_json::from_str(&serde_json::to_string(value).ok()?).ok()
}

/// An observation as it will be read back from the log: this is what must be decided on if it is
/// logged.
pub fn as_logged(seen: Observation) -> Observation {
    round_trip(&seen).unwrap_or(seen)
}

/// Decides again what was observed.
///
/// # Errors
/// When the log does not begin as one, or is of a newer version.
pub fn replay(lines: &[Line]) -> Result<Replayed, LogError> {
    let Some(Line::Begin { version, target, sense, settings, machine, allowed }) = lines.first()
    else {
        return Err(LogError::NoBeginning);
    };
    if *version > LOG_VERSION {
        return Err(LogError::Version(*version));
    }
    let machine = Machine::new(Topology::from_xml_str(machine)?)?.with_allowed(allowed)?;
    let mut decider = Decider::new((**settings).clone(), machine);
    let mut replayed = Replayed {
        target: target.clone(),
        sense: sense.clone(),
        decisions: Vec::new(),
        observations: 0,
        difference: None,
        complete: (*version >= WITH_END).then(|| matches!(lines.last(), Some(Line::End { .. }))),
    };
    let mut rest = lines[1..].iter().peekable();
    while let Some(line) = rest.next() {
        let Line::Saw(seen) = line else { continue };
        replayed.observations += 1;
        let decision = decider.step(seen);
        let decision = round_trip(&decision).unwrap_or(decision);
        let logged = match rest.peek() {
            Some(Line::Did(logged)) => logged.clone(),
            // The writer was killed before it wrote the last one.
            None => decision.clone(),
            Some(_) => Decision::default(),
        };
        if decision != logged && replayed.difference.is_none() {
            let replayed_now = decision.clone();
            let difference = Difference { at_ns: seen.at_ns, logged, replayed: replayed_now };
            replayed.difference = Some(difference);
        }
        if !decision.is_empty() {
            replayed.decisions.push((seen.at_ns, decision));
        }
    }
    Ok(replayed)
}
