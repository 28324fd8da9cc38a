//! Diener's thesis, 5.1: local and remote threads and data on the machine of table 5.1.
//!
//! The kernel has SP's pattern, not its arithmetic: a cube of doubles in slabs of planes, one slab
//! a thread; sweeps along x and y stay in a slab, the right-hand side reads the planes beside it,
//! and the sweep along z is split along y, so that every thread passes through all slabs.

use placement::{PagePolicyKind, PageUse, map_pages};
use simulation::{
    Access, Job, Machine, Options, Outcome, Pages, Rule, ThreadFacts, Usage, What, simulate,
};
use std::sync::Arc;
use topology::Topology;

const THREADS: u64 = 8;
/// Cells along each side.
const SIDE: u64 = 40;
const FIELDS: u64 = 5;
const STEPS: u64 = 3;
/// Bytes of one field.
const FIELD: u64 = SIDE * SIDE * SIDE * 8;

/// Table 5.1: 4 processors of 2 cores, a node each; a ring of 32 cycles a hop, NUMA factor 3.
fn machine() -> Machine {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/sinuca-table-5.1.xml");
    let topology = Topology::from_xml_file(path.as_ref()).unwrap();
    Machine::new(&topology, "table 5.1").unwrap()
}

fn cell(field: u64, x: u64, y: u64, z: u64) -> u64 {
    (1 << 30) + field * FIELD + ((z * SIDE + y) * SIDE + x) * 8
}

/// The accesses of all threads; each phase of a step ends at a barrier, which is a counter.
fn sp() -> Vec<Access> {
    let mut all = Vec::new();
    let mut phase = 0;
    for step in 0..STEPS {
        for kind in 0..4 {
            let lists: Vec<Vec<Access>> = (0..THREADS).map(|t| work(t, kind, step)).collect();
            // As if all ran at the same pace.
            let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
            for k in 0..longest {
                all.extend(lists.iter().filter_map(|list| list.get(k)));
            }
            phase += 1;
            all.extend((0..THREADS).flat_map(|t| arrive(t, phase)));
            all.extend((0..THREADS).map(|t| leave(t, phase)));
        }
    }
    all
}

fn arrive(thread: u64, phase: u64) -> [Access; 2] {
    let address = (1 << 20) + phase * 64;
    [(What::Read, 1), (What::Write, 2)]
        .map(|(what, site)| Access::new(thread as u32, what, address, 8, site))
}

fn leave(thread: u64, phase: u64) -> Access {
    Access { site: 3, ..arrive(thread, phase)[0] }
}

/// What a thread does in a phase.
fn work(thread: u64, kind: u64, step: u64) -> Vec<Access> {
    let slab = SIDE / THREADS;
    let own = thread * slab..(thread + 1) * slab;
    let mut list = Vec::new();
    let mut access = |what, field, (x, y, z): (u64, u64, u64), site: u64| {
        let address = cell(field, x, y, z);
        list.push(Access::new(thread as u32, what, address, 8, 10 + site as u32));
    };
    let (read, write) = (What::Read, What::Write);
    let field = |k: u64| k % FIELDS;
    for outer in own {
        for middle in 0..SIDE {
            for inner in 0..SIDE {
                match kind {
                    0 => {
                        // The right-hand side: the planes beside, too.
                        let (x, y, z) = (inner, middle, outer);
                        access(read, 0, (x, y, z.saturating_sub(1)), 0);
                        access(read, 0, (x, y, z), 1);
                        access(read, 0, (x, y, (z + 1).min(SIDE - 1)), 2);
                        access(write, 1, (x, y, z), 3);
                    }
                    1 | 2 => {
                        // Along x, and along y.
                        let place =
                            if kind == 1 { (inner, middle, outer) } else { (middle, inner, outer) };
                        (1..3).for_each(|f| access(read, field(f), place, 4 * kind + f));
                        (2..4)
                            .for_each(|f| access(write, field(f + step), place, 4 * kind + f + 2));
                    }
                    _ => {
                        // Along z: split along y.
                        access(read, 1, (middle, outer, inner), 20);
                        access(write, 4, (middle, outer, inner), 21);
                    }
                }
            }
        }
    }
    list
}

fn times(prefetch: bool) -> [Outcome; 4] {
    let machine = machine();
    assert_eq!((machine.pus.len(), machine.nodes.len()), (8, 4));
    let stream = sp();
    let usage = Usage::of(&mut stream.iter().copied(), 64, 0).unwrap();
    // Neighbours share an L2; or the halves of each pair are as far apart as they can be.
    let local: Vec<usize> = (0..8).collect();
    let remote = vec![0, 4, 2, 6, 5, 1, 7, 3];
    let pages = |pus: &[usize], kind| {
        let nodes: Vec<usize> = pus.iter().map(|&pu| machine.pus[pu].node).collect();
        let list = usage.pages();
        let by_thread = PageUse::by_thread(4, &nodes, &list).unwrap();
        let node = map_pages(&by_thread, kind);
        let planned = node.into_iter().map(|node| Some(node as u16));
        Pages::planned(Arc::new(planned.collect()), Rule::FirstTouch)
    };
    let jobs: Vec<Job<'_>> = [
        (&remote, PagePolicyKind::Remote),
        (&remote, PagePolicyKind::Locality),
        (&local, PagePolicyKind::Remote),
        (&local, PagePolicyKind::Locality),
    ]
    .into_iter()
    .map(|(pus, kind)| Job { machine: &machine, pus: pus.clone(), pages: pages(pus, kind) })
    .collect();
    let facts =
        vec![ThreadFacts { instructions_per_access: Some(3.0), ..ThreadFacts::default() }; 8];
    let options = Options { prefetch, ..Options::default() };
    let outcomes = simulate(&mut stream.iter().copied(), &facts, &jobs, options, 2).unwrap();
    outcomes.try_into().expect("four")
}

#[test]
fn local_threads_and_data_are_ordered_as_in_figure_5_1() {
    for prefetch in [true, false] {
        let outcomes = times(prefetch);
        let [worst, data, threads, both] = outcomes.each_ref().map(|o| o.total.time_ns);
        let gain = |time: f64| 100.0 * (worst / time - 1.0);
        let [data, threads, both] = [data, threads, both].map(gain);
        println!("prefetch {prefetch}: data {data:.1} %, threads {threads:.1} %, both {both:.1} %");
        assert!(data > threads, "data alone does more than threads alone: {data} {threads}");
        assert!(threads > 0.0);
        assert!(both > data + threads, "both do more than the sum: {both} {data} {threads}");
        let joules = outcomes.each_ref().map(|o| o.energy.total());
        assert!(joules[3] < joules[1] && joules[3] < joules[2] && joules[3] < joules[0]);
        // The same accesses, wherever threads and data are.
        assert!(outcomes.iter().all(|o| o.total.accesses == outcomes[0].total.accesses));
    }
}
