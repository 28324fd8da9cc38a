//! Joint plans: never worse than pairs of policies, deterministic, bounded, and sensible.

mod support;

use placement::{
    DataPolicy, Effort, JointPlan, JointRequest, PlanData, PolicyKind, Request, RestOfMemory,
    place, plan_jointly,
};
use support::Machine;
use support::kernels::{self, Kernel};
use topology::DataNodes;

const MACHINES: [&str; 5] = [
    "altra-2s.synthetic",
    "broadwell-2s.synthetic",
    "epyc-7763-nps4.synthetic",
    "nehalem-ex-4s.synthetic",
    "sapphire-rapids-snc4.synthetic",
];

fn request(data: DataPolicy) -> JointRequest {
    JointRequest { policy: None, data, seed: 0, effort: Effort::Fast, jobs: 1 }
}

fn plan(machine: &Machine, kernel: &Kernel, request: &JointRequest) -> JointPlan {
    plan_jointly(&kernel.tasks, &kernel.usage, &machine.topology, &machine.costs, request).unwrap()
}

fn auto(machine: &Machine, kernel: &Kernel) -> JointPlan {
    plan(machine, kernel, &request(DataPolicy::Auto))
}

/// The node of each thread.
fn nodes_of(machine: &Machine, plan: &JointPlan) -> Vec<usize> {
    let nodes = DataNodes::new(&machine.topology, &machine.costs);
    plan.pu_logical.iter().map(|&pu| nodes.nearest[nodes.home[pu as usize]]).collect()
}

#[test]
fn no_pair_of_policies_is_cheaper_and_none_undercuts_the_bound() {
    for name in MACHINES {
        let machine = Machine::file(name);
        for threads in [8, 20] {
            for kernel in kernels::all(threads) {
                let plan = auto(&machine, &kernel);
                let cost = plan.cost.total();
                let what = format!("{} of {threads} on {name}", kernel.name);
                assert!(plan.pairs.len() >= DataPolicy::FIXED.len(), "{what}");
                for pair in &plan.pairs {
                    assert!(cost <= pair.cost.total(), "{what}: {pair:?} against {cost}");
                    assert!(plan.bound <= pair.cost.total() * (1.0 + 1e-9), "{what}: {pair:?}");
                }
                assert!(plan.bound <= cost && plan.bound > 0.0, "{what}: {} {cost}", plan.bound);
                assert_eq!(plan, auto(&machine, &kernel), "{what}");
            }
        }
    }
}

/// What threads alone cannot mend: all pages lie where the master touched them.
#[test]
fn pages_of_the_master_go_to_who_uses_them() {
    let machine = Machine::file("nehalem-ex-4s.synthetic");
    let kernel = kernels::by_master(16);
    let plan = auto(&machine, &kernel);
    assert!(plan.quality.local > 0.99, "{:?}", plan.quality);
    assert!(plan.quality.balance < 1.0, "{:?}", plan.quality);
    let first = plan.best_of_each().into_iter().find(|p| p.data == DataPolicy::FirstTouch).unwrap();
    assert!(plan.cost.total() < 0.8 * first.cost.total(), "{:?} {first:?}", plan.cost);
    // The plan names ranges of the table, in whole blocks.
    let data = PlanData::new(&plan, &kernel.usage, &machine.topology, &machine.costs);
    assert_eq!(data.objects.len(), 1);
    assert_eq!(data.objects[0].identity.name, "table");
    let nodes = nodes_of(&machine, &plan);
    for range in &data.objects[0].ranges {
        for page in (range.offset..range.offset + range.bytes).step_by(4096) {
            let thread = (page / 4096 / 8) as usize;
            assert_eq!(range.node, Some(nodes[thread] as u32), "{range:?} {nodes:?}");
        }
    }
}

#[test]
fn what_all_use_is_spread_over_the_controllers() {
    let machine = Machine::file("broadwell-2s.synthetic");
    let kernel = kernels::all_to_all(28);
    let plan = auto(&machine, &kernel);
    assert!(plan.quality.balance < 5.0, "{:?}", plan.quality);
    let data = PlanData::new(&plan, &kernel.usage, &machine.topology, &machine.costs);
    let ranges = data.objects.iter().map(|object| object.ranges.len()).sum::<usize>();
    assert!(ranges < kernel.usage.pages.len() / 4, "{ranges} ranges");
}

/// By amount, threads 0 to 3 and 4 to 7 could share a node each; but those that work at the same
/// time would share a controller.
#[test]
fn phases_count_by_stretch() {
    let machine = Machine::new("pack:2 numa:1 core:8 pu:1", "latency");
    let kernel = kernels::phases(8);
    let plan = auto(&machine, &kernel);
    let nodes = nodes_of(&machine, &plan);
    let first: usize = nodes[..4].iter().sum();
    assert_eq!(first, 2, "{nodes:?}");
}

#[test]
fn given_policies_are_kept() {
    let machine = Machine::file("nehalem-ex-4s.synthetic");
    let kernel = kernels::stencil(16);
    for data in DataPolicy::FIXED {
        let found = plan(&machine, &kernel, &request(*data));
        assert_eq!((found.data, found.policy), (*data, Some(PolicyKind::Locality)));
        let same = found.pairs.iter().find(|pair| pair.data == *data).unwrap();
        assert_eq!(same.cost, found.cost);
        assert!(found.bound <= found.cost.total());
    }
    let scatter = JointRequest { policy: Some(PolicyKind::Scatter), ..request(DataPolicy::Auto) };
    let found = plan(&machine, &kernel, &scatter);
    let threads = machine.place(&types::CommMatrix::new(16), PolicyKind::Scatter, 0);
    assert_eq!(found.pu_logical, threads.pu_logical);
    let least = found.pairs.iter().map(|p| p.cost.total()).fold(f64::INFINITY, f64::min);
    assert!(found.cost.total() <= least && found.bound <= found.cost.total());
}

/// Memory that no run can recognise is never given to a node by parts.
#[test]
fn what_cannot_be_named_follows_the_operating_system() {
    for name in MACHINES {
        let machine = Machine::file(name);
        let kernel = kernels::unnamed(16);
        let plan = auto(&machine, &kernel);
        let rest: Vec<_> = plan.pages[..16].to_vec();
        assert!(rest.iter().all(|spot| *spot == rest[0]), "{name}: {rest:?}");
        let data = PlanData::new(&plan, &kernel.usage, &machine.topology, &machine.costs);
        assert!(data.objects.iter().all(|object| object.identity.name == "known"));
        assert!((data.rest_share - 0.5).abs() < 1e-9);
        let interleaved = plan_jointly(
            &kernel.tasks,
            &kernel.usage,
            &machine.topology,
            &machine.costs,
            &request(DataPolicy::Interleave),
        );
        let data =
            PlanData::new(&interleaved.unwrap(), &kernel.usage, &machine.topology, &machine.costs);
        assert_eq!((data.rest, data.objects.len()), (RestOfMemory::Interleave, 0));
    }
}

/// Eight pages for each of four threads, by who touches each first; bytes and ranges that the plan
/// lists.
fn listed(touched_by: impl Fn(usize) -> usize) -> (u64, usize) {
    let machine = Machine::new("pack:2 numa:1 core:2 pu:1", "latency");
    let mut make = kernels::Maker::new(4);
    make.object("grid (app)");
    for page in 0..32 {
        make.page(touched_by(page), &[(page / 8, 4000)], 0..kernels::STRETCHES);
    }
    make.talk(0, 1, 5000);
    make.talk(2, 3, 5000);
    let kernel = make.finish("grid");
    let plan = auto(&machine, &kernel);
    let data = PlanData::new(&plan, &kernel.usage, &machine.topology, &machine.costs);
    let nodes = nodes_of(&machine, &plan);
    let ranges: Vec<_> = data.objects.iter().flat_map(|object| &object.ranges).collect();
    for range in &ranges {
        for page in (range.offset..range.offset + range.bytes).step_by(4096) {
            let thread = (page / 4096 / 8) as usize;
            assert_eq!(range.node, Some(nodes[thread] as u32), "{range:?} {nodes:?}");
        }
    }
    (ranges.iter().map(|range| range.bytes).sum(), ranges.len())
}

/// Pages that lay right by chance, as in a loop with dynamic schedule, lie anywhere in another run.
#[test]
fn an_object_is_listed_as_a_whole() {
    let whole = (32 * 4096, 2);
    assert_eq!(listed(|page| 1 + page * 7 % 3), whole);
    // One page is enough.
    assert_eq!(listed(|page| if page == 30 { 1 } else { page / 8 }), whole);
    // The initial thread may run anywhere when it fills what others use.
    assert_eq!(listed(|_| 0), whole);
    // Each thread touches its own part.
    assert_eq!(listed(|page| page / 8), (0, 0));
}

/// Rows that lay right by chance are listed with the others; each thread's own blocks are not.
#[test]
fn blocks_by_chance_are_all_listed() {
    let machine = Machine::new("pack:2 numa:1 core:2 pu:1", "latency");
    let entries = |touched_by: fn(usize) -> usize| {
        let mut make = kernels::Maker::new(4);
        make.object("rows");
        (0..16).for_each(|row| make.page(touched_by(row), &[(row / 4, 4000)], 0..4));
        make.talk(0, 1, 5000);
        make.talk(2, 3, 5000);
        let mut kernel = make.finish("rows");
        let identity = &mut kernel.usage.objects[0].identity;
        (identity.region, identity.code) = ("heap".into(), "app+0x10".into());
        for (row, page) in (0..).zip(&mut kernel.usage.pages) {
            (page.ordinal, page.offset) = (row, 0);
        }
        let plan = auto(&machine, &kernel);
        let data = PlanData::new(&plan, &kernel.usage, &machine.topology, &machine.costs);
        data.objects.len()
    };
    assert_eq!(entries(|row| row * 7 % 4), 16);
    assert_eq!(entries(|row| row / 4), 0);
    // One of them is another thread's.
    assert_eq!(entries(|row| if row == 2 { 3 } else { row / 4 }), 1);
}

/// Threads that are spread for bandwidth cost more communication, but less than by chance in all.
#[test]
fn all_costs_count_against_the_operating_system() {
    let machine = Machine::new("pack:2 numa:1 core:4 pu:1", "latency");
    let mut make = kernels::Maker::new(4);
    make.object("parts (app)");
    for thread in 0..4 {
        (0..8).for_each(|_| make.page(thread, &[(thread, 40_000)], 0..kernels::STRETCHES));
        (0..thread).for_each(|other| make.talk(thread, other, 5000));
    }
    let kernel = make.finish("parts");
    let plan = auto(&machine, &kernel);
    let nodes = nodes_of(&machine, &plan);
    assert_eq!(nodes.iter().sum::<usize>(), 2, "{nodes:?}");
    let chance = machine_chance(&machine, &kernel);
    assert!((plan.unplaced.communication / chance - 1.0).abs() < 1e-12);
    assert!(plan.cost.communication > chance, "{:?} {chance}", plan.cost);
    assert!(plan.cost.total() < plan.unplaced.total(), "{:?} {:?}", plan.cost, plan.unplaced);
    // By chance, a node has three of them or more in 34 of 70 cases.
    let spread = plan.cost.controllers;
    assert!(plan.unplaced.controllers > 1.05 * spread, "{:?} {spread}", plan.unplaced);
    // Each page is beside the thread that touches it first, wherever that is.
    assert!((plan.unplaced.memory / plan.cost.memory - 1.0).abs() < 1e-9);
    let data = PlanData::new(&plan, &kernel.usage, &machine.topology, &machine.costs);
    assert_eq!(data.unplaced.unwrap().total, plan.unplaced.total());
}

/// What communication costs by chance.
fn machine_chance(machine: &Machine, kernel: &Kernel) -> f64 {
    let request = Request::new(PolicyKind::Locality);
    let placed = place(&kernel.tasks, &machine.topology, &machine.costs, &request);
    placed.unwrap().baselines.os
}

/// With one node every policy is the same, and nothing is said about pages.
#[test]
fn one_node_leaves_nothing_to_decide() {
    let machine = Machine::new("core:8 pu:1", "latency");
    let kernel = kernels::stencil(8);
    let plan = auto(&machine, &kernel);
    let costs: Vec<f64> = plan.best_of_each().iter().map(|p| p.cost.total()).collect();
    assert!(costs.iter().all(|cost| (cost - costs[0]).abs() < costs[0] * 1e-9), "{costs:?}");
    let data = PlanData::new(&plan, &kernel.usage, &machine.topology, &machine.costs);
    assert!(data.objects.is_empty());
    assert_eq!(plan.quality.local, 1.0);
}

/// Working sets that fit together are kept together: what threads share counts once.
#[test]
fn sharers_fit_one_cache() {
    let machine = Machine::new("pack:2 numa:1 l3:1(size=16MiB) core:4 pu:1", "latency");
    let mut kernel = kernels::private(4);
    let set =
        |threads: &[u32]| placement::WorkingSet { threads: threads.to_vec(), bytes: 12 << 20 };
    kernel.usage.working = vec![set(&[0, 1]), set(&[2, 3])];
    let mut make = kernels::Maker::new(4);
    make.talk(0, 2, 1);
    kernel.tasks = make.finish("").tasks;
    let nodes = nodes_of(&machine, &auto(&machine, &kernel));
    assert_eq!((nodes[0] == nodes[1], nodes[2] == nodes[3]), (true, true), "{nodes:?}");
    assert_ne!(nodes[0], nodes[2]);
}
