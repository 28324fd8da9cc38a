//! What differs between two runs, in the terminal.

use super::heading;
use super::style::{TextStyle, printable};
use crate::changes::{ChangedObject, Changes};
use crate::notes::difference_sentence;
use crate::reliability::Reliability;
use crate::table::{Align, Table};
use analysis::{CellChange, Difference, DifferenceNote, EventCount, Pattern, Run, Side};
use serde::Serialize;
use std::fmt::{self, Write};
use types::numbers::{grouped, percent, short};

/// Most cells and lines that are listed.
const SHOWN: usize = 10;
/// Cells that differ by less than this share of the largest are not worth a row.
const WORTH: f64 = 1.0;
/// Objects with a smaller share of the events are not worth one either.
const NOTABLE: f64 = 0.01;

/// The difference between two runs as text; `names` are those of A and of B.
pub fn difference_text(
    found: &Difference,
    runs: [&Run<'_>; 2],
    names: [&str; 2],
    style: TextStyle,
) -> String {
    let mut out = String::new();
    for text in reliability(runs) {
        out.push_str(&style.warning(&style.wrap(&text, "")));
        out.push_str("\n\n");
    }
    write(&mut out, found, names, style).expect("writing to a String cannot fail");
    out
}

/// How far the amounts of runs that were estimated can be trusted; to be said first.
fn reliability(runs: [&Run<'_>; 2]) -> Vec<String> {
    let said = |(name, run): (char, &Run<'_>)| {
        let Run::Profile(profile, choice) = run else { return None };
        let how = match &profile.meta.windows {
            Some(windows) if windows.whole >= 1.0 => return None,
            Some(_) => "recorded in windows",
            None => "sampled",
        };
        let found = Reliability::of(profile, *choice)?;
        let sentences: Vec<String> = found.too_few.into_iter().chain(found.text).collect();
        Some(format!("{name} was {how}. {}", sentences.join(" ")))
    };
    ['A', 'B'].into_iter().zip(runs).filter_map(said).collect()
}

/// The difference as JSON, with its notes in words.
///
/// # Errors
/// None that is known: keys are strings and numbers finite.
pub fn difference_json(found: &Difference, runs: [&Run<'_>; 2]) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Worded<'a> {
        #[serde(flatten)]
        note: &'a DifferenceNote,
        text: String,
    }
    #[derive(Serialize)]
    struct All<'a> {
        #[serde(flatten)]
        found: &'a Difference,
        objects: Option<Changes>,
        reliability: Vec<String>,
        notes: Vec<Worded<'a>>,
    }
    let objects = found.objects.as_ref().map(Changes::of);
    let worded = |note| Worded { note, text: difference_sentence(note) };
    let notes = found.notes.iter().map(worded).collect();
    serde_json::to_string_pretty(&All { found, objects, reliability: reliability(runs), notes })
}

fn write(out: &mut String, found: &Difference, names: [&str; 2], style: TextStyle) -> fmt::Result {
    let share = if found.mse_most > 0.0 { found.mse / found.mse_most } else { 0.0 };
    let headline = match found.mse == 0.0 {
        true => format!("The matrices of {} have the same shape.", threads(found.threads)),
        false => format!(
            "The matrices of {} differ by a mean squared error of {}, {} of the largest possible.",
            threads(found.threads),
            error(found.mse),
            percent(share)
        ),
    };
    let changes = found.objects.as_ref().map(Changes::of);
    if let Some(changes) = &changes {
        writeln!(out, "{}\n", style.bold(&style.wrap(&printable(&changes.headline), "")))?;
    }
    let headline = style.wrap(&headline, "");
    let headline = if changes.is_some() { headline } else { style.bold(&headline) };
    writeln!(out, "{headline}\n")?;
    for (letter, name) in ["A", "B"].iter().zip(names) {
        writeln!(out, "  {letter}: {}", printable(name))?;
    }
    write!(out, "{}", sides(found, style))?;
    if let Some(changes) = &changes {
        write_objects(out, changes, style)?;
    }
    write_cells(out, found, style)?;
    for (letter, side) in [("A", &found.a), ("B", &found.b)] {
        if !side.left_out.is_empty() {
            let ids: Vec<String> = side.left_out.iter().take(8).map(|t| format!("T{t}")).collect();
            let text = format!(
                "Left out, hardly communicating and without a counterpart: {} of {letter}{}.",
                ids.join(", "),
                if side.left_out.len() > 8 { " and others" } else { "" }
            );
            writeln!(out, "\n{}", style.wrap(&text, ""))?;
        }
    }
    for note in &found.notes {
        writeln!(out, "\n{}", style.wrap(&difference_sentence(note), ""))?;
    }
    Ok(())
}

/// An error, with decimals where it is small.
fn error(mse: f64) -> String {
    match mse {
        large if large >= 10.0 => grouped(large.round() as u64),
        small if small >= 0.01 => format!("{small:.2}"),
        _ => "less than 0.01".into(),
    }
}

fn threads(count: usize) -> String {
    if count == 1 { "1 thread".into() } else { format!("{} threads", grouped(count as u64)) }
}

fn sides(found: &Difference, style: TextStyle) -> Table {
    let columns = [("", Align::Left), ("A", Align::Right), ("B", Align::Right)];
    let mut table = Table::new(&columns).within(style.width);
    let mut row = |name: &str, value: &dyn Fn(&Side) -> String| {
        table.row(vec![name.into(), value(&found.a), value(&found.b)]);
    };
    row(&found.counted, &|side| grouped(side.events));
    if found.a.ratio.is_some() || found.b.ratio.is_some() {
        let ratio = |side: &Side| side.ratio.map_or("unknown".into(), |r| short(r * 1e3));
        row("events per thousand accesses", &ratio);
    }
    row("heterogeneity C_H", &|side| format!("{:.0}", side.heterogeneity));
    row("balance C_B", &|side| format!("{:.0} %", side.balance));
    row("pattern", &|side| match side.pattern {
        Pattern::Unknown => "too few samples".into(),
        pattern => format!("{} ({})", pattern.name(), percent(side.confidence)),
    });
    table
}

fn write_cells(out: &mut String, found: &Difference, style: TextStyle) -> fmt::Result {
    let worth = |cell: &&CellChange| (cell.normalised[0] - cell.normalised[1]).abs() >= WORTH;
    let cells: Vec<&CellChange> = found.cells.iter().filter(worth).collect();
    if cells.is_empty() {
        return Ok(());
    }
    heading(out, style, "Which threads communicate differently")?;
    let mut table = Table::new(&[
        ("from → to", Align::Left),
        ("events in A", Align::Right),
        ("in B", Align::Right),
        ("of the largest in A", Align::Right),
        ("in B", Align::Right),
    ])
    .within(style.width);
    for cell in cells.iter().take(SHOWN) {
        table.row(vec![
            pair(cell),
            grouped(cell.events[0]),
            grouped(cell.events[1]),
            percent(cell.normalised[0] / 100.0),
            percent(cell.normalised[1] / 100.0),
        ]);
    }
    write!(out, "{table}")?;
    super::more(out, cells.len(), SHOWN, "cells", "--json")
}

/// `T1 → T2`; where threads have other numbers in B, those in brackets.
fn pair(cell: &CellChange) -> String {
    let ([from, from_b], [to, to_b]) = (cell.from, cell.to);
    match (from, to) == (from_b, to_b) {
        true => format!("T{from} → T{to}"),
        false => format!("T{from} → T{to} (in B T{from_b} → T{to_b})"),
    }
}

/// The objects with notable amounts.
pub(super) fn write_objects(out: &mut String, found: &Changes, style: TextStyle) -> fmt::Result {
    let worth = |o: &&ChangedObject| {
        (0..2).any(|side| o.events[side].events >= NOTABLE * found.all[side].events.max(1.0))
    };
    let list: Vec<&ChangedObject> = found.list.iter().filter(worth).collect();
    if list.is_empty() {
        return Ok(());
    }
    let rate = if found.per_second { ", events per second of the program's own time" } else { "" };
    heading(out, style, &format!("Objects{rate}"))?;
    for object in list.iter().take(SHOWN) {
        let text = format!("  {}: {}", printable(&object.object), amounts(object));
        writeln!(out, "{}", style.wrap(&text, "     "))?;
    }
    super::more(out, found.list.len(), list.len().min(SHOWN), "objects", "--json")
}

/// `8,820 events → 3, gone; false sharing 8,800 → 0`.
fn amounts(object: &ChangedObject) -> String {
    let amount = |of: EventCount| grouped(of.events.round() as u64);
    let [[a, b], [falsely_a, falsely_b]] =
        [object.events, object.false_sharing].map(|of| of.map(amount));
    let falsely = match object.false_sharing.iter().any(|of| of.events >= 0.5) {
        true => format!("; false sharing {falsely_a} → {falsely_b}"),
        false => String::new(),
    };
    format!("events {a} → {b}, {}{falsely}", object.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::shared;
    use analysis::{Choice, difference};
    use profile::Profile;

    const PLAIN: TextStyle = TextStyle { colour: false, width: 80, lines: None };

    fn run(profile: &Profile) -> Run<'_> {
        Run::Profile(profile, Choice::of_talk(profile))
    }

    #[test]
    fn false_sharing_that_was_removed_word_for_word() {
        let before = shared();
        let mut after = before.clone();
        // The counters have lines of their own now.
        after.comm.retain(|row| row.sharing != types::Sharing::False);
        after.lines.retain(|line| line.raw_false == 0);
        after.events.retain(|event| event.sharing != types::Sharing::False);
        let found = difference(&run(&before), &run(&after)).unwrap();
        let text = difference_text(
            &found,
            [&run(&before), &run(&after)],
            ["before.tt", "after.tt"],
            PLAIN,
        );
        assert_eq!(text, include_str!("expected_difference.txt"));
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn no_difference_is_one_sentence_and_the_numbers() {
        let profile = shared();
        let found = difference(&run(&profile), &run(&profile)).unwrap();
        let text = difference_text(&found, [&run(&profile); 2], ["a.tt", "b.tt"], PLAIN);
        let first =
            "The false sharing on counters (app) (86 % of all events) is still there: 4,400";
        assert!(text.replace('\n', " ").starts_with(first), "{text}");
        assert!(text.contains("\nThe matrices of 5 threads have the same shape.\n"), "{text}");
        assert!(!text.contains("differently") && !text.contains("gone"), "{text}");
    }

    #[test]
    fn how_far_sampled_amounts_can_be_trusted_comes_first() {
        let (exact, sampled) = (shared(), crate::samples::sampled());
        let (a, b) = (run(&exact), run(&sampled));
        let found = difference(&a, &b).unwrap();
        let text = difference_text(&found, [&a, &b], ["a.tt", "b.tt"], PLAIN);
        assert!(text.starts_with("B was sampled. Estimated, not counted"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&difference_json(&found, [&a, &b]).unwrap()).unwrap();
        let said = json["reliability"].as_array().unwrap();
        assert!(said.len() == 1 && said[0].as_str().unwrap().starts_with("B was"), "{said:?}");
    }

    #[test]
    fn what_was_recorded_whole_is_not_said_to_be_an_estimate() {
        let said = |whole| {
            let mut profile = shared();
            profile.meta.mode = profile::Mode::Windows;
            profile.meta.windows = Some(profile::Windows {
                asked: "usual".into(),
                windows: 0,
                too_short: whole < 1.0,
                observed: whole,
                whole,
                warm_up_ns: 0,
                missed: 0.0,
                alike: 0.0,
                false_share: None,
            });
            reliability([&run(&profile), &run(&shared())])
        };
        assert_eq!(said(1.0), Vec::<String>::new());
        let few = said(0.1);
        assert!(few.len() == 1 && few[0].starts_with("A was recorded in windows. "), "{few:?}");
    }

    #[test]
    fn notes_are_codes_with_data_and_sentences() {
        let profile = shared();
        let mut pages = profile.clone();
        pages.meta.parameters.block_bytes = 4096;
        let (a, b) = (run(&profile), run(&pages));
        let runs = [&a, &b];
        let found = difference(&a, &b).unwrap();
        let json: serde_json::Value =
            serde_json::from_str(&difference_json(&found, runs).unwrap()).unwrap();
        let text = "A counts in blocks of 64 bytes and B in blocks of 4096: amounts differ for that alone.";
        let expected =
            serde_json::json!([{"code": "blocks-differ", "a": 64, "b": 4096, "text": text}]);
        assert_eq!(json["notes"], expected);
        assert_eq!((&json["mse"], &json["threads"]), (&0.0.into(), &5.into()));
        let style = TextStyle { width: 200, ..PLAIN };
        assert!(difference_text(&found, runs, ["a.tt", "b.tt"], style).contains(text));
    }
}
