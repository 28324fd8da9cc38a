//! A stream that was filtered by a cache like the machine's innermost ones gives what all accesses
//! give.

use simulation::{Access, Job, Machine, Options, Outcome, Pages, Rule, What, simulate};
use topology::Topology;

const SPEC: &str = "pack:2 numa:1(memory=1GiB) l3:1(size=1MiB) core:2 l2:1(size=64KiB) \
                    l1d:1(size=32KiB) pu:1";
const THREADS: usize = 2;
const SETS: usize = 64;
const WAYS: usize = 8;

/// A line in the filter.
#[derive(Clone, Copy)]
struct Held {
    line: u64,
    way: u8,
    is_written: bool,
}

/// What the engine leaves out (`slow/filter.h`), if accesses to the newest `unseen` lines of each
/// set pass unseen.
fn filtered(accesses: &[Access], unseen: usize) -> Vec<Access> {
    let mut sets: Vec<Vec<Held>> = vec![Vec::new(); THREADS * SETS];
    let mut skipped = [0; THREADS];
    let mut kept = Vec::new();
    for access in accesses {
        let (thread, line) = (access.thread as usize, access.address >> 6);
        let writes = access.what == What::Write;
        let set = &mut sets[thread * SETS + line as usize % SETS];
        let at = set.iter().position(|held| held.line == line);
        let is_quiet = at.is_some_and(|at| set[at].is_written || !writes);
        let held = match at {
            Some(at) if is_quiet && at < unseen => set[at],
            Some(at) => set.remove(at),
            None if set.len() == WAYS => Held { line, is_written: false, ..set.pop().unwrap() },
            None => Held { line, way: set.len() as u8, is_written: false },
        };
        if at.is_none_or(|at| !is_quiet || at >= unseen) {
            set.insert(0, Held { is_written: held.is_written || writes, ..held });
        }
        if is_quiet {
            skipped[thread] += 1;
            continue;
        }
        let (skipped, ways) = (std::mem::take(&mut skipped[thread]), held.way + 1);
        kept.push(Access { skipped, held: true, ways, ..*access });
    }
    for (thread, skipped) in skipped.into_iter().enumerate() {
        kept.push(Access { skipped, ..Access::new(thread as u32, What::Read, 0, 0, 0) });
    }
    kept
}

/// Streams, chances, columns and a few lines that are used again and again, each thread in memory
/// of its own.
fn accesses() -> Vec<Access> {
    let mut next = test_support::random::numbers();
    let mut list = Vec::new();
    for k in 0..200_000u64 {
        let thread = k % THREADS as u64;
        let what = if next(3) == 0 { What::Write } else { What::Read };
        let within = match next(4) {
            0 => k / 2 * 8 % (1 << 18),
            1 => (1 << 20) + next(1 << 17) / 8 * 8,
            2 => (2 << 20) + k / 2 % 24 * 4096,
            _ => (3 << 20) + next(64) * 8,
        };
        list.push(Access::new(thread as u32, what, (thread << 32) + within, 8, next(4) as u32));
    }
    list
}

fn run(accesses: &[Access]) -> Outcome {
    let machine = Machine::new(&Topology::from_synthetic(SPEC).unwrap(), "it").unwrap();
    let job = Job { machine: &machine, pus: vec![0, 2], pages: Pages::by(Rule::FirstTouch) };
    let options = Options { prefetch: false, tlb: false, ..Options::default() };
    simulate(&mut accesses.iter().copied(), &[], &[job], options, 1).unwrap().remove(0)
}

/// Accesses, hits by level, lines from memory, lines written to memory.
fn counts(of: &Outcome) -> Vec<u64> {
    let total = &of.total;
    let hits = total.hits.iter().skip(1);
    let [accesses, local, remote] = [total.accesses, total.local, total.remote()];
    let written = of.written.iter().sum();
    hits.copied().chain([accesses, local, remote, written]).collect()
}

#[test]
fn a_filter_that_sees_the_order_of_all_lines_changes_nothing() {
    let all = accesses();
    let short = filtered(&all, 1);
    assert!(short.len() < all.len() * 2 / 3, "{}", short.len());
    assert_eq!(counts(&run(&all)), counts(&run(&short)));
}

#[test]
fn a_filter_that_sees_the_order_of_half_the_lines_changes_little() {
    let all = accesses();
    let (whole, part) = (counts(&run(&all)), counts(&run(&filtered(&all, WAYS / 2))));
    for (whole, part) in whole.iter().zip(&part) {
        let off = whole.abs_diff(*part) as f64;
        assert!(off <= 0.01 * (*whole).max(10_000) as f64, "{whole} {part}");
    }
}
