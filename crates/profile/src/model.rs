//! What a profile holds in memory: the meta data of `meta.rs`, and the tables of `tables.rs`.

use crate::meta::{Meta, Totals};
use crate::tables::footprints::FootprintRow;
use crate::tables::pages::PageTables;
use crate::tables::returns::ReturnRow;
use crate::tables::{
    ActivityRow, BlockRow, CallRow, CommRow, EventRow, FieldRow, FlowRow, LineRow, ObjectRow,
    RunningRow, Sampled, SiteRow, SliceRow, ThreadRow,
};
use types::{CommKind, CommMatrix, Sharing};

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
    /// How often threads come back to lines that they share, a sample; may be empty.
    pub returns: Vec<ReturnRow>,
    /// How much memory threads come to in as long as a gap; may be empty.
    pub footprints: Vec<FootprintRow>,
}

impl Profile {
    /// How well the sum of these rows of `comm` is known; `None` if one is exact.
    pub fn how_well<'a>(&self, rows: impl Iterator<Item = &'a CommRow>) -> Option<Sampled> {
        let alike = self.meta.windows.as_ref().map_or(0.0, |windows| windows.alike);
        Sampled::of_sum(rows, alike)
    }

    /// [`Windows::may_hide`](crate::Windows::may_hide) of its totals.
    pub fn may_hide(&self) -> Option<u64> {
        self.meta.windows.as_ref()?.may_hide(&self.meta.totals)
    }

    /// The part of false sharing in RAW and WAW events, 0 to 1: of those whose sharing is known, or
    /// [what windows make likely](crate::Windows::false_share). `None` where that is not known.
    pub fn false_share(&self) -> Option<f64> {
        let Totals { raw, waw, raw_true, waw_true, raw_false, waw_false, .. } = self.meta.totals;
        let falsely = raw_false as f64 + waw_false as f64;
        let known = falsely + raw_true as f64 + waw_true as f64;
        match &self.meta.windows {
            _ if known == 0.0 => None,
            // False sharing is undecided more often than true sharing.
            Some(windows) if known < raw as f64 + waw as f64 => windows.false_share,
            _ => Some(falsely / known),
        }
    }

    /// A profile of matrices only, the run being one slice.
    pub fn new(meta: Meta, threads: Vec<ThreadRow>, comm: Vec<CommRow>) -> Self {
        let (slices, activity) = one_slice(&threads);
        let sites = vec![SiteRow::default()];
        let objects = vec![ObjectRow::default()];
        let (running, blocks, fields, lines, events, calls, flow, pages) = Default::default();
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
            returns: vec![],
            footprints: vec![],
        }
    }

    /// The matrix of one kind of event over the whole run.
    pub fn matrix(&self, kind: CommKind) -> CommMatrix {
        self.matrix_where(|row| row.kind == kind)
    }

    /// The matrix of the events of one kind whose sharing was told to be `sharing`.
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
    use crate::{Counted, Mode, Note, PageUse, Parameters, Sampling, Totals};
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
            system_seconds: 0.0,
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
            freed: Some(2),
            lifetime_ns: Some(5_000),
            wrappers: 1,
        }
    }

    fn blocks() -> Vec<BlockRow> {
        let block = |start, ordinal, thread: Option<u32>| BlockRow {
            object: 1,
            start,
            ordinal,
            bytes: 48,
            thread: thread.map(ThreadId),
            lifetime_ns: (ordinal == 2).then_some(7_000),
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
        let slice = |start_ns, end_ns| SliceRow { start_ns, end_ns };
        profile.slices = vec![slice(0, 10_000_100), slice(10_000_100, u64::MAX)];
        let late =
            ActivityRow { slice: 1, instructions: 90, loads: 0, stores: 2, ..profile.activity[1] };
        profile.activity[1].instructions -= 90;
        profile.activity[1].stores -= 2;
        profile.activity.push(late);
        profile.running = running();
        profile.sites = vec![SiteRow::default(), site(0x1000), site(0x1008)];
        profile.objects.push(heap_blocks());
        (profile.blocks, profile.fields) = (blocks(), fields());
        profile.flow = crate::sample::flow();
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
        let sampled = (crate::sample::returns(), crate::sample::footprints());
        (profile.returns, profile.footprints) = sampled;
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
            gap: None,
            streamed: 0,
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
