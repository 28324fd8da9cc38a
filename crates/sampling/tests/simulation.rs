//! Threads with known communication on a simulated machine, sampled by a simulated clock: what the
//! detector makes of the samples, beside the truth.
//!
//! The machine: a line is in one core's cache or shared by readers; who has it not waits until it
//! comes, one transfer after the other. Who waits alone waits longer, since a line that comes from
//! one that waits need not be asked for only then. An access otherwise takes a nanosecond. The
//! truth is counted access by access, by the definition of RAW and WAW.

use access::{Access, AccessKind};
use sampling::{Cell, Estimator, Hit, Hits, Matcher, Observed, Settings, Stream, Together};
use std::collections::HashMap;
use std::slice;
use types::{CommKind, Sharing, ThreadId};

const TRANSFER_NS: u64 = 100;
/// The same for one that waits alone.
const LONE_NS: u64 = 133;
const INTERVAL_NS: u64 = 50_000;

/// What a thread does next: computes for a while, then accesses.
struct Step {
    compute_ns: u64,
    address: u64,
    kind: AccessKind,
}

type Program = Box<dyn FnMut(&mut fastrand::Rng) -> Step>;

#[derive(Default)]
struct Line {
    owner: Option<usize>,
    sharers: u64,
    free_ns: u64,
    /// Last writer, bytes since it took the line, readers since.
    writer: Option<usize>,
    bytes: u64,
    readers: u64,
}

impl Line {
    /// Whether the line must come to `thread`.
    fn comes(&mut self, thread: usize, writes: bool) -> bool {
        let has = match writes {
            true => self.owner == Some(thread) && self.sharers & !(1 << thread) == 0,
            false => self.sharers & 1 << thread != 0,
        };
        if writes {
            (self.owner, self.sharers) = (Some(thread), 1 << thread);
        } else {
            self.sharers |= 1 << thread;
        }
        !has
    }

    /// Counts an access by the definitions.
    fn count(&mut self, thread: usize, bytes: u64, kind: AccessKind, truth: &mut Truth) {
        let other = self.writer.filter(|&writer| writer != thread);
        let sharing = if self.bytes & bytes != 0 { Sharing::True } else { Sharing::False };
        if let (Some(writer), true) = (other, kind.reads() && self.readers & 1 << thread == 0) {
            *truth.entry((CommKind::Raw, writer, thread, sharing)).or_default() += 1;
        }
        if kind.reads() {
            self.readers |= 1 << thread;
        }
        if kind.writes() {
            if let Some(writer) = other {
                *truth.entry((CommKind::Waw, writer, thread, sharing)).or_default() += 1;
            }
            let takes = self.writer != Some(thread) || self.readers & !(1 << thread) != 0;
            self.bytes = if takes { bytes } else { self.bytes | bytes };
            (self.writer, self.readers) = (Some(thread), 0);
        }
    }
}

type Truth = HashMap<(CommKind, usize, usize, Sharing), u64>;

struct Outcome {
    truth: Truth,
    hits: Hits,
}

/// With a processor for each thread.
fn simulate(programs: Vec<Program>, duration_ns: u64, seed: u64) -> Outcome {
    simulate_turns(programs, 1, duration_ns, seed)
}

/// With a processor for `turns` threads each, which take turns, on all processors at once.
fn simulate_turns(programs: Vec<Program>, turns: usize, duration_ns: u64, seed: u64) -> Outcome {
    let next = |thread, now_ns| next_turn(thread, turns, now_ns);
    simulate_scheduled(programs, &next, duration_ns, seed)
}

/// How long a thread keeps its processor where several take turns.
const TURN_NS: u64 = 5 * INTERVAL_NS;

/// When `thread` may run again, if at `now_ns` another one of `turns` has its processor.
fn next_turn(thread: usize, turns: usize, now_ns: u64) -> u64 {
    let round_ns = TURN_NS * turns as u64;
    let start = now_ns / round_ns * round_ns + TURN_NS * (thread % turns) as u64;
    match now_ns {
        early if early < start => start,
        late if late >= start + TURN_NS => start + round_ns,
        now => now,
    }
}

/// Who has a processor when: from each of these times on a thread, or another program.
type Turns = Vec<(u64, Option<usize>)>;

/// Turns of `threads` and other programs, in no order, each of 3 to 10 intervals.
fn random_turns(threads: &[usize], duration_ns: u64, random: &mut fastrand::Rng) -> Turns {
    let (mut turns, mut now) = (Turns::new(), 0);
    while now <= duration_ns {
        turns.push((now, threads.get(random.usize(..=threads.len())).copied()));
        now += random.u64(3 * INTERVAL_NS..10 * INTERVAL_NS);
    }
    turns
}

/// When `thread` may run, at `now_ns` or later.
fn next_of(turns: &Turns, thread: usize, now_ns: u64) -> u64 {
    let current = turns.partition_point(|&(start, _)| start <= now_ns) - 1;
    let mine = turns[current..].iter().find(|&&(_, who)| who == Some(thread));
    mine.map_or(u64::MAX / 2, |&(start, _)| start.max(now_ns))
}

/// With `next`, which says when a thread may run, at a time or later.
fn simulate_scheduled(
    mut programs: Vec<Program>,
    next: &dyn Fn(usize, u64) -> u64,
    duration_ns: u64,
    seed: u64,
) -> Outcome {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut lines: HashMap<u64, Line> = HashMap::new();
    let mut truth = Truth::new();
    let mut now: Vec<u64> = (0..programs.len() as u64).collect();
    let jitter = |random: &mut fastrand::Rng| random.u64(INTERVAL_NS / 2..INTERVAL_NS * 3 / 2);
    let mut sample_at: Vec<u64> = now.iter().map(|_| jitter(&mut random)).collect();
    let mut samples: Vec<Taken> = Vec::new();
    while let Some(thread) =
        (0..now.len()).min_by_key(|&t| now[t]).filter(|&t| now[t] < duration_ns)
    {
        let waits_ns = next(thread, now[thread]) - now[thread];
        if waits_ns > 0 {
            now[thread] += waits_ns;
            sample_at[thread] += waits_ns;
            continue;
        }
        let Step { compute_ns, address, kind } = programs[thread](&mut random);
        let start = now[thread] + compute_ns;
        let line = lines.entry(address / 64).or_default();
        let comes = line.comes(thread, kind.writes());
        let end = match comes {
            true => {
                line.free_ns = (line.free_ns + TRANSFER_NS).max(start + LONE_NS);
                line.free_ns
            }
            false => start + 1,
        };
        line.count(thread, 0xff << (address % 64), kind, &mut truth);
        while sample_at[thread] < end {
            let id = ThreadId(thread as u32);
            let access = Access { address, bytes: 8, kind, site: 1 + address };
            let time_ns = sample_at[thread];
            samples.push((time_ns, id, (time_ns >= start).then_some(access)));
            sample_at[thread] += jitter(&mut random);
        }
        now[thread] = end;
    }
    samples.sort_by_key(|(time_ns, ..)| *time_ns);
    Outcome { truth, hits: detect(&samples) }
}

/// A sample's time and thread, and the access if there was one.
type Taken = (u64, ThreadId, Option<Access>);

/// What the detectors find in samples, which are ordered by time.
fn detect(samples: &[Taken]) -> Hits {
    let mut hits = Hits::default();
    let mut matcher = Matcher::new(Settings { interval_ns: INTERVAL_NS, ..Settings::default() });
    let (mut together, mut arrays) = (Together::default(), Vec::new());
    for &(time_ns, thread, access) in samples {
        together.settle(time_ns, &matcher, |hit| hits.add(0, &hit));
        let Some(access) = access else {
            matcher.runs(thread, time_ns);
            continue;
        };
        let accesses = slice::from_ref(&access);
        let sample = Observed { time_ns, thread, accesses, period: INTERVAL_NS };
        let mut hits: Vec<Hit> = Vec::new();
        matcher.observe(Stream::Waiting, &sample, &mut hits);
        hits.into_iter().for_each(|hit| match hit.array {
            true => arrays.push(hit),
            false => together.take(hit),
        });
    }
    for hit in arrays {
        let weight = hit.weight * matcher.part(&hit);
        if weight > 0.0 || hit.weight == 0.0 {
            hits.add(0, &Hit { weight, ..hit });
        }
    }
    together.end(|hit| hits.add(0, &hit));
    hits
}

impl Outcome {
    /// Events of a kind: estimated, with the interval, and true ones.
    fn volume(&self, kind: CommKind) -> (f64, f64) {
        let mut estimator = Estimator::new(self.hits.largest, self.hits.largest);
        let cells = self.hits.cells.iter().filter(|(cell, _)| cell.kind == kind);
        let estimated: u64 =
            cells.map(|(_, sum)| estimator.estimate(sum, 1.0 / TRANSFER_NS as f64).events).sum();
        let truth: u64 = self.truth.iter().filter(|(k, _)| k.0 == kind).map(|(_, n)| n).sum();
        (estimated as f64, truth as f64)
    }

    /// Part of a kind's events that is false sharing, estimated and true; and hits.
    fn false_part(&self, kind: CommKind) -> (f64, f64, u64) {
        let part = |all: f64, wrong: f64| wrong / all;
        let cells = || self.hits.cells.iter().filter(|(cell, _)| cell.kind == kind);
        let weight = |wanted: &dyn Fn(&Cell) -> bool| -> f64 {
            cells().filter(|(cell, _)| wanted(cell)).map(|(_, sum)| sum.weight).sum()
        };
        let events = |wanted: &dyn Fn(Sharing) -> bool| -> f64 {
            let cells = self.truth.iter().filter(|(cell, _)| cell.0 == kind && wanted(cell.3));
            cells.map(|(_, &count)| count as f64).sum()
        };
        let found = part(weight(&|_| true), weight(&|cell| cell.sharing == Sharing::False));
        let truth = part(events(&|_| true), events(&|sharing| sharing == Sharing::False));
        (found, truth, cells().map(|(_, sum)| sum.hits).sum())
    }
}

/// With probability `shared` the address `common`, else one of the thread's own.
fn mixes(thread: u64, shared: f64, kind: AccessKind, common: u64, compute_ns: u64) -> Program {
    Box::new(move |random| {
        let own = 0x10_0000 * (thread + 1) + 64 * random.u64(..8);
        let address = if random.f64() < shared { common } else { own };
        Step { compute_ns: random.u64(..=2 * compute_ns), address, kind }
    })
}

#[test]
fn nothing_is_reported_where_nothing_is_shared() {
    let programs = (0..4).map(|t| mixes(t, 0.0, AccessKind::Update, 0, 3)).collect();
    let outcome = simulate(programs, 100_000_000, 1);
    assert_eq!((outcome.truth.len(), outcome.hits.cells.len()), (0, 0));
}

#[test]
fn volumes_of_contended_lines_are_right_for_any_number_of_threads() {
    for threads in [2, 4, 8] {
        for shared in [0.1, 0.5, 1.0] {
            let programs = (0..threads)
                .map(|t| mixes(t, shared, AccessKind::Update, 0x40 + 8 * t, 10))
                .collect();
            let outcome = simulate(programs, 40_000_000, threads);
            for kind in [CommKind::Raw, CommKind::Waw] {
                let (estimated, truth) = outcome.volume(kind);
                let ratio = estimated / truth;
                println!("{threads} threads, {shared}: {ratio:.3} of {truth}");
                assert!((0.9..1.1).contains(&ratio), "{threads} threads, {shared}: {ratio}");
                let (part, _, hits) = outcome.false_part(kind);
                assert!(part == 1.0 && hits > 100, "{part} of {hits}");
            }
        }
    }
}

#[test]
fn threads_that_take_turns_on_a_processor_hardly_talk() {
    // Two on one processor: the line moves once a turn.
    let pair = || (0..2).map(|t| mixes(t, 1.0, AccessKind::Update, 0x40, 10)).collect();
    let outcome = simulate_turns(pair(), 2, 100_000_000, 4);
    let (estimated, truth) = outcome.volume(CommKind::Raw);
    println!("{estimated} of {truth}");
    assert!(truth == 399.0 && estimated < 20.0 * truth, "{estimated} of {truth}");
    // Four on two: only those on different processors talk much.
    let four = (0..4).map(|t| mixes(t, 0.5, AccessKind::Update, 0x40, 10)).collect();
    let outcome = simulate_turns(four, 2, 100_000_000, 5);
    let (estimated, truth) = outcome.volume(CommKind::Raw);
    println!("{estimated} of {truth}");
    assert!((0.85..1.15).contains(&(estimated / truth)), "{estimated} of {truth}");
    // 0 and 1 are never on their processors together, nor are 0 and 3.
    let weight = |a: u32, b: u32| -> f64 {
        let cells = outcome.hits.cells.iter();
        let of = cells.filter(|(cell, _)| (cell.from.0, cell.to.0) == (a, b));
        of.map(|(_, sum)| sum.weight).sum()
    };
    assert!(weight(2, 0) > 10.0 * (weight(1, 0) + weight(3, 0)), "{:?}", outcome.hits.cells);
}

#[test]
fn only_pairs_that_talk_are_found() {
    // 0 to 1, 2 to 3, 4 to 5, each through a line of its own.
    let programs = (0..6u64)
        .map(|t| {
            let kind = if t % 2 == 0 { AccessKind::Store } else { AccessKind::Load };
            mixes(t, 0.5, kind, 0x40 * (1 + t / 2), 10)
        })
        .collect();
    let outcome = simulate(programs, 60_000_000, 3);
    let pairs: Vec<_> = outcome.hits.cells.keys().map(|c| (c.kind, c.from.0, c.to.0)).collect();
    assert_eq!(pairs, [(0, 1), (2, 3), (4, 5)].map(|(w, r)| (CommKind::Raw, w, r)));
    let (estimated, truth) = outcome.volume(CommKind::Raw);
    println!("{estimated} of {truth}");
    assert!((0.9..1.1).contains(&(estimated / truth)), "{estimated} of {truth}");
}

/// Threads that update one of two lines: on the one each its own word, in `part` of its accesses;
/// on the other all the same.
fn on_two_lines(threads: u64, part: f64) -> Vec<Program> {
    let program = |t| -> Program {
        Box::new(move |random| {
            let own = random.f64() < part;
            let address = if own { 0x80 + 8 * t } else { 0x40 };
            Step { compute_ns: random.u64(..20), address, kind: AccessKind::Update }
        })
    };
    (0..threads).map(program).collect()
}

#[test]
fn the_part_of_false_sharing_is_right() {
    for (seed, part) in [(1, 0.2), (2, 0.5), (3, 0.8)] {
        let outcome = simulate(on_two_lines(4, part), 60_000_000, seed);
        let (found, truth, hits) = outcome.false_part(CommKind::Raw);
        println!("{found:.3} where {truth:.3}, {hits} hits");
        assert!(hits >= 600 && (found - truth).abs() < 0.05, "{found} {truth} {hits}");
    }
}

#[test]
fn seldom_written_lines_lose_no_more_than_others_where_threads_take_turns() {
    const DURATION_NS: u64 = 150_000_000;
    for (threads, part) in [(2, 0.2), (4, 0.2), (4, 0.5), (4, 0.8), (8, 0.1), (8, 0.8)] {
        // On two processors, between other programs.
        let mut random = fastrand::Rng::with_seed(threads);
        let turns: Vec<Turns> = (0..2)
            .map(|cpu| {
                let here: Vec<usize> = (cpu..threads as usize).step_by(2).collect();
                random_turns(&here, DURATION_NS, &mut random)
            })
            .collect();
        let next = |thread: usize, now_ns| next_of(&turns[thread % 2], thread, now_ns);
        let outcome = simulate_scheduled(on_two_lines(threads, part), &next, DURATION_NS, 9);
        let (found, truth, hits) = outcome.false_part(CommKind::Raw);
        let (estimated, events) = outcome.volume(CommKind::Raw);
        let ratio = estimated / events;
        println!(
            "{threads} threads: {found:.3} where {truth:.3}, {hits} hits; {ratio:.2} of {events}"
        );
        assert!(hits >= 600 && (found - truth).abs() < 0.04, "{found} {truth} {hits}");
        assert!((0.85..1.15).contains(&ratio), "{ratio} of {events}");
    }
}

#[test]
fn what_is_handed_over_once_stays_small() {
    // Thread 0 writes an array once, all others read it over and over.
    let programs = (0..4u64)
        .map(|t| -> Program {
            let mut next = 0u64;
            Box::new(move |random| {
                next += 1;
                let writes = t == 0 && next < 20_000;
                let kind = if writes { AccessKind::Store } else { AccessKind::Load };
                let address = if writes { 8 * next } else { 8 * random.u64(..20_000) };
                Step { compute_ns: 5, address, kind }
            })
        })
        .collect();
    let outcome = simulate(programs, 100_000_000, 5);
    let (estimated, truth) = outcome.volume(CommKind::Raw);
    println!("{estimated} of {truth}");
    assert!(estimated < 3.0 * truth, "{estimated} of {truth}");
}

/// Hits of RAW by pair.
fn raw_hits(outcome: &Outcome) -> HashMap<(u32, u32), u64> {
    let mut hits: HashMap<(u32, u32), u64> = HashMap::new();
    for (cell, sum) in outcome.hits.cells.iter().filter(|(cell, _)| cell.kind == CommKind::Raw) {
        *hits.entry((cell.from.0, cell.to.0)).or_default() += sum.hits;
    }
    println!("{hits:?}");
    hits
}

#[test]
fn arrays_with_more_lines_than_samples_show_who_reads_whose_part() {
    // Of the large array, samples lie far more than a page apart.
    for (part, duration_ns) in [(20_000_u64, 200_000_000), (150_000, 200_000_000)] {
        // By turns each of three threads writes its part of an array, line by line, and reads the
        // next one's.
        let programs = (0..3u64)
            .map(|t| -> Program {
                let mut next = 0u64;
                Box::new(move |random| {
                    next += 1;
                    let (round, line) = (next / part, next % part);
                    let (owner, kind) = match round % 2 {
                        0 => (t, AccessKind::Store),
                        _ => ((t + 1) % 3, AccessKind::Load),
                    };
                    let address = 64 * (part * (1 + owner) + line);
                    Step { compute_ns: random.u64(..10), address, kind }
                })
            })
            .collect();
        let mut hits = raw_hits(&simulate(programs, duration_ns, 6));
        for (t, next) in [(0, 1), (1, 2), (2, 0)] {
            assert!(hits.remove(&(next, t)).unwrap_or(0) > 100, "{next} to {t}: {hits:?}");
        }
        // A thread that has just written here and reads elsewhere may be mistaken where parts meet.
        assert!(hits.values().sum::<u64>() <= 3, "{hits:?}");
    }
}

#[test]
fn what_is_only_read_between_what_another_writes_is_not_communication() {
    const ARRAY: u64 = 10_000;
    // Lines of a table, from less than a page to as much as the arrays below and above it.
    for table in [50, 64, 500, 4_000, 10_000] {
        let writer: Program = {
            let mut next = 0u64;
            Box::new(move |random| {
                next += 1;
                let line = next % (2 * ARRAY);
                let line = if line < ARRAY { line } else { line + table };
                Step {
                    compute_ns: random.u64(..3),
                    address: 64 * (ARRAY + line),
                    kind: AccessKind::Store,
                }
            })
        };
        let reader: Program = Box::new(move |random| {
            let address = 64 * (2 * ARRAY + random.u64(..table));
            Step { compute_ns: random.u64(..3), address, kind: AccessKind::Load }
        });
        let hits = raw_hits(&simulate(
            vec![writer, reader],
            50_000_000,
            std::env::var("SEED").map_or(7, |s| s.parse().unwrap()),
        ));
        assert!(hits.values().sum::<u64>() <= 3, "{table}: {hits:?}");
    }
}

#[test]
fn parts_of_memory_dealt_out_in_turn_are_not_shared() {
    // Pieces of an array, every second one a thread's own, written and read by it alone. Small
    // pieces take more samples for each line.
    for (piece, lines) in [(4_u64, 3_000), (40, 10_000), (400, 80_000), (4_000, 80_000)] {
        let programs = (0..2u64)
            .map(|t| -> Program {
                let mut next = 0u64;
                Box::new(move |random| {
                    next += 1;
                    let (round, line) = (next / piece, next % piece);
                    let kind = if round % 2 == 0 { AccessKind::Store } else { AccessKind::Load };
                    let mine = 2 * (round / 2 % (lines / piece)) + t;
                    let address = 64 * (100_000 + mine * piece + line);
                    Step { compute_ns: random.u64(..3), address, kind }
                })
            })
            .collect();
        let hits = raw_hits(&simulate(programs, 50_000_000, 8));
        assert!(hits.values().sum::<u64>() <= 3, "{piece}: {hits:?}");
    }
}

#[test]
fn tables_that_are_accessed_at_random_show_who_shares_them() {
    // 0 and 1 write and read one table, 2 and 3 another one, 4 its own, with far more lines than
    // there are samples.
    const LINES: u64 = 30_000;
    let programs = (0..5u64)
        .map(|t| -> Program {
            Box::new(move |random| {
                let kind = if random.u8(..4) == 0 { AccessKind::Store } else { AccessKind::Load };
                let address = 64 * (LINES * (1 + t / 2) + random.u64(..LINES));
                Step { compute_ns: random.u64(..20), address, kind }
            })
        })
        .collect();
    let outcome = simulate(programs, 60_000_000, 9);
    let mut hits = raw_hits(&outcome);
    for (from, to) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
        assert!(hits.remove(&(from, to)).unwrap_or(0) > 100, "{from} to {to}: {hits:?}");
    }
    assert_eq!(hits.len(), 0, "{hits:?}");
    let (estimated, truth) = outcome.volume(CommKind::Raw);
    println!("{estimated} of {truth}");
    assert!((0.3..2.0).contains(&(estimated / truth)), "{estimated} of {truth}");
}
