//! Profiles to test with: everything that a test does not care about has a value that passes all
//! checks.
//!
//! They are here because `test-support` does not depend on this crate. A test sets only the fields
//! that it is about: `ThreadRow { loads: 7, ..sample::thread(1) }`, `profile.meta.wall_seconds =
//! 2.0`.

use crate::meta::{Meta, Mode, Parameters, Totals};
use crate::model::Profile;
use crate::schema::SCHEMA_VERSION;
use crate::tables::footprints::FootprintRow;
use crate::tables::pages::{AccessRow, NodesSeen, PageRow, PageTables, TouchedRow};
use crate::tables::returns::ReturnRow;
use crate::tables::{CommRow, FlowRow, ThreadRow};
use types::{CommKind, GapClass, Sharing, ThreadId, ThreadIdentity};

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
        system_seconds: 0.0,
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
        slowed: None,
        page_use: None,
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

/// How often T1 comes back to a line.
pub fn returns() -> Vec<ReturnRow> {
    vec![ReturnRow {
        line: 0x40c0,
        thread: ThreadId(1),
        returns: 12,
        writes: 7,
        instructions: 3000,
    }]
}

/// What T1 comes to in two times.
pub fn footprints() -> Vec<FootprintRow> {
    let row = |gap, bytes| FootprintRow { thread: ThreadId(1), gap, bytes, windows: 40 };
    vec![row(GapClass::Short, 4096), row(GapClass::Late(0), 1 << 20)]
}

/// Two pages of object 1, both touched first by T0, the second used by T1 and T2 afterwards.
pub fn pages() -> PageTables {
    let page = |address, offset| PageRow {
        address,
        object: 1,
        ordinal: 2,
        offset,
        blocks: 1,
        allocated_by: Some(ThreadId(0)),
        touched_by: Some(ThreadId(0)),
        touched_site: 1,
        node: Some(1),
    };
    let access = |page, slice, thread, reads: u64, writes: u64| AccessRow {
        page,
        slice,
        thread: ThreadId(thread),
        reads,
        writes,
        low: reads + writes,
        high: reads + writes,
        hits: 0,
        missed: Some(writes),
        node: None,
        seen: None,
    };
    let touched = |page, thread, lines, written| TouchedRow {
        page,
        thread: ThreadId(thread),
        lines,
        written,
    };
    PageTables {
        pages: vec![page(0x40000, 0), PageRow { node: None, ..page(0x41000, 0x1000) }],
        accesses: vec![
            access(0, 0, 0, 0, 512),
            access(0, 1, 0, 64, 0),
            access(1, 0, 0, 0, 512),
            access(1, 1, 1, 900, 100),
            AccessRow {
                hits: 4,
                low: 13,
                high: 121,
                missed: None,
                node: Some(1),
                seen: Some(NodesSeen { local: 1, remote: 2 }),
                ..access(1, 1, 2, 50, 0)
            },
        ],
        touched: vec![
            touched(0, 0, u64::MAX, u64::MAX),
            touched(1, 0, u64::MAX, u64::MAX),
            touched(1, 1, 0xffff, 0xff),
            touched(1, 2, 0xff00, 0),
        ],
    }
}
