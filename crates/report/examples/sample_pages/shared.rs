//! Profiles with time slices, sharing, code and lines of memory.

use profile::{
    ActivityRow, CommRow, Counted, EventRow, LineRow, ObjectRow, Parameters, Profile, SiteRow,
    SliceRow, Totals,
};
use std::collections::BTreeMap;
use types::{CommKind, Evidence, Sharing, ThreadId};

/// Length of a slice.
const SLICE_NS: u64 = 10_000_000;

/// Events of a line, all in some slices evenly.
struct Spread {
    event: EventRow,
    slices: std::ops::Range<u32>,
}

fn event(
    line: u64,
    kind: CommKind,
    (from, to): (u32, u32),
    sharing: Sharing,
    (from_site, to_site): (u32, u32),
    count: u64,
    (from_bytes, to_bytes): (u64, u64),
) -> EventRow {
    let (from, to) = (ThreadId(from), ThreadId(to));
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
}

/// Into a profile of 16 threads: in the second half of 40 slices T1 to T4 update counters on one
/// line (40,000 reads, 4,000 overwrites), in the first half T0 hands 5,000 items to T5, and all
/// along T6 passes 30 lines of the heap to T7, 40 times each. If it is fixed, the counters have
/// lines of their own.
pub fn sixteen(mut profile: Profile, fixed: bool) -> Profile {
    let heap = object("heap", "in fill(queue&) at queue.cc:9", 30);
    profile.objects.extend([object("static", "counters (app)", 0)]);
    profile.objects.extend([object("static", "queue (app)", 0), heap]);
    let (raw, waw) = (CommKind::Raw, CommKind::Waw);
    let own = |thread: u32| 0xff_u64 << (8 * (thread - 1));
    let mut all = Vec::new();
    for (kind, count) in [(raw, 10_000), (waw, 1_000)] {
        for from in 1..5 {
            let to = from % 4 + 1;
            let bytes = (own(from), own(to));
            let counter = event(0x60_4000, kind, (from, to), Sharing::False, (1, 1), count, bytes);
            all.push(Spread { event: counter, slices: 20..40 });
        }
    }
    let handed = event(0x60_4040, raw, (0, 5), Sharing::True, (2, 3), 5_000, (0xffff, 0xf));
    all.push(Spread { event: handed, slices: 0..20 });
    for line in 0..30 {
        let address = 0x7f00_0000_1000 + 64 * line;
        let passed = event(address, raw, (6, 7), Sharing::True, (4, 5), 40, (u64::MAX, u64::MAX));
        all.push(Spread { event: passed, slices: 0..40 });
    }
    all.retain(|spread| !fixed || spread.event.sharing == Sharing::True);
    fill(profile, &all, 40)
}

fn object(region: &str, name: &str, blocks: u64) -> ObjectRow {
    let callers = if blocks > 0 { "main at main.cc:40".into() } else { String::new() };
    let (region, name, bytes) = (region.into(), name.into(), 64 * blocks);
    let (freed, lifetime_ns) = ((blocks > 0).then_some(blocks / 2), Some(20_000_000));
    let known = ObjectRow { freed, lifetime_ns, ..ObjectRow::default() };
    ObjectRow { region, name, callers, blocks, bytes, ..known }
}

/// The object of a line, by its number; the heap's lines belong to the others in turn.
fn object_of(line: u64, objects: usize) -> u32 {
    match line {
        0x60_4000 => 1,
        0x60_4040 => 2,
        _ => 3 + ((line / 64) % (objects as u64 - 3)) as u32,
    }
}

/// Into a profile of 1,024 threads: one line that all update in turn, and a hundred thousand lines
/// on which each thread hands something to the next, over 300 slices; the heap's are of 10,000
/// objects.
pub fn crowd(mut profile: Profile) -> Profile {
    profile.objects.extend([object("static", "counters (app)", 0)]);
    profile.objects.extend([object("static", "queue (app)", 0)]);
    let heap = |place| object("heap", &format!("in fill({place}) at queue.cc:{place}"), 10);
    profile.objects.extend((0..10_000).map(heap));
    let threads = profile.threads.len() as u32;
    let mut all = Vec::new();
    for from in 0..threads {
        let bytes = (1_u64 << (from % 64), 1_u64 << ((from + 1) % 64));
        let pair = (from, (from + 1) % threads);
        let counter = event(0x60_4000, CommKind::Raw, pair, Sharing::False, (1, 1), 3_000, bytes);
        all.push(Spread { event: counter, slices: 0..300 });
    }
    for line in 0..100_000_u32 {
        let address = 0x7f00_0000_0000 + 64 * u64::from(line);
        let pair = (line % threads, (line + 1) % threads);
        let count = 1 + u64::from(line % 50);
        let handed =
            event(address, CommKind::Raw, pair, Sharing::True, (2, 3), count, (0xff, 0xff));
        let slice = line % 300;
        all.push(Spread { event: handed, slices: slice..slice + 1 });
    }
    fill(profile, &all, 300)
}

/// The tables that belong to these events.
fn fill(mut profile: Profile, all: &[Spread], slices: u32) -> Profile {
    profile.meta.parameters =
        Parameters { block_bytes: 64, slice_ns: SLICE_NS, counted: Counted::Detail };
    profile.slices = (0..u64::from(slices))
        .map(|slice| SliceRow { start_ns: slice * SLICE_NS, end_ns: (slice + 1) * SLICE_NS })
        .collect();
    let threads = profile.threads.len() as u32;
    profile.activity = (0..slices)
        .flat_map(|slice| (0..threads).map(move |thread| active(slice, thread)))
        .collect();
    for thread in &mut profile.threads {
        let rows = profile.activity.iter().filter(|row| row.thread == thread.id);
        let sums = rows.fold((0, 0, 0), |sums, row| {
            (sums.0 + row.instructions, sums.1 + row.loads, sums.2 + row.stores)
        });
        (thread.instructions, thread.loads, thread.stores) = sums;
    }
    profile.sites = sites();
    profile.events = all.iter().map(|spread| spread.event).collect();
    let objects = profile.objects.len();
    profile.events.iter_mut().for_each(|event| event.object = object_of(event.line, objects));
    profile.events.sort_by_key(EventRow::key);
    profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(line).collect();
    let mut cells: BTreeMap<_, u64> = BTreeMap::new();
    for Spread { event, slices } in all {
        let each = event.count / slices.len() as u64;
        for slice in slices.clone() {
            let key = (slice, event.kind, event.from, event.to, event.sharing);
            *cells.entry(key).or_default() += each;
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
    profile.comm = cells.into_iter().map(row).collect();
    profile.meta.totals = Totals::of(&profile.threads, &profile.comm);
    profile
}

/// Threads start one after the other.
fn active(slice: u32, thread: u32) -> ActivityRow {
    let busy = u64::from(slice >= thread % 16);
    let instructions = busy * (1_000_000 + 50_000 * u64::from(thread % 16));
    ActivityRow {
        slice,
        thread: ThreadId(thread),
        instructions,
        loads: instructions / 5,
        stores: instructions / 10,
    }
}

fn sites() -> Vec<SiteRow> {
    let site = |address: u64, function: &str, file: &str, line, inlined: &str| SiteRow {
        address,
        module: "/home/user/work/app".into(),
        offset: address - 0x40_0000,
        function: function.into(),
        file: file.into(),
        line,
        inlined: inlined.into(),
    };
    let inlined = "worker(int) at /home/user/work/count.c:40; start at /home/user/work/count.c:52";
    vec![
        SiteRow::default(),
        site(0x40_1130, "bump(long*)", "/home/user/work/count.c", 31, inlined),
        site(0x40_1200, "push(item&&)", "/home/user/work/queue.cc", 12, ""),
        site(0x40_1280, "pop()", "/home/user/work/queue.cc", 27, ""),
        SiteRow {
            address: 0x7f10_0000_0099,
            module: "/usr/lib/x86_64-linux-gnu/libc.so.6".into(),
            offset: 0x99,
            ..SiteRow::default()
        },
        site(0x40_1300, "consume", "", 0, ""),
    ]
}

fn line(events: &[EventRow]) -> LineRow {
    let (region, object) = match events[0].line {
        0x60_4000 => ("static", "counters+0x0..0x40 (app)"),
        0x60_4040 => ("static", "queue+0x0..0x40 (app)"),
        _ => ("heap", ""),
    };
    LineRow { region: region.into(), object: object.into(), ..LineRow::of(events) }
}
