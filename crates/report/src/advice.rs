//! What the hot lines suggest changing in the program, with the evidence.
//!
//! Problem: a list of lines is no finding. Approach: put lines together that the same code meets on
//! (the place that gives most, the place that takes most), so that an array over several lines is
//! one finding; report groups that carry a notable share of all RAW and WAW events. Two kinds:
//! false sharing, which only costs; and few lines that all threads really share, which serialise.
//! Pure. Neighbours: `lines` supplies the evidence, `verdict` shows the sentences.

use crate::code::{Code, Flow};
use crate::findings::Talk;
use crate::lines::{Access, AccessKind, Bytes, HotLine, Lines};
use crate::verdict::list;
use serde::Serialize;
use std::collections::BTreeMap;
use ts_rs::TS;
use types::CommKind;
use types::numbers::{grouped, percent};

/// A suggestion.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Advice {
    /// What is suggested.
    pub kind: AdviceKind,
    /// Share of all RAW and WAW events that it is about, 0 to 1.
    pub share: f64,
    /// Number of lines, and the address of the hottest one; empty when it is about code that meets
    /// on many.
    pub lines: u64,
    /// Address of the hottest of these lines.
    pub hottest: String,
    /// The finding, its evidence, and what to do about it.
    pub text: String,
}

/// What a suggestion is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum AdviceKind {
    /// Threads use different bytes of one line.
    FalseSharing,
    /// Threads really share few lines: locks, counters, queues' heads.
    Contended,
}

/// Shares of all events below which nothing is said.
const NOTABLE_FALSE: f64 = 0.05;
const NOTABLE_CONTENDED: f64 = 0.25;
const NOTABLE_FALSE_CODE: f64 = 0.1;
/// Fewer events than this cost no measurable time (50 µs at 100 ns each).
const MIN_EVENTS: u64 = 500;
/// Hits below which samples give no advice: of 20 that all are false sharing, at least 83 % are in
/// truth, with 97.5 % confidence (Clopper and Pearson: 0.025^(1/20)); one alone could be anything.
const MIN_HITS: u64 = 20;
/// Really shared lines are contended when they are this few; more are data that is passed on.
const FEW_LINES: u64 = 4;
/// Most suggestions.
const MOST: usize = 3;
/// RAW and WAW events per thousand accesses below which none of it matters (as for the talk).
const NEGLIGIBLE_PER_THOUSAND: f64 = 0.01;
/// Threads are listed one by one up to this many ranges.
const RANGES: usize = 3;

/// Lines that the same code meets on in the same way.
struct Group<'a> {
    kind: AdviceKind,
    events: u64,
    /// Samples that showed these events; `None`: they were counted.
    hits: Option<u64>,
    lines: u64,
    /// The first one is the hottest.
    hottest: &'a HotLine,
    giver: &'a Access,
    taker: &'a Access,
}

/// The suggestions for a run with that many loads and stores, the weightiest first.
pub(crate) fn advice(lines: &Lines, code: &Code, talk: &Talk, accesses: u64) -> Vec<Advice> {
    let events = talk.raw.saturating_add(talk.waw);
    if accesses > 0 && (events as f64) * 1e3 / (accesses as f64) < NEGLIGIBLE_PER_THOUSAND {
        return vec![];
    }
    let share = |group: &Group<'_>| group.events as f64 / lines.events.max(1) as f64;
    let mut groups: Vec<Group<'_>> = groups(&lines.list)
        .into_iter()
        .filter(|group| group.events >= MIN_EVENTS && are_enough(group.hits))
        .filter(|group| match group.kind {
            AdviceKind::FalseSharing => share(group) >= NOTABLE_FALSE,
            AdviceKind::Contended => share(group) >= NOTABLE_CONTENDED && group.lines <= FEW_LINES,
        })
        .collect();
    // Where most of what some code does is on lines beyond those looked at, that tells more.
    groups.retain(|g| {
        let beyond =
            |flow: &Flow| flow.sharing.falsely / 2 > g.events && on_many(flow, code).is_some();
        !code.list.iter().any(|flow| meets(g, flow) && beyond(flow))
    });
    // Stable: equal ones in the order of their hottest lines.
    groups.sort_by_key(|group| std::cmp::Reverse(group.events));
    let of_group = |group: &Group<'_>| Advice {
        kind: group.kind,
        share: share(group),
        lines: group.lines,
        hottest: group.hottest.address.clone(),
        text: sentence(group, share(group)),
    };
    let mut all: Vec<Advice> = groups.iter().map(of_group).collect();
    // Code that hot lines tell of already needs no second word.
    let told = |flow: &&Flow| groups.iter().any(|group| meets(group, flow));
    all.extend(code.list.iter().filter(|flow| !told(flow)).filter_map(|flow| on_many(flow, code)));
    all.sort_by(|a, b| b.share.total_cmp(&a.share));
    all.truncate(MOST);
    all
}

/// Whether something was seen often enough, if it was sampled.
fn are_enough(hits: Option<u64>) -> bool {
    hits.is_none_or(|hits| hits >= MIN_HITS)
}

/// Whether a group of lines is about the same code.
fn meets(group: &Group<'_>, flow: &Flow) -> bool {
    group.giver.place == flow.from && group.taker.place == flow.to
}

/// False sharing between two places in the code on many lines, none of them hot.
fn on_many(flow: &Flow, code: &Code) -> Option<Advice> {
    let falsely = flow.sharing.falsely;
    let share = falsely as f64 / code.events.max(1) as f64;
    let few = falsely < MIN_EVENTS || !are_enough(flow.hits);
    if few || share < NOTABLE_FALSE_CODE || flow.lines <= FEW_LINES {
        return None;
    }
    let s = |threads: &[u32]| if threads.len() == 1 { "s" } else { "" };
    let verb = if flow.kind == CommKind::Raw.name() { "read" } else { "overwrite" };
    let text = format!(
        "{} of the communication is false sharing on many lines: {} write{} {} and {} {verb}{} other \
         bytes of the same lines {}. Align the pieces of data that different threads work on to 64 \
         bytes.",
        percent(share),
        thread_list(&flow.from_threads),
        s(&flow.from_threads),
        flow.from.in_words(),
        thread_list(&flow.to_threads),
        s(&flow.to_threads),
        flow.to.in_words()
    );
    let (lines, hottest) = (flow.lines, String::new());
    Some(Advice { kind: AdviceKind::FalseSharing, share, lines, hottest, text })
}

/// Groups in the order of their hottest lines.
fn groups(lines: &[HotLine]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut known = BTreeMap::new();
    for line in lines {
        let (kind, events) = match (line.falsely(), line.truly()) {
            (falsely, _) if falsely > line.events / 2 => (AdviceKind::FalseSharing, falsely),
            (_, truly) if truly > line.events / 2 => (AdviceKind::Contended, truly),
            _ => continue,
        };
        let most = |count: fn(&Access) -> u64| {
            // The first of equal ones, as in the report's lists.
            line.accesses.iter().rev().max_by_key(|access| count(access))
        };
        let sides = match kind {
            AdviceKind::FalseSharing => (most(|a| a.gives_false), most(|a| a.takes_false)),
            AdviceKind::Contended => (most(|a| a.gives), most(|a| a.takes)),
        };
        let (Some(giver), Some(taker)) = sides else { continue };
        let index = *known.entry((kind, &giver.place, &taker.place)).or_insert_with(|| {
            let hits = line.hits.map(|_| 0);
            groups.push(Group { kind, events: 0, hits, lines: 0, hottest: line, giver, taker });
            groups.len() - 1
        });
        groups[index].events = groups[index].events.saturating_add(events);
        groups[index].hits = groups[index].hits.zip(line.hits).map(|(all, of_line)| all + of_line);
        groups[index].lines += 1;
    }
    groups
}

fn sentence(group: &Group<'_>, share: f64) -> String {
    let line = group.hottest;
    let name = match line.object.as_str() {
        "" => format!("at {} ({})", line.address, line.region),
        object => match object.split_once("; ") {
            None => format!("{object} at {}", line.address),
            Some((first, _)) => format!("{first} and others at {}", line.address),
        },
    };
    let lines = match group.lines {
        1 => format!("one line, {name}"),
        n => format!("{} lines, the hottest {name}", grouped(n)),
    };
    let it = if group.lines == 1 { "it" } else { "them" };
    match group.kind {
        AdviceKind::FalseSharing => format!(
            "{} of the communication is false sharing on {lines}: {}. Give each thread lines of its \
             own: pad or align to 64 bytes.",
            percent(share),
            evidence(group, &format!("its own bytes of {it}"))
        ),
        AdviceKind::Contended => format!(
            "{} of the communication goes through {lines}, which threads really share: {}. Use {it} \
             less often, or give each thread a copy and combine the copies.",
            percent(share),
            evidence(group, it)
        ),
    }
}

/// Who does what where; `object` is what all do it to if they do it in one place.
fn evidence(group: &Group<'_>, object: &str) -> String {
    let (giver, taker) = (group.giver, group.taker);
    if giver.place == taker.place {
        let threads = union(&giver.readers, &giver.writers);
        let each = if threads.len() > 1 { "each " } else { "" };
        let verb = match (giver.kind, each) {
            (AccessKind::Update, "") => "updates",
            (AccessKind::Update, _) => "update",
            (_, "") => "writes",
            _ => "write",
        };
        let place = giver.place.in_words();
        return format!("{} {each}{verb} {object} {place}", thread_list(&threads));
    }
    let does = |threads: &[u32], verb: &str, access: &Access| {
        let s = if threads.len() == 1 { "s" } else { "" };
        let (who, place) = (thread_list(threads), access.place.in_words());
        match access.bytes {
            Bytes(0) => format!("{who} {verb}{s} {object} {place}"),
            bytes => format!("{who} {verb}{s} bytes {} {place}", bytes.for_people()),
        }
    };
    let taking = match taker.kind {
        AccessKind::Read => does(&taker.readers, "read", taker),
        AccessKind::Write => does(&taker.writers, "write", taker),
        AccessKind::Update => does(&union(&taker.readers, &taker.writers), "update", taker),
    };
    format!("{} and {taking}", does(&giver.writers, "write", giver))
}

/// Both lists in order, each thread once.
pub(crate) fn union(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut all: Vec<u32> = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// `T1`, `T0, T2 and T4–T7`, `23 threads`; ids in order.
pub(crate) fn thread_list(threads: &[u32]) -> String {
    let runs: Vec<&[u32]> = threads.chunk_by(|a, b| a + 1 == *b).collect();
    if runs.len() > RANGES {
        return format!("{} threads", grouped(threads.len() as u64));
    }
    let run = |run: &&[u32]| match run {
        [one] => vec![format!("T{one}")],
        [one, two] => vec![format!("T{one}"), format!("T{two}")],
        [first, .., last] => vec![format!("T{first}–T{last}")],
        [] => vec![],
    };
    list(&runs.iter().flat_map(run).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Findings;
    use crate::samples::shared;
    use profile::Profile;
    use types::Sharing;

    fn found(profile: &Profile) -> Vec<Advice> {
        Findings::new(profile, None, 0).advice
    }

    fn sharing(profile: &mut Profile, line: u64, sharing: Sharing) {
        for event in profile.events.iter_mut().filter(|event| event.line == line) {
            event.sharing = sharing;
        }
        for row in profile.lines.iter_mut().filter(|row| row.line == line) {
            let (raw, waw) = (row.raw_true + row.raw_false, row.waw_true + row.waw_false);
            let truly = sharing == Sharing::True;
            (row.raw_true, row.raw_false) = if truly { (raw, 0) } else { (0, raw) };
            (row.waw_true, row.waw_false) = if truly { (waw, 0) } else { (0, waw) };
        }
    }

    #[test]
    fn false_sharing_with_its_evidence() {
        let [advice] = &found(&shared())[..] else { panic!() };
        assert_eq!((advice.kind, advice.lines), (AdviceKind::FalseSharing, 1));
        assert_eq!((advice.share, advice.hottest.as_str()), (4400.0 / 5125.0, "0x4040c0"));
        assert_eq!(
            advice.text,
            "86 % of the communication is false sharing on one line, counters+0x40..0x80 (app) at \
             0x4040c0: T1–T4 each update its own bytes of it in bump(long*) at a.c:31. Give each \
             thread lines of its own: pad or align to 64 bytes."
        );
    }

    #[test]
    fn a_line_that_all_really_share_is_contended() {
        let mut profile = shared();
        sharing(&mut profile, 0x40_40c0, Sharing::True);
        let [advice] = &found(&profile)[..] else { panic!() };
        assert_eq!(advice.kind, AdviceKind::Contended);
        assert_eq!(
            advice.text,
            "86 % of the communication goes through one line, counters+0x40..0x80 (app) at \
             0x4040c0, which threads really share: T1–T4 each update it in bump(long*) at a.c:31. \
             Use it less often, or give each thread a copy and combine the copies."
        );
    }

    #[test]
    fn giver_and_taker_in_different_places() {
        let mut profile = shared();
        sharing(&mut profile, 0x40_4100, Sharing::False);
        let found = found(&profile);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[1].text,
            "14 % of the communication is false sharing on one line, queue+0x0..0x40 (app) at \
             0x404100: T0 writes bytes 0–15 at libx.so.1+0x99 and T1 reads bytes 0–3 in take, \
             \"quoted\" at b.c:7. Give each thread lines of its own: pad or align to 64 bytes."
        );
    }

    #[test]
    fn lines_of_the_same_code_are_one_finding_and_small_ones_none() {
        let mut profile = shared();
        // The counters go on over a second, cooler line; what was on 0x404100 is gone.
        profile.events.retain(|event| event.line != 0x40_4100);
        profile.lines.retain(|row| row.line != 0x40_4100);
        let second: Vec<_> = profile.events[1..9]
            .iter()
            .map(|event| profile::EventRow { line: 0x40_4100, count: event.count / 2, ..*event })
            .collect();
        profile.lines.insert(2, profile::LineRow::of(&second));
        profile.events.splice(9..9, second);
        let [advice] = &found(&profile)[..] else { panic!() };
        assert_eq!(advice.lines, 2);
        assert!(advice.text.starts_with(
            ">99 % of the communication is false sharing on 2 lines, the hottest counters+0x40..0x80 \
             (app) at 0x4040c0: T1–T4 each update its own bytes of them in bump(long*)"
        ), "{}", advice.text);
        // The same in a run a million times as long is not worth a word.
        profile.meta.totals.loads = 1_000_000_000_000;
        assert_eq!(found(&profile), []);
    }

    #[test]
    fn code_that_meets_on_many_lines() {
        let mut profile = shared();
        let bump = profile.events[1];
        // Enough lines that none of them is among those looked at one by one, all cooler.
        let spread: Vec<_> = (0..1000)
            .map(|i| profile::EventRow {
                line: 0x7f10_0000_0000 + 64 * i,
                from_site: 3,
                to_site: 4,
                count: 4,
                ..bump
            })
            .collect();
        profile.lines.extend(spread.chunks(1).map(profile::LineRow::of));
        profile.events.extend(spread);
        profile.meta.totals.raw += 4000;
        let found = found(&profile);
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].lines, found[1].share), (1001, 4000.0 / 9125.0));
        assert_eq!(
            found[1].text,
            "44 % of the communication is false sharing on many lines: T0 and T1 write at \
             libx.so.1+0x99 and T1 and T2 read other bytes of the same lines in take, \"quoted\" at \
             b.c:7. Align the pieces of data that different threads work on to 64 bytes."
        );
    }

    #[test]
    fn threads_are_listed_briefly() {
        let cases: [(&[u32], &str); 5] = [
            (&[3], "T3"),
            (&[1, 2], "T1 and T2"),
            (&[0, 1, 2, 3, 7], "T0–T3 and T7"),
            (&[0, 2, 4, 5, 6], "T0, T2 and T4–T6"),
            (&[0, 2, 4, 6], "4 threads"),
        ];
        for (threads, expected) in cases {
            assert_eq!(thread_list(threads), expected);
        }
    }
}
