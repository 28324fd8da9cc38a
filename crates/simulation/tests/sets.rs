//! Whether the intervals of a part of the sets hold what all sets give, over kernels whose sets are
//! used unequally.

use simulation::{Access, Job, Machine, Options, Outcome, Pages, Rule, What, simulate};
use topology::Topology;

const SPEC: &str = "pack:2 numa:1(memory=1GiB) l3:1(size=1MiB) core:2 l2:1(size=64KiB) \
                    l1d:1(size=32KiB) pu:1";
const COUNT: u64 = 60_000;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    /// Small numbers are frequent.
    fn skewed(&mut self, limit: u64) -> u64 {
        let unit = self.below(1 << 20) as f64 / f64::from(1 << 20);
        ((limit as f64).powf(unit) as u64).min(limit - 1)
    }
}

fn access(k: u64, what: What, address: u64, site: u32) -> Access {
    Access::new((k % 2) as u32, what, address, 8, site)
}

/// A kernel, by its number, at an offset that changes which sets are hot.
fn kernel(number: u64, seed: u64) -> Vec<Access> {
    let mut random = Random(seed * 977 + number);
    let base = 0x1_0000_0000 + random.below(4096) * 64;
    let mut list = Vec::new();
    for k in 0..COUNT {
        let writes = if random.below(4) == 0 { What::Write } else { What::Read };
        let own = base + (k % 2) * 0x1000_0000;
        match number {
            // Streams beside a table that both threads use, some lines more than others.
            0 => {
                list.push(access(k, What::Read, own + k / 2 * 8, 1));
                list.push(access(k, writes, base + (1 << 40) + random.skewed(4096) * 64, 2));
            }
            // Columns of a matrix with rows of 4 KiB and a little.
            1 => list.push(access(k, What::Read, own + k / 2 * 4160 % (1 << 21), 1)),
            // A stencil over planes, and its sums.
            2 => {
                let at = own + k / 2 * 8 % (1 << 18);
                for (site, away) in [(1, 0), (2, 4096), (3, 8192)] {
                    list.push(access(k, What::Read, at + away, site));
                }
                list.push(access(k, What::Write, at + (1 << 24), 4));
            }
            // By chance, each thread in its own memory, of which some is in the inner caches.
            3 => list.push(access(k, writes, own + random.below(1 << 17) / 8 * 8, 1)),
            // By chance in what both use.
            4 => list.push(access(k, writes, base + random.below(1 << 18) / 8 * 8, 1)),
            // Buckets: a stream in, a frequent counter, a stream out of each.
            _ => {
                let bucket = random.skewed(512);
                list.push(access(k, What::Read, own + k / 2 * 8, 1));
                list.push(access(k, What::Write, own + (1 << 26) + bucket * 8, 2));
                let out = own + (1 << 27) + bucket * 4096 + k / 64 % 512 * 8;
                list.push(access(k, What::Write, out, 3));
            }
        }
    }
    list
}

fn run(machine: &Machine, accesses: &[Access], sample_sets: Option<u64>) -> Outcome {
    let job = Job { machine, pus: vec![0, 2], pages: Pages::by(Rule::FirstTouch) };
    let options = Options { tlb: false, sample_sets, ..Options::default() };
    simulate(&mut accesses.iter().copied(), &[], &[job], options, 1).unwrap().remove(0)
}

#[test]
fn nine_intervals_in_ten_hold_the_truth() {
    let machine = Machine::new(&Topology::from_synthetic(SPEC).unwrap(), "it").unwrap();
    let (mut figures, mut missed) = (0, Vec::new());
    for number in 0..6 {
        for seed in 1..5 {
            let accesses = kernel(number, seed);
            let (all, part) = (run(&machine, &accesses, None), run(&machine, &accesses, Some(16)));
            let margins = part.margins.clone().expect("a part only");
            let (all, part) = (all.total, part.total);
            let mut look = |name: &str, all: u64, part: u64, half: f64| {
                // Ten in all accesses decide nothing.
                if all.max(part) > 10 {
                    figures += 1;
                    if part.abs_diff(all) as f64 > half {
                        missed.push(format!("{number}/{seed} {name}: {part} ± {half:.0}, {all}"));
                    }
                }
            };
            for level in 1..=3 {
                let name = format!("L{level}");
                look(&name, all.hits[level], part.hits[level], margins.hits[level]);
            }
            look("transfers", all.transferred(), part.transferred(), margins.transfers);
            look("local", all.local, part.local, margins.local);
            look("remote", all.remote(), part.remote(), margins.remote);
            look("ns", all.time_ns as u64, part.time_ns as u64, margins.time_ns);
        }
    }
    assert!(figures > 60, "{figures}");
    assert!(missed.len() * 10 <= figures, "{} of {figures}: {missed:#?}", missed.len());
}

/// Changed lines that go to another package are written back, too, which loads link and memory.
#[test]
fn lines_written_back_load_links_as_evenly_as_those_of_all_sets() {
    let machine = Machine::new(&Topology::from_synthetic(SPEC).unwrap(), "it").unwrap();
    let mut accesses = Vec::new();
    for round in 0..20 {
        for (what, first) in [(What::Write, 0), (What::Read, 2)] {
            for k in 0..1024 {
                let of = |pair: u32| u64::from((pair + round) % 2) << 24 | k << 6;
                let site = 1 + first;
                accesses.extend((0..2).map(|t| Access::new(first + t, what, of(t), 8, site)));
            }
        }
    }
    let run = |sample_sets| {
        let pages = Pages::by(Rule::FirstTouch);
        let job = Job { machine: &machine, pus: vec![0, 1, 2, 3], pages };
        let options = Options { tlb: false, prefetch: false, sample_sets, ..Options::default() };
        simulate(&mut accesses.iter().copied(), &[], &[job], options, 1).unwrap().remove(0)
    };
    let all = run(None);
    assert!(all.written.iter().sum::<u64>() > 30_000, "{:?}", all.written);
    let waited = |of: &Outcome| {
        let links = of.links.iter().map(|link| link.2);
        links.chain(of.controllers.iter().copied()).map(|load| load.waited_ns).sum::<f64>()
    };
    for part in [4, 16] {
        let part = run(Some(part));
        let (is, should) = (waited(&part), waited(&all));
        assert!((is / should - 1.0).abs() < 0.05, "{is} instead of {should}");
        let written = part.written[0] as f64 / all.written[0] as f64;
        assert!((written - 1.0).abs() < 0.01, "{:?} instead of {:?}", part.written, all.written);
    }
}
