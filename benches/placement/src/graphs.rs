//! Who talks to whom: families of communication matrices as parallel programs show them.
//!
//! Thread numbers are shuffled, so that no policy gains from an order that a real program would not
//! give away either. A (family, threads) pair always gives the same matrix.

use crate::random::Random;
use types::{CommMatrix, ThreadId};

/// A family of matrices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Family {
    /// 1D stencil: each thread talks to the next.
    Chain,
    /// 2D stencil.
    Grid,
    /// 3D stencil.
    Cube,
    /// Groups of eight that talk a lot, and a little noise between groups.
    Cliques,
    /// Groups of 3 to 17.
    UnevenCliques,
    /// Stages of several threads; each stage feeds the next.
    Pipeline,
    /// One thread talks to all others.
    Hub,
    /// Thread i talks to i ^ 2^k: butterflies, reductions.
    Hypercube,
    /// Preferential attachment: few threads talk to very many.
    PowerLaw,
    /// Points in the plane that talk when near (unstructured meshes).
    Geometric,
    /// Sparse, without any structure.
    Random,
    /// 3D torus on three scales and a little of all-to-all (multigrid).
    Multigrid,
}

impl Family {
    /// The name in tables and in `best-known.csv`.
    pub fn name(self) -> &'static str {
        match self {
            Family::Chain => "chain",
            Family::Grid => "grid",
            Family::Cube => "cube",
            Family::Cliques => "cliques",
            Family::UnevenCliques => "uneven-cliques",
            Family::Pipeline => "pipeline",
            Family::Hub => "hub",
            Family::Hypercube => "hypercube",
            Family::PowerLaw => "power-law",
            Family::Geometric => "geometric",
            Family::Random => "random",
            Family::Multigrid => "multigrid",
        }
    }

    /// The matrix for that many threads.
    pub fn matrix(self, threads: usize) -> CommMatrix {
        let mut random = Random::new(threads as u64 * 64 + self as u64);
        let id = random.order(threads);
        let mut matrix = CommMatrix::new(threads);
        let mut add = |a: usize, b: usize, events: usize| {
            if a != b && events > 0 {
                matrix.add(ThreadId(id[a] as u32), ThreadId(id[b] as u32), events as u64);
            }
        };
        match self {
            Family::Chain => lattice([1, 1, threads], &mut add),
            Family::Grid => lattice([1, side(threads, 2), threads / side(threads, 2)], &mut add),
            Family::Cube => lattice(box_of(threads), &mut add),
            Family::Cliques => cliques(threads, &mut random, |_| 8, &mut add),
            Family::UnevenCliques => {
                cliques(threads, &mut random, |random| 3 + random.below(15), &mut add)
            }
            Family::Pipeline => pipeline(threads, &mut random, &mut add),
            Family::Hub => pairs(threads, |a, b| match a {
                0 => add(a, b, 80 + random.below(20)),
                _ => add(a, b, random.below(3)),
            }),
            Family::Hypercube => hypercube(threads, &mut add),
            Family::PowerLaw => power_law(threads, &mut random, &mut add),
            Family::Geometric => geometric(threads, &mut random, &mut add),
            Family::Random => pairs(threads, |a, b| {
                if random.below(threads) < 8 {
                    add(a, b, 1 + random.below(1000));
                }
            }),
            Family::Multigrid => multigrid(threads, &mut add),
        }
        matrix
    }
}

fn pairs(threads: usize, mut f: impl FnMut(usize, usize)) {
    (0..threads).for_each(|a| (a + 1..threads).for_each(|b| f(a, b)));
}

/// The largest divisor of n that is at most its root.
fn side(n: usize, root: u32) -> usize {
    let whole = (1..).take_while(|s: &usize| s.pow(root) <= n).last().unwrap_or(1);
    (1..=whole).rev().find(|s| n.is_multiple_of(*s)).unwrap_or(1)
}

fn box_of(n: usize) -> [usize; 3] {
    let a = side(n, 3);
    let b = side(n / a, 2);
    [a, b, n / a / b]
}

fn lattice([x, y, z]: [usize; 3], add: &mut impl FnMut(usize, usize, usize)) {
    for v in 0..x * y * z {
        let (i, j, k) = (v / (y * z), v / z % y, v % z);
        add(v, if i + 1 < x { v + y * z } else { v }, 100);
        add(v, if j + 1 < y { v + z } else { v }, 100);
        add(v, if k + 1 < z { v + 1 } else { v }, 100);
    }
}

fn cliques(
    threads: usize,
    random: &mut Random,
    mut size: impl FnMut(&mut Random) -> usize,
    add: &mut impl FnMut(usize, usize, usize),
) {
    let mut group = Vec::new();
    while group.len() < threads {
        let members = size(random);
        let number = group.last().map_or(0, |last| last + 1);
        group.extend(std::iter::repeat_n(number, members));
    }
    pairs(threads, |a, b| {
        let noise = if random.below(20) == 0 { random.below(10) } else { 0 };
        add(a, b, if group[a] == group[b] { 50 + random.below(50) } else { noise });
    });
}

fn pipeline(threads: usize, random: &mut Random, add: &mut impl FnMut(usize, usize, usize)) {
    let stages = (threads / 12).max(4);
    let stage = |thread: usize| thread * stages / threads;
    pairs(threads, |a, b| match stage(b) - stage(a) {
        0 => add(a, b, 20 + random.below(10)),
        1 => add(a, b, random.below(40)),
        _ => {}
    });
}

fn hypercube(threads: usize, add: &mut impl FnMut(usize, usize, usize)) {
    pairs(threads, |a, b| {
        if (a ^ b).is_power_of_two() {
            add(a, b, 100);
        }
    });
}

fn power_law(threads: usize, random: &mut Random, add: &mut impl FnMut(usize, usize, usize)) {
    let mut ends = vec![0, 1];
    add(0, 1, 100);
    for thread in 2..threads {
        for _ in 0..3 {
            let other = ends[random.below(ends.len())];
            let events = random.unit().max(1e-4).powf(-0.7) * 10.0;
            add(thread, other, events as usize);
            ends.extend([thread, other]);
        }
    }
}

fn geometric(threads: usize, random: &mut Random, add: &mut impl FnMut(usize, usize, usize)) {
    let points: Vec<(f64, f64)> = (0..threads).map(|_| (random.unit(), random.unit())).collect();
    let n = threads as f64;
    let reach = 1.5 * (n.ln() / (std::f64::consts::PI * n)).sqrt();
    pairs(threads, |a, b| {
        let apart = (points[a].0 - points[b].0).hypot(points[a].1 - points[b].1);
        if apart < reach {
            add(a, b, (100.0 * (1.0 - apart / reach)) as usize + 1);
        }
    });
}

fn multigrid(threads: usize, add: &mut impl FnMut(usize, usize, usize)) {
    let [x, y, z] = box_of(threads);
    for step in [1, 2, 4] {
        for v in 0..threads {
            let (i, j, k) = (v / (y * z), v / z % y, v % z);
            let events = 160 / (step * step);
            add(v, ((i + step) % x) * y * z + j * z + k, events);
            add(v, i * y * z + ((j + step) % y) * z + k, events);
            add(v, i * y * z + j * z + (k + step) % z, events);
        }
    }
    pairs(threads, |a, b| add(a, b, 1));
}
