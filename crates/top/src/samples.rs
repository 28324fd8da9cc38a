//! Made-up snapshots for tests.

use crate::snapshot::{Level, Line, Pair, Process, Sampling, Snapshot, Thread};
use std::time::Duration;
use types::ThreadId;

/// Threads that talk in pairs (0 with 1, 2 with 3, …), later pairs more, those after 3 not at all.
pub(crate) fn snapshot(threads: u32) -> Snapshot {
    let thread = |id| Thread {
        id: ThreadId(id),
        os_tid: 4000 + id,
        name: format!("worker-{id}"),
        cpu: Some(id % 2),
        busy: 0.25 + f64::from(id) / 100.0,
        gives: if id < 4 { f64::from(id / 2 * 2 + 1) * 1000.0 } else { 0.0 },
        takes: if id < 4 { f64::from(id / 2 * 2 + 1) * 1000.0 } else { 0.0 },
    };
    let pair = |from, to, rate| Pair { from: ThreadId(from), to: ThreadId(to), rate, hits: 40 };
    Snapshot {
        target: "redis-server, pid 1234".into(),
        elapsed: Duration::from_secs(65),
        window: Duration::from_secs(5),
        method: "cpu-clock, sample matching".into(),
        basis: "estimates from waiting times".into(),
        too_few: false,
        sampling: Some(Sampling {
            samples_per_second: 1234.0,
            decoded: 0.71,
            lost: 0,
            cost: 0.014,
        }),
        processes: vec![process(1234, "redis-server", 320, true)],
        chosen: false,
        threads: (0..threads).map(thread).collect(),
        pairs: vec![pair(0, 1, 1000.0), pair(1, 0, 1000.0), pair(2, 3, 3000.0), pair(3, 2, 3000.0)],
        lines: vec![
            line(0x5000, "counters+0x40 (app)", 2000.0, Some(0.97), "count app.c:12"),
            line(0x7f00, "heap", 6000.0, None, "pop queue.c:120"),
        ],
        levels: vec![
            Level { name: "same L3".into(), rate: 6000.0, hits: 120 },
            Level { name: "other package".into(), rate: 2000.0, hits: 40 },
        ],
        placing: vec!["process 77 looks after redis-server".into()],
        over: false,
    }
}

pub(crate) fn process(pid: u32, name: &str, hits: u64, shown: bool) -> Process {
    Process { pid, name: name.into(), threads: 4, hits, samples_per_second: Some(500.0), shown }
}

fn line(address: u64, object: &str, rate: f64, false_share: Option<f64>, code: &str) -> Line {
    Line {
        address,
        object: object.into(),
        rate,
        hits: 80,
        false_share,
        threads: 2,
        writer: code.into(),
        taker: code.into(),
    }
}
