//! Which plan helps which code: latencies by place in the code.

use super::{Scenario, plans, text};
use simulation::TraceEnd;
use std::collections::BTreeMap;
use types::numbers::duration;

/// Most places that are shown.
const MAX_PLACES: usize = 10;

/// The latency of lines from other caches and from memory, by place in the code: one row for each
/// place, one column for each plan. Nothing if no place has a name.
pub fn table(out: &mut String, end: &TraceEnd, scenarios: &[&Scenario]) {
    let places = places(end, scenarios);
    if places.is_empty() {
        return;
    }
    let same_data = scenarios.windows(2).all(|two| two[0].data == two[1].data);
    let plan = |scenario: &&Scenario| {
        let threads = plans::short_name(&scenario.threads);
        if same_data { threads } else { format!("{threads}, {}", scenario.data) }
    };
    let mut head = vec!["latency by code".to_string()];
    head.extend(scenarios.iter().map(plan));
    let row = |(name, ns): &(&str, Vec<f64>)| {
        let mut row = vec![(*name).to_string()];
        row.extend(ns.iter().map(|ns| duration(ns / 1e9)));
        row
    };
    let mut rows: Vec<Vec<String>> = places.iter().take(MAX_PLACES).map(row).collect();
    if let Some(rest) = places.get(MAX_PLACES..).filter(|rest| !rest.is_empty()) {
        let name = format!("{} other places", rest.len());
        let sum = |plan: usize| rest.iter().map(|(_, ns)| ns[plan]).sum();
        rows.push(row(&(&name, (0..scenarios.len()).map(sum).collect())));
    }
    out.push('\n');
    text::table(out, &head, &rows, 1);
}

/// Latencies under each plan, ns; first the place where one of them is the longest.
fn places<'a>(end: &'a TraceEnd, scenarios: &[&Scenario]) -> Vec<(&'a str, Vec<f64>)> {
    let mut by_name: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (plan, scenario) in scenarios.iter().enumerate() {
        for (site, counts) in &scenario.outcome.sites {
            let Some(name) = end.site(*site) else { continue };
            let ns = by_name.entry(name).or_insert_with(|| vec![0.0; scenarios.len()]);
            ns[plan] += counts.latency_ns;
        }
    }
    let mut places: Vec<_> = by_name.into_iter().collect();
    let longest = |ns: &[f64]| ns.iter().copied().fold(0.0, f64::max);
    places.sort_by(|a, b| longest(&b.1).total_cmp(&longest(&a.1)));
    places
}
