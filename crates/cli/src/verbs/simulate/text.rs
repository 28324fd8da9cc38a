//! What people read: a table for each machine, one row for each plan.

use super::{OnMachine, Results, Scenario, helped};
use crate::said::several;
use simulation::{Margins, Outcome};
use std::fmt::Write as _;
use types::numbers::{fine_duration, fine_percent, grouped, short};

/// Everything, as text.
pub fn text(results: &Results) -> String {
    let mut out = String::new();
    let threads = results.scenarios.first().map_or(0, |s| s.pus.len());
    let (simulated, threads) = (grouped(results.simulated()), several(threads, "thread"));
    let _ = match results.end.windows {
        false => writeln!(out, "{simulated} accesses of {threads}, simulated"),
        true => {
            let all = grouped(results.end.all_accesses());
            writeln!(out, "{all} accesses of {threads}; {simulated} in windows, simulated")
        }
    };
    if results.waiting() > 0 {
        let waiting = grouped(results.waiting());
        let _ = writeln!(out, "and {waiting} of waiting, which take no time");
    }
    for (index, on) in results.machines.iter().enumerate() {
        let of: Vec<&Scenario> = results.scenarios.iter().filter(|s| s.machine == index).collect();
        machine(&mut out, on, &of);
        helped::tables(&mut out, results, &of);
    }
    for note in &results.notes {
        let _ = write!(out, "\nnote: {note}");
    }
    out.push_str(if results.notes.is_empty() { "" } else { "\n" });
    out
}

fn machine(out: &mut String, on: &OnMachine, scenarios: &[&Scenario]) {
    let machine = &on.machine;
    let _ = writeln!(out, "\nOn {}: {}", machine.name, on.topology.describe());
    let levels = machine.cache_levels();
    let many_nodes = machine.nodes.len() > 1;
    let mut head: Vec<String> =
        ["threads", "data", "predicted", "time", "energy"].map(String::from).into();
    head.extend((1..=levels).map(|level| format!("L{level} hits")));
    head.push("transfers".into());
    head.push(if many_nodes { "local".into() } else { "memory".into() });
    if many_nodes {
        head.push("remote".into());
    }
    let row = |scenario: &&Scenario| {
        let total = &scenario.outcome.total;
        let touched = total.touched.max(1) as f64;
        let margins = scenario.outcome.margins.as_ref();
        let share = |count: u64, margin: &dyn Fn(&Margins) -> f64| {
            let share = fine_percent(count as f64 / touched);
            match margins.map(margin).filter(|half| half.is_finite()) {
                Some(half) => format!("{share} ± {}", fine_percent(half / touched)),
                None => share,
            }
        };
        let mut row = vec![
            super::plans::short_name(&scenario.threads),
            scenario.data.clone(),
            fine_duration(scenario.predicted_ns / 1e9),
            time(&scenario.outcome),
            energy(&scenario.outcome),
        ];
        row.extend((1..=levels).map(usize::from).map(|l| share(total.hits[l], &|m| m.hits[l])));
        row.push(share(total.transferred(), &|m| m.transfers));
        row.push(share(total.local, &|m| m.local));
        if many_nodes {
            row.push(share(total.remote(), &|m| m.remote));
        }
        row
    };
    let rows: Vec<Vec<String>> = scenarios.iter().map(row).collect();
    table(out, &head, &rows, 2);
    distances(out, on, scenarios);
    loads(out, on, scenarios);
}

/// Transfers by the level that lies between, where there are several.
fn distances(out: &mut String, on: &OnMachine, scenarios: &[&Scenario]) {
    let levels = on.machine.hierarchy.levels.len();
    let used = |level: usize| scenarios.iter().any(|s| s.outcome.total.transfers[level] > 0);
    let used: Vec<usize> = (0..levels).rev().filter(|level| used(*level)).collect();
    if used.is_empty() {
        return;
    }
    let mut head = vec!["transfers".to_string(), "data".into()];
    head.extend(used.iter().map(|level| on.machine.level_name(*level)));
    let row = |s: &&Scenario| {
        let mut row = vec![super::plans::short_name(&s.threads), s.data.clone()];
        row.extend(used.iter().map(|level| short(s.outcome.total.transfers[*level] as f64)));
        row
    };
    out.push('\n');
    table(out, &head, &scenarios.iter().map(row).collect::<Vec<_>>(), 2);
}

/// The busiest controller and link, where there are several nodes.
fn loads(out: &mut String, on: &OnMachine, scenarios: &[&Scenario]) {
    if on.machine.nodes.len() < 2 {
        return;
    }
    let head = ["loads", "data", "busiest controller", "busiest link"].map(String::from);
    let row = |s: &&Scenario| {
        let nodes = s.outcome.controllers.iter().enumerate();
        let controller = nodes.max_by(|a, b| a.1.busy.total_cmp(&b.1.busy));
        let link = s.outcome.links.iter().max_by(|a, b| a.2.busy.total_cmp(&b.2.busy));
        let node = |index: usize| on.machine.nodes[index];
        vec![
            super::plans::short_name(&s.threads),
            s.data.clone(),
            controller.map_or(String::new(), |(n, load)| {
                format!("{} (node {})", fine_percent(load.busy), node(n))
            }),
            link.map_or(String::new(), |(from, to, load)| {
                format!("{} ({} to {})", fine_percent(load.busy), node(*from), node(*to))
            }),
        ]
    };
    out.push('\n');
    table(out, &head, &scenarios.iter().map(row).collect::<Vec<_>>(), 2);
}

/// Columns, the first `left` of them flush left.
pub fn table(out: &mut String, head: &[String], rows: &[Vec<String>], left: usize) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in [head].into_iter().chain(rows.iter().map(Vec::as_slice)) {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(out, "  {}", line.trim_end());
    }
}

/// With its interval, where there is one: from several interleavings, from a part of the sets, or
/// from both, which have nothing to do with each other.
fn time(outcome: &Outcome) -> String {
    let single = outcome.total.time_ns;
    let mean = outcome.spread.map_or(single, |spread| spread.time_ns.mean);
    let halves = [
        outcome.spread.map(|spread| spread.time_ns.half),
        outcome.margins.as_ref().map(|margins| margins.time_ns).filter(|half| half.is_finite()),
    ];
    let time = fine_duration(mean / 1e9);
    if halves == [None, None] {
        return time;
    }
    let half = halves.iter().flatten().map(|half| half * half).sum::<f64>().sqrt();
    format!("{time} ± {}", fine_percent(half / mean.max(1.0)))
}

fn energy(outcome: &Outcome) -> String {
    match outcome.spread {
        Some(spread) => {
            let part = spread.joules.half / spread.joules.mean.max(f64::MIN_POSITIVE);
            format!("{} ± {}", joules(spread.joules.mean), fine_percent(part))
        }
        None => joules(outcome.energy.total()),
    }
}

fn joules(joules: f64) -> String {
    match joules {
        j if j >= 1.0 => format!("{j:.2} J"),
        j if j >= 1e-3 => format!("{:.2} mJ", j * 1e3),
        j => format!("{:.2} µJ", j * 1e6),
    }
}
