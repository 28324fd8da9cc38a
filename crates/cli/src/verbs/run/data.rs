//! Where a program's data was, by object: planned against actual.

use crate::said::{say, say_more, several};
use recorder::data::{DataReport, ObjectOutcome, Pages, Sight, words};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use types::numbers::grouped;

/// Objects that are listed in the text; all are in the JSON.
const LISTED: usize = 20;
/// Longest name of an object in the table.
const MAX_NAME: usize = 60;

/// The objects, then what is different from the plan in words.
pub fn tell(report: &DataReport) {
    if let Some(reason) = &report.inactive {
        return say(&format!("no data was placed: {reason}"));
    }
    // What went before the end tells little of a program that was killed.
    if report.seen_at_end || report.pages().present() > 0 {
        say(&summary(report));
        say_more(&table(&report.objects));
    }
    differences(report).iter().for_each(|line| say(line));
}

/// `99.8 % of 1,024 pages that the plan names are where it says`.
fn summary(report: &DataReport) -> String {
    let pages = report.pages();
    if pages.present() == 0 {
        return "no page was found of the data that the plan names".into();
    }
    let gone = report.objects.iter().filter(|o| o.appeared == 0 || o.left_out.is_some());
    let gone: u64 = gone.map(|object| object.planned).sum();
    let rest = match gone {
        0 => String::new(),
        1 => "; 1 more was planned for data that did not appear or was not placed".into(),
        _ => format!(
            "; {} more were planned for data that did not appear or was not placed",
            grouped(gone)
        ),
    };
    format!(
        "{} of {} that the plan places are where it says{rest}",
        share(&pages),
        several(pages.present() as usize, "page")
    )
}

fn share(pages: &Pages) -> String {
    let percent = pages.as_planned as f64 / pages.present() as f64 * 100.0;
    // Only all of them are 100 %.
    let shown = if pages.elsewhere > 0 { percent.min(99.9) } else { percent };
    format!("{shown:.1} %")
}

fn table(objects: &[ObjectOutcome]) -> String {
    let mut rows: Vec<&ObjectOutcome> = objects.iter().collect();
    rows.sort_by_key(|object| std::cmp::Reverse(object.pages.present()));
    let shown: Vec<(String, &ObjectOutcome)> = rows
        .iter()
        .take(LISTED)
        .map(|object| (shortened(&words(&object.identity)), *object))
        .collect();
    let width = shown.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(6);
    let mut out = format!(
        "  {:<width$}  {:>9}  {:>10}  {:>9}  {:>9}  nodes\n",
        "object", "blocks", "as planned", "elsewhere", "untouched"
    );
    for (name, object) in &shown {
        let Pages { as_planned, elsewhere, absent, .. } = &object.pages;
        let nodes: Vec<String> = object
            .pages
            .on
            .iter()
            .map(|(node, pages)| format!("P#{node}: {}", grouped(*pages)))
            .collect();
        let line = format!(
            "  {name:<width$}  {:>9}  {:>10}  {:>9}  {:>9}  {}",
            grouped(object.appeared),
            grouped(*as_planned),
            grouped(*elsewhere),
            grouped(*absent),
            nodes.join(", ")
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if rows.len() > LISTED {
        let _ = writeln!(out, "  … and {} more", several(rows.len() - LISTED, "object"));
    }
    out
}

fn shortened(name: &str) -> String {
    match name.chars().count() > MAX_NAME {
        true => name.chars().take(MAX_NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// One sentence for each kind of difference.
fn differences(report: &DataReport) -> Vec<String> {
    let mut lines = Vec::new();
    let missing: Vec<&ObjectOutcome> =
        report.objects.iter().filter(|o| o.appeared == 0 && o.left_out.is_none()).collect();
    if !missing.is_empty() {
        lines.push(format!(
            "{} of the plan never appeared: {}; record again if the program has changed or works on other sizes now",
            several(missing.len(), "object"),
            list(&missing)
        ));
    }
    for object in report.objects.iter() {
        if let Some((ranges, why)) = &object.refused {
            lines.push(format!(
                "the kernel refused {} of {}: {why}",
                several(*ranges as usize, "range"),
                words(&object.identity)
            ));
        }
        if let Some(why) = object.left_out {
            lines.push(format!("{} was not placed: {why}", words(&object.identity)));
        }
    }
    let large = report.objects.iter().filter(|object| object.bytes >= 1 << 16);
    let (read, appeared) =
        large.fold((0, 0), |(r, a), object| (r + object.read, a + object.appeared));
    if read < appeared {
        lines.push(format!(
            "{} of {} were looked at",
            grouped(read),
            several(appeared as usize, "large block")
        ));
    }
    lines.extend(report.notes.iter().cloned());
    lines
}

fn list(objects: &[&ObjectOutcome]) -> String {
    const NAMED: usize = 4;
    let mut names: Vec<String> =
        objects.iter().take(NAMED).map(|object| shortened(&words(&object.identity))).collect();
    if objects.len() > NAMED {
        names.push(format!("{} more", objects.len() - NAMED));
    }
    names.join(", ")
}

/// Where data is while the program runs.
pub fn tell_while_running(elapsed: Duration, sights: &[Sight]) {
    let mut all = Pages::default();
    for sight in sights {
        all.as_planned += sight.pages.as_planned;
        all.elsewhere += sight.pages.elsewhere;
    }
    let after = humantime::format_duration(Duration::from_secs(elapsed.as_secs()));
    if all.present() == 0 {
        return say(&format!("after {after}: no page of the data that the plan names is there"));
    }
    say(&format!(
        "after {after}: {} of {} that the plan places are where it says",
        share(&all),
        several(all.present() as usize, "page")
    ));
    let mut out = String::new();
    for sight in sights {
        let nodes: Vec<String> = sight
            .pages
            .on
            .iter()
            .map(|(node, pages)| format!("P#{node}: {}", grouped(*pages)))
            .collect();
        let _ = writeln!(
            out,
            "  {}: {}, {} pages elsewhere ({})",
            shortened(&words(&sight.identity)),
            several(sight.blocks as usize, "block"),
            grouped(sight.pages.elsewhere),
            nodes.join(", ")
        );
    }
    say_more(&out);
}

/// All of it.
pub fn json(report: &DataReport) -> Value {
    let object = |object: &ObjectOutcome| {
        json!({
            "object": object.identity,
            "words": words(&object.identity),
            "block_bytes": object.bytes,
            "planned_pages": object.planned,
            "blocks": object.appeared,
            "placed": object.placed,
            "looked_at": object.read,
            "pages": pages(&object.pages),
            "refused": object.refused.as_ref().map(|(_, why)| why),
            "left_out": object.left_out,
        })
    };
    json!({
        "not_placed_because": report.inactive,
        "as_planned": report.as_planned(),
        "pages": pages(&report.pages()),
        "objects": report.objects.iter().map(object).collect::<Vec<_>>(),
        "notes": report.notes,
    })
}

fn pages(pages: &Pages) -> Value {
    let on: Vec<Value> =
        pages.on.iter().map(|(node, pages)| json!({ "node": node, "pages": pages })).collect();
    json!({
        "as_planned": pages.as_planned,
        "elsewhere": pages.elsewhere,
        "untouched": pages.absent,
        "on": on,
    })
}
