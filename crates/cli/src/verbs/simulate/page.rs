//! The result as a page.

use super::{OnMachine, Results, Scenario, helped, plans};
use report::{
    SimulatedLink, SimulatedMachine, SimulatedPlan, SimulatedServed, SimulatedStall,
    SimulatedValue, SimulationPage,
};
use simulation::Interval;

/// Most rows by code and by object.
const MAX_ROWS: usize = 40;

/// Everything that the page shows.
pub fn page(results: &Results) -> SimulationPage {
    let of = |(index, on): (usize, &OnMachine)| {
        let scenarios: Vec<&Scenario> =
            results.scenarios.iter().filter(|scenario| scenario.machine == index).collect();
        machine(results, on, &scenarios)
    };
    SimulationPage {
        command: results.end.command.clone(),
        accesses: results.simulated(),
        threads: results.scenarios.first().map_or(0, |scenario| scenario.pus.len() as u32),
        notes: results.notes.clone(),
        machines: results.machines.iter().enumerate().map(of).collect(),
    }
}

fn machine(results: &Results, on: &OnMachine, scenarios: &[&Scenario]) -> SimulatedMachine {
    let network = scenarios.first().map_or("", |scenario| scenario.outcome.shape);
    SimulatedMachine {
        name: on.machine.name.trim_matches('\'').into(),
        description: on.topology.describe(),
        nodes: on.machine.nodes.clone(),
        network: network.into(),
        plans: scenarios.iter().map(|scenario| plan(scenario, on)).collect(),
        code: stalls(helped::by_code(results, scenarios)),
        data: stalls(helped::by_object(results, scenarios)),
    }
}

fn plan(scenario: &Scenario, on: &OnMachine) -> SimulatedPlan {
    let outcome = &scenario.outcome;
    let value = |single: f64, repeated: Option<Interval>| SimulatedValue {
        value: repeated.map_or(single, |interval| interval.mean),
        half: repeated.map(|interval| interval.half),
    };
    let link = |(from, to, load): &(usize, usize, simulation::Load)| SimulatedLink {
        from: *from as u32,
        to: *to as u32,
        busy: load.busy,
    };
    SimulatedPlan {
        threads: plans::short_name(&scenario.threads),
        data: scenario.data.clone(),
        time_ns: value(outcome.total.time_ns, outcome.spread.map(|spread| spread.time_ns)),
        joules: value(outcome.energy.total(), outcome.spread.map(|spread| spread.joules)),
        served: served(scenario, on),
        controllers: outcome.controllers.iter().map(|load| load.busy).collect(),
        links: outcome.links.iter().map(link).collect(),
    }
}

fn served(scenario: &Scenario, on: &OnMachine) -> Vec<SimulatedServed> {
    let total = &scenario.outcome.total;
    let levels = 1..=on.machine.cache_levels();
    let mut counts: Vec<(String, u64)> =
        levels.map(|level| (format!("L{level}"), total.hits[usize::from(level)])).collect();
    counts.push(("other caches".into(), total.transferred()));
    if on.machine.nodes.len() > 1 {
        counts.push(("local memory".into(), total.local));
        counts.push(("remote memory".into(), total.remote()));
    } else {
        counts.push(("memory".into(), total.local));
    }
    let touched = total.touched.max(1) as f64;
    let share =
        |(place, count): (String, u64)| SimulatedServed { place, share: count as f64 / touched };
    counts.into_iter().map(share).collect()
}

fn stalls(named: helped::Named) -> Vec<SimulatedStall> {
    let row = |(name, fetched): (String, Vec<simulation::Fetched>)| SimulatedStall {
        name,
        ns: fetched.iter().map(|fetched| fetched.stalled_ns).collect(),
    };
    named.into_iter().take(MAX_ROWS).map(row).collect()
}
