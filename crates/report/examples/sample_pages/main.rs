//! Writes pages of invented profiles with known counts, for the browser test in `web/tests/browser`
//! and for looking at: `cargo run --release -p threadtalk-report --example sample_pages -- FOLDER`.
//!
//! | page | what |
//! | --- | --- |
//! | `pairs4.html` | 4 threads in two pairs on 2 packages × 2 cores |
//! | `hub16.html` | 16 threads, all read from thread 0, on 2 × 2 L3 × 4 cores |
//! | `grid256.html` | 256 threads, 16 × 16 neighbours in shuffled order, on 2 × 8 L3 × 8 cores × 2 |
//! | `laptop2.html` | 2 threads on a laptop of 2 cores, 4 PUs |
//! | `server128.html` | 128 threads in 16 groups, dealt out in turn, on 2 × 64 cores with 8 NUMA nodes |
//! | `hybrid8.html` | 8 threads in a chain on a processor with fast and slow cores |
//! | `crowd1200.html` | 1200 threads in a ring on 8 cores |
//! | `many1024.html` | 1,024 threads, 32 × 32 neighbours, on 2 × 80 cores × 4 |
//! | `silent3.html` | 3 threads without talk, no machine, several warnings |
//! | `shared16.html` | 16 threads with true and false sharing on known lines, over 40 time slices |
//! | `fixed16.html` | the same without false sharing, compared with it |
//! | `lines1024.html` | 1,024 threads on 100,001 lines, over 300 time slices |
//! | `undirected4.html` | 4 threads, counted without direction |
//! | `sampled4.html` | the pairs of `pairs4`, sampled by a clock |
//! | `few4.html` | the same with a single hit |
//! | `pages16.html` | 16 threads on 88,064 pages of 20,003 objects, on 2 NUMA nodes |
//! | `simulated.html` | three plans, simulated on a ring of 4 NUMA nodes |

mod memory;
mod shared;
mod simulated;

use profile::{
    Basis, CommRow, Counted, Detector, Mode, Note, ProcessRow, Profile, Sampled, Sampling,
    ThreadRow, Totals,
};
use report::{Changes, Findings, MemoryUse, Setting, compare, page};
use std::path::Path;
use topology::Topology;
use types::{CommKind, Evidence, ThreadId, ThreadIdentity};

/// Hot lines in a page, as `threadtalk report --html` has them.
const LINES: usize = 200;

/// The description of a machine with two kinds of cores.
const HYBRID: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/hybrid.xml");

/// Events (from, to, raw, waw, invalidation).
type Cells = Vec<(u32, u32, [u64; 3])>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give the folder to write the pages into")?;
    std::fs::create_dir_all(&folder)?;
    let pages = [
        ("pairs4", 4, pairs(), "pack:2 l3:1(size=32MiB) core:2 pu:1"),
        ("hub16", 16, hub(), "pack:2 numa:1 l3:2(size=16MiB) core:4 pu:1"),
        ("grid256", 256, grid(), "pack:2 numa:1 l3:8(size=32MiB) core:8 l2:1(size=1MiB) pu:2"),
        ("crowd1200", 1200, ring(1200), "l3:1(size=8MiB) core:8 pu:1"),
        (
            "laptop2",
            2,
            vec![(0, 1, [900, 20, 4]), (1, 0, [300, 0, 0])],
            "l3:1(size=4MiB) core:2 pu:2",
        ),
        (
            "server128",
            128,
            groups(),
            "pack:2 numa:4 l3:2(size=32MiB) core:8 l2:1(size=512KiB) pu:2",
        ),
        ("hybrid8", 8, chain(8), HYBRID),
        ("many1024", 1024, mesh(), "pack:2 numa:1 l3:1(size=32MiB) core:80 l2:1(size=1MiB) pu:4"),
        ("silent3", 3, vec![], ""),
    ];
    let folder = Path::new(&folder);
    std::fs::write(folder.join("simulated.html"), simulated::page())?;
    for (name, threads, cells, machine) in pages {
        write(folder, name, &profile(name, threads, &cells, machine)?)?;
    }
    let empty = |name, threads, machine| profile(name, threads, &vec![], machine);
    let sixteen = empty("shared16", 16, "pack:2 core:8 pu:1")?;
    write(folder, "shared16", &shared::sixteen(sixteen, false))?;
    write_fixed(folder, empty("shared16", 16, "pack:2 core:8 pu:1")?)?;
    write_paged(folder, empty("pages16", 16, "pack:2 numa:1 core:8 pu:1")?)?;
    let crowd = empty("lines1024", 1024, "pack:2 core:8 pu:1")?;
    write(folder, "lines1024", &shared::crowd(crowd))?;
    write(folder, "undirected4", &undirected(empty("undirected4", 4, "pack:2 core:2 pu:1")?))?;
    for (name, hit_events) in [("sampled4", 2_000), ("few4", 0)] {
        let machine = "pack:2 core:2 pu:1";
        write(folder, name, &sampled(profile(name, 4, &pairs(), machine)?, hit_events))?;
    }
    Ok(())
}

/// The page of a fixed program, compared with the one before.
fn write_fixed(folder: &Path, empty: Profile) -> Result<(), Box<dyn std::error::Error>> {
    let (before, after) = (shared::sixteen(empty.clone(), false), shared::sixteen(empty, true));
    let mut findings = Findings::new(&after, compare(&after, &Setting::default())?, LINES);
    findings.changes = analysis::object_changes(&before, &after).as_ref().map(Changes::of);
    std::fs::write(folder.join("fixed16.html"), page(&findings, &after, &Setting::default()))?;
    Ok(())
}

/// The page of a program whose pages were recorded.
fn write_paged(folder: &Path, empty: Profile) -> Result<(), Box<dyn std::error::Error>> {
    let (profile, setting) = (memory::paged(empty), Setting::default());
    let mut findings = Findings::new(&profile, None, LINES);
    findings.memory = MemoryUse::of(&profile, &setting, analysis::PageSize::default());
    std::fs::write(folder.join("pages16.html"), page(&findings, &profile, &setting))?;
    Ok(())
}

/// The same as if a clock had sampled it, with a hit for each `hit_events` events; with 0, a single
/// hit of all. What T1 gives is inferred.
fn sampled(mut profile: Profile, hit_events: u64) -> Profile {
    if hit_events == 0 {
        profile.comm.truncate(1);
    }
    for row in &mut profile.comm {
        let hits = 1 + row.count.checked_div(hit_events).unwrap_or(0);
        // Those of a single hit are 0.0253 and 5.57 times what it weighs.
        let (low, high) = if hits == 1 { (40, 6) } else { (2, 2) };
        row.sampled = Some(Sampled { hits, low: row.count / low, high: row.count * high });
        let is_seen = row.from != ThreadId(1);
        row.evidence = if is_seen { Evidence::Sampled } else { Evidence::Inferred };
    }
    let hits = profile.comm.iter().filter_map(|row| row.sampled).map(|s| s.hits).sum();
    profile.activity.clear();
    for thread in &mut profile.threads {
        (thread.loads, thread.stores, thread.instructions) = (0, 0, 0);
        thread.cpu_ns = 900_000_000;
    }
    profile.meta.totals = Totals::of(&profile.threads, &profile.comm);
    profile.meta.mode = Mode::Sampled;
    profile.meta.sampled = Some(Sampling {
        source: "cpu-clock".into(),
        detectors: vec![Detector::Matching],
        reason: "No event counts transfers here".into(),
        rate: 2000.0,
        period: 0,
        samples: 12_000,
        decoded: 9_000,
        hits,
        inferred: hits / 10,
        hit_events: hit_events as f64,
        lost: 0,
        throttled: 0,
        basis: Basis::Latency { transfer_ns: 80.4, source: "measured".into() },
        named: false,
        attached: false,
        reader_seconds: 0.05,
    });
    profile
}

fn write(folder: &Path, name: &str, profile: &Profile) -> Result<(), Box<dyn std::error::Error>> {
    let machine = !profile.meta.topology_xml.is_empty();
    let placement = if machine { compare(profile, &Setting::default())? } else { None };
    let page = page(&Findings::new(profile, placement, LINES), profile, &Setting::default());
    std::fs::write(folder.join(format!("{name}.html")), page)?;
    Ok(())
}

/// Pairs as numalize counts them.
fn undirected(mut profile: Profile) -> Profile {
    profile.meta.parameters.counted = Counted::Undirected;
    let pair = |a, b, count| CommRow::whole(ThreadId(a), ThreadId(b), CommKind::Undirected, count);
    profile.comm = vec![pair(0, 1, 500), pair(0, 3, 40), pair(2, 3, 900)];
    // Few enough accesses that these are worth speaking of.
    profile.threads.iter_mut().for_each(|thread| (thread.loads, thread.stores) = (9_000, 3_000));
    profile.meta.totals = Totals::of(&profile.threads, &profile.comm);
    profile
}

fn pairs() -> Cells {
    vec![
        (0, 2, [1_234_567, 1000, 20]),
        (2, 0, [1_200_000, 900, 0]),
        (1, 3, [900_000, 0, 30]),
        (3, 1, [850_000, 0, 0]),
        (0, 1, [1_500, 3, 0]),
        (3, 2, [7, 0, 0]),
    ]
}

fn hub() -> Cells {
    let mut cells = Cells::new();
    for t in 1..16 {
        cells.push((0, t, [40_000 + 2_500 * u64::from(t), 10, 400]));
        cells.push((t, 0, [600, 5, 0]));
        cells.push((t, t % 15 + 1, [9_000, 0, 70]));
    }
    cells
}

/// A 16 × 16 grid; cell c of the grid is thread (c · 37 + 11) mod 256.
fn grid() -> Cells {
    let thread = |c: u32| (c * 37 + 11) % 256;
    let mut cells = Cells::new();
    for c in 0..256 {
        let (x, y) = (c % 16, c / 16);
        let mut both = |d: u32, count: u64| {
            cells.push((thread(c), thread(d), [count, count / 10, 3]));
            cells.push((thread(d), thread(c), [count, count / 10, 3]));
        };
        if x < 15 {
            both(c + 1, 20_000);
        }
        if y < 15 {
            both(c + 16, 5_000);
        }
    }
    // A few reads by all threads of what the initial thread set up.
    cells.extend((1..256).map(|t| (0, t, [100, 0, 0])));
    cells
}

/// A 32 × 32 mesh; cell c of the mesh is thread (c · 397 + 11) mod 1024.
fn mesh() -> Cells {
    let thread = |c: u32| (c * 397 + 11) % 1024;
    let right = (0..1024).filter(|c| c % 32 < 31).map(|c| (thread(c), thread(c + 1), [900, 0, 0]));
    let below = (0..992).map(|c| (thread(c), thread(c + 32), [700, 0, 0]));
    right.chain(below).collect()
}

/// Groups of 8: threads of the same number modulo 16.
fn groups() -> Cells {
    let same = |a: u32, b: u32| a != b && a % 16 == b % 16;
    let pairs = (0..128).flat_map(|a| (0..128).map(move |b| (a, b)));
    let inside = pairs.filter(|&(a, b)| same(a, b)).map(|(a, b)| (a, b, [4000, 9, 1]));
    inside.chain((0..127).map(|t| (t, t + 1, [50, 0, 0]))).collect()
}

fn chain(threads: u32) -> Cells {
    (1..threads).map(|t| (t - 1, t, [5000 - 500 * u64::from(t), 1, 0])).collect()
}

fn ring(threads: u32) -> Cells {
    (0..threads).map(|t| (t, (t + 1) % threads, [1000 + u64::from(t), 0, 0])).collect()
}

fn profile(
    name: &str,
    threads: u32,
    cells: &Cells,
    machine: &str,
) -> Result<Profile, Box<dyn std::error::Error>> {
    let topology_xml = match machine {
        "" => String::new(),
        machine => Topology::from_spec(machine)?.to_xml().to_owned(),
    };
    let threads: Vec<ThreadRow> = (0..threads).map(|id| thread(id, name)).collect();
    let comm = rows(cells);
    let warnings = match name {
        "silent3" => vec![
            Note::ChildrenUnprofiled { count: 2 },
            Note::ThreadsDetached { count: 1 },
            Note::NoPlacement { why: "the profile does not describe its machine".into() },
        ],
        _ => vec![],
    };
    let mut profile = profile::sample::profile(threads, comm);
    let meta = &mut profile.meta;
    meta.command = vec![format!("./{name}"), "--steps".into(), "100".into()];
    meta.directory = "/home/user/work".into();
    (meta.wall_seconds, meta.cpu_seconds) = (2.5, 9.25);
    meta.topology_xml = topology_xml;
    meta.warnings = warnings;
    meta.processes = if name == "silent3" { vec![child()] } else { vec![] };
    Ok(profile)
}

fn child() -> ProcessRow {
    ProcessRow {
        number: 1,
        parent: 0,
        named: false,
        pid: 4321,
        command: vec!["./helper".into(), "-v".into()],
        threads: 7,
        exit_code: Some(0),
        exit_signal: None,
        profile: Some("processes/1-helper.tt".into()),
        unrecorded: None,
    }
}

fn thread(id: u32, name: &str) -> ThreadRow {
    let (start_routine, start_symbol) = match id {
        0 => (String::new(), String::new()),
        1 => (format!("{name}+0x2040"), "report_progress(void*)".into()),
        _ => (format!("{name}+0x1139"), "worker(std::vector<double>&, int)".into()),
    };
    ThreadRow {
        identity: ThreadIdentity {
            start_routine,
            parent: (id > 0).then_some(ThreadId(0)),
            ordinal: id.saturating_sub(2),
            name: if id == 0 { name.into() } else { format!("worker-{id}") },
        },
        start_symbol,
        started_ns: u64::from(id) * 50_000,
        ended_ns: 2_400_000_000,
        loads: 30_000_000 + u64::from(id) * 12_345,
        stores: 9_000_000,
        ..profile::sample::thread(id)
    }
}

fn rows(cells: &Cells) -> Vec<CommRow> {
    let mut rows = Vec::new();
    for &(from, to, counts) in cells {
        for (kind, count) in CommKind::ALL.into_iter().zip(counts) {
            rows.push(CommRow::whole(ThreadId(from), ThreadId(to), kind, count));
        }
    }
    rows.retain(|row| row.count > 0);
    rows.sort_by_key(|row| (row.kind, row.from, row.to));
    // Two lists may name the same pair.
    rows.dedup_by(|next, row| {
        let same = (next.kind, next.from, next.to) == (row.kind, row.from, row.to);
        if same {
            row.count += next.count;
        }
        same
    });
    rows
}
