//! What a profile holds in memory.

use serde::{Deserialize, Serialize};
use types::{CommKind, CommMatrix, ThreadId, ThreadIdentity};

/// How the counts were obtained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every access was seen by the exact engine.
    Exact,
}

/// Settings that the counts depend on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parameters {
    /// Memory block in which communication is counted, bytes, a power of two.
    pub block_bytes: u64,
}

/// Sums over the whole run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    pub threads: u64,
    pub loads: u64,
    pub stores: u64,
    pub raw: u64,
    pub waw: u64,
    pub invalidation: u64,
}

/// `profile.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the folder's schema; see `schema.rs`.
    pub schema_version: u32,
    /// `threadtalk` and its version.
    pub tool: String,
    /// The recorded command with its arguments.
    pub command: Vec<String>,
    /// Working directory of the command.
    pub directory: String,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Wall-clock time of the recorded run, seconds.
    pub wall_seconds: f64,
    /// User plus system CPU time of the recorded run, seconds.
    pub cpu_seconds: f64,
    pub host: String,
    /// The machine as hwloc XML, or empty when hwloc could not say.
    pub topology_xml: String,
    pub mode: Mode,
    pub parameters: Parameters,
    pub totals: Totals,
    /// What was not seen or not exact, one sentence each.
    pub warnings: Vec<String>,
    /// The program's exit code, if it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended the program, if one did.
    pub exit_signal: Option<i32>,
}

/// One thread of the recorded program.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadRow {
    pub id: ThreadId,
    pub identity: ThreadIdentity,
    /// Demangled name of the start routine; empty when it has none.
    pub start_symbol: String,
    pub os_tid: u32,
    /// Nanoseconds after the start of the recording.
    pub started_ns: u64,
    pub ended_ns: u64,
    pub loads: u64,
    pub stores: u64,
}

/// Events of one kind between two threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommRow {
    pub from: ThreadId,
    pub to: ThreadId,
    pub kind: CommKind,
    pub count: u64,
}

/// A whole profile.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    pub meta: Meta,
    /// Ordered by id, dense.
    pub threads: Vec<ThreadRow>,
    /// Ordered by (kind, from, to), no zero counts.
    pub comm: Vec<CommRow>,
}

impl Profile {
    /// The matrix of one kind of event.
    pub fn matrix(&self, kind: CommKind) -> CommMatrix {
        let mut matrix = CommMatrix::new(self.threads.len());
        for row in self.comm.iter().filter(|row| row.kind == kind) {
            matrix.add(row.from, row.to, row.count);
        }
        matrix
    }
}
