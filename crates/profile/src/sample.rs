//! Profiles to test with: everything that a test does not care about has a value that passes all
//! checks.
//!
//! They are here because `test-support` does not depend on this crate. A test sets only the fields
//! that it is about: `ThreadRow { loads: 7, ..sample::thread(1) }`, `profile.meta.wall_seconds =
//! 2.0`.

use crate::model::{Meta, Mode, Parameters, Profile, Totals};
use crate::schema::SCHEMA_VERSION;
use crate::tables::{CommRow, FlowRow, ThreadRow};
use types::{CommKind, Sharing, ThreadId, ThreadIdentity};

/// The initial thread (0), or a worker that it has started.
pub fn thread(id: u32) -> ThreadRow {
    let initial = id == 0;
    ThreadRow {
        id: ThreadId(id),
        identity: ThreadIdentity {
            start_routine: if initial { String::new() } else { "app+0x1139".into() },
            parent: (!initial).then_some(ThreadId(0)),
            ordinal: id.saturating_sub(1),
            name: "app".into(),
        },
        start_symbol: if initial { String::new() } else { "work(int)".into() },
        os_tid: 100 + id,
        started_ns: 0,
        ended_ns: 1_000_000_000,
        instructions: 0,
        loads: 1000,
        stores: 1000,
        cpu_ns: 0,
    }
}

/// The threads 0 to `count` - 1.
pub fn threads(count: u32) -> Vec<ThreadRow> {
    (0..count).map(thread).collect()
}

/// RAW events of the whole run, from (from, to, count).
pub fn raw(cells: &[(u32, u32, u64)]) -> Vec<CommRow> {
    let row = |&(from, to, count): &(u32, u32, u64)| {
        CommRow::whole(ThreadId(from), ThreadId(to), CommKind::Raw, count)
    };
    cells.iter().map(row).collect()
}

/// An exact profile of matrices over one second, with totals that belong to the tables.
pub fn profile(threads: Vec<ThreadRow>, comm: Vec<CommRow>) -> Profile {
    let meta = Meta {
        schema_version: SCHEMA_VERSION,
        tool: "threadtalk 0.1.0".into(),
        command: vec!["./app".into()],
        directory: "/home/user".into(),
        started: "2024-05-01T12:00:00Z".into(),
        wall_seconds: 1.0,
        cpu_seconds: 2.0,
        host: "node1".into(),
        topology_xml: String::new(),
        mode: Mode::Exact,
        parameters: Parameters::matrix(64),
        totals: Totals::of(&threads, &comm),
        warnings: Vec::new(),
        exit_code: Some(0),
        exit_signal: None,
        cache_flushes: 0,
        blocks: 0,
        blocks_stored: 0,
        processes: Vec::new(),
        together: None,
        sampled: None,
        windows: None,
        own_time: None,
    };
    Profile::new(meta, threads, comm)
}

/// What T2 takes from T1 of object 1: of a stretch of time, and of a sample.
pub fn flow() -> Vec<FlowRow> {
    let stretch = FlowRow {
        start_ns: 0,
        end_ns: 500,
        thread: ThreadId(2),
        from: ThreadId(1),
        kind: CommKind::Raw,
        sharing: Sharing::False,
        object: 1,
        line: 0x40c0,
        site: 2,
        count: u64::MAX,
        hits: 0,
    };
    vec![stretch, FlowRow { start_ns: 700, end_ns: 700, kind: CommKind::Waw, hits: 1, ..stretch }]
}
