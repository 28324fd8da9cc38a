//! What a profile says about how it was sampled: source, detectors, yield, and what volumes rest
//! on.
//!
//! Neighbours: `model` has it in the meta data, `recorder` fills it in, `report` shows it.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

/// How communication was found in the samples.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Detector {
    /// A sampled access follows another thread's sampled write to the same line.
    Matching,
    /// The same over samples of transfers between caches.
    Transfers,
    /// Debug registers in the program (ComDetective, Algorithm 1).
    Watchpoints,
}

/// What makes events of hits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase", tag = "by")]
pub enum Basis {
    /// Transfers into each thread were counted; hits say how they divide.
    Counters {
        /// Name of the counted event.
        event: String,
    },
    /// Time that threads were sampled waiting, divided by what a transfer takes. Not a count.
    Latency {
        /// What a transfer takes, nanoseconds.
        transfer_ns: f64,
        /// Where that comes from: `measured`, `given`, or `assumed`.
        source: String,
    },
    /// Each hit stands for as many accesses as lie between two samples (ComDetective, section 3.3).
    Period,
}

/// How a profile was sampled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, TS)]
pub struct Sampling {
    /// What was sampled: `cpu-clock`, or a name of an event.
    pub source: String,
    /// How communication was found in samples.
    pub detectors: Vec<Detector>,
    /// Why these, in a sentence.
    pub reason: String,
    /// Samples asked for per second of a running thread, or 0 when a number of events was asked
    /// for.
    pub rate: f64,
    /// Events between two samples; 0 for a rate.
    pub period: u64,
    /// Samples of this process that arrived.
    pub samples: u64,
    /// Of these, those whose access was found.
    pub decoded: u64,
    /// Hits among them; an access that reads and writes may be two.
    pub hits: u64,
    /// Of the hits, those on lines that no thread was sampled writing: the writer was inferred from
    /// what is written around them.
    #[serde(default)]
    pub inferred: u64,
    /// Events that one hit may stand for: what could have happened for each sample that there is. 0
    /// in profiles that do not say.
    #[serde(default)]
    pub hit_events: f64,
    /// Records of the whole recording that found no room.
    pub lost: u64,
    /// How often the kernel slowed sampling down, in the whole recording.
    pub throttled: u64,
    /// What amounts are derived from.
    pub basis: Basis,
    /// The user has named the event.
    #[serde(default)]
    pub named: bool,
    /// Whether the process ran before and maybe after.
    pub attached: bool,
    /// Processor time that reading the samples took, seconds, in the whole recording.
    pub reader_seconds: f64,
}

impl Sampling {
    /// Part of the samples whose access was found; `None` without samples.
    pub fn decode_yield(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.decoded as f64 / self.samples as f64)
    }

    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            source: "cpu-clock".into(),
            detectors: vec![Detector::Matching],
            reason: "No event of transfers responds here.".into(),
            rate: 1000.0,
            period: 0,
            samples: 90,
            decoded: 60,
            hits: 20,
            inferred: 0,
            hit_events: 12_422.5,
            lost: 0,
            throttled: 0,
            basis: Basis::Latency { transfer_ns: 80.5, source: "measured".into() },
            named: false,
            attached: true,
            reader_seconds: 0.01,
        }
    }
}
