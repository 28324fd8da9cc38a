//! The findings in the terminal: verdict first, then the evidence, then how it was measured.
//!
//! Plain text with optional ANSI colours; no cursor movement, so that it can be piped. Long lists
//! are cut and say so. Here are the order of the sections and the short ones; the others have a
//! file each in `text/`. Neighbours: `findings` supplies everything, `table` lays out columns.

mod causes;
mod difference;
mod lines;
mod memory;
mod objects;
mod placement;
mod processes;
mod sampled;
mod style;

use crate::evidence;
use crate::findings::{Findings, Measured};
use crate::table::{Align, Table, cut};
use crate::talk::{Estimate, Pair, Talk, Thread, talk_matrix};
use crate::verdict::blocks;
use profile::{OwnTime, Profile, Slowed};
use std::fmt::{self, Write};
use style::printable;
use types::numbers::{duration, grouped, percent, short};

pub use difference::{difference_json, difference_text};
pub use style::TextStyle;

/// Most threads, pairs that are listed.
const THREADS_SHOWN: usize = 32;
const PAIRS_SHOWN: usize = 10;
/// Most of a command that stands at the top.
const COMMAND_LINES: usize = 3;
/// Most threads whose matrix is printed.
const MATRIX_SHOWN: usize = 16;

/// The report as text.
pub fn text(findings: &Findings, profile: &Profile, style: TextStyle) -> String {
    let mut out = String::new();
    write(&mut out, findings, profile, style).expect("writing to a String cannot fail");
    out
}

fn write(
    out: &mut String,
    findings: &Findings,
    profile: &Profile,
    style: TextStyle,
) -> fmt::Result {
    let command = printable(&findings.program.command.join(" "));
    let command = cut(&command, COMMAND_LINES * style.width);
    writeln!(out, "{}\n", style.dim(&format!("Threadtalk · {command}")))?;
    if let Some(found) = &findings.reliability {
        writeln!(out, "{}\n", style.warning(&style.wrap(&found.text.join(" "), "")))?;
    }
    writeln!(out, "{}", style.bold(&style.wrap(&findings.verdict.headline, "")))?;
    causes::write_first(out, style, findings)?;
    if let Some(changes) = &findings.changes {
        heading(out, style, "Before (A) and after (B)")?;
        writeln!(out, "{}", style.wrap(&printable(&format!("  {}", changes.headline)), "  "))?;
        difference::write_objects(out, changes, style)?;
    }
    if let Some(memory) = &findings.memory {
        memory::write_memory(out, style, memory)?;
    }
    causes::write_others(out, style, findings)?;
    causes::write_latent(out, style, findings)?;
    if let Some(objects) = &findings.objects {
        objects::write_objects(out, style, objects)?;
    }
    if let Some(lines) = &findings.lines {
        lines::write_lines(out, style, lines)?;
    }
    if let Some(code) = &findings.code {
        lines::write_code(out, style, code)?;
    }
    if findings.talk.events > 0 {
        heading(out, style, "Which threads communicate")?;
        write_pairs(out, style, findings)?;
        write_matrix(out, style, findings, profile)?;
    }
    if !findings.communication_text.is_empty() {
        heading(out, style, "How they communicate")?;
        for sentence in &findings.communication_text {
            writeln!(out, "{}", style.wrap(&format!("  {sentence}"), "  "))?;
        }
    }
    write_run(out, findings, profile, style)
}

/// The threads, where they could run, and how it was measured.
fn write_run(
    out: &mut String,
    findings: &Findings,
    profile: &Profile,
    style: TextStyle,
) -> fmt::Result {
    heading(out, style, "Threads")?;
    write_threads(out, style, findings)?;
    if let Some(placement) = &findings.placement {
        heading(out, style, "Where they could run")?;
        if findings.reliability.as_ref().is_some_and(|found| !found.enough) {
            let text =
                "  Computed from too few samples: these placements may be no better than chance.";
            writeln!(out, "{}", style.warning(&style.wrap(text, "  ")))?;
        }
        placement::write_placement(out, style, placement)?;
    }
    if !profile.meta.processes.is_empty() {
        heading(out, style, processes::title(&profile.meta.processes))?;
        processes::write_processes(out, &profile.meta.processes, style.width)?;
    }
    if !findings.warnings.is_empty() {
        heading(out, style, "What was not seen")?;
        for warning in &findings.warnings {
            writeln!(out, "{}", style.warning(&style.wrap(&format!("- {}", warning.text), "  ")))?;
        }
    }
    heading(out, style, "How it was measured")?;
    write_measured(out, style, findings)
}

fn heading(out: &mut String, style: TextStyle, text: &str) -> fmt::Result {
    writeln!(out, "\n{}", style.bold(text))
}

fn write_pairs(out: &mut String, style: TextStyle, findings: &Findings) -> fmt::Result {
    let directed = findings.talk.kind != "undirected";
    let estimated = findings.talk.estimate.is_some();
    let (third, fourth) = match (estimated, directed) {
        (true, _) => ("95 % interval", "hits"),
        (false, true) => ("→", "←"),
        (false, false) => ("", ""),
    };
    let seen = findings.pairs.iter().take(PAIRS_SHOWN).any(|pair| pair.at_once.is_some());
    let mut table = Table::new(&[
        ("pair", Align::Left),
        ("share", Align::Right),
        ("events", Align::Right),
        (third, Align::Right),
        (fourth, Align::Right),
        (if seen { "at once" } else { "" }, Align::Right),
        (if estimated { "evidence" } else { "" }, Align::Left),
    ])
    .within(style.width);
    for pair in findings.pairs.iter().take(PAIRS_SHOWN) {
        let one_way = |count| if directed { grouped(count) } else { String::new() };
        let (third, fourth) = match pair.estimate {
            Some(Estimate { hits, low, high }) => {
                (format!("{} – {}", short(low as f64), short(high as f64)), grouped(hits))
            }
            None => (one_way(pair.a_to_b), one_way(pair.b_to_a)),
        };
        let events = match estimated {
            true => short(pair.events() as f64),
            false => grouped(pair.events()),
        };
        let shown_by = if estimated { evidence::words(&pair.evidence) } else { String::new() };
        let at_once = match pair.at_once {
            Some(part) => percent(part),
            None if seen => "–".into(),
            None => String::new(),
        };
        let share = percent(pair.share);
        table.row(vec![pair_name(pair), share, events, third, fourth, at_once, shown_by]);
    }
    write!(out, "{table}")?;
    more(out, findings.pairs.len(), PAIRS_SHOWN, "pairs", "--json")?;
    let blocks = blocks(findings.measured.block_bytes);
    let note = match directed {
        false => format!(
            "  One event: a thread accesses one of the {blocks} that another of the last two \
             accessed (numalize's definition; no direction)."
        ),
        true => format!(
            "  Events: {}. One event: a thread reads, for the first time, one of the {blocks} that another \
             wrote last, or writes to one.",
            findings.talk.what
        ),
    };
    writeln!(out, "{}", style.wrap(&note, "  "))?;
    if seen {
        let note = "  At once: of the time in which both threads could run, the part in which both did (estimated).";
        writeln!(out, "{}", style.wrap(note, "  "))?;
    }
    Ok(())
}

fn pair_name(pair: &Pair) -> String {
    format!("T{} ↔ T{}", pair.a, pair.b)
}

/// Says that a list was cut, and where the rest is.
fn more(out: &mut String, all: usize, shown: usize, what: &str, elsewhere: &str) -> fmt::Result {
    match all.checked_sub(shown) {
        None | Some(0) => Ok(()),
        Some(rest) => {
            writeln!(out, "  and {} more {what}; all of them: {elsewhere}", grouped(rest as u64))
        }
    }
}

fn write_matrix(
    out: &mut String,
    style: TextStyle,
    findings: &Findings,
    profile: &Profile,
) -> fmt::Result {
    let threads = findings.threads.len();
    let elsewhere =
        format!("  The matrix of {threads} threads: --html FILE, or threadtalk export.");
    if threads > MATRIX_SHOWN {
        return writeln!(out, "{elsewhere}");
    }
    let ids: Vec<String> = (0..threads).map(|t| format!("T{t}")).collect();
    let mut columns = vec![("", Align::Left)];
    columns.extend(ids.iter().map(|id| (id.as_str(), Align::Right)));
    let mut table = Table::new(&columns).within(style.width);
    let matrix = talk_matrix(profile);
    let undirected = findings.talk.kind == "undirected";
    let dense = if undirected { matrix.to_symmetric_dense() } else { matrix.to_dense() };
    for (from, row) in dense.chunks(threads.max(1)).enumerate() {
        let cell = |(to, &count): (usize, &u64)| match count {
            _ if from == to => String::new(),
            0 => "·".into(),
            count => short(count as f64),
        };
        table
            .row([ids[from].clone()].into_iter().chain(row.iter().enumerate().map(cell)).collect());
    }
    if table.natural_width() > style.width {
        return writeln!(out, "{elsewhere}");
    }
    let direction = match undirected {
        true => "Events between the thread on the left and the one above:".into(),
        false => format!(
            "{} from the thread on the left to the one above:",
            capitalised(&findings.talk.what)
        ),
    };
    writeln!(out, "\n{}", style.wrap(&format!("  {direction}"), "  "))?;
    write!(out, "{table}")
}

/// With a large first letter.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn write_threads(out: &mut String, style: TextStyle, findings: &Findings) -> fmt::Result {
    let threads = &findings.threads;
    let directed = findings.talk.kind != "undirected";
    let sampled = findings.measured.sampled.is_some();
    let mut table = Table::new(&[
        ("thread", Align::Left),
        ("name", Align::Left),
        ("started in", Align::Left),
        (if sampled { "CPU time" } else { "loads" }, Align::Right),
        (if sampled { "" } else { "stores" }, Align::Right),
        (if directed { "gives" } else { "events" }, Align::Right),
        (if directed { "takes" } else { "" }, Align::Right),
    ])
    .within(style.width);
    let mut shown: Vec<&Thread> = threads.iter().collect();
    if threads.len() > THREADS_SHOWN {
        // The ones that talk most, in the order of their ids.
        shown.sort_by_key(|t| std::cmp::Reverse(t.talk_in + t.talk_out));
        shown.truncate(THREADS_SHOWN);
        shown.sort_by_key(|t| t.id);
    }
    for thread in shown {
        table.row(vec![
            format!("T{}", thread.id),
            printable(&thread.name),
            printable(&start(thread)),
            match (sampled, thread.cpu_ns) {
                (false, _) => short(thread.loads as f64),
                (true, 0) => "–".into(),
                (true, ns) => duration(ns as f64 / 1e9),
            },
            if sampled { String::new() } else { short(thread.stores as f64) },
            grouped(if directed { thread.talk_out } else { thread.talk_in + thread.talk_out }),
            if directed { grouped(thread.talk_in) } else { String::new() },
        ]);
    }
    write!(out, "{table}")?;
    more(out, threads.len(), THREADS_SHOWN, "threads that communicate less", "--json")
}

fn start(thread: &Thread) -> String {
    match (thread.start_symbol.as_str(), thread.start_routine.as_str()) {
        ("", "") if thread.id == 0 => "(initial thread)".into(),
        ("", "") => "–".into(),
        ("", routine) => routine.into(),
        (symbol, _) => symbol.into(),
    }
}

fn write_measured(out: &mut String, style: TextStyle, findings: &Findings) -> fmt::Result {
    let (measured, talk) = (&findings.measured, &findings.talk);
    let mut line = |text: String| writeln!(out, "{}", style.wrap(&format!("  {text}"), "  "));
    match &measured.sampled {
        Some(sampling) => {
            for sentence in sampled::sentences(sampling) {
                line(sentence)?;
            }
        }
        None => line(exactly(measured))?,
    }
    let in_windows = measured.observed > 0.0 && measured.observed < 1.0;
    let in_all = likely_false(talk).filter(|_| in_windows).unwrap_or_default();
    line(events(talk, measured.observed < 1.0) + &in_all)?;
    let (took, cpu) = (duration(measured.wall_seconds), duration(measured.cpu_seconds));
    line(match &measured.sampled {
        None => {
            format!(
                "The recorded run took {took} ({cpu} of CPU time), longer than the program alone."
            )
        }
        Some(sampling) if sampling.attached => {
            format!("It was sampled for {took}, in which it took {cpu} of CPU time.")
        }
        Some(_) => format!("The recorded run took {took} ({cpu} of CPU time)."),
    })?;
    if let (None, Some(own)) = (&measured.sampled, measured.own_time) {
        line(own_time(&own))?;
    }
    if let Some(slowed) = measured.slowed {
        line(slowed_by_others(&slowed))?;
    }
    if let Some(sentence) = findings.at_once.and_then(|found| found.sentence()) {
        line(sentence)?;
    }
    if measured.cache_flushes > 0 {
        line(format!(
            "The engine's code cache was full {}: so often all code was translated anew.",
            times(measured.cache_flushes)
        ))?;
    }
    let program = &findings.program;
    let ended = match (program.exit_code, program.exit_signal) {
        (_, Some(signal)) => format!("ended by signal {signal}"),
        (Some(code), None) => format!("exit code {code}"),
        (None, None) => "end unknown".into(),
    };
    line(format!(
        "{} on {}, {}; {}.",
        printable(&measured.tool),
        printable(&program.host),
        printable(&program.started),
        ended
    ))
}

/// What was seen exactly.
fn exactly(measured: &Measured) -> String {
    let (loads, stores) = (short(measured.loads as f64), short(measured.stores as f64));
    let bytes = measured.block_bytes;
    match measured.observed < 1.0 {
        true => format!(
            "Exact in windows: of about {loads} loads and {stores} stores, every one in a window was seen, \
             in blocks of {bytes} bytes."
        ),
        false => format!(
            "Exact: every one of {loads} loads and {stores} stores was seen, in blocks of {bytes} bytes."
        ),
    }
}

/// What the run would have taken alone.
fn own_time(OwnTime { seconds, low, high }: &OwnTime) -> String {
    format!(
        "Alone it would have taken about {} ({} to {}), as far as the time between windows tells.",
        duration(*seconds),
        duration(*low),
        duration(*high)
    )
}

/// How much longer threads take because others run at once.
fn slowed_by_others(Slowed { share, low, high, .. }: &Slowed) -> String {
    format!(
        "Of the processor time, {} ({} to {}) is waiting because threads run at once: in moments in which one ran \
         alone, its instructions took so much less. Fewer transfers cannot gain more than that.",
        percent(*share),
        percent(*low),
        percent(*high)
    )
}

/// The events of each kind.
fn events(talk: &Talk, estimated: bool) -> String {
    match talk.kind {
        "undirected" => format!(
            "Events: {} by numalize's definition, between a thread that accesses a block and the \
             two others that did last.",
            grouped(talk.undirected)
        ),
        _ if estimated => format!(
            "Events, estimated: {} read after another thread's write{}, {} written over another \
             thread's write{}.",
            grouped(talk.raw),
            by_sharing(talk.raw, talk.raw_true, talk.raw_false),
            grouped(talk.waw),
            by_sharing(talk.waw, talk.waw_true, talk.waw_false),
        ),
        _ => format!(
            "Events: {} read after another thread's write{}, {} written over another thread's \
             write{}, {} invalidated under a reader.",
            grouped(talk.raw),
            by_sharing(talk.raw, talk.raw_true, talk.raw_false),
            grouped(talk.waw),
            by_sharing(talk.waw, talk.waw_true, talk.waw_false),
            grouped(talk.invalidation)
        ),
    }
}

/// How much is likely false sharing, where that is not known of all events.
fn likely_false(talk: &Talk) -> Option<String> {
    let known = talk.raw_true + talk.raw_false + talk.waw_true + talk.waw_false;
    let share = talk.false_share.filter(|_| known < talk.raw + talk.waw)?;
    Some(format!(" In all, {} are likely false sharing.", percent(share)))
}

/// How often something happened.
fn times(count: u64) -> String {
    match count {
        1 => "once".into(),
        _ => format!("{} times", grouped(count)),
    }
}

/// How many of `all` events are false sharing, and of how many it is not known, where that was told
/// apart.
fn by_sharing(all: u64, truly: u64, falsely: u64) -> String {
    let known = truly.saturating_add(falsely);
    match (known, all.saturating_sub(known)) {
        (0, _) => String::new(),
        (_, 0) => format!(" ({} of them false sharing)", grouped(falsely)),
        (_, unknown) => {
            format!(" ({} of them false sharing, {} unknown)", grouped(falsely), grouped(unknown))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{assert_word_for_word, sample, shared};

    const PLAIN: TextStyle = TextStyle { colour: false, width: 80, lines: Some(10) };

    #[test]
    fn a_small_report_word_for_word() {
        let profile = sample(3, &[(0, 1, 1900), (1, 0, 40), (2, 0, 60)]).profile();
        let text = text(&Findings::new(&profile, None, 10), &profile, PLAIN);
        assert_word_for_word("expected.txt", &text);
    }

    #[test]
    fn what_windows_did_not_see_is_not_said_to_be_exact() {
        let mut profile = sample(2, &[(0, 1, 1900)]).profile();
        let said = |profile: &Profile| text(&Findings::new(profile, None, 10), profile, PLAIN);
        profile.meta.mode = profile::Mode::Windows;
        profile.meta.windows = Some(profile::Windows {
            asked: "20%".into(),
            windows: 25,
            too_short: false,
            observed: 0.25,
            whole: 0.0,
            warm_up_ns: 2_000_000,
            missed: 0.0,
            alike: 0.0,
            false_share: None,
        });
        let text = said(&profile);
        assert!(text.contains("Exact in windows: of about "), "{text}");
        assert!(text.contains("Events, estimated: "), "{text}");
        assert!(!text.contains("likely"), "{text}");
        profile.meta.totals.raw_false = 900;
        profile.meta.windows.as_mut().unwrap().false_share = Some(0.75);
        let text = said(&profile).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("In all, 75 % are likely false sharing."), "{text}");
        profile.meta.windows.as_mut().unwrap().observed = 1.0;
        assert!(said(&profile).contains("Exact: every one of "), "{}", said(&profile));
    }

    #[test]
    fn a_linkers_command_does_not_fill_the_screen() {
        let mut profile = sample(3, &[(0, 1, 1900)]).profile();
        profile.meta.command = (0..900).map(|n| format!("/usr/lib/object-{n}.o")).collect();
        let text = text(&Findings::new(&profile, None, 10), &profile, PLAIN);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("Threadtalk · /usr/lib/object-0.o "), "{first}");
        assert!(first.ends_with('…') && first.chars().count() < 4 * PLAIN.width, "{first}");
    }

    #[test]
    fn a_full_code_cache_is_mentioned() {
        let mut profile = sample(3, &[(0, 1, 1900)]).profile();
        let said = |profile: &Profile| {
            let text = text(&Findings::new(profile, None, 10), profile, PLAIN);
            text.lines().find(|l| l.contains("code cache")).map(|l| l.trim().to_string())
        };
        assert_eq!(said(&profile), None);
        profile.meta.cache_flushes = 1;
        assert!(said(&profile).unwrap().contains("was full once: so often"));
        profile.meta.cache_flushes = 1200;
        assert!(said(&profile).unwrap().contains("was full 1,200 times"));
    }

    #[test]
    fn hot_lines_word_for_word() {
        let profile = shared();
        let text = text(&Findings::new(&profile, None, 10), &profile, PLAIN);
        assert_word_for_word("expected_lines.txt", &text);
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn lines_that_hardly_matter_are_not_gone_into() {
        let profile = shared();
        let style = TextStyle { lines: None, ..PLAIN };
        let text = text(&Findings::new(&profile, None, 10), &profile, style);
        assert!(text.contains("  #3  0x7f0000001000  heap"));
        assert!(text.contains("  #2 queue") && !text.contains("  #3 0x7f0000001000"), "{text}");
    }

    #[test]
    fn lines_are_not_listed_where_none_stands_out() {
        let profile = shared();
        let mut findings = Findings::new(&profile, None, 10);
        findings.lines.as_mut().unwrap().list.iter_mut().for_each(|line| line.share = 0.001);
        let said = text(&findings, &profile, TextStyle { lines: None, ..PLAIN });
        assert!(
            said.contains("No cache line stands out: the hottest 3 of 3 cache lines"),
            "{said}"
        );
        assert!(!said.contains("#1 ") && !said.contains("takes:"), "{said}");
        assert!(text(&findings, &profile, PLAIN).contains("  #1 "), "asked for");
    }

    #[test]
    fn pairs_without_direction() {
        let mut profile = sample(3, &[(0, 1, 1900), (0, 2, 60)]).profile();
        profile.meta.parameters.counted = profile::Counted::Undirected;
        profile.comm.retain(|row| row.kind == types::CommKind::Raw);
        profile.comm.iter_mut().for_each(|row| row.kind = types::CommKind::Undirected);
        profile.meta.totals = profile::Totals::of(&profile.threads, &profile.comm);
        let text = text(&Findings::new(&profile, None, 10), &profile, PLAIN);
        let start = "3 threads meet on cache lines 980 times per second of the recorded run, 97 % of\n\
                     them within T0↔T1.\n";
        assert!(text.contains(start), "{text}");
        assert!(text.contains("  pair     share  events\n  T0 ↔ T1   97 %   1,900\n"), "{text}");
        assert!(text.contains("         T0     T1  T2\n  T0         1.9 k  60\n"), "{text}");
        assert!(text.contains("  stores  events\n"), "{text}");
        assert!(text.contains("  1.0 k     500   1,960\n"), "{text}");
    }

    #[test]
    fn colours_only_when_asked() {
        let mut profile = sample(2, &[(0, 1, 5)]).profile();
        profile.threads[1].identity.name = "\x1b[31mred\n".into();
        profile.meta.command = vec!["\x07".into()];
        let findings = Findings::new(&profile, None, 10);
        assert!(!text(&findings, &profile, PLAIN).contains('\x1b'));
        let coloured = text(&findings, &profile, TextStyle { colour: true, ..PLAIN });
        assert!(coloured.contains("\x1b[1mThreads\x1b[0m"));
        assert!(coloured.contains("\u{fffd}[31mred\u{fffd}"));
    }

    #[test]
    fn many_threads_are_cut_and_counted() {
        let chain: Vec<_> = (0..99).map(|t| (t, t + 1, 10 + u64::from(t))).collect();
        let profile = sample(100, &chain).profile();
        let text = text(&Findings::new(&profile, None, 10), &profile, PLAIN);
        assert!(text.contains("  and 89 more pairs; all of them: --json\n"));
        assert!(
            text.contains("  and 68 more threads that communicate less; all of them: --json\n")
        );
        assert!(text.contains("  The matrix of 100 threads: --html FILE, or threadtalk export.\n"));
        // The last ones talk most.
        assert!(text.contains("\n  T98 ") && !text.contains("\n  T50 "));
    }
}
