//! The placements in the terminal: where the talk goes, what every policy costs, who goes where.

use super::style::{TextStyle, printable};
use super::{THREADS_SHOWN, more};
use crate::layouts::{Layout, Placement};
use crate::policies::PolicyCost;
use crate::table::{Align, Table};
use crate::wording::list;
use std::fmt::{self, Write};
use types::numbers::{nanoseconds, percent, short};

/// How the names of most levels start.
const BETWEEN: &str = "between ";

pub(super) fn write_placement(
    out: &mut String,
    style: TextStyle,
    placement: &Placement,
) -> fmt::Result {
    let elsewhere = if placement.elsewhere { "; not where the profile was recorded" } else { "" };
    writeln!(out, "  {}{elsewhere}", printable(&placement.machine))?;
    writeln!(out, "  Predicted cost, and how much of the communication goes between:")?;
    let mut columns = vec![("placement", Align::Left), ("cost", Align::Right)];
    let levels: Vec<&str> = level_names(placement);
    // The word stands once, above the table: there is no room for it in every column.
    let between = |level| str::strip_prefix(level, BETWEEN).unwrap_or(level);
    columns.extend(levels.iter().map(|&level| (between(level), Align::Right)));
    let mut table = Table::new(&columns).within(style.width);
    let chance = ("by chance", placement.chance.cost, &placement.chance.shares);
    let layouts = placement.layouts.iter().map(|l| (l.policy.as_str(), l.cost, &l.shares));
    let ran = placement.ran.as_ref().map(|ran| ("as it ran", ran.cost, &ran.shares));
    for (policy, cost, shares) in [chance].into_iter().chain(ran).chain(layouts) {
        let share = |level: &&str| match shares.iter().find(|s| s.level == **level) {
            Some(share) => percent(share.share),
            None => String::new(),
        };
        let mut row = vec![policy.to_owned(), relative(cost, placement.chance.cost)];
        row.extend(levels.iter().map(share));
        table.row(row);
    }
    write!(out, "{table}")?;
    let note =
        "  By chance: the average of all even placements, what an unplaced run can look like.";
    writeln!(out, "{}", style.wrap(note, "  "))?;
    if let Some(ran) = &placement.ran {
        writeln!(out, "{}", style.wrap(&format!("  {}", ran.text), "  "))?;
    }
    write_policies(out, style, placement)?;
    write_places(out, style, placement)
}

/// Every policy's cost, and the bound.
fn write_policies(out: &mut String, style: TextStyle, placement: &Placement) -> fmt::Result {
    let policies = &placement.policies;
    let cost = |cost: f64| match placement.cost_unit.as_str() {
        "ns" => nanoseconds(cost),
        _ => short(cost),
    };
    writeln!(out)?;
    let mut table = Table::new(&[
        ("policy", Align::Left),
        ("cost", Align::Right),
        ("to best", Align::Right),
        ("to bound", Align::Right),
        ("moved", Align::Right),
        ("", Align::Left),
    ])
    .within(style.width);
    for row in &policies.list {
        table.row(vec![
            row.policy.clone(),
            cost(row.cost),
            times(row.to_best),
            times(row.to_bound),
            row.moved.map_or_else(|| "–".into(), |moved| moved.to_string()),
            remark(row),
        ]);
    }
    let bound = policies.lower_bound;
    let best = policies.list.first().map_or(0.0, |best| best.cost);
    let to_best = times((best > 0.0).then(|| bound / best));
    let last = ["lower bound".into(), cost(bound), to_best, times((bound > 0.0).then_some(1.0))];
    let least = policies.list.iter().map(|row| row.cost).fold(f64::INFINITY, f64::min);
    let without = if least < bound { " without sharing cores" } else { "" };
    let note = format!("no placement costs less{without}");
    table.row(last.into_iter().chain([String::new(), note]).collect());
    write!(out, "{table}")?;
    let note = format!(
        "  Cost: the sum over all events of what each costs on its way. Moved: threads on another PU \
         than by {}.",
        placement.before().policy
    );
    writeln!(out, "{}", style.wrap(&note, "  "))?;
    if !policies.left_out.is_empty() {
        let names: Vec<String> =
            policies.left_out.iter().map(|left_out| left_out.policy.clone()).collect();
        let note = format!(
            "  Left out, since they take long for this number of threads: {}.",
            list(&names)
        );
        writeln!(out, "{}", style.wrap(&note, "  "))?;
    }
    Ok(())
}

/// What sets a policy apart.
fn remark(row: &PolicyCost) -> String {
    let mut words = Vec::new();
    if row.chosen {
        words.push("chosen".to_owned());
    }
    if row.moved.is_none() {
        words.push("unbound: expected".into());
    }
    match row.shared_cores {
        1 if row.shares_needlessly => words.push("shares a core".into()),
        cores if row.shares_needlessly => words.push(format!("shares {cores} cores")),
        _ => {}
    }
    words.join(", ")
}

/// A ratio of costs.
fn times(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio >= 100.0 => ">100".into(),
        Some(ratio) => format!("{ratio:.2}"),
        None => "–".into(),
    }
}

/// Levels of all layouts, nearest first.
fn level_names(placement: &Placement) -> Vec<&str> {
    let layouts = placement.layouts.iter().map(|layout| &layout.shares);
    let ran = placement.ran.iter().map(|ran| &ran.shares);
    let longest =
        layouts.chain(ran).chain([&placement.chance.shares]).max_by_key(|shares| shares.len());
    longest.map_or_else(Vec::new, |shares| shares.iter().map(|s| s.level.as_str()).collect())
}

/// A cost against the cost by chance.
fn relative(cost: f64, chance: f64) -> String {
    match cost / chance {
        share if share > 0.0 && share < 0.01 => "<1 %".into(),
        share if share.is_finite() => format!("{:.0} %", share * 100.0),
        _ => short(cost),
    }
}

fn write_places(out: &mut String, style: TextStyle, placement: &Placement) -> fmt::Result {
    let (before, after) = (placement.before(), placement.after());
    let place = |layout: &Layout, thread: usize| match layout.pu_os[thread] {
        None => "not placed".into(),
        Some(os) if layout.place[thread].is_empty() => format!("P#{os}"),
        Some(os) => format!("P#{os} ({})", layout.place[thread]),
    };
    writeln!(out)?;
    let mut table = Table::new(&[
        ("thread", Align::Left),
        (&before.policy, Align::Left),
        (&after.policy, Align::Left),
    ])
    .within(style.width);
    let threads = after.pu_os.len();
    for thread in 0..threads.min(THREADS_SHOWN) {
        table.row(vec![format!("T{thread}"), place(before, thread), place(after, thread)]);
    }
    write!(out, "{table}")?;
    more(out, threads, THREADS_SHOWN, "threads", "--json")
}
