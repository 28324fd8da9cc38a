//! Kernels whose counts follow from a formula.

use simulation::{
    Access, Counts, Job, Machine, Options, Outcome, Pages, Rule, Sampled, Stream, ThreadFacts,
    What, simulate,
};
use topology::Topology;

/// 2 packages of 2 cores. L1: 2 KiB, 32 lines in 4 sets of 8 ways; L2: 8 KiB, 128 lines in 16 sets;
/// L3: 64 KiB, 1,024 lines in 64 sets of 16.
const MACHINE: &str =
    "pack:2 numa:1(memory=1GiB) l3:1(size=64KiB) core:2 l2:1(size=8KiB) l1d:1(size=2KiB) pu:1";
const L1_LINES: u64 = 32;
const L2_LINES: u64 = 128;
const L3_LINES: u64 = 1024;
const LINE: u64 = 64;

const PLAIN: Options = Options { prefetch: false, tlb: false, sample_sets: None, interleavings: 1 };

fn machine() -> Machine {
    Machine::new(&Topology::from_synthetic(MACHINE).unwrap(), "it").unwrap()
}

fn access(thread: u32, what: What, address: u64) -> Access {
    Access::new(thread, what, address, 8, 1)
}

fn run_on(machine: &Machine, accesses: Vec<Access>, pus: &[usize]) -> Outcome {
    let pages = Pages::by(Rule::FirstTouch);
    let job = Job { machine, pus: pus.to_vec(), pages };
    let mut stream = accesses.into_iter();
    simulate(&mut stream, &[], &[job], PLAIN, 1).unwrap().remove(0)
}

fn run(accesses: Vec<Access>, pus: &[usize]) -> Outcome {
    run_on(&machine(), accesses, pus)
}

/// Hits in L1, L2, L3, and lines from memory.
fn hits(counts: &Counts) -> [u64; 4] {
    [counts.hits[1], counts.hits[2], counts.hits[3], counts.from_memory()]
}

#[test]
fn a_stream_misses_once_a_line() {
    let n = 100_000;
    let found = run((0..n).map(|k| access(0, What::Read, k * 8)).collect(), &[0]).total;
    assert_eq!(found.accesses, n);
    assert_eq!(hits(&found), [n - n / 8, 0, 0, n / 8]);
    assert_eq!((found.local, found.transferred()), (n / 8, 0));
}

#[test]
fn written_streams_are_written_back_but_for_what_the_caches_hold() {
    let lines = 10_000;
    let found = run((0..lines).map(|k| access(0, What::Write, k * LINE)).collect(), &[0]);
    assert_eq!(found.total.from_memory(), lines);
    // Caches that do not keep inclusion hold what is in any of them; LRU leaves the newest lines,
    // which are in all: the L3's.
    let left = lines - found.written.iter().sum::<u64>();
    assert_eq!(left, L3_LINES);
}

#[test]
fn strides_beyond_a_line_miss_every_time() {
    for stride in [64, 128, 4096] {
        let n = 50_000;
        let walk = (0..n).map(|k| access(0, What::Read, k * stride)).collect();
        assert_eq!(hits(&run(walk, &[0]).total), [0, 0, 0, n], "{stride}");
    }
}

#[test]
fn a_chase_hits_where_its_ring_fits() {
    // Round and round: with LRU, a ring of one line more per set than ways misses always.
    let rounds = 10;
    for (lines, level) in [
        (L1_LINES, 0),
        (2 * L1_LINES, 1),
        (L2_LINES, 1),
        (2 * L2_LINES, 2),
        (L3_LINES, 2),
        (2 * L3_LINES, 3),
    ] {
        let ring = (0..rounds * lines).map(|k| access(0, What::Read, k % lines * LINE)).collect();
        let mut expected = [0; 4];
        expected[3] = lines;
        expected[level] += (rounds - 1) * lines;
        assert_eq!(hits(&run(ring, &[0]).total), expected, "{lines} lines");
    }
}

#[test]
fn ping_pong_costs_a_transfer_a_turn() {
    // Each turn reads what the other thread wrote, and writes.
    let turns = 1000;
    let ball = |k: u64| {
        let thread = (k % 2) as u32;
        [access(thread, What::Read, 0), access(thread, What::Write, 0)]
    };
    for (pus, level) in [([0, 1], "between cores"), ([0, 2], "between packages")] {
        let machine = machine();
        let found = run_on(&machine, (0..turns).flat_map(ball).collect(), &pus).total;
        let at = (0..2).find(|l| machine.level_name(*l) == level).unwrap();
        assert_eq!(found.transfers[at], turns - 1, "{level}");
        assert_eq!(found.transferred(), turns - 1);
        assert_eq!((found.from_memory(), found.hits[1]), (1, turns));
    }
}

/// One thread executes for long without an event, and then reads memory; the other one reads memory
/// first. They share nothing but the controller, so neither waits for the other.
#[test]
fn threads_that_share_nothing_take_as_long_as_one() {
    let quiet = 1_000_000;
    let of = |thread: u32| -> Vec<Access> {
        let address = |k: u64| u64::from(thread) * (1 << 20) + k * LINE;
        let reads = if thread == 0 { 1 } else { 100 };
        let mut list: Vec<_> = (0..reads).map(|k| access(thread, What::Read, address(k))).collect();
        list.push(Access { skipped: quiet, ..access(thread, What::Read, address(reads)) });
        list
    };
    let time = |accesses: Vec<Access>, pus: &[usize]| run(accesses, pus).total.time_ns;
    let alone = time(of(0), &[0]);
    let both = time([of(0), of(1)].concat(), &[0, 1]);
    assert!(both < 1.1 * alone, "{both} ns instead of {alone} ns");
}

/// What stalls a thread is told by code, all of it.
#[test]
fn stalls_by_code_add_up() {
    let ring = 2 * L2_LINES;
    let found = run((0..10 * ring).map(|k| access(0, What::Read, k % ring * LINE)).collect(), &[0]);
    let by_code: f64 = found.sites.values().map(|fetched| fetched.stalled_ns).sum();
    assert!(found.total.stalled_ns > 0.0);
    assert!((by_code / found.total.stalled_ns - 1.0).abs() < 1e-6, "{by_code}");
}

#[test]
fn a_value_that_many_read_is_transferred_once_to_each() {
    // T0 writes a line, the others read it twice: each takes it once per round.
    let rounds = 200;
    let round = |_| {
        let mut list = vec![access(0, What::Write, 0)];
        for thread in 1..4u32 {
            list.push(access(thread, What::Read, 0));
            list.push(access(thread, What::Read, 0));
            // So that T0 waits for them before it writes again.
            list.push(access(thread, What::Write, 4096 * (1 + u64::from(thread))));
        }
        list.extend((1..4).map(|thread| access(0, What::Read, 4096 * (1 + thread))));
        list
    };
    let found = run((0..rounds).flat_map(round).collect(), &[0, 1, 2, 3]);
    let taken = |thread: usize| found.threads[thread].transferred() + found.threads[thread].hits[3];
    // Of the line, and of their own flags, which T0 has read.
    for thread in 1..4 {
        assert_eq!(taken(thread), rounds, "T{thread}");
    }
    assert_eq!(found.threads[0].upgrades, rounds - 1, "the line is given up by all readers");
    assert!(found.matrix.get(types::ThreadId(0), types::ThreadId(2)) > 0);
}

#[test]
fn false_sharing_moves_the_line_and_padding_stops_it() {
    // Two threads that write words of their own, in turns.
    let n = 1000;
    let turns = |apart: u64| -> Vec<Access> {
        (0..n).map(|k| access((k % 2) as u32, What::Write, k % 2 * apart)).collect()
    };
    // With so much work between two writes that none waits in a buffer for the next.
    let facts =
        vec![ThreadFacts { instructions_per_access: Some(1000.0), ..ThreadFacts::default() }; 2];
    let machine = machine();
    let run = |accesses: Vec<Access>| {
        let job = Job { machine: &machine, pus: vec![0, 2], pages: Pages::by(Rule::FirstTouch) };
        simulate(&mut accesses.into_iter(), &facts, &[job], PLAIN, 1).unwrap().remove(0).total
    };
    let (shared, padded) = (run(turns(8)), run(turns(64)));
    assert_eq!((shared.transferred() + shared.from_memory(), shared.hits[1]), (n, 0));
    assert_eq!((padded.transferred(), padded.from_memory(), padded.hits[1]), (0, 2, n - 2));
}

#[test]
fn the_matrix_product_misses_as_often_as_its_sizes_say() {
    // C = A * B, i-j-k, with n * n doubles, n = 32: a row is 4 lines. A row of A (4 lines), a
    // column of B (32 lines, one a row) and the line of C do not fit into an L1 of 32 lines in 4
    // sets: rows of B are 4 lines apart, so that a column lies in one set of 8 ways.
    let n = 32u64;
    let (a, b, c) = (0, n * n * 8, 2 * n * n * 8);
    let mut list = Vec::new();
    for i in 0..n {
        for j in 0..n {
            for k in 0..n {
                list.push(access(0, What::Read, a + (i * n + k) * 8));
                list.push(access(0, What::Read, b + (k * n + j) * 8));
            }
            list.push(access(0, What::Write, c + (i * n + j) * 8));
        }
    }
    let found = run(list, &[0]).total;
    let b_misses = n * n * n;
    // Each column of B passes through the one set that it lies in, with all its 32 lines.
    assert!(found.misses(1) >= b_misses, "{found:?}");
    // A's row is read n times, but evicted only from the set that B's column is in: one line of
    // four; C's line is written once for each element.
    let lines = 3 * n * n / 8;
    assert_eq!(found.from_memory(), lines, "all three matrices fit into the L3");
    assert!(found.misses(1) <= b_misses + n * n * 4 + n * n, "{found:?}");
}

#[test]
fn data_is_local_or_remote_as_pages_lie() {
    let machine = machine();
    let read: Vec<Access> = (0..8192).map(|k| access(0, What::Read, k * LINE)).collect();
    for (turns, remote) in [(vec![0], 0), (vec![1], 8192), (vec![0, 1], 4096)] {
        let pages = Pages::by(Rule::Turns(turns));
        let job = Job { machine: &machine, pus: vec![0], pages };
        let mut stream = read.clone().into_iter();
        let found = simulate(&mut stream, &[], &[job], PLAIN, 1).unwrap().remove(0);
        assert_eq!((found.total.remote(), found.total.from_memory()), (remote, 8192));
        let carried: u64 = found.links.iter().map(|link| link.2.bytes).sum();
        assert_eq!(carried, remote * LINE);
        let served: u64 = found.controllers.iter().map(|load| load.bytes).sum();
        assert_eq!(served, 8192 * LINE);
    }
}

#[test]
fn remote_data_takes_longer_and_more_energy() {
    let machine = machine();
    let run = |node| {
        let read = (0..50_000).map(|k| access(0, What::Read, k * LINE * 7));
        let job =
            Job { machine: &machine, pus: vec![0], pages: Pages::by(Rule::Turns(vec![node])) };
        simulate(&mut read.into_iter(), &[], &[job], PLAIN, 1).unwrap().remove(0)
    };
    let (near, far) = (run(0), run(1));
    assert!(far.total.time_ns > near.total.time_ns * 1.2);
    assert!(far.energy.total() > near.energy.total());
}

#[test]
fn prefetching_hides_streams_but_not_chances() {
    let machine = machine();
    let run = |stride: u64, prefetch| {
        let n = 20_000u64;
        let read = (0..n).map(|k| access(0, What::Read, k * stride % (n * 64)));
        let job = Job { machine: &machine, pus: vec![0], pages: Pages::by(Rule::FirstTouch) };
        let options = Options { prefetch, ..PLAIN };
        simulate(&mut read.into_iter(), &[], &[job], options, 1).unwrap().remove(0).total
    };
    let (with, without) = (run(64, true), run(64, false));
    assert!(with.ahead_used > 18_000, "{with:?}");
    assert!(with.time_ns < without.time_ns);
    assert_eq!(without.ahead, 0);
}

#[test]
fn several_jobs_give_what_each_gives_alone() {
    let machine = machine();
    let accesses = || {
        (0..100_000u64).map(|k| {
            access(
                (k / 100 % 4) as u32,
                if k % 3 == 0 { What::Write } else { What::Read },
                (k * k % 300_000) & !7,
            )
        })
    };
    let placements = [vec![0, 1, 2, 3], vec![0, 2, 1, 3], vec![3, 2, 1, 0]];
    let job = |pus: &Vec<usize>| Job {
        machine: &machine,
        pus: pus.clone(),
        pages: Pages::by(Rule::FirstTouch),
    };
    let jobs: Vec<_> = placements.iter().map(job).collect();
    let together = simulate(&mut accesses(), &[], &jobs, Options::default(), 2).unwrap();
    for (alone, together) in jobs.iter().zip(&together) {
        let alone =
            simulate(&mut accesses(), &[], std::slice::from_ref(alone), Options::default(), 1)
                .unwrap();
        assert_eq!(&alone[0], together);
    }
}

#[test]
fn threads_that_are_not_placed_are_refused() {
    let machine = machine();
    let job = Job { machine: &machine, pus: vec![0], pages: Pages::by(Rule::FirstTouch) };
    let mut stream = [access(0, What::Read, 0), access(1, What::Read, 0)].into_iter();
    let error = simulate(&mut stream, &[], &[job], PLAIN, 1).unwrap_err().to_string();
    assert_eq!(
        error,
        "the program has a thread T1, but the placement has only 1 threads; give one for this run"
    );
}

#[test]
fn more_threads_than_pus_take_turns() {
    let machine = machine();
    let accesses: Vec<Access> = (0..200_000u64)
        .map(|k| access((k % 8) as u32, What::Read, (k % 8) * 1_000_000 + k / 8 % 16 * 64))
        .collect();
    let spread = run_on(&machine, accesses.clone(), &[0, 0, 1, 1, 2, 2, 3, 3]).total;
    let crowded = run_on(&machine, accesses, &[0; 8]).total;
    assert_eq!(spread.accesses, 200_000);
    let ratio = crowded.time_ns / spread.time_ns;
    assert!((3.0..5.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_spinning_thread_does_not_stop_time() {
    // T1 spins on a flag; T0 computes and sets it.
    let mut list = Vec::new();
    list.push(access(0, What::Write, 0));
    for k in 0..10_000u64 {
        list.push(access(0, What::Read, 4096 + k * 64));
        list.extend((0..20).map(|_| access(1, What::Read, 0)));
    }
    list.push(access(0, What::Write, 0));
    list.push(access(1, What::Read, 0));
    list.push(access(1, What::Read, 1 << 20));
    let mut stream = list.into_iter();
    let machine = machine();
    let job = Job { machine: &machine, pus: vec![0, 2], pages: Pages::by(Rule::FirstTouch) };
    let found = simulate(&mut stream, &[], &[job], PLAIN, 1).unwrap().remove(0);
    assert!(found.waiting[1] > 190_000, "{:?}", found.waiting);
    let (worker, spinner) = (&found.threads[0], &found.threads[1]);
    assert!(spinner.time_ns >= worker.time_ns * 0.99, "it ends after the flag is set");
    assert!(spinner.accesses < 200);
}

#[test]
fn a_damaged_stream_is_an_error() {
    struct Broken;
    impl Stream for Broken {
        fn read(&mut self, _: &mut Vec<Access>) -> Result<bool, simulation::StreamError> {
            let source = std::io::ErrorKind::UnexpectedEof.into();
            Err(simulation::StreamError::Read { name: "'x'".into(), source })
        }
    }
    let machine = machine();
    let job = Job { machine: &machine, pus: vec![0], pages: Pages::by(Rule::FirstTouch) };
    assert!(simulate(&mut Broken, &[], &[job], PLAIN, 1).is_err());
}

/// Hits by level, lines from other caches and from memory, in all.
fn shares(counts: &Counts) -> [f64; 5] {
    let [one, two, three, memory] = hits(counts);
    [one, two, three, counts.transferred(), memory].map(|n| n as f64 / counts.touched as f64)
}

#[test]
fn a_part_of_the_sets_stands_for_all() {
    // 64 classes; two threads with streams, and a region of 200 KiB that both access by chance.
    let spec =
        "pack:2 numa:1(memory=1GiB) l3:1(size=1MiB) core:2 l2:1(size=64KiB) l1d:1(size=32KiB) pu:1";
    let machine = Machine::new(&Topology::from_synthetic(spec).unwrap(), "it").unwrap();
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let mut accesses = Vec::new();
    for k in 0..200_000u64 {
        let thread = (k % 2) as u32;
        let own = (1 + k % 2) << 32;
        let random = (1 << 40) + random() % 200_000 / 8 * 8;
        let what = if k % 7 == 0 { What::Write } else { What::Read };
        accesses.push(Access { site: 1, ..access(thread, What::Read, own + k / 2 * 8) });
        accesses.push(Access { site: 2, ..access(thread, what, random) });
    }
    let run = |sample_sets| {
        let job = Job { machine: &machine, pus: vec![0, 2], pages: Pages::by(Rule::FirstTouch) };
        let options = Options { prefetch: true, sample_sets, ..PLAIN };
        let mut stream = accesses.iter().copied();
        simulate(&mut stream, &[], &[job], options, 1).unwrap().remove(0)
    };
    let (all, part) = (run(None), run(Some(16)));
    assert!(all.margins.is_none());
    let margins = part.margins.clone().expect("a part only");
    let Sampled::Sets { classes, of, estimated } = margins.sampled else {
        panic!("{margins:?}");
    };
    assert_eq!((classes, of), (4, 64));
    assert!(estimated > 0.5, "{margins:?}");
    for (all, part) in shares(&all.total).into_iter().zip(shares(&part.total)) {
        assert!((all - part).abs() < 0.01, "{all} {part}");
    }
    let off = |part: u64, all: u64| part.abs_diff(all) as f64;
    assert!(margins.transfers > 0.0);
    // An interval at 95 % misses one truth in twenty: never by much.
    let (a, b) = (part.total.transferred(), all.total.transferred());
    assert!(off(a, b) <= 2.0 * margins.transfers, "{a} {b} {margins:?}");
    let slower = part.total.time_ns / all.total.time_ns;
    assert!((0.95..1.05).contains(&slower), "{slower}");
    // Nothing is lost: every line came from somewhere.
    assert_eq!(part.total.touched, all.total.touched);
    let found = part.total.hits.iter().sum::<u64>() + part.total.transferred();
    assert_eq!(found + part.total.from_memory(), part.total.touched);
}

#[test]
fn a_lock_in_a_set_that_is_not_simulated_moves_all_the_same() {
    let spec = "pack:2 numa:1(memory=1GiB) core:2 l1d:1(size=32KiB) pu:1";
    let machine = Machine::new(&Topology::from_synthetic(spec).unwrap(), "it").unwrap();
    // Wherever the line is.
    for line in 0..64 {
        let turns = (0..1000).map(|k| access((k % 2) as u32, What::Write, line * LINE));
        let job = Job { machine: &machine, pus: vec![0, 2], pages: Pages::by(Rule::FirstTouch) };
        let options = Options { sample_sets: Some(16), ..PLAIN };
        let facts =
            vec![
                ThreadFacts { instructions_per_access: Some(1000.0), ..ThreadFacts::default() };
                2
            ];
        let found = simulate(&mut turns.into_iter(), &facts, &[job], options, 1).unwrap().remove(0);
        assert_eq!(found.total.transferred() + found.total.from_memory(), 1000, "{line}");
    }
}
