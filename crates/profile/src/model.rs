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

impl Totals {
    /// The totals that belong to these tables.
    pub fn of(threads: &[ThreadRow], comm: &[CommRow]) -> Self {
        let events = |kind| comm.iter().filter(|row| row.kind == kind).map(|row| row.count).sum();
        Self {
            threads: threads.len() as u64,
            loads: threads.iter().map(|thread| thread.loads).sum(),
            stores: threads.iter().map(|thread| thread.stores).sum(),
            raw: events(CommKind::Raw),
            waw: events(CommKind::Waw),
            invalidation: events(CommKind::Invalidation),
        }
    }
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn thread(id: u32, parent: Option<u32>, loads: u64) -> ThreadRow {
        let initial = parent.is_none();
        ThreadRow {
            id: ThreadId(id),
            identity: ThreadIdentity {
                start_routine: if initial { String::new() } else { "app+0x1139".into() },
                parent: parent.map(ThreadId),
                ordinal: id.saturating_sub(1),
                name: format!("app-{id} é"),
            },
            start_symbol: if initial { String::new() } else { "work(int)".into() },
            os_tid: 4000 + id,
            started_ns: u64::from(id) * 1000,
            ended_ns: u64::MAX - u64::from(id),
            loads,
            stores: loads / 10,
        }
    }

    /// Three threads, every kind of event, counts beyond 2^63.
    pub(crate) fn sample() -> Profile {
        let threads = vec![thread(0, None, 100), thread(1, Some(0), 200), thread(2, Some(1), 300)];
        let row =
            |from, to, kind, count| CommRow { from: ThreadId(from), to: ThreadId(to), kind, count };
        let comm = vec![
            row(0, 1, CommKind::Raw, 5),
            row(2, 0, CommKind::Raw, u64::MAX - 10),
            row(1, 2, CommKind::Waw, 7),
            row(2, 1, CommKind::Invalidation, 9),
        ];
        let meta = Meta {
            schema_version: crate::SCHEMA_VERSION,
            tool: "threadtalk 0.1.0".into(),
            command: vec!["./app".into(), "two words".into()],
            directory: "/home/user".into(),
            started: "2024-05-01T12:00:00Z".into(),
            wall_seconds: 0.1 + 0.2,
            cpu_seconds: 1e-7,
            host: "node1".into(),
            topology_xml: "<topology>\n</topology>".into(),
            mode: Mode::Exact,
            parameters: Parameters { block_bytes: 64 },
            totals: Totals::of(&threads, &comm),
            warnings: vec!["2 child processes ran unprofiled".into()],
            exit_code: Some(3),
            exit_signal: None,
        };
        Profile { meta, threads, comm }
    }

    #[test]
    fn totals_and_matrices_come_from_the_tables() {
        let profile = sample();
        assert_eq!(
            profile.meta.totals,
            Totals {
                threads: 3,
                loads: 600,
                stores: 60,
                raw: u64::MAX - 5,
                waw: 7,
                invalidation: 9
            }
        );
        assert_eq!(profile.matrix(CommKind::Waw).to_dense(), [0, 0, 0, 0, 0, 7, 0, 0, 0]);
    }
}
