//! Invented results of a simulation.

use report::{
    SimulatedLink, SimulatedMachine, SimulatedPlan, SimulatedServed, SimulatedStall,
    SimulatedValue, SimulationPage, simulation_page,
};

/// Parts of the accesses, in this order.
const PLACES: [&str; 5] = ["L1", "L2", "other caches", "local memory", "remote memory"];

/// Three plans on a ring of nodes 0, 2, 1, 3.
pub fn page() -> String {
    let plans = vec![
        plan("scatter", "first-touch", (200e6, 5e6), [0.9, 0.04, 0.02, 0.01, 0.03], 0.6),
        plan("locality", "first-touch", (150e6, 4e6), [0.9, 0.06, 0.01, 0.01, 0.02], 0.3),
        plan("plan.json", "as planned", (147e6, 4e6), [0.9, 0.06, 0.01, 0.03, 0.0], 0.1),
    ];
    let latency = |name: &str, ms: [f64; 3]| SimulatedStall {
        name: name.into(),
        ns: ms.map(|ms| ms * 1e6).to_vec(),
    };
    let machine = SimulatedMachine {
        name: "ring.xml".into(),
        description: "4 packages, 8 cores, 8 PUs".into(),
        nodes: vec![0, 1, 2, 3],
        network: "ring".into(),
        plans,
        code: vec![latency("solve at solve.c:40", [90.0, 60.0, 58.0])],
        data: (0..20).map(|k| latency(&format!("static grid{k} (app)"), [3.0, 2.0, 1.0])).collect(),
    };
    simulation_page(&SimulationPage {
        command: vec!["./app".into(), "<8>".into()],
        accesses: 123_456_789,
        threads: 8,
        notes: vec!["Times and energies are means of 5 interleavings.".into()],
        machines: vec![machine],
    })
}

fn plan(
    threads: &str,
    data: &str,
    (time, half): (f64, f64),
    shares: [f64; 5],
    load: f64,
) -> SimulatedPlan {
    let served = |(place, share): (&str, f64)| SimulatedServed { place: place.into(), share };
    let ring = [(0, 2), (2, 1), (1, 3), (3, 0)];
    let link = |(from, to)| SimulatedLink { from, to, busy: load / f64::from(1 + from) };
    let both = |(from, to)| [(from, to), (to, from)];
    SimulatedPlan {
        threads: threads.into(),
        data: data.into(),
        time_ns: SimulatedValue { value: time, half: Some(half) },
        joules: SimulatedValue { value: time * 1e-7, half: Some(0.1) },
        served: PLACES.into_iter().zip(shares).map(served).collect(),
        controllers: vec![load, load / 2.0, load / 3.0, 0.0],
        links: ring.into_iter().flat_map(both).map(link).collect(),
    }
}
