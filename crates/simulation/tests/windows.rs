//! Windows of a stream stand for all of it.

use simulation::{
    Access, Job, Machine, Options, Outcome, Pages, Part, Rule, Sampled, ThreadFacts, What, simulate,
};
use topology::Topology;

const THREADS: u32 = 4;
const OPTIONS: Options = Options { prefetch: true, tlb: true, sample_sets: None, interleavings: 1 };

/// 2 packages of 2 cores.
fn machine(l3: &str) -> Machine {
    let spec = format!(
        "pack:2 numa:1(memory=1GiB) l3:1(size={l3}) core:2 l2:1(size=64KiB) l1d:1(size=32KiB) pu:1"
    );
    Machine::new(&Topology::from_synthetic(&spec).unwrap(), "it").unwrap()
}

/// Each thread streams through `own` bytes, and accesses a region of 100 KiB by chance.
fn accesses(count: u64, own: u64) -> Vec<Access> {
    let mut next = test_support::random::numbers();
    let access = |k: u64| {
        let thread = (k % u64::from(THREADS)) as u32;
        let (turn, base) = (k / u64::from(THREADS), u64::from(thread + 1) << 32);
        if turn % 4 > 0 {
            return Access::new(thread, What::Read, base + turn * 24 % own / 8 * 8, 8, 1);
        }
        let what = if next(7) == 0 { What::Write } else { What::Read };
        Access::new(thread, what, (1 << 40) + next(100 << 10) / 8 * 8, 8, 2)
    };
    (0..count).map(access).collect()
}

/// What remains of a stream in windows with a warm-up and a counted part of so many accesses, at
/// random in their periods.
fn windows_of(all: &[Access], part: usize, period: usize) -> Vec<Access> {
    let mut next = test_support::random::numbers();
    let mut left = Vec::new();
    for (number, accesses) in all.chunks_exact(period).enumerate() {
        let offset = next((period - 2 * part) as u64) as usize;
        let mut seen = vec![(Part::Unseen, &accesses[..0])];
        seen.push((Part::WarmUp, &accesses[offset..][..part]));
        seen.push((Part::Counted, &accesses[offset + part..][..part]));
        for (name, accesses) in seen {
            let window = |thread| Access::window(thread, number as u64 + 2, name);
            left.extend((0..THREADS).map(window));
            left.extend_from_slice(accesses);
        }
    }
    left
}

fn run(machine: &Machine, stream: &[Access], facts: &[ThreadFacts]) -> Outcome {
    let job = Job { machine, pus: vec![0, 1, 2, 3], pages: Pages::by(Rule::FirstTouch) };
    simulate(&mut stream.iter().copied(), facts, &[job], OPTIONS, 1).unwrap().remove(0)
}

/// Shares of the accesses: hits from L1 to L3, transfers, memory.
fn shares(of: &Outcome) -> [f64; 5] {
    let total = &of.total;
    let counts =
        [total.hits[1], total.hits[2], total.hits[3], total.transferred(), total.from_memory()];
    counts.map(|count| count as f64 / total.touched as f64)
}

/// The whole run, and the same from a tenth of it, of which half is warm-up.
fn both(machine: &Machine, own: u64) -> (Outcome, Outcome) {
    let all = accesses(8_000_000, own);
    let left = windows_of(&all, 20_000, 400_000);
    let observed = left.iter().filter(|access| access.is_real()).count() as u64;
    let each = |count: u64| count / u64::from(THREADS);
    let facts = ThreadFacts {
        accesses: each(all.len() as u64),
        observed: each(observed),
        instructions_per_access: None,
    };
    (run(machine, &all, &[]), run(machine, &left, &vec![facts; THREADS as usize]))
}

#[test]
fn a_tenth_tells_what_all_would() {
    // Within the second caches, within the third, and through all of them.
    for (own, l3) in [(20 << 10, "1MiB"), (200 << 10, "1MiB"), (400 << 10, "256KiB")] {
        let (all, part) = both(&machine(l3), own);
        for (all, part) in shares(&all).into_iter().zip(shares(&part)) {
            assert!((all - part).abs() < 0.015, "{own}: {all} {part}");
        }
        let slower = part.total.time_ns / all.total.time_ns;
        assert!((0.9..1.1).contains(&slower), "{own}: {slower}");
        let margins = part.margins.expect("windows only");
        let Sampled::Windows { count, part: observed } = margins.sampled else {
            panic!("{margins:?}");
        };
        assert_eq!((count, (observed * 1000.0).round()), (20, 50.0));
        assert!(part.total.accesses.abs_diff(all.total.accesses) <= 1, "{own}");
        assert!(margins.hits[1] < 0.02 * all.total.touched as f64, "{margins:?}");
    }
}

#[test]
fn a_run_without_a_window_says_so() {
    let machine = machine("1MiB");
    let mut stream = accesses(1000, 4096);
    stream.push(Access::window(0, 1, Part::Unseen));
    let facts = ThreadFacts { accesses: 1000, observed: 250, instructions_per_access: None };
    let outcome = run(&machine, &stream, &vec![facts; THREADS as usize]);
    let sampled = outcome.margins.expect("windows only").sampled;
    assert!(matches!(sampled, Sampled::Windows { count: 0, part } if part < 0.26), "{sampled:?}");
}
