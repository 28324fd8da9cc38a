//! What a profile holds in memory: the meta data, and the tables of `tables.rs`.

use crate::note::{self, Note, Unrecorded};
use crate::sampling::Sampling;
use crate::tables::pages::{PageTables, PageUse};
use crate::tables::reuse::ReuseTables;
use crate::tables::{
    ActivityRow, BlockRow, CallRow, CommRow, EventRow, FieldRow, FlowRow, LineRow, ObjectRow,
    RunningRow, SiteRow, SliceRow, ThreadRow,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;
use types::{CommKind, CommMatrix, Sharing};

/// How the counts were obtained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every access was seen by the exact engine.
    Exact,
    /// Some accesses were sampled; counts are estimates.
    Sampled,
    /// Every access was seen by the exact engine in random windows of time; counts are estimates.
    Windows,
}

/// What was counted, and so which tables have rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, TS)]
#[serde(rename_all = "lowercase")]
pub enum Counted {
    /// The matrices of RAW, WAW and invalidation, sharing not told apart.
    #[default]
    Matrix,
    /// The matrices by true and false sharing, and events by line and code site.
    Detail,
    /// Undirected pairs by numalize's definition.
    Undirected,
    /// As `Detail`, by the reference recorder from a trace of all accesses.
    Reference,
    /// Nothing: the program was translated only.
    Translate,
}

/// Settings that the counts depend on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Parameters {
    /// Memory block in which communication is counted, bytes, a power of two.
    pub block_bytes: u64,
    /// Length of a time slice; 0: the run is one slice.
    #[serde(default)]
    pub slice_ns: u64,
    /// How much detail was counted.
    #[serde(default)]
    pub counted: Counted,
}

impl Parameters {
    /// Matrices of a whole run.
    pub fn matrix(block_bytes: u64) -> Self {
        Self { block_bytes, slice_ns: 0, counted: Counted::Matrix }
    }
}

/// Sums over the whole run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Threads.
    pub threads: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Loads executed.
    pub loads: u64,
    /// Stores executed.
    pub stores: u64,
    /// All events of a kind, whatever their sharing.
    pub raw: u64,
    /// All WAW events, whatever their sharing.
    pub waw: u64,
    /// All invalidations.
    pub invalidation: u64,
    /// All undirected pairs.
    pub undirected: u64,
    /// Those whose sharing is known.
    pub raw_true: u64,
    /// RAW events with false sharing.
    pub raw_false: u64,
    /// WAW events with true sharing.
    pub waw_true: u64,
    /// WAW events with false sharing.
    pub waw_false: u64,
}

impl Totals {
    /// The totals that belong to these tables.
    pub fn of(threads: &[ThreadRow], comm: &[CommRow]) -> Self {
        let mut totals = Self { threads: threads.len() as u64, ..Self::default() };
        for thread in threads {
            totals.instructions += thread.instructions;
            totals.loads += thread.loads;
            totals.stores += thread.stores;
        }
        for row in comm {
            *totals.of_kind(row.kind) += row.count;
            match (row.kind, row.sharing) {
                (CommKind::Raw, Sharing::True) => totals.raw_true += row.count,
                (CommKind::Raw, Sharing::False) => totals.raw_false += row.count,
                (CommKind::Waw, Sharing::True) => totals.waw_true += row.count,
                (CommKind::Waw, Sharing::False) => totals.waw_false += row.count,
                _ => {}
            }
        }
        totals
    }

    fn of_kind(&mut self, kind: CommKind) -> &mut u64 {
        match kind {
            CommKind::Raw => &mut self.raw,
            CommKind::Waw => &mut self.waw,
            CommKind::Invalidation => &mut self.invalidation,
            CommKind::Undirected => &mut self.undirected,
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
    /// Name of the machine.
    pub host: String,
    /// The machine as hwloc XML, or empty when hwloc could not say.
    pub topology_xml: String,
    /// Whether every access was seen, or samples.
    pub mode: Mode,
    /// Settings that the counts depend on.
    pub parameters: Parameters,
    /// Sums over the whole run.
    pub totals: Totals,
    /// What was not seen or not exact.
    #[serde(deserialize_with = "note::notes")]
    pub warnings: Vec<Note>,
    /// The program's exit code, if it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended the program, if one did.
    pub exit_signal: Option<i32>,
    /// How often the engine's cache of translated code was full and all code was translated anew.
    /// That costs time and changes no count.
    #[serde(default)]
    pub cache_flushes: u64,
    /// Blocks of code in the engine's cache.
    #[serde(default)]
    pub blocks: u64,
    /// Blocks that came from the store of code instead of being translated.
    #[serde(default)]
    pub blocks_stored: u64,
    /// Processes that the program started, in order; only in the first program's profile.
    #[serde(default)]
    pub processes: Vec<ProcessRow>,
    /// The folder, relative to this one, with the profile of all processes that communicate, if any
    /// does; only in the first program's profile.
    #[serde(default)]
    pub together: Option<String>,
    /// How it was sampled; null in other modes.
    #[serde(default)]
    pub sampled: Option<Sampling>,
    /// The windows in which it was recorded; null in other modes.
    #[serde(default)]
    pub windows: Option<Windows>,
    /// What the run would have taken without recording; null where that is not known.
    #[serde(default)]
    pub own_time: Option<OwnTime>,
    /// What the tables of pages rest on; null where pages were not recorded.
    #[serde(default)]
    pub page_use: Option<PageUse>,
}

/// What a run would have taken without recording, on the machine as it was: an estimate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, TS)]
pub struct OwnTime {
    /// Wall-clock time, seconds.
    pub seconds: f64,
    /// The least that it may be.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// Windows of exact recording, and what they were good for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Windows {
    /// What was asked for, like `2x` (times as long as without recording) or `5%` (share of the
    /// time).
    pub asked: String,
    /// Windows whose counts count.
    pub windows: u64,
    /// Whether these are too few for amounts with an interval.
    pub too_short: bool,
    /// Part of the instructions in counting parts of windows, and while everything was recorded.
    pub observed: f64,
    /// Of that, the part while everything was recorded.
    #[serde(default)]
    pub whole: f64,
    /// Warm-up of the last window, ns.
    pub warm_up_ns: u64,
    /// Most events that may be missing, as a part of those told: first reads and writes of blocks
    /// whose last writer may have been forgotten, scaled as events are; the upper end of the 95 %
    /// interval. None is missing among those that were counted while everything was recorded.
    pub missed: f64,
}

/// A process beside the first one, number 0: one that it or one of its children started, or one
/// that was sampled because it was named.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, TS)]
pub struct ProcessRow {
    /// From 1; some may be missing.
    pub number: u32,
    /// Number of the process that started it; 0 for those that were named.
    pub parent: u32,
    /// It ran already and was named (`--pid`): none of the others has started it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[ts(optional, as = "Option<bool>")]
    pub named: bool,
    /// Process id, as the process saw it.
    pub pid: u32,
    /// Command line of its last program.
    pub command: Vec<String>,
    /// Threads over the whole run; 0 when it was not recorded.
    pub threads: u32,
    /// What it exited with; null when it ended otherwise, was still running, or it is not known.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if its parent was told of one.
    #[serde(default)]
    pub exit_signal: Option<i32>,
    /// Its profile, a folder relative to this one; null when it was not recorded.
    pub profile: Option<String>,
    /// Why it was not recorded.
    #[serde(default, deserialize_with = "note::unrecorded")]
    pub unrecorded: Option<Unrecorded>,
}

/// A whole profile.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// `profile.json`.
    pub meta: Meta,
    /// Ordered by id, dense.
    pub threads: Vec<ThreadRow>,
    /// By number; at least one.
    pub slices: Vec<SliceRow>,
    /// Ordered by (slice, thread); the sums of each thread are those in `threads`.
    pub activity: Vec<ActivityRow>,
    /// Ordered by [`RunningRow::key`]; empty where it is not known where threads ran.
    pub running: Vec<RunningRow>,
    /// Ordered by [`CommRow::key`], no zero counts.
    pub comm: Vec<CommRow>,
    /// By number; the first is the unknown site.
    pub sites: Vec<SiteRow>,
    /// By number; the first is what is not known.
    pub objects: Vec<ObjectRow>,
    /// In their order.
    pub blocks: Vec<BlockRow>,
    /// In their order.
    pub fields: Vec<FieldRow>,
    /// Ordered by address: the lines that `events` names.
    pub lines: Vec<LineRow>,
    /// Ordered by [`EventRow::key`], no zero counts.
    pub events: Vec<EventRow>,
    /// By site, the commonest path of each first; empty where paths are not known.
    pub calls: Vec<CallRow>,
    /// In their order.
    pub flow: Vec<FlowRow>,
    /// Who uses which page; empty where pages were not recorded.
    pub pages: PageTables,
    /// How long after writes threads came, and how soon they come back; may be empty.
    pub reuse: ReuseTables,
}

impl Profile {
    /// A profile of matrices only, the run being one slice.
    pub fn new(meta: Meta, threads: Vec<ThreadRow>, comm: Vec<CommRow>) -> Self {
        let (slices, activity) = one_slice(&threads);
        let (sites, objects) = (vec![SiteRow::default()], vec![ObjectRow::default()]);
        let (running, blocks, fields, lines, events) = Default::default();
        let (calls, flow, pages, reuse) = Default::default();
        Self {
            meta,
            threads,
            slices,
            activity,
            running,
            comm,
            sites,
            objects,
            blocks,
            fields,
            lines,
            events,
            calls,
            flow,
            pages,
            reuse,
        }
    }

    /// The matrix of one kind of event over the whole run.
    pub fn matrix(&self, kind: CommKind) -> CommMatrix {
        self.matrix_where(|row| row.kind == kind)
    }

    /// The same of events whose sharing was told to be `sharing`.
    pub fn matrix_by_sharing(&self, kind: CommKind, sharing: Sharing) -> CommMatrix {
        self.matrix_where(|row| row.kind == kind && row.sharing == sharing)
    }

    /// The matrix of all events that `wanted` picks.
    pub fn matrix_where(&self, wanted: impl Fn(&CommRow) -> bool) -> CommMatrix {
        let mut matrix = CommMatrix::new(self.threads.len());
        for row in self.comm.iter().filter(|row| wanted(row)) {
            matrix.add(row.from, row.to, row.count);
        }
        matrix
    }
}

/// The tables `slices` and `activity` of a run that is one slice.
pub(crate) fn one_slice(threads: &[ThreadRow]) -> (Vec<SliceRow>, Vec<ActivityRow>) {
    let end_ns = threads.iter().map(|thread| thread.ended_ns).max().unwrap_or(0);
    let activity = threads
        .iter()
        .map(|t| ActivityRow {
            slice: 0,
            thread: t.id,
            instructions: t.instructions,
            loads: t.loads,
            stores: t.stores,
        })
        .filter(|row| row.instructions + row.loads + row.stores > 0)
        .collect();
    (vec![SliceRow { start_ns: 0, end_ns }], activity)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Sampled;
    use types::{Evidence, EvidenceSet, ThreadId, ThreadIdentity};

    fn thread(id: u32, parent: Option<u32>, loads: u64) -> ThreadRow {
        let sample = crate::sample::thread(id);
        ThreadRow {
            identity: ThreadIdentity {
                parent: parent.map(ThreadId),
                name: format!("app-{id} é"),
                ..sample.identity
            },
            started_ns: u64::from(id) * 1000,
            ended_ns: u64::MAX - u64::from(id),
            instructions: loads * 5,
            loads,
            stores: loads / 10,
            ..sample
        }
    }

    fn meta(sample: Meta) -> Meta {
        Meta {
            command: vec!["./app".into(), "two words".into()],
            wall_seconds: 0.1 + 0.2,
            cpu_seconds: 1e-7,
            topology_xml: "<topology>\n</topology>".into(),
            parameters: Parameters {
                block_bytes: 64,
                slice_ns: 10_000_000,
                counted: Counted::Detail,
            },
            warnings: vec![Note::ChildrenUnprofiled { count: 2 }],
            exit_code: Some(3),
            ..sample
        }
    }

    fn running() -> Vec<RunningRow> {
        let row = |slice, thread, pu, cpu_ns| {
            let (thread, waited_ns) = (ThreadId(thread), 7);
            RunningRow { slice, thread, pu, cpu_ns, waited_ns }
        };
        vec![row(0, 0, 3, 900), row(0, 1, 0, 5), row(1, 0, 2, 6), row(1, 0, 3, 8)]
    }

    fn heap_blocks() -> ObjectRow {
        ObjectRow {
            region: "heap".into(),
            name: "work(int) at app.c:31".into(),
            site: 1,
            callers: "main at app.c:50".into(),
            blocks: 3,
            bytes: u64::MAX - 5,
            element: "struct counter".into(),
            stride: 24,
        }
    }

    fn blocks() -> Vec<BlockRow> {
        let block = |start, ordinal, thread: Option<u32>| BlockRow {
            object: 1,
            start,
            ordinal,
            bytes: 48,
            thread: thread.map(ThreadId),
        };
        vec![block(0x40a0, 2, Some(1)), block(0x40f0, 0, None), block(0x40f0, 1, Some(2))]
    }

    fn fields() -> Vec<FieldRow> {
        let field =
            |offset, name: &str| FieldRow { object: 1, offset, bytes: 8, name: name.into() };
        vec![field(0, "count"), field(8, "lock.owner"), field(16, "next")]
    }

    /// Three threads, two slices, every kind of event, counts beyond 2^63.
    pub(crate) fn sample() -> Profile {
        let threads = vec![thread(0, None, 100), thread(1, Some(0), 200), thread(2, Some(1), 300)];
        let row = |slice, from, to, kind, sharing, count| CommRow {
            slice,
            from: ThreadId(from),
            to: ThreadId(to),
            kind,
            sharing,
            count,
            sampled: None,
            evidence: Evidence::Exact,
        };
        let comm = vec![
            row(0, 0, 1, CommKind::Raw, Sharing::True, 5),
            row(0, 0, 1, CommKind::Raw, Sharing::False, 6),
            row(0, 2, 0, CommKind::Raw, Sharing::Any, u64::MAX - 20),
            row(1, 0, 1, CommKind::Raw, Sharing::True, 1),
            row(1, 1, 2, CommKind::Waw, Sharing::False, 7),
            row(1, 2, 1, CommKind::Invalidation, Sharing::Any, 9),
            row(1, 1, 2, CommKind::Undirected, Sharing::Any, 4),
        ];
        let mut profile = crate::sample::profile(threads, comm);
        profile.meta = meta(profile.meta);
        profile.slices = vec![
            SliceRow { start_ns: 0, end_ns: 10_000_100 },
            SliceRow { start_ns: 10_000_100, end_ns: u64::MAX },
        ];
        let late =
            ActivityRow { slice: 1, instructions: 90, loads: 0, stores: 2, ..profile.activity[1] };
        profile.activity[1].instructions -= 90;
        profile.activity[1].stores -= 2;
        profile.activity.push(late);
        profile.running = running();
        profile.sites = vec![SiteRow::default(), site(0x1000), site(0x1008)];
        profile.objects.push(heap_blocks());
        (profile.blocks, profile.fields, profile.flow) =
            (blocks(), fields(), crate::sample::flow());
        let line = |line, object: &str| LineRow {
            line,
            region: "static".into(),
            object: object.into(),
            evidence: EvidenceSet::of(Evidence::Exact),
            ..LineRow::default()
        };
        profile.lines = vec![
            LineRow { writers: 1, readers: 1, raw_any: 2, ..line(0, "") },
            LineRow {
                writers: 3,
                readers: 1,
                raw_true: 6,
                raw_false: 6,
                waw_false: 7,
                ..line(0x40c0, "counters+0x40..0x80 (app)")
            },
        ];
        profile.events = events();
        profile.calls = calls();
        profile.pages = crate::sample::pages();
        profile.reuse = crate::sample::reuse();
        profile.meta.page_use = Some(PageUse { estimated: false, private_bytes: 1 << 20, lost: 0 });
        profile
    }

    fn calls() -> Vec<CallRow> {
        let row = |site, path: &str, count| CallRow { site, path: path.into(), count };
        vec![row(1, "add at app.c:7; main at app.c:30", 5), row(1, "", 5), row(2, "main", 1)]
    }

    /// The same, as if it had been sampled, and inferred where the sharing is not known.
    pub(crate) fn sampled() -> Profile {
        let evidence = |sharing| match sharing {
            Sharing::Any => Evidence::Inferred,
            Sharing::True | Sharing::False => Evidence::Sampled,
        };
        let mut profile = sample();
        profile.comm.retain(|row| row.count < 1000);
        for row in &mut profile.comm {
            let (low, high) = (row.count / 2, row.count * 2);
            row.sampled = Some(Sampled { hits: 1 + row.count / 3, low, high });
            row.evidence = evidence(row.sharing);
        }
        for event in &mut profile.events {
            (event.hits, event.evidence) = (1, evidence(event.sharing));
        }
        let events = profile.events.clone();
        for (line, of_line) in
            profile.lines.iter_mut().zip(events.chunk_by(|a, b| a.line == b.line))
        {
            let sums = LineRow::of(of_line);
            (line.hits, line.evidence) = (sums.hits, sums.evidence);
        }
        profile.activity.clear();
        for thread in &mut profile.threads {
            (thread.loads, thread.stores, thread.instructions) = (0, 0, 0);
            thread.cpu_ns = 5;
        }
        profile.meta.totals = Totals::of(&profile.threads, &profile.comm);
        profile.meta.mode = Mode::Sampled;
        profile.meta.sampled = Some(Sampling::example());
        profile
    }

    fn site(address: u64) -> SiteRow {
        SiteRow {
            address,
            module: "/home/user/app".into(),
            offset: address - 0x800,
            function: "work(int)".into(),
            file: "app.c".into(),
            line: 31,
            inlined: "loop at app.c:40; main at app.c:50".into(),
        }
    }

    fn events() -> Vec<EventRow> {
        let event = |line, kind, (from, to), sharing, count| EventRow {
            line,
            from: ThreadId(from),
            to: ThreadId(to),
            kind,
            sharing,
            from_site: 1,
            to_site: 2,
            count,
            from_bytes: 0xff,
            to_bytes: 1 << 63,
            hits: 0,
            evidence: Evidence::Exact,
            object: u32::from(line != 0),
        };
        vec![
            event(0, CommKind::Raw, (2, 0), Sharing::Any, 2),
            event(0x40c0, CommKind::Raw, (0, 1), Sharing::True, 6),
            event(0x40c0, CommKind::Raw, (0, 1), Sharing::False, 6),
            event(0x40c0, CommKind::Waw, (1, 2), Sharing::False, 7),
            event(0x40c0, CommKind::Invalidation, (2, 1), Sharing::Any, 1),
        ]
    }

    #[test]
    fn totals_and_matrices_come_from_the_tables() {
        let profile = sample();
        assert_eq!(
            profile.meta.totals,
            Totals {
                threads: 3,
                instructions: 3000,
                loads: 600,
                stores: 60,
                raw: u64::MAX - 8,
                waw: 7,
                invalidation: 9,
                undirected: 4,
                raw_true: 6,
                raw_false: 6,
                waw_true: 0,
                waw_false: 7,
            }
        );
        assert_eq!(profile.matrix(CommKind::Waw).to_dense(), [0, 0, 0, 0, 0, 7, 0, 0, 0]);
        let (from, to) = (ThreadId(0), ThreadId(1));
        assert_eq!(profile.matrix(CommKind::Raw).get(from, to), 12);
        assert_eq!(profile.matrix_by_sharing(CommKind::Raw, Sharing::False).get(from, to), 6);
        assert_eq!(profile.matrix_where(|row| row.slice == 1).get(from, to), 1);
    }
}
