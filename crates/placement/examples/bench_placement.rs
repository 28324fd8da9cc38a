//! How good and how fast `locality` is: CPU time and cost per pattern and machine, beside the other
//! policies. Run with `cargo run --release -p threadtalk-placement --example bench_placement -- [THREADS]`.

use placement::{PolicyKind, Tasks, place};
use topology::{CostModel, Costs, Topology};
use types::{CommMatrix, ThreadId};

/// Machine, costs from the root down, threads.
const MACHINES: [(&str, &str, usize); 5] = [
    ("pack:4 core:8 pu:2", "180,50,10", 64),
    ("pack:2 core:14 pu:2", "130,45,8", 56),
    ("pack:2 l3:8 core:8 pu:2", "200,110,25,8", 128),
    ("pack:2 l3:8 core:8 pu:2", "200,110,25,8", 256),
    ("pack:8 l3:8 core:8 pu:2", "200,110,25,8", 1024),
];

const PATTERNS: [&str; 7] = ["chain", "grid", "cube", "cliques", "pipeline", "hub", "random"];

fn main() {
    let only: Option<usize> = std::env::args().nth(1).and_then(|threads| threads.parse().ok());
    println!(
        "{:<26} {:<9} {:>6} {:>9} {:>14}  cost of the others / locality",
        "machine", "pattern", "T", "CPU ms", "locality"
    );
    for (machine, costs, threads) in MACHINES.into_iter().filter(|m| only.is_none_or(|n| n == m.2))
    {
        let topology = Topology::from_synthetic(machine).expect("a synthetic machine");
        let model: CostModel = costs.parse().expect("costs");
        let costs = Costs::new(&model, &topology).expect("one cost per level");
        for pattern in PATTERNS {
            let tasks = Tasks::from(&matrix(pattern, threads));
            let cost = |kind| place(&tasks, &topology, &costs, kind, 0).expect("a placement").cost;
            let start = cpu_ms();
            let locality = cost(PolicyKind::Locality);
            let time = cpu_ms() - start;
            print!("{machine:<26} {pattern:<9} {threads:>6} {time:>9.1} {locality:>14.0} ");
            for kind in PolicyKind::ALL.into_iter().filter(|&k| k != PolicyKind::Locality) {
                print!(" {kind} {:.3}", cost(kind) / locality);
            }
            println!();
        }
    }
}

/// CPU time of this thread so far, ms, from the scheduler.
fn cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(f64::NAN, |ns| ns / 1e6)
}

/// Shuffled test patterns with whole weights.
fn matrix(pattern: &str, n: usize) -> CommMatrix {
    let mut random = Random(n as u64 * 7919 + pattern.len() as u64);
    let mut id: Vec<usize> = (0..n).collect();
    (1..n).rev().for_each(|i| id.swap(i, random.below(i + 1)));
    let mut m = CommMatrix::new(n);
    let mut add = |a: usize, b: usize, w: usize| {
        m.add(ThreadId(id[a] as u32), ThreadId(id[b] as u32), w as u64);
    };
    let side = |n: usize, root: f64| {
        (1..=(n as f64).powf(root).round() as usize)
            .rev()
            .find(|s| n.is_multiple_of(*s))
            .unwrap_or(1)
    };
    match pattern {
        "chain" => (1..n).for_each(|i| add(i - 1, i, 1)),
        "grid" => {
            let a = side(n, 0.5);
            lattice([1, a, n / a], &mut add);
        }
        "cube" => {
            let a = side(n, 1.0 / 3.0);
            let b = side(n / a, 0.5);
            lattice([a, b, n / a / b], &mut add);
        }
        "cliques" => all_pairs(n, |a, b| {
            let w = if a / 8 == b / 8 { 100 } else { usize::from(random.below(20) == 0) * 10 };
            add(a, b, w);
        }),
        "pipeline" => all_pairs(n, |a, b| {
            let stage = |t: usize| t * (n / 12).max(4) / n;
            match stage(b) - stage(a) {
                0 => add(a, b, 20 + random.below(10)),
                1 => add(a, b, random.below(40)),
                _ => {}
            }
        }),
        "hub" => all_pairs(n, |a, b| {
            add(a, b, if a == 0 { 80 + random.below(20) } else { random.below(3) });
        }),
        _ => all_pairs(n, |a, b| {
            if random.below(n) < 8 {
                add(a, b, 1 + random.below(1000));
            }
        }),
    }
    m
}

fn all_pairs(n: usize, mut f: impl FnMut(usize, usize)) {
    for a in 0..n {
        (a + 1..n).for_each(|b| f(a, b));
    }
}

fn lattice([x, y, z]: [usize; 3], add: &mut impl FnMut(usize, usize, usize)) {
    let at = |i, j, k| (i * y + j) * z + k;
    for i in 0..x {
        for j in 0..y {
            for k in 0..z {
                if i + 1 < x {
                    add(at(i, j, k), at(i + 1, j, k), 1);
                }
                if j + 1 < y {
                    add(at(i, j, k), at(i, j + 1, k), 1);
                }
                if k + 1 < z {
                    add(at(i, j, k), at(i, j, k + 1), 1);
                }
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize * n) >> 31
    }
}
