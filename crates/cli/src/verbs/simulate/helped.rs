//! Which plan helps which code and which data: what threads wait for caches and memory, by place in
//! the code and by object.

use super::{Results, Scenario, plans, text};
use placement::DataIdentity;
use simulation::Fetched;
use std::collections::BTreeMap;
use types::numbers::fine_duration;

/// Most rows that are shown.
const MAX_ROWS: usize = 10;

/// What was fetched under each plan, by name.
pub type Named = Vec<(String, Vec<Fetched>)>;

/// How long threads stand still for caches and memory: a table by place in the code, and one by
/// object, each with a row for each of them and a column for each plan. Nothing of what has no
/// name.
pub fn tables(out: &mut String, results: &Results, scenarios: &[&Scenario]) {
    table(out, ("code", "places"), &by_code(results, scenarios), scenarios);
    table(out, ("data", "objects"), &by_object(results, scenarios), scenarios);
}

fn table(out: &mut String, (what, others): (&str, &str), named: &Named, scenarios: &[&Scenario]) {
    if named.is_empty() {
        return;
    }
    let mut head = vec![format!("stalled by {what}")];
    head.extend(plans::short_names(scenarios));
    let row = |(name, fetched): &(String, Vec<Fetched>)| {
        let mut row = vec![name.clone()];
        row.extend(fetched.iter().map(|fetched| fine_duration(fetched.stalled_ns / 1e9)));
        row
    };
    let mut rows: Vec<Vec<String>> = named.iter().take(MAX_ROWS).map(row).collect();
    if let Some(rest) = named.get(MAX_ROWS..).filter(|rest| !rest.is_empty()) {
        let mut sums = vec![Fetched::default(); scenarios.len()];
        for (_, fetched) in rest {
            sums.iter_mut().zip(fetched).for_each(|(sum, fetched)| sum.add(fetched));
        }
        rows.push(row(&(format!("{} other {others}", rest.len()), sums)));
    }
    out.push('\n');
    text::table(out, &head, &rows, 1);
}

/// By place in the code; first the place where threads stand still longest under a plan.
pub fn by_code(results: &Results, scenarios: &[&Scenario]) -> Named {
    named(scenarios, |scenario, note| {
        for (site, fetched) in &scenario.outcome.sites {
            if let Some(name) = results.end.site(*site) {
                note(name, fetched);
            }
        }
    })
}

/// The same by object.
pub fn by_object(results: &Results, scenarios: &[&Scenario]) -> Named {
    let end = &results.end;
    let objects: Vec<Option<usize>> =
        results.pages.iter().map(|page| Some(end.object(*page)?.0)).collect();
    let names: Vec<Option<String>> =
        end.objects.iter().map(|object| name(&object.identity)).collect();
    named(scenarios, |scenario, note| {
        let mut sums = vec![Fetched::default(); names.len()];
        for (fetched, object) in scenario.outcome.pages.iter().zip(&objects) {
            if let Some(object) = object {
                sums[*object].add(fetched);
            }
        }
        for (name, sum) in names.iter().zip(&sums) {
            if let Some(name) = name {
                note(name, sum);
            }
        }
    })
}

/// What was fetched of memory whose object is not known, or has no name.
pub fn without_object(results: &Results, scenario: &Scenario) -> Fetched {
    let end = &results.end;
    let mut sum = Fetched::default();
    for (fetched, page) in scenario.outcome.pages.iter().zip(&results.pages) {
        let object = end.object(*page).and_then(|(object, ..)| name(&end.objects[object].identity));
        if object.is_none() {
            sum.add(fetched);
        }
    }
    sum
}

/// Sums by name what `each` notes of a scenario.
fn named(
    scenarios: &[&Scenario],
    each: impl Fn(&Scenario, &mut dyn FnMut(&str, &Fetched)),
) -> Named {
    let mut by_name: BTreeMap<String, Vec<Fetched>> = BTreeMap::new();
    for (plan, scenario) in scenarios.iter().enumerate() {
        each(scenario, &mut |name, fetched| {
            if fetched.lines() == 0 && fetched.stalled_ns == 0.0 {
                return;
            }
            if !by_name.contains_key(name) {
                by_name.insert(name.into(), vec![Fetched::default(); scenarios.len()]);
            }
            if let Some(sums) = by_name.get_mut(name) {
                sums[plan].add(fetched);
            }
        });
    }
    let mut named: Named = by_name.into_iter().collect();
    let longest = |of: &[Fetched]| of.iter().map(|of| of.stalled_ns).fold(0.0, f64::max);
    named.sort_by(|a, b| longest(&b.1).total_cmp(&longest(&a.1)));
    named
}

/// `static grid (app)`, `heap in make at a.c:7`.
pub fn name(identity: &DataIdentity) -> Option<String> {
    let DataIdentity { region, name, .. } = identity;
    match (region.is_empty(), name.is_empty()) {
        (true, true) => None,
        (_, true) => Some(region.clone()),
        // Its name says so: `stack of T3`.
        _ if name.starts_with(region.as_str()) => Some(name.clone()),
        _ => Some(format!("{region} {name}").trim_start().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_with_their_region_once() {
        let named = |region: &str, called: &str| {
            name(&DataIdentity {
                region: region.into(),
                name: called.into(),
                ..DataIdentity::default()
            })
        };
        assert_eq!(named("", ""), None);
        assert_eq!(named("heap", "in f at a.c:7").as_deref(), Some("heap in f at a.c:7"));
        assert_eq!(named("stack", "stack of T3").as_deref(), Some("stack of T3"));
        assert_eq!(named("heap", "").as_deref(), Some("heap"));
    }
}
