//! Profiles for the tests of this crate.

use profile::{
    ActivityRow, Basis, CommRow, Counted, Detector, EventRow, LineRow, Mode, Note, ObjectRow,
    PageUse, Parameters, Profile, Sampled, Sampling, SiteRow, SliceRow, ThreadRow, Totals,
};
use std::collections::BTreeMap;
use types::{CommKind, Evidence, Sharing, ThreadId};

/// Asserts that a text is that of a file in `src/text/`. With `THREADTALK_WRITE_TEXTS` in the
/// environment, the file is written first.
#[track_caller]
pub(crate) fn assert_word_for_word(file: &str, text: &str) {
    let path = format!("{}/src/text/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("THREADTALK_WRITE_TEXTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (number, (is, wanted)) in (1..).zip(text.lines().zip(expected.lines())) {
        assert_eq!(is, wanted, "line {number} of {path}");
    }
    assert_eq!(text.len(), expected.len(), "{path} is longer or shorter");
}

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
        let threads = (0..self.threads).map(|id| self.thread(id)).collect();
        let mut profile = profile::sample::profile(threads, self.comm());
        let meta = &mut profile.meta;
        meta.command = vec!["./app".into(), "two words".into()];
        (meta.wall_seconds, meta.cpu_seconds) = (2.0, 3.5);
        meta.topology_xml = self.topology_xml.clone();
        meta.parameters = Parameters::matrix(self.block_bytes);
        meta.warnings = vec![Note::ChildrenUnprofiled { count: 2 }];
        profile
    }

    fn thread(&self, id: u32) -> ThreadRow {
        let mut thread = profile::sample::thread(id);
        thread.identity.name = format!("app{id}");
        (thread.ended_ns, thread.loads, thread.stores) =
            (2_000_000_000, self.loads, self.loads / 2);
        thread
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

/// Five threads, two slices, three lines: T1 to T4 each update a counter of their own on one line
/// (4,400 events, false sharing), T0 hands T1 something on another (700, true sharing), and 5
/// events are on a line that nothing is known of, 20 on lines that were not kept.
pub(crate) fn shared() -> Profile {
    let mut profile = sample(5, &[]).profile();
    profile.meta.parameters =
        Parameters { block_bytes: 64, slice_ns: 1_000_000_000, counted: Counted::Detail };
    profile.meta.warnings.clear();
    profile.slices = vec![
        SliceRow { start_ns: 0, end_ns: 1_000_000_000 },
        SliceRow { start_ns: 1_000_000_000, end_ns: 2_000_000_000 },
    ];
    profile.activity = (0..2).flat_map(|slice| (0..5).map(move |t| active(slice, t))).collect();
    profile.threads.iter_mut().for_each(|thread| thread.instructions = 5000);
    profile.sites = sites();
    profile.events = events();
    profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(line).collect();
    let mut cells: BTreeMap<_, u64> = BTreeMap::new();
    for event in &profile.events {
        // The first slice gets 30 % of each.
        for (slice, count) in [(0, event.count * 3 / 10), (1, event.count - event.count * 3 / 10)] {
            *cells.entry((slice, event.kind, event.from, event.to, event.sharing)).or_default() +=
                count;
        }
    }
    let row = |((slice, kind, from, to, sharing), count)| CommRow {
        slice,
        from,
        to,
        kind,
        sharing,
        count,
        sampled: None,
        evidence: Evidence::Exact,
    };
    profile.comm = cells.into_iter().filter(|(_, count)| *count > 0).map(row).collect();
    profile.meta.totals = Totals::of(&profile.threads, &profile.comm);
    profile
}

/// [`shared`] with `profile::sample::pages`, which lie in a variable.
pub(crate) fn paged() -> Profile {
    let mut profile = shared();
    let (region, name) = ("static".into(), "table (app)".into());
    profile.objects =
        vec![ObjectRow::default(), ObjectRow { region, name, ..ObjectRow::default() }];
    profile.pages = profile::sample::pages();
    let use_of = PageUse { estimated: false, private_bytes: 1 << 20, lost: 0 };
    profile.meta.page_use = Some(use_of);
    profile
}

/// [`shared`] as if it had been sampled: a hit for 50 events, intervals from half to twice;
/// inferred where the sharing is not known.
pub(crate) fn sampled() -> Profile {
    let evidence = |sharing| match sharing {
        Sharing::Any => Evidence::Inferred,
        Sharing::True | Sharing::False => Evidence::Sampled,
    };
    let mut profile = shared();
    for row in &mut profile.comm {
        let (hits, low, high) = (1 + row.count / 50, row.count / 2, row.count * 2);
        row.sampled = Some(Sampled { hits, low, high });
        row.evidence = evidence(row.sharing);
    }
    for event in &mut profile.events {
        (event.hits, event.evidence) = (1 + event.count / 50, evidence(event.sharing));
    }
    profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(line).collect();
    profile.activity.clear();
    for thread in &mut profile.threads {
        (thread.loads, thread.stores, thread.instructions) = (0, 0, 0);
        thread.cpu_ns = 1_250_000_000;
    }
    profile.meta.mode = Mode::Sampled;
    profile.meta.totals = Totals::of(&profile.threads, &profile.comm);
    profile.meta.sampled = Some(Sampling {
        source: "cpu-clock".into(),
        detectors: vec![Detector::Matching],
        reason: "No event counts transfers here".into(),
        rate: 2000.0,
        period: 0,
        samples: 12_000,
        decoded: 9_000,
        hits: 130,
        lost: 3,
        throttled: 0,
        basis: Basis::Latency { transfer_ns: 80.4, source: "measured".into() },
        named: false,
        attached: true,
        inferred: 12,
        hit_events: 1_000.0,
        reader_seconds: 0.05,
    });
    profile
}

fn active(slice: u32, thread: u32) -> ActivityRow {
    ActivityRow { slice, thread: ThreadId(thread), instructions: 2500, loads: 500, stores: 250 }
}

fn sites() -> Vec<SiteRow> {
    let worker = |address: u64| SiteRow {
        address,
        module: "/home/user/app".into(),
        offset: address - 0x40_0000,
        function: "bump(long*)".into(),
        file: "/home/user/src/a.c".into(),
        line: 31,
        inlined: "worker(int) at /home/user/src/a.c:40; start at /home/user/src/a.c:50".into(),
    };
    let nameless = SiteRow {
        address: 0x7f00_0000_0099,
        module: "/usr/lib/libx.so.1".into(),
        offset: 0x99,
        ..SiteRow::default()
    };
    let reader = SiteRow {
        function: "take, \"quoted\"".into(),
        file: "b.c".into(),
        line: 7,
        inlined: String::new(),
        ..worker(0x40_2000)
    };
    vec![SiteRow::default(), worker(0x40_1130), worker(0x40_1138), nameless, reader]
}

fn events() -> Vec<EventRow> {
    let event =
        |line, kind, (from, to), sharing, (from_site, to_site), count, bytes: (u64, u64)| {
            let (from, to) = (ThreadId(from), ThreadId(to));
            let (from_bytes, to_bytes) = bytes;
            EventRow {
                line,
                from,
                to,
                kind,
                sharing,
                from_site,
                to_site,
                count,
                from_bytes,
                to_bytes,
                hits: 0,
                evidence: Evidence::Exact,
                object: 0,
                gap: None,
                streamed: 0,
            }
        };
    let (raw, waw) = (CommKind::Raw, CommKind::Waw);
    let own = |thread: u32| 0xff_u64 << (8 * (thread - 1));
    let mut events = vec![event(0, raw, (3, 2), Sharing::Any, (0, 0), 20, (1, 1))];
    for (kind, count) in [(raw, 1000), (waw, 100)] {
        for from in 1..5 {
            let to = from % 4 + 1;
            // Two instructions of one source line: the load and the store of an increment.
            let sites = if kind == raw { (1, 2) } else { (1, 1) };
            let bytes = (own(from), own(to));
            events.push(event(0x40_40c0, kind, (from, to), Sharing::False, sites, count, bytes));
        }
    }
    events.push(event(0x40_4100, raw, (0, 1), Sharing::True, (3, 4), 700, (0xffff, 0xf)));
    events.push(event(0x7f00_0000_1000, raw, (0, 4), Sharing::Any, (0, 0), 5, (1 << 63, 1)));
    events
}

fn line(events: &[EventRow]) -> LineRow {
    let (region, object) = match events[0].line {
        0 => ("unknown", ""),
        0x40_40c0 => ("static", "counters+0x40..0x80 (app)"),
        0x40_4100 => ("static", "queue+0x0..0x40 (app)"),
        _ => ("heap", ""),
    };
    let (region, object) = (region.into(), object.into());
    LineRow { region, object, ..LineRow::of(events) }
}
