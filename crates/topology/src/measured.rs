//! Measured latencies between PUs, and the file that keeps them.
//!
//! Version 1: the first. Readers may rely on every field of [`Measured`]; fields may be added
//! within a version; a file of a newer version is refused. Neighbours: the crate `latency`
//! measures, `clusters.rs` finds levels in the matrix, `compared.rs` holds it against the
//! firmware's view and makes costs of it.

use crate::between_nodes::MeasuredMemory;
use crate::model::Topology;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the file that this program writes and the newest it reads.
pub const MEASURED_VERSION: u32 = 1;

/// A PU that took part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MeasuredPu {
    /// hwloc's logical number (L#).
    pub logical: u32,
    /// The operating system's number (P#).
    pub os: u32,
}

/// What was measured between two PUs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MeasuredPair {
    /// Both PUs, P#; the lower logical number first.
    pub pus_os: [u32; 2],
    /// Time until one sees what the other has written, ns: median over batches of half a round
    /// trip.
    pub latency_ns: f64,
    /// First and third quartile over the batches, ns.
    pub quartiles_ns: [f64; 2],
    /// Batches of round trips that were timed.
    pub batches: u32,
}

/// Two PUs between which nothing could be measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unmeasured {
    /// Both PUs, P#.
    pub pus_os: [u32; 2],
    /// The reason.
    pub why: String,
}

/// Latencies between the PUs of one machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Version of the file's format.
    pub version: u32,
    /// The machine in words, and its number of PUs: latencies are of use there only.
    pub machine: String,
    /// PUs of the machine.
    pub machine_pus: u32,
    /// Distance of the lines that were passed to and fro, bytes.
    pub line_bytes: u32,
    /// PUs that took part, by logical number.
    pub pus: Vec<MeasuredPu>,
    /// The measured pairs.
    pub pairs: Vec<MeasuredPair>,
    /// The pairs that could not be measured.
    pub unmeasured: Vec<Unmeasured>,
    /// Between memory nodes; `None` where there are not several, or files are of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MeasuredMemory>,
}

/// Latencies that could not be read, or are of another machine.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum MeasuredError {
    #[error("cannot read the latencies '{path}': {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "'{path}' holds no measured latencies: {reason}; measure with 'threadtalk topo --measure -o FILE'"
    )]
    NotLatencies { path: PathBuf, reason: String },
    #[error(
        "the latencies '{path}' are of version {found}, this program reads up to {MEASURED_VERSION}; use \
         a newer Threadtalk or measure anew"
    )]
    Newer { path: PathBuf, found: u64 },
}

impl Measured {
    /// Nothing measured yet on `topology` between `pus` (logical numbers, ascending).
    pub fn new(topology: &Topology, pus: &[u32], line_bytes: u32) -> Self {
        let pu = |&logical: &u32| MeasuredPu { logical, os: topology.pus[logical as usize].os };
        Self {
            version: MEASURED_VERSION,
            machine: topology.describe(),
            machine_pus: topology.pus.len() as u32,
            line_bytes,
            pus: pus.iter().map(pu).collect(),
            pairs: Vec::new(),
            unmeasured: Vec::new(),
            memory: None,
        }
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("only string keys, finite numbers");
        text.push('\n');
        text
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or is no valid measurement.
    pub fn read(path: &Path) -> Result<Self, MeasuredError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| MeasuredError::Read { path: path.into(), source })?;
        Self::parse(&text, path)
    }

    /// Reads a file's text; `path` is only for messages.
    ///
    /// # Errors
    /// Fails when the text is no valid measurement.
    pub fn parse(text: &str, path: &Path) -> Result<Self, MeasuredError> {
        let bad = |reason: String| MeasuredError::NotLatencies { path: path.into(), reason };
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|e| bad(format!("it is not JSON ({e})")))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            None => return Err(bad("it has no version".into())),
            Some(found) if found > u64::from(MEASURED_VERSION) => {
                return Err(MeasuredError::Newer { path: path.into(), found });
            }
            Some(_) => {}
        }
        let measured: Self = serde_json::from_value(value).map_err(|e| bad(e.to_string()))?;
        measured.check().map_err(bad)?;
        Ok(measured)
    }

    fn check(&self) -> Result<(), String> {
        let known = |os: u32| self.pus.iter().any(|pu| pu.os == os);
        for (i, pu) in self.pus.iter().enumerate() {
            if self.pus[..i].iter().any(|other| other.os == pu.os || other.logical >= pu.logical) {
                return Err(format!("its PUs are out of order at P#{}", pu.os));
            }
        }
        for pair in &self.pairs {
            let [a, b] = pair.pus_os;
            if a == b || !known(a) || !known(b) {
                return Err(format!("it has a pair P#{a}, P#{b} that is not among its PUs"));
            }
            if !pair.latency_ns.is_finite() || pair.latency_ns < 0.0 {
                return Err(format!("the latency between P#{a} and P#{b} is not a time"));
            }
        }
        self.memory.as_ref().map_or(Ok(()), MeasuredMemory::check)
    }

    /// The matrix of latencies over [`Measured::pus`].
    pub fn matrix(&self) -> LatencyMatrix {
        let mut matrix = LatencyMatrix::unknown(self.pus.len());
        let index = |os: u32| self.pus.iter().position(|pu| pu.os == os);
        for pair in &self.pairs {
            if let (Some(a), Some(b)) = (index(pair.pus_os[0]), index(pair.pus_os[1])) {
                matrix.set(a, b, pair.latency_ns);
            }
        }
        matrix
    }
}

/// A symmetric matrix of latencies, ns; some may be unknown.
#[derive(Clone, PartialEq, Debug)]
pub struct LatencyMatrix {
    size: usize,
    /// Row-major; NaN where unknown and in the diagonal.
    ns: Vec<f64>,
}

impl LatencyMatrix {
    /// A matrix of which nothing is known.
    pub fn unknown(size: usize) -> Self {
        Self { size, ns: vec![f64::NAN; size * size] }
    }

    /// A matrix by a function of two different indexes, the smaller first.
    pub fn by(size: usize, mut ns: impl FnMut(usize, usize) -> f64) -> Self {
        let mut matrix = Self::unknown(size);
        for a in 0..size {
            (a + 1..size).for_each(|b| matrix.set(a, b, ns(a, b)));
        }
        matrix
    }

    /// Number of rows.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Latency between two, if it is known.
    pub fn get(&self, a: usize, b: usize) -> Option<f64> {
        Some(self.ns[a * self.size + b]).filter(|ns| !ns.is_nan())
    }

    /// Sets both directions.
    pub fn set(&mut self, a: usize, b: usize, ns: f64) {
        self.ns[a * self.size + b] = ns;
        self.ns[b * self.size + a] = ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let topology = Topology::from_synthetic("pack:2 core:2 pu:1").unwrap();
        let mut measured = Measured::new(&topology, &[0, 1, 3], 64);
        let pair = |a, b, latency_ns| MeasuredPair {
            pus_os: [a, b],
            latency_ns,
            quartiles_ns: [latency_ns - 1.0, latency_ns + 1.0],
            batches: 31,
        };
        measured.pairs = vec![pair(0, 1, 25.5), pair(1, 3, 110.0)];
        let why = "P#3 went away".into();
        measured.unmeasured.push(Unmeasured { pus_os: [0, 3], why });
        measured
    }

    fn refusal(change: impl Fn(&mut serde_json::Value)) -> String {
        let mut value = serde_json::from_str(&measured().to_json()).unwrap();
        change(&mut value);
        Measured::parse(&value.to_string(), Path::new("f.json")).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let measured = measured();
        assert_eq!(Measured::parse(&measured.to_json(), Path::new("f")).unwrap(), measured);
        let matrix = measured.matrix();
        assert_eq!((matrix.get(0, 1), matrix.get(2, 1)), (Some(25.5), Some(110.0)));
        assert_eq!((matrix.get(0, 2), matrix.get(1, 1)), (None, None));
    }

    #[test]
    fn bad_files_are_told_apart() {
        assert!(
            refusal(|v| v["version"] = 2.into())
                .contains("are of version 2, this program reads up to 1")
        );
        assert!(refusal(|v| v["version"] = "x".into()).contains("it has no version"));
        assert!(refusal(|v| v["pairs"][0]["latency_ns"] = (-1).into()).contains("is not a time"));
        assert!(
            refusal(|v| v["pairs"][0]["pus_os"][1] = 2.into()).contains("P#0, P#2 that is not")
        );
        assert!(refusal(|v| v["pus"][1]["os"] = 0.into()).contains("out of order at P#0"));
        let error = Measured::parse("1,2", Path::new("f.csv")).unwrap_err().to_string();
        assert!(
            error.starts_with("'f.csv' holds no measured latencies: it is not JSON"),
            "{error}"
        );
    }
}
