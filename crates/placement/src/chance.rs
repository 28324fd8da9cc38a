//! Where threads meet when nobody places them: the expectation over even placements.
//!
//! Every PU has ⌊T/P⌋ or ⌈T/P⌉ threads, and all such placements are alike. As schedulers do
//! ([`Spread::Cores`]), every core gets a thread before one gets its second. Threads that do next
//! to nothing come last, so that those that compute are even among themselves; of these, threads
//! that also communicate with nobody are nowhere. Closed form, by PU and pair of PUs: E[m · m'] of
//! the threads on them depends only on whether they share a core, and on how many PUs their cores
//! have.
//!
//! Neighbours: `place.rs` prices what chance costs, `levels.rs` names the levels, `data/joint.rs`
//! draws placements.

use crate::levels::{LevelShare, shares_of};
use crate::rng::Rng;
use crate::tasks::Tasks;
use std::collections::BTreeMap;
use topology::Hierarchy;

/// Threads that are somewhere on the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Claims {
    /// Those that compute.
    busy: usize,
    /// Those that communicate, but do next to nothing.
    light: usize,
}

impl Claims {
    /// Of these threads.
    pub fn of(tasks: &Tasks) -> Self {
        let busy = (0..tasks.len()).filter(|&task| tasks.load(task) > 0).count();
        let talks = |&task: &usize| tasks.load(task) == 0 && tasks.volume(task) > 0.0;
        Self { busy, light: (0..tasks.len()).filter(talks).count() }
    }

    fn all(self) -> usize {
        self.busy + self.light
    }
}

/// What is filled evenly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Cores, then PUs, as operating systems do.
    Cores,
    /// PUs alone.
    Pus,
}

/// How likely two threads meet at which level, by how many of them do next to nothing.
pub struct Chance<'h> {
    hierarchy: &'h Hierarchy,
    /// Whether threads must share PUs.
    shared_pu: bool,
    /// By idle threads in the pair, then by level from the machine down; last, on one PU.
    meeting: [Vec<f64>; 3],
}

impl<'h> Chance<'h> {
    /// Of threads on a machine.
    pub fn new(hierarchy: &'h Hierarchy, claims: Claims, spread: Spread) -> Self {
        let machine = Pus::new(hierarchy, spread);
        let (busy, all) = (machine.fill(claims.busy), machine.fill(claims.all()));
        let stages = machine.stages(hierarchy);
        let sum = |first: &Fill, then: &Fill| -> Vec<f64> {
            stages.iter().map(|stage| stage.expected(first, then)).collect()
        };
        let (bb, ba, aa) = (sum(&busy, &busy), sum(&busy, &all), sum(&all, &all));
        let stage = |n: usize| {
            let both_busy = bb[n] - claims.busy as f64;
            let one_light = ba[n] - bb[n];
            [both_busy, one_light, aa[n] - 2.0 * ba[n] + bb[n] - claims.light as f64]
        };
        let together: Vec<[f64; 3]> = (0..stages.len()).map(stage).collect();
        let at = |kind: usize| -> Vec<f64> {
            let all = together[0][kind];
            let kept = together.iter().map(|stage| stage[kind]).chain([0.0]);
            let kept: Vec<f64> = kept.collect();
            // What differs by rounding only is nothing.
            let split = |step: &[f64]| if all > 0.5 { (step[0] - step[1]) / all } else { 0.0 };
            kept.windows(2).map(split).map(|p| if p < 1e-12 { 0.0 } else { p }).collect()
        };
        let shared_pu = claims.all() > hierarchy.pus.len();
        Self { hierarchy, shared_pu, meeting: [at(0), at(1), at(2)] }
    }

    /// The events of `tasks` by level, as in [`shares_of`].
    fn events(&self, tasks: &Tasks) -> Vec<f64> {
        let mut of_kind = [0.0; 3];
        for a in 0..tasks.len() {
            for &(b, events) in tasks.neighbours(a).iter().filter(|&&(b, _)| b > a) {
                of_kind[(2 - tasks.load(a) - tasks.load(b)) as usize] += events;
            }
        }
        let level = |n: usize| (0..3).map(|kind| of_kind[kind] * self.meeting[kind][n]).sum();
        (0..self.meeting[0].len()).map(level).collect()
    }

    /// What the communication of `tasks` costs; on one PU, nothing.
    pub fn cost(&self, tasks: &Tasks, costs: &[f64]) -> f64 {
        self.events(tasks).iter().zip(costs).map(|(events, cost)| events * cost).sum()
    }

    /// Where the communication of `tasks` meets, nearest level first; the PU only where threads
    /// must share one.
    pub fn shares(&self, tasks: &Tasks) -> Vec<LevelShare> {
        let mut shares = shares_of(self.hierarchy, &self.events(tasks), self.shared_pu);
        if tasks.total() == 0.0 {
            // Where they would meet if they communicated.
            let levels = shares.iter_mut().rev().zip(&self.meeting[0]);
            levels.for_each(|(share, part)| share.share = *part);
        }
        shares
    }
}

/// Where the communication of `tasks` meets when the operating system places them.
pub fn shares_by_chance(hierarchy: &Hierarchy, tasks: &Tasks) -> Vec<LevelShare> {
    Chance::new(hierarchy, Claims::of(tasks), Spread::Cores).shares(tasks)
}

/// A placement by chance: for each task an index into [`Hierarchy::pus`]. Threads that are nowhere
/// are on any PU.
pub fn draw(hierarchy: &Hierarchy, tasks: &Tasks, rng: &mut Rng) -> Vec<usize> {
    let machine = Pus::new(hierarchy, Spread::Cores);
    let last = |task: usize| match tasks.load(task) {
        0 if tasks.volume(task) > 0.0 => 1,
        0 => 2,
        _ => 0,
    };
    let mut order = rng.order(tasks.len());
    order.sort_by_key(|&task| last(task));
    let mut pus = vec![0; tasks.len()];
    let mut free: Vec<usize> = Vec::new();
    for task in order {
        if last(task) == 2 {
            pus[task] = rng.below(hierarchy.pus.len());
            continue;
        }
        if free.is_empty() {
            free = machine.order(rng);
            free.reverse();
        }
        pus[task] = free.pop().expect("a machine has a PU");
    }
    pus
}

/// The PUs by core.
struct Pus {
    core: Vec<usize>,
    /// By core: its PUs.
    sizes: Vec<usize>,
}

impl Pus {
    fn new(hierarchy: &Hierarchy, spread: Spread) -> Self {
        let core: Vec<usize> = match spread {
            Spread::Cores => hierarchy.core.iter().map(|&core| core as usize).collect(),
            Spread::Pus => (0..hierarchy.pus.len()).collect(),
        };
        let mut sizes = vec![0; core.last().map_or(0, |last| last + 1)];
        core.iter().for_each(|&core| sizes[core] += 1);
        Self { core, sizes }
    }

    /// `threads` threads on them.
    fn fill(&self, threads: usize) -> Fill {
        let (full, mut left) = (threads / self.core.len(), threads % self.core.len());
        let mut round = 0;
        loop {
            let cores = self.sizes.iter().filter(|&&size| size > round).count();
            if left < cores {
                return Fill { full, round, extra: left as f64, cores: cores as f64 };
            }
            left -= cores;
            round += 1;
        }
    }

    /// The pairs of PUs that are together on the machine, then below each level.
    fn stages(&self, hierarchy: &Hierarchy) -> Vec<Stage> {
        let whole = vec![0; self.core.len()];
        let parts = hierarchy.levels.iter().map(|level| &level.part[..]);
        [&whole[..]].into_iter().chain(parts).map(|part| self.stage(part)).collect()
    }

    fn stage(&self, part: &[u32]) -> Stage {
        // PUs of each part by the size of their cores, and of each part of a core.
        let mut of_part: BTreeMap<u32, BTreeMap<usize, f64>> = BTreeMap::new();
        let mut of_core: BTreeMap<(u32, usize), f64> = BTreeMap::new();
        for (&part, &core) in part.iter().zip(&self.core) {
            *of_part.entry(part).or_default().entry(self.sizes[core]).or_default() += 1.0;
            *of_core.entry((part, core)).or_default() += 1.0;
        }
        let mut stage = Stage::default();
        for sizes in of_part.values() {
            for (&a, in_a) in sizes {
                *stage.single.entry(a).or_default() += in_a;
                for (&b, in_b) in sizes {
                    *stage.apart.entry((a, b)).or_default() += in_a * in_b;
                }
            }
        }
        for (&(_, core), count) in &of_core {
            let size = self.sizes[core];
            *stage.siblings.entry(size).or_default() += count * (count - 1.0);
            *stage.apart.entry((size, size)).or_default() -= count * count;
        }
        stage
    }

    /// All PUs by chance: one of each core, then the second ones, and so on.
    fn order(&self, rng: &mut Rng) -> Vec<usize> {
        let mut of_core = vec![0; self.sizes.len()];
        let mut turns: Vec<(usize, usize)> = Vec::new();
        for pu in rng.order(self.core.len()) {
            let turn = &mut of_core[self.core[pu]];
            turns.push((*turn, pu));
            *turn += 1;
        }
        // By turn alone, in which PUs must be in random order.
        let mixed = rng.order(turns.len());
        let mut turns: Vec<(usize, usize)> = mixed.into_iter().map(|at| turns[at]).collect();
        turns.sort_by_key(|turn| turn.0);
        turns.into_iter().map(|turn| turn.1).collect()
    }
}

/// Threads on a machine, as evenly as can be.
#[derive(PartialEq, Debug)]
struct Fill {
    /// Threads that every PU has.
    full: usize,
    /// PUs of each core that have one more, where it has as many.
    round: usize,
    /// Cores of which yet another PU has.
    extra: f64,
    /// Cores among which these are.
    cores: f64,
}

impl Fill {
    /// PUs of a core with `size` that surely have one more.
    fn sure(&self, size: usize) -> f64 {
        size.min(self.round) as f64
    }

    /// How likely another one has.
    fn maybe(&self, size: usize) -> f64 {
        if size > self.round { self.extra / self.cores } else { 0.0 }
    }

    /// How likely a PU of a core with `size` has one more.
    fn one_more(&self, size: usize) -> f64 {
        (self.sure(size) + self.maybe(size)) / size as f64
    }
}

/// Two PUs.
#[derive(Clone, Copy)]
enum Two {
    /// The same one.
    One(usize),
    /// Two of one core, which has this many.
    Siblings(usize),
    /// One each of two cores, which have this many.
    Apart(usize, usize),
}

/// E[m · m'] of the threads that `first` has on one PU and `then`, which goes on from it, on the
/// other.
fn product(first: &Fill, then: &Fill, two: Two) -> f64 {
    let (a, b) = match two {
        Two::One(size) | Two::Siblings(size) => (size, size),
        Two::Apart(a, b) => (a, b),
    };
    let (p, q) = (first.one_more(a), then.one_more(b));
    let both = if first.full < then.full { p * q } else { both_more(first, then, two) };
    let (f, t) = (first.full as f64, then.full as f64);
    f * t + f * q + t * p + both
}

/// How likely both PUs have one more, where `then` adds to the same round of PUs as `first`.
fn both_more(first: &Fill, then: &Fill, two: Two) -> f64 {
    let same_round = first.round == then.round;
    match two {
        Two::One(size) => first.one_more(size),
        Two::Siblings(size) => {
            let (sure, maybe) = (first.sure(size), first.maybe(size));
            let extras = if same_round { maybe } else { maybe * then.maybe(size) };
            let used =
                sure * (then.sure(size) + then.maybe(size)) + maybe * then.sure(size) + extras;
            let size = size as f64;
            (used - sure - maybe) / (size * (size - 1.0))
        }
        Two::Apart(a, b) => {
            let (p, q) = (first.maybe(a), then.maybe(b));
            let extras = match same_round && p * q > 0.0 {
                true => first.extra * (then.extra - 1.0) / (then.cores * (then.cores - 1.0)),
                false => p * q,
            };
            let used = first.sure(a) * (then.sure(b) + q) + p * then.sure(b) + extras;
            used / (a * b) as f64
        }
    }
}

/// How many PUs, and ordered pairs of them, are together, by the sizes of their cores.
#[derive(Default)]
struct Stage {
    single: BTreeMap<usize, f64>,
    siblings: BTreeMap<usize, f64>,
    apart: BTreeMap<(usize, usize), f64>,
}

impl Stage {
    /// Σ of E[m · m'] over the pairs, with each PU and itself.
    fn expected(&self, first: &Fill, then: &Fill) -> f64 {
        let single = self.single.iter().map(|(&size, count)| (Two::One(size), count));
        let siblings = self.siblings.iter().map(|(&size, count)| (Two::Siblings(size), count));
        let apart = self.apart.iter().map(|(&(a, b), count)| (Two::Apart(a, b), count));
        let all = single.chain(siblings).chain(apart).filter(|(_, count)| **count > 0.0);
        all.map(|(two, count)| count * product(first, then, two)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::Topology;
    use types::CommMatrix;

    fn machine(text: &str) -> Hierarchy {
        Hierarchy::new(&Topology::from_synthetic(text).unwrap())
    }

    fn all_to_all(threads: usize) -> Tasks {
        let weight = vec![1000.0; threads * threads];
        Tasks::from_weights(threads, weight)
    }

    fn found(text: &str, tasks: &Tasks) -> Vec<(String, f64)> {
        let shares = shares_by_chance(&machine(text), tasks);
        shares.into_iter().map(|share| (share.level, share.share)).collect()
    }

    fn is(found: &[(String, f64)], expected: &[(&str, f64)]) {
        let same = |(a, b): (&(String, f64), &(&str, f64))| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12;
        let same = found.len() == expected.len() && found.iter().zip(expected).all(same);
        assert!(same, "{found:?} {expected:?}");
    }

    #[test]
    fn no_pu_is_idle_while_another_has_two() {
        // 3 and 2 threads on 2 PUs: 3 + 1 of 10 pairs share one.
        let five = all_to_all(5);
        is(&found("core:2 pu:1", &five), &[("on one PU", 0.4), ("between cores", 0.6)]);
        // One of four PUs has two.
        is(
            &found("pack:2 core:2 pu:1", &five),
            &[("on one PU", 0.1), ("between cores", 0.3), ("between packages", 0.6)],
        );
        // No two of three threads share a core; one of five does, whichever PU it has.
        is(
            &found("pack:2 core:2 pu:2", &all_to_all(3)),
            &[
                ("between SMT siblings", 0.0),
                ("between cores", 2.0 / 6.0),
                ("between packages", 4.0 / 6.0),
            ],
        );
        is(
            &found("pack:2 core:2 pu:2", &five),
            &[("between SMT siblings", 0.1), ("between cores", 0.3), ("between packages", 0.6)],
        );
        // 8 PUs for 8 threads: 4 + 8 + 16 of 28 pairs.
        is(
            &found("pack:2 core:2 pu:2", &all_to_all(8)),
            &[
                ("between SMT siblings", 4.0 / 28.0),
                ("between cores", 8.0 / 28.0),
                ("between packages", 16.0 / 28.0),
            ],
        );
        is(&found("core:1 pu:1", &all_to_all(1)), &[]);
    }

    /// Four workers in two pairs have a core each, whatever an idle thread does.
    #[test]
    fn idle_threads_claim_nothing() {
        let mut matrix = CommMatrix::new(5);
        let mut add = |a, b, n| matrix.add(types::ThreadId(a), types::ThreadId(b), n);
        add(1, 2, 500);
        add(3, 4, 500);
        let tasks = |matrix: &CommMatrix| Tasks::from(matrix).with_work(&[5, 900, 900, 900, 900]);
        let machine = "pack:2 core:2 pu:1";
        let apart = [("between cores", 1.0 / 3.0), ("between packages", 2.0 / 3.0)];
        is(&found(machine, &tasks(&matrix)), &apart);
        // What is idle but communicates is beside any of the four.
        matrix.add(types::ThreadId(0), types::ThreadId(1), 1000);
        let [cores, packages] = apart.map(|level| level.1 / 2.0);
        is(
            &found(machine, &tasks(&matrix)),
            &[
                ("on one PU", 0.125),
                ("between cores", cores + 0.125),
                ("between packages", packages + 0.25),
            ],
        );
    }

    /// The closed form is the mean of what is drawn, with idle threads and cores of several sizes.
    #[test]
    fn the_closed_form_agrees_with_sampling() {
        let hybrid = Topology::from_xml_str(include_str!("../../../tests/machines/hybrid.xml"));
        let hybrid = Hierarchy::new(&hybrid.unwrap());
        let smt = machine("pack:2 core:3 pu:2");
        for hierarchy in [&hybrid, &smt] {
            for (threads, idle) in [(4, 1), (9, 2), (11, 3), (15, 3), (17, 0), (29, 9)] {
                let work: Vec<u64> = (0..threads).map(|t| if t < idle { 1 } else { 900 }).collect();
                let events = |a: usize, b: usize| ((a * b + a + b) % 7 + 1) as f64;
                let weight = (0..threads * threads).map(|i| events(i / threads, i % threads));
                let tasks = Tasks::from_weights(threads, weight.collect()).with_work(&work);
                let chance = Chance::new(hierarchy, Claims::of(&tasks), Spread::Cores);
                let expected = chance.events(&tasks);
                let mut mean = vec![0.0; expected.len()];
                let mut rng = Rng::new(7, threads as u64);
                const SAMPLES: usize = 6000;
                for _ in 0..SAMPLES {
                    let pus = draw(hierarchy, &tasks, &mut rng);
                    for a in 0..threads {
                        for b in 0..a {
                            let level = hierarchy.common(pus[a], pus[b]);
                            mean[level] += tasks.weight(a, b) / SAMPLES as f64;
                        }
                    }
                }
                let close = |(a, b): (&f64, &f64)| (a - b).abs() < 0.01 * tasks.total();
                assert!(mean.iter().zip(&expected).all(close), "{threads}: {mean:?} {expected:?}");
                assert!((expected.iter().sum::<f64>() / tasks.total() - 1.0).abs() < 1e-9);
            }
        }
    }
}
