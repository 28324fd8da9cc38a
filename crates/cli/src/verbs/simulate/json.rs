//! The result as JSON. Counts are of cache lines, times in ns, energies in J.

use super::{OnMachine, Results, Scenario, helped};
use serde_json::{Map, Value, json};
use simulation::{Counts, Fetched, Interval, Load, Margins, Sampled};

/// Version of the format; a changed meaning raises it.
const SIMULATION_VERSION: u32 = 1;

/// Everything.
pub fn json(results: &Results) -> Value {
    let machines: Vec<Value> = results.machines.iter().map(machine).collect();
    let scenarios: Vec<Value> = results
        .scenarios
        .iter()
        .map(|s| scenario(results, s, &results.machines[s.machine]))
        .collect();
    json!({
        "version": SIMULATION_VERSION,
        "command": results.end.command,
        "accesses": results.accesses,
        "accesses_of_run": results.end.windows.then(|| results.end.all_accesses()),
        "cut": results.end.cut,
        "notes": results.notes,
        "machines": machines,
        "scenarios": scenarios,
    })
}

fn machine(on: &OnMachine) -> Value {
    let machine = &on.machine;
    let levels: Vec<Value> = (1..=machine.cache_levels())
        .filter_map(|level| {
            let cache = machine.caches.iter().find(|cache| cache.level == level)?;
            let count = machine.caches.iter().filter(|cache| cache.level == level).count();
            Some(json!({
                "level": level, "count": count, "bytes": cache.bytes, "ways": cache.ways,
                "sets": cache.sets, "hit_ns": cache.hit_ns,
                "filling": format!("{:?}", cache.filling),
            }))
        })
        .collect();
    json!({
        "name": machine.name.trim_matches('\''),
        "description": on.topology.describe(),
        "family": machine.family.name,
        "family_source": machine.family.source,
        "energy_source": machine.energies.source,
        "line_bytes": machine.line_bytes,
        "pus": machine.pus.len(),
        "cores": machine.cores,
        "caches": levels,
        "nodes": machine.nodes,
        "memory_ns": machine.memory_ns,
    })
}

fn scenario(results: &Results, scenario: &Scenario, on: &OnMachine) -> Value {
    let outcome = &scenario.outcome;
    let threads: Vec<Value> = outcome
        .threads
        .iter()
        .enumerate()
        .map(|(thread, of)| {
            let mut value = counts(of, on);
            let pu = &on.machine.pus[scenario.pus[thread]];
            let name = results.end.threads.get(thread).map_or("", |thread| &thread.name);
            value["thread"] = json!(thread);
            value["name"] = json!(name);
            value["pu_logical"] = json!(pu.logical);
            value["waiting_accesses"] = json!(outcome.waiting.get(thread));
            value
        })
        .collect();
    let nodes = &on.machine.nodes;
    let links: Vec<Value> = outcome
        .links
        .iter()
        .map(|(from, to, of)| {
            let mut value = load(of);
            value["from"] = json!(nodes[*from]);
            value["to"] = json!(nodes[*to]);
            value
        })
        .collect();
    let energy = outcome.energy;
    json!({
        "machine": scenario.machine,
        "threads_by": scenario.threads,
        "data_by": scenario.data,
        "interleavings": outcome.spread.map(|spread| spread.interleavings),
        "time_ns": outcome.spread.map(|spread| interval(spread.time_ns)),
        "energy_joules_interval": outcome.spread.map(|spread| interval(spread.joules)),
        "predicted_ns": scenario.predicted_ns,
        "total": counts(&outcome.total, on),
        "margins": outcome.margins.as_ref().map(|of| margins(of, on)),
        "written_back": outcome.written,
        "controllers": outcome.controllers.iter().map(load).collect::<Vec<_>>(),
        "links": links,
        "network": outcome.shape,
        "energy_joules": {
            "total": energy.total(), "instructions": energy.instructions,
            "caches": energy.caches, "memory": energy.memory, "links": energy.links,
            "rest": energy.rest,
        },
        "transfers_between_threads": outcome.matrix.to_dense(),
        "threads": threads,
        "sites": sites(results, scenario),
        "objects": objects(results, scenario),
    })
}

/// A mean, with half the width of its interval at 95 %.
fn interval(of: Interval) -> Value {
    json!({ "mean": of.mean, "half": of.half })
}

/// What was fetched at each code site.
fn sites(results: &Results, scenario: &Scenario) -> Vec<Value> {
    let site = |(site, of): (&u32, &Fetched)| {
        let mut value = fetched(of);
        value["site"] = json!(site);
        value["name"] = json!(results.end.site(*site));
        value
    };
    scenario.outcome.sites.iter().map(site).collect()
}

/// What was fetched of each object that has a name, and last of all memory without one, if any:
/// they add up to all that was fetched.
fn objects(results: &Results, scenario: &Scenario) -> Vec<Value> {
    let object = |(name, of): (Option<String>, &Fetched)| {
        let mut value = fetched(of);
        value["name"] = json!(name);
        value
    };
    let by_object = helped::by_object(results, &[scenario]);
    let named = by_object.iter().map(|(name, fetched)| (Some(name.clone()), &fetched[0]));
    let rest = helped::without_object(results, scenario);
    let rest = (rest.lines() > 0).then_some((None, &rest));
    named.chain(rest).map(object).collect()
}

fn fetched(of: &Fetched) -> Value {
    json!({
        "transfers": of.transfers, "local": of.local, "remote": of.remote,
        "latency_ns": of.latency_ns, "stalled_ns": of.stalled_ns,
    })
}

fn counts(of: &Counts, on: &OnMachine) -> Value {
    let levels = 1..=on.machine.cache_levels();
    let hits: Map<String, Value> =
        levels.map(|level| (format!("L{level}"), json!(of.hits[usize::from(level)]))).collect();
    let transfers: Map<String, Value> = of
        .transfers
        .iter()
        .enumerate()
        .take(on.machine.hierarchy.levels.len())
        .map(|(level, count)| (on.machine.level_name(level), json!(count)))
        .collect();
    json!({
        "accesses": of.accesses, "lines": of.touched, "instructions": of.instructions.round(),
        "hits": hits, "transfers": transfers, "memory_by_node": of.memory,
        "local": of.local, "remote": of.remote(), "upgrades": of.upgrades,
        "invalidations": of.invalidations, "tlb_misses": of.tlb_misses,
        "prefetched": of.ahead, "prefetched_from_memory": of.ahead_memory,
         "prefetched_used": of.ahead_used,
        "time_ns": of.time_ns, "stalled_ns": of.stalled_ns, "waited_ns": of.waited_ns,
    })
}

/// Half the widths of intervals at 95 %.
fn margins(of: &Margins, on: &OnMachine) -> Value {
    let levels = 1..=on.machine.cache_levels();
    let hits: Map<String, Value> =
        levels.map(|level| (format!("L{level}"), json!(of.hits[usize::from(level)]))).collect();
    let mut value = json!({
        "hits": hits, "transfers": of.transfers, "local": of.local, "remote": of.remote,
        "time_ns": of.time_ns,
    });
    match of.sampled {
        Sampled::Sets { classes, of, estimated } => {
            value["sets"] = json!(classes);
            value["of_sets"] = json!(of);
            value["estimated"] = json!(estimated);
        }
        Sampled::Windows { count, part } => {
            value["windows"] = json!(count);
            value["observed"] = json!(part);
        }
    }
    value
}

fn load(of: &Load) -> Value {
    json!({ "bytes": of.bytes, "busy": of.busy, "waited_ns": of.waited_ns })
}
