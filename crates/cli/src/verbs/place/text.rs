//! A placement for people: where each thread goes, what that costs, and where talk meets.

use super::Application;
use crate::said::several;
use placement::{MemoryShare, Placement, Plan, PlanApp, PlanLevel, PlanSlot, WORTH_A_PLAN};
use std::fmt::Write as _;
use topology::{Costs, Hierarchy, Topology};
use types::numbers::fine_percent;

/// The placement for people.
pub fn table(
    placement: &Placement,
    plan: &Plan,
    machine: &Topology,
    costs: &Costs,
    applications: &[Application],
) -> String {
    let mut out = several(placement.threads, "thread");
    if applications.len() > 1 {
        let _ = write!(out, " of {} applications", applications.len());
    }
    let (policy, seed) = (&plan.policy, placement.seed);
    let _ = writeln!(out, " on {} by {policy} (seed {seed})", machine.describe());
    if !plan.events.is_empty() {
        let _ = writeln!(out, "placed by {}", plan.events);
    }
    out.push('\n');
    for application in applications {
        out.push_str(&rests_on(application));
    }
    if placement.pu_logical.is_empty() {
        out.push_str("No thread is bound: the operating system decides.\n\n");
    }
    if plan.apps.is_empty() {
        out.push_str(&places(&plan.slots, machine, &applications[0]));
    }
    for (number, (app, application)) in plan.apps.iter().zip(applications).enumerate() {
        out.push_str(&heading(number, app, application.tasks.len(), costs));
        out.push_str(&places(&app.slots, machine, application));
    }
    let sampled = applications.iter().any(|application| application.reliability.is_some());
    out.push_str(&prediction(placement, plan, machine, costs, sampled));
    let counted = applications.iter().all(|application| application.tasks.knows_traffic());
    out.push_str(&memory(&placement.memory, counted));
    out.push_str(&super::data::text(plan, costs));
    for application in applications {
        if let Some(quiet) = &application.quiet {
            let of = if applications.len() > 1 { &application.name } else { "this program" };
            let what = match &plan.data {
                Some(data) if data.nodes.len() > 1 => "Where threads communicate",
                _ => "Placement",
            };
            let _ = writeln!(out, "\n{what} does not matter for {of}: {quiet}.");
        }
    }
    out
}

/// That samples are too few to place by, and what to do; `None` if they are not, or nothing was
/// sampled.
pub fn too_few(application: &Application) -> Option<String> {
    let text = application.reliability.as_ref()?.too_few.as_ref()?;
    Some(format!("this plan of '{}' may be no better than chance. {text}", application.name))
}

/// How far the amounts that threads are placed by can be trusted; empty if they were counted.
fn rests_on(application: &Application) -> String {
    let Some(found) = &application.reliability else { return String::new() };
    let few = too_few(application).map(|text| format!("Warning: {text}"));
    few.iter().chain(&found.text).map(|text| format!("{text}\n")).collect::<String>() + "\n"
}

/// `application 0: ring, 4 threads, predicted cost 163220 ns, 100.0 % between cores`.
fn heading(number: usize, app: &PlanApp, threads: usize, costs: &Costs) -> String {
    let mut out = format!(
        "application {number}: {}, {}, predicted cost {}",
        app.name,
        several(threads, "thread"),
        money(app.cost, costs.unit)
    );
    for level in app.levels.iter().filter(|level| level.after > 0.0) {
        let _ = write!(out, ", {} {}", fine_percent(level.after), level.level);
    }
    out + "\n"
}

/// A line per thread.
fn places(slots: &[PlanSlot], machine: &Topology, application: &Application) -> String {
    let mut out = String::new();
    if slots.is_empty() {
        return out;
    }
    let places: Vec<String> = slots.iter().map(|slot| machine.place_of(slot.pu_logical)).collect();
    let width = places.iter().map(String::len).max().unwrap_or(0).max("place".len());
    let heading = format!("{:>6}  {:>5}  {:>5}  {:<width$}", "thread", "PU L#", "PU P#", "place");
    let named = !application.names.is_empty();
    let _ = writeln!(out, "{}", if named { heading + "  name" } else { heading.trim_end().into() });
    for (slot, place) in slots.iter().zip(&places) {
        let line = format!(
            "{:>6}  {:>5}  {:>5}  {place:<width$}  {}",
            format!("T{}", slot.thread),
            slot.pu_logical,
            slot.pu_os,
            application.names.get(slot.thread as usize).map_or("", String::as_str)
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.push('\n');
    out
}

/// The predicted cost beside the baselines'.
fn prediction(
    placement: &Placement,
    plan: &Plan,
    machine: &Topology,
    costs: &Costs,
    sampled: bool,
) -> String {
    let bound = plan.lower_bound.unwrap_or(0.0);
    let mut out = String::new();
    let levels = Hierarchy::new(machine).levels;
    let prices: Vec<String> = levels
        .iter()
        .zip(&costs.per_level)
        .map(|(level, cost)| format!("between {} {}", level.between, money(*cost, costs.unit)))
        .collect();
    if prices.is_empty() {
        out.push_str("There is only one PU, so placement makes no difference.\n");
        return out;
    }
    let _ = writeln!(out, "cost of one event: {}", prices.join(", "));
    let _ = writeln!(out, "predicted cost, sum over pairs of threads of events x cost:");
    let line = |out: &mut String, name: &str, cost: f64, note: String| {
        let cost = money(cost, costs.unit);
        let _ = writeln!(out, "{}", format!("  {name:<10} {cost:>18}  {note}").trim_end());
    };
    line(&mut out, "this plan", placement.cost, shared(placement.shared_cores));
    let baselines = &placement.baselines;
    let ratio = |other: f64| match placement.cost > 0.0 {
        true if other > 100.0 * placement.cost => "over 100 times this plan".into(),
        true => format!("{:.2} times this plan", other / placement.cost),
        false => String::new(),
    };
    let compact = match placement.compact_shared_cores > placement.shared_cores {
        true => {
            format!("{}, but {}", ratio(baselines.compact), shared(placement.compact_shared_cores))
        }
        false => ratio(baselines.compact),
    };
    line(&mut out, "compact", baselines.compact, compact);
    line(&mut out, "scatter", baselines.scatter, ratio(baselines.scatter));
    let expected = format!("{} (expected)", ratio(baselines.random));
    line(&mut out, "random", baselines.random, expected.trim().into());
    let without = if baselines.compact < bound { " without sharing cores" } else { "" };
    line(&mut out, "bound", bound, format!("no placement costs less{without}"));
    if baselines.os <= 0.0 || !super::data::judges_all(plan) {
        out.push_str(&standing(placement.cost, baselines.os, bound, sampled));
    }
    if baselines.os > 0.0 {
        out.push_str(&meeting(&placement.levels));
    }
    out
}

/// Shares of the communication by level, left to chance and under the plan.
fn meeting(levels: &[PlanLevel]) -> String {
    let name = |level: &PlanLevel| match level.within.as_str() {
        "PU" | "machine" => level.level.clone(),
        within => format!("{} (same {within})", level.level),
    };
    let width = levels.iter().map(|level| name(level).len()).max().unwrap_or(0);
    let title = "share of communication";
    let width = width.max(title.len() - 2);
    let mut out = format!("\n{title:<0$}  by chance  this plan\n", width + 2);
    for level in levels {
        let (before, after) = (fine_percent(level.before), fine_percent(level.after));
        let _ = writeln!(out, "  {:<width$}  {before:>9}  {after:>9}", name(level));
    }
    out
}

/// What each NUMA node is asked for, beside its part of the bandwidth. Without counted accesses
/// communication stands for them.
fn memory(shares: &[MemoryShare], counted: bool) -> String {
    if shares.is_empty() {
        return String::new();
    }
    let title = if counted { "share of memory accesses" } else { "share of all communication" };
    let mut out = format!("\n{title:<24}  bandwidth  this plan\n");
    for share in shares {
        let (bandwidth, traffic) = (fine_percent(share.bandwidth), fine_percent(share.traffic));
        let node = format!("NUMA node L#{}", share.node);
        let _ = writeln!(out, "  {node:<22}  {bandwidth:>9}  {traffic:>9}");
    }
    out
}

/// Where the plan stands between chance and what is possible at all. Chance uses every core before
/// it shares one, as the operating system does.
fn standing(cost: f64, chance: f64, bound: f64, sampled: bool) -> String {
    if chance <= 0.0 && sampled {
        return "No sample showed communication, so nothing says that one placement is better than another.\n".into();
    }
    if chance <= 0.0 {
        return "No threads communicate, so placement makes no difference to communication.\n"
            .into();
    }
    if chance - bound < WORTH_A_PLAN * chance {
        let most = (1.0 - bound / chance) * 100.0;
        return format!(
            "Placement hardly matters here: no placement saves more than {most:.1} % of what the \
             operating system's costs on average.\n"
        );
    }
    let part = (chance - cost) / (chance - bound) * 100.0;
    match part {
        // As much, but for rounding.
        -0.05..0.05 => "It costs as much as the operating system's placement on average.\n".into(),
        ..0.0 => "It is expected to cost more than the operating system's placement.\n".into(),
        99.95.. => "No placement is noticeably better: it reaches the bound.\n".into(),
        _ => format!(
            "It saves {:.0} % of what the operating system's placement costs on average: at least \
             {:.0} % of what can be saved.\n",
            (1.0 - cost / chance) * 100.0,
            part.floor()
        ),
    }
}

fn shared(cores: usize) -> String {
    match cores {
        0 => String::new(),
        1 => "1 core holds more than one thread".into(),
        n => format!("{n} cores hold more than one thread"),
    }
}

/// A cost with its unit, with a decimal where it is small and has one.
fn money(cost: f64, unit: &str) -> String {
    let text = match cost >= 1000.0 || (cost - cost.round()).abs() < 0.05 {
        true => format!("{cost:.0}"),
        false => format!("{cost:.1}"),
    };
    if unit.is_empty() { text } else { format!("{text} {unit}") }
}
