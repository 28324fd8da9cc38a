//! What must hold for every machine, matrix and number of threads.

mod support;

use placement::{Effort, Placement, PlanLevel, PolicyKind, Request, Tasks, place};
use support::{Machine, lattice, random_matrix, unit_graph};
use topology::{Hierarchy, ObjectKind};
use types::{CommMatrix, ThreadId};

/// Those that place by communication, and what they are compared with.
const POLICIES: [PolicyKind; 6] = [
    PolicyKind::Compact,
    PolicyKind::Scatter,
    PolicyKind::Complace,
    PolicyKind::Eagermap,
    PolicyKind::Treematch,
    PolicyKind::Locality,
];

fn machines() -> Vec<(String, Machine)> {
    let files = [
        "broadwell-2s.synthetic",
        "nehalem-ex-4s.synthetic",
        "epyc-7763-nps4.synthetic",
        "altra-2s.synthetic",
        "sapphire-rapids-snc4.synthetic",
        "hybrid.xml",
        "uneven.xml",
    ];
    let mut machines: Vec<(String, Machine)> =
        files.iter().map(|name| (name.to_string(), Machine::file(name))).collect();
    for small in ["pu:1", "core:2 pu:1", "core:1 pu:2", "pack:2 core:3 pu:2", "pack:3 core:1 pu:1"]
    {
        machines.push((small.into(), Machine::new(small, "latency")));
    }
    machines.push(("restricted".into(), restricted()));
    machines
}

/// Three packages, of which the cpuset leaves 4, 1 and 2 PUs.
fn restricted() -> Machine {
    let whole = Machine::new("pack:3 core:2 pu:2", "latency");
    let xml = whole.topology.to_xml();
    let xml = xml.replace("allowed_cpuset=\"0x00000fff\"", "allowed_cpuset=\"0x0000021f\"");
    let path =
        std::env::temp_dir().join(format!("threadtalk-restricted-{}.xml", std::process::id()));
    std::fs::write(&path, xml).unwrap();
    let machine = Machine::new(path.to_str().unwrap(), "latency");
    let _ = std::fs::remove_file(&path);
    assert_eq!(machine.topology.allowed().to_string(), "0-4,9");
    machine
}

/// Cost by the definition, from nothing but matrix, PUs and levels.
fn cost(machine: &Machine, matrix: &CommMatrix, placement: &Placement) -> f64 {
    let hierarchy = Hierarchy::new(&machine.topology);
    let index = |t: ThreadId| {
        let pu = placement.pu_logical[t.index()];
        hierarchy.pus.iter().position(|&p| p == pu).expect("an allowed PU")
    };
    let events = matrix.iter().map(|(from, to, count)| {
        let level = hierarchy.common(index(from), index(to));
        count as f64 * machine.costs.per_level.get(level).copied().unwrap_or(0.0)
    });
    events.sum()
}

/// What meets at each level, before and after, costs what the placements cost, and is all there is.
fn assert_levels(matrix: &CommMatrix, placement: &Placement, what: &str) {
    let events = (matrix.total() - diagonal(matrix)) as f64;
    let cost = |share: fn(&PlanLevel) -> f64| -> f64 {
        placement.levels.iter().map(|level| events * share(level) * level.cost).sum()
    };
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
    assert!(close(cost(|level| level.after), placement.cost), "{what}: {placement:?}");
    if matrix.threads() > 1 {
        assert!(close(cost(|level| level.before), placement.baselines.os), "{what}: {placement:?}");
        let all: f64 = placement.levels.iter().map(|level| level.before).sum();
        assert!(placement.levels.is_empty() || close(all, 1.0), "{what}: {placement:?}");
    }
    let all: f64 = placement.levels.iter().map(|level| level.after).sum();
    assert!(placement.levels.is_empty() || events == 0.0 || close(all, 1.0), "{what}");
}

fn diagonal(matrix: &CommMatrix) -> u64 {
    matrix.iter().filter(|(from, to, _)| from == to).map(|(_, _, count)| count).sum()
}

fn thread_counts(machine: &Machine) -> Vec<usize> {
    let pus = machine.topology.allowed_pus();
    let cores = Hierarchy::new(&machine.topology).cores();
    let mut counts = vec![1, 2, 3, cores, (cores + pus) / 2, pus, pus + 1];
    if pus <= 64 {
        counts.push(2 * pus + 3);
    }
    counts.retain(|&threads| threads > 0);
    counts.sort();
    counts.dedup();
    counts
}

/// Loads that differ by at most one, and nothing left empty that could be used.
fn assert_even(loads: &[usize], units: usize, threads: usize, what: &str) {
    let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
    assert!(most - least <= 1, "{what}: {loads:?}");
    assert_eq!(loads.len(), units.min(threads), "{what}: {loads:?}");
}

#[test]
fn costs_constraints_and_the_order_of_policies_hold_everywhere() {
    for (name, machine) in machines() {
        let hierarchy = Hierarchy::new(&machine.topology);
        let (cores, pus) = (hierarchy.cores(), hierarchy.pus.len());
        for threads in thread_counts(&machine) {
            let matrix = random_matrix(threads, threads as u64 + 1);
            let what = format!("{name}, {threads} threads");
            let placed = POLICIES.map(|policy| machine.place(&matrix, policy, 1));
            for placement in &placed {
                let expected = cost(&machine, &matrix, placement);
                let tolerance = 1e-9 * expected;
                assert!((placement.cost - expected).abs() <= tolerance, "{what}: {placement:?}");
                assert_levels(&matrix, placement, &what);
                for (&logical, &os) in placement.pu_logical.iter().zip(&placement.pu_os) {
                    assert_eq!(machine.topology.pus[logical as usize].os, os);
                    assert!(machine.topology.pus[logical as usize].allowed, "{what}");
                }
            }
            let [compact, scatter, complace, eagermap, treematch, locality] = &placed;
            assert_eq!(compact.cost, locality.baselines.compact);
            assert_eq!(scatter.cost, locality.baselines.scatter);
            let mut rivals = vec![scatter, complace, eagermap, treematch];
            // Compact is bound by nothing: it stacks SMT siblings while cores are free.
            if threads >= pus || compact.shared_cores == locality.shared_cores {
                rivals.push(compact);
            }
            for rival in rivals {
                assert!(locality.cost <= rival.cost * (1.0 + 1e-12), "{what}: {}", rival.policy);
            }
            for placement in [scatter, complace, eagermap, treematch, locality] {
                let per_core = machine.loads(placement, ObjectKind::Core);
                if threads <= cores {
                    assert_eq!(placement.shared_cores, 0, "{what}: {}", placement.policy);
                }
                if !["hybrid.xml", "uneven.xml", "restricted"].contains(&name.as_str()) {
                    assert_even(&per_core, cores, threads, &what);
                }
                let per_pu = machine.loads(placement, ObjectKind::Pu);
                assert_even(&per_pu, pus, threads, &what);
            }
        }
    }
}

/// Every policy with what it may not expect: no thread communicates, one thread, far more threads
/// than PUs; on machines that lack PUs, forbid them, or have packages of different sizes.
#[test]
fn every_policy_places_everybody_on_odd_machines() {
    let machines =
        [("uneven", Machine::file("uneven.xml")), ("hybrid", Machine::file("hybrid.xml"))];
    for (name, machine) in machines.into_iter().chain([("restricted", restricted())]) {
        let hierarchy = Hierarchy::new(&machine.topology);
        let (cores, pus) = (hierarchy.cores(), hierarchy.pus.len());
        for threads in [1, 2, cores, pus, 2 * pus + 3] {
            for (kind, matrix) in [
                ("silent", CommMatrix::new(threads)),
                ("random", random_matrix(threads, 5)),
                ("alike", unit_graph(threads, &complete(threads), 0)),
            ] {
                for &policy in PolicyKind::ALL.iter().filter(|&&p| p != PolicyKind::Os) {
                    let what = format!("{policy}, {threads} {kind} threads on {name}");
                    let placement = machine.place(&matrix, policy, 3);
                    assert_eq!(placement.pu_logical.len(), threads, "{what}");
                    let allowed = |&pu: &u32| hierarchy.pus.contains(&pu);
                    assert!(placement.pu_logical.iter().all(allowed), "{what}");
                    assert_even(&machine.loads(&placement, ObjectKind::Pu), pus, threads, &what);
                    if threads <= cores && policy != PolicyKind::Compact {
                        assert_eq!(placement.shared_cores, 0, "{what}");
                    }
                    assert!(placement.cost.is_finite(), "{what}");
                    assert_levels(&matrix, &placement, &what);
                }
            }
        }
    }
}

fn complete(threads: usize) -> Vec<(usize, usize)> {
    (0..threads).flat_map(|a| (a + 1..threads).map(move |b| (a, b))).collect()
}

#[test]
fn the_same_seed_gives_the_same_placement() {
    let machine = Machine::file("broadwell-2s.synthetic");
    for threads in [9, 40, 56, 70] {
        let matrix = random_matrix(threads, 3);
        for &policy in PolicyKind::ALL {
            let first = machine.place(&matrix, policy, 7);
            assert_eq!(first, machine.place(&matrix, policy, 7));
        }
    }
}

/// Starts shared among several processors give what one of them gives.
#[test]
fn the_number_of_processors_used_does_not_matter() {
    let machine = Machine::file("epyc-7763-nps4.synthetic");
    for (threads, seed) in [(70, 3), (150, 4)] {
        let tasks = Tasks::from(&random_matrix(threads, seed));
        for effort in [Effort::Fast, Effort::Default] {
            let placed = [1, 2, 5].map(|jobs| {
                let request = Request { seed, effort, jobs, ..Request::new(PolicyKind::Locality) };
                place(&tasks, &machine.topology, &machine.costs, &request).unwrap()
            });
            assert_eq!(placed[0], placed[1], "{threads} threads, {effort}, 2 processors");
            assert_eq!(placed[0], placed[2], "{threads} threads, {effort}, 5 processors");
        }
    }
}

/// Lattices on a machine with as many slots, from shuffled ids: what the fast tier and the default
/// one cost against the best that is known.
#[test]
fn quality_does_not_get_worse() {
    let machine = Machine::new("pack:4 core:8 pu:2", "180,50,10");
    for (size, best) in [([1, 1, 64], 2260.0), ([1, 8, 8], 6400.0), ([4, 4, 4], 10080.0)] {
        for (effort, most) in [(Effort::Fast, 1.10), (Effort::Default, 1.0)] {
            for shuffle in 1..6 {
                let tasks = Tasks::from(&unit_graph(64, &lattice(size), shuffle));
                let request = Request { effort, ..Request::new(PolicyKind::Locality) };
                let found = place(&tasks, &machine.topology, &machine.costs, &request).unwrap();
                let ratio = found.cost / best;
                assert!(ratio >= 1.0, "{size:?} is better than the optimum: {}", found.cost);
                assert!(ratio <= most, "{size:?}, {effort}, shuffle {shuffle}: {ratio}");
            }
        }
    }
}

#[test]
fn directions_add_up_and_the_diagonal_does_not_matter() {
    let machine = Machine::new("pack:2 core:4 pu:1", "180,50");
    let one_way = random_matrix(8, 4);
    let mut both = CommMatrix::new(8);
    for (from, to, count) in one_way.iter() {
        both.add(to, from, count);
        both.add(from, from, 99);
    }
    let place = |matrix: &CommMatrix| machine.place(matrix, PolicyKind::Locality, 0);
    assert_eq!(place(&one_way), place(&both));
}

#[test]
fn threads_that_do_not_talk_are_spread_out() {
    let machine = Machine::new("pack:2 core:4 pu:2", "180,50,10");
    let silent = machine.place(&CommMatrix::new(4), PolicyKind::Locality, 0);
    assert_eq!(silent.cost, 0.0);
    assert_eq!(machine.loads(&silent, ObjectKind::Package), [2, 2]);
    assert_eq!(silent.shared_cores, 0);
    let many = machine.place(&CommMatrix::new(50), PolicyKind::Locality, 0);
    assert_even(&machine.loads(&many, ObjectKind::Pu), 16, 50, "50 silent threads");
    let one = machine.place(&CommMatrix::new(1), PolicyKind::Locality, 0);
    assert_eq!((one.pu_logical.len(), one.cost), (1, 0.0));
}

/// Small problems are solved to optimality: compare with every assignment there is.
#[test]
fn small_problems_reach_the_optimum() {
    let machine = Machine::new("pack:2 l3:2 core:2 pu:1", "100,30,10");
    let hierarchy = Hierarchy::new(&machine.topology);
    for seed in 1..6 {
        for threads in [4, 6, 7] {
            let matrix = random_matrix(threads, seed);
            let weight = matrix.to_symmetric_dense();
            let mut best = f64::INFINITY;
            let mut chosen = Vec::new();
            let mut stack = vec![(0usize, 0.0f64)];
            // Depth first over all injective assignments, by a counter per thread.
            while let Some((next, cost)) = stack.pop() {
                chosen.truncate(stack.len());
                if next == 8 {
                    continue;
                }
                stack.push((next + 1, cost));
                if chosen.contains(&next) || cost >= best {
                    continue;
                }
                let t = chosen.len();
                let price = |(u, &pu): (usize, &usize)| {
                    let level = hierarchy.common(pu, next);
                    weight[t * threads + u] as f64 * machine.costs.per_level[level]
                };
                let cost = cost + chosen.iter().enumerate().map(price).sum::<f64>();
                if t + 1 == threads {
                    best = best.min(cost);
                } else {
                    chosen.push(next);
                    stack.push((0, cost));
                }
            }
            let found = machine.place(&matrix, PolicyKind::Locality, 0).cost;
            assert_eq!(found, best, "seed {seed}, {threads} threads");
        }
    }
}

#[test]
fn huge_counts_and_stars_do_not_break_it() {
    let machine = Machine::new("pack:2 core:4 pu:2", "180,50,10");
    let mut matrix = CommMatrix::new(16);
    (1..16).for_each(|t| matrix.add(ThreadId(0), ThreadId(t), 1 << 48));
    let star = machine.place(&matrix, PolicyKind::Locality, 0);
    // One sibling, six in the package, eight beyond: the same for every placement of a star.
    assert_eq!(star.cost, (1u64 << 48) as f64 * (10.0 + 6.0 * 50.0 + 8.0 * 180.0));
    let complete: Vec<(usize, usize)> =
        (0..16).flat_map(|a| (a + 1..16).map(move |b| (a, b))).collect();
    let all = machine.place(&unit_graph(16, &complete, 0), PolicyKind::Locality, 0);
    assert_eq!(all.cost, all.baselines.compact);
    let ring = machine.place(&unit_graph(24, &lattice([1, 1, 24]), 9), PolicyKind::Locality, 0);
    assert_even(&machine.loads(&ring, ObjectKind::Pu), 16, 24, "24 threads");
}
