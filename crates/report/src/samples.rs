//! Profiles for the tests of this crate.

use profile::{CommRow, Meta, Mode, Parameters, Profile, SCHEMA_VERSION, ThreadRow, Totals};
use types::{CommKind, ThreadId, ThreadIdentity};

/// What a test wants to say about a profile.
#[derive(Clone)]
pub(crate) struct Sample {
    pub threads: u32,
    /// RAW events (from, to, count); WAW gets half, invalidation none.
    pub talk: Vec<(u32, u32, u64)>,
    /// Per thread.
    pub loads: u64,
    pub block_bytes: u64,
    pub topology_xml: String,
}

/// A run of two seconds.
pub(crate) fn sample(threads: u32, talk: &[(u32, u32, u64)]) -> Sample {
    Sample {
        threads,
        talk: talk.to_vec(),
        loads: 1000,
        block_bytes: 64,
        topology_xml: String::new(),
    }
}

impl Sample {
    pub(crate) fn profile(&self) -> Profile {
        let threads: Vec<ThreadRow> = (0..self.threads).map(|id| self.thread(id)).collect();
        let comm = self.comm();
        let meta = Meta {
            schema_version: SCHEMA_VERSION,
            tool: "threadtalk 0.1.0".into(),
            command: vec!["./app".into(), "two words".into()],
            directory: "/home/user".into(),
            started: "2024-05-01T12:00:00Z".into(),
            wall_seconds: 2.0,
            cpu_seconds: 3.5,
            host: "node1".into(),
            topology_xml: self.topology_xml.clone(),
            mode: Mode::Exact,
            parameters: Parameters::matrix(self.block_bytes),
            totals: Totals::of(&threads, &comm),
            warnings: vec!["2 child processes ran unprofiled.".into()],
            exit_code: Some(0),
            exit_signal: None,
        };
        Profile::new(meta, threads, comm)
    }

    fn thread(&self, id: u32) -> ThreadRow {
        let initial = id == 0;
        ThreadRow {
            id: ThreadId(id),
            identity: ThreadIdentity {
                start_routine: if initial { String::new() } else { "app+0x1139".into() },
                parent: (!initial).then_some(ThreadId(0)),
                ordinal: id.saturating_sub(1),
                name: format!("app{id}"),
            },
            start_symbol: if initial { String::new() } else { "work(int)".into() },
            os_tid: 100 + id,
            started_ns: 0,
            ended_ns: 2_000_000_000,
            instructions: 0,
            loads: self.loads,
            stores: self.loads / 2,
        }
    }

    fn comm(&self) -> Vec<CommRow> {
        let mut rows = Vec::new();
        for &(from, to, count) in &self.talk {
            let (from, to) = (ThreadId(from), ThreadId(to));
            rows.push(CommRow::whole(from, to, CommKind::Raw, count));
            rows.push(CommRow::whole(from, to, CommKind::Waw, count / 2));
        }
        rows.retain(|row| row.count > 0);
        rows.sort_by_key(|row| (row.kind, row.from, row.to));
        rows
    }
}
