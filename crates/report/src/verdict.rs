//! The verdict: the findings in a few sentences, the most important first.
//!
//! Problem: name the shape of the talk (a few pairs, one thread in the middle, all threads with
//! all) only when the numbers say so, and say when there is nothing to gain. Units: events and
//! shares of events. Neighbour: `findings` supplies the facts.

use crate::at_once::AtOnce;
use crate::causes::{Cause, CauseKind, Causes, MUCH};
use crate::evidence;
use crate::layouts::Placement;
use crate::reliability::{Reliability, RestOn};
use crate::talk::{Pair, Talk, Thread};
use crate::wording::list;
use analysis::MatrixKind;
use serde::Serialize;
use ts_rs::TS;
use types::Evidence;
use types::numbers::{grouped, percent, short};

/// What a person should know first.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Verdict {
    /// The shape of the communication.
    pub shape: Shape,
    /// One sentence.
    pub headline: String,
    /// Further sentences.
    pub details: Vec<String>,
}

/// The shape of the talk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// One thread, or none.
    Single,
    /// Sampled, and too seldom to say who talks to whom.
    TooFewSamples,
    /// No talk at all.
    Silent,
    /// So little that it takes a negligible part of the run.
    Negligible,
    /// One thread takes part in most of the talk with several others.
    Hub,
    /// A few pairs carry most of it.
    Pairs,
    /// None of these.
    Spread,
}

/// What the verdict is made from.
pub(crate) struct Facts<'a> {
    pub talk: &'a Talk,
    pub causes: &'a Causes,
    pub pairs: &'a [Pair],
    pub threads: &'a [Thread],
    pub placement: Option<&'a Placement>,
    pub block_bytes: u64,
    /// How much the threads ran at the same time, where that was too little.
    pub apart: Option<AtOnce>,
    /// Of amounts that are estimates.
    pub reliability: Option<&'a Reliability>,
}

/// "Most of the talk": the share that a few pairs must carry to be named.
const MAX: f64 = 0.8;
/// Share of the talk that makes a thread a hub.
const HUB: f64 = 0.6;
/// Most pairs that a headline names.
const NAMED_PAIRS: usize = 4;
/// Most causes that the verdict tells.
const CAUSES: usize = 3;
/// Share of the events whose code has to be known to say that none of it is worth a change.
const MIN_KNOWN: f64 = 0.8;
/// Share of synchronisation from which on it is said.
const NOTABLE_SYNCHRONIZATION: f64 = 0.05;
/// Share of inferred events from which on it is said.
const NOTABLE_INFERRED: f64 = 0.05;
/// Differences in cost below this share are none: the costs are not known better.
const WORTHWHILE: f64 = 0.02;
/// Events per thousand loads and stores below which talk is negligible: at about 100 ns for a line
/// from another core and 0.3 ns per access, 0.01 is 0.3 % of the time.
const NEGLIGIBLE_PER_THOUSAND_ACCESSES: f64 = 0.01;

/// The verdict on these facts.
pub(crate) fn verdict(facts: &Facts<'_>) -> Verdict {
    let threads = facts.threads.len();
    let plain = |shape, headline: String| Verdict { shape, headline, details: vec![] };
    if threads <= 1 {
        let text =
            "The program ran a single thread: nothing communicates, and there is nothing to place.";
        return plain(Shape::Single, text.into());
    }
    let mut details = causes(facts);
    details.extend(inferred(facts.talk));
    if let Some(too_few) = facts.reliability.and_then(|found| found.too_few.clone()) {
        return Verdict { shape: Shape::TooFewSamples, headline: too_few, details };
    }
    if facts.talk.events == 0 {
        let text = format!(
            "The {threads} threads do not communicate through memory: where they run does not matter for \
             communication."
        );
        return plain(Shape::Silent, text);
    }
    let (shape, headline) = headline(facts);
    if shape == Shape::Hub {
        details.extend(hub_direction(facts));
    }
    if shape != Shape::Negligible {
        details.extend(facts.placement.and_then(placement_sentence));
    }
    Verdict { shape, headline, details }
}

/// What to change: the weightiest causes, and how much is synchronisation.
fn causes(facts: &Facts<'_>) -> Vec<String> {
    let list = &facts.causes.list;
    let leading = || list.iter().filter(|cause| cause.leads());
    let handed = |cause: &&Cause| cause.kind == CauseKind::Transferred;
    // Data that is transferred is said where nothing else that is to be changed costs as much.
    let others = leading().filter(|cause| !handed(cause)).map(Cause::weight);
    let most = others.fold(0.0, f64::max);
    let told = leading().filter(|cause| !handed(cause) || cause.weight() > most).take(CAUSES);
    let mut said: Vec<String> = told.map(|cause| cause.text.clone()).collect();
    // Too few of them say nothing of what was not seen.
    let enough = facts.reliability.is_none_or(|found| found.too_few.is_none());
    if said.is_empty() && !list.is_empty() && enough {
        let waiting = facts.reliability.is_some_and(|found| found.rest_on == RestOn::Waiting);
        said.push(match facts.causes.known < MIN_KNOWN {
            true => not_by_code(facts.causes.known),
            false => nothing_to_change(list, waiting, facts.reliability.is_none()),
        });
    }
    let notable = |share: &f64| enough && *share >= NOTABLE_SYNCHRONIZATION;
    if let Some(share) = facts.causes.synchronization.filter(notable) {
        said.push(format!(
            "{} of the transfers are synchronization (locks, barriers, runtimes), {} data.",
            percent(share),
            percent(1.0 - share)
        ));
    }
    said
}

/// That no cause is worth a change, by events that were all `counted` or not.
fn nothing_to_change(list: &[Cause], by_waiting: bool, counted: bool) -> String {
    if by_waiting && list.iter().any(|cause| cause.cost.may_be_worth()) {
        return "Whether a data structure is worth a change is not known: these samples show where threads waited, \
                not how often lines moved. Record exactly, or in windows."
            .into();
    }
    let (mut most, mut high) = (0.0_f64, 0.0_f64);
    for cost in list.iter().map(|cause| &cause.cost) {
        most = most.max(cost.cpu_share.unwrap_or(0.0));
        high = high.max(cost.high.unwrap_or(0.0));
    }
    no_cause(most, high, counted)
}

/// That what is known is too little.
fn not_by_code(known: f64) -> String {
    format!(
        "Whether a data structure is worth a change for its transfers is not known: the code is known of only {} of \
         them.",
        percent(known)
    )
}

/// That none is, by what the dearest one seems to cost, and what one costs at the most.
fn no_cause(most: f64, high: f64, counted: bool) -> String {
    let about = match most < 0.01 {
        true => "as much as 1 %".into(),
        false => format!("more than about {}", percent(most)),
    };
    if high >= MUCH {
        let then = match counted {
            true => "without --exact: windows measure what transfers cost",
            false => "with a larger --budget, or with --exact",
        };
        return format!(
            "Whether a data structure is worth a change for its transfers is not known: none seems to cost {about} of \
             the processor time, but one may cost up to {}. Record longer, {then}.",
            percent(high)
        );
    }
    format!(
        "No data structure is worth a change for its transfers: none costs {about} of the processor time (an \
         estimate)."
    )
}

/// That a notable part of the events is inferred.
fn inferred(talk: &Talk) -> Option<String> {
    let part = evidence::part(&talk.evidence, Evidence::Inferred);
    let text = || {
        format!(
            "{} of the communication is inferred: which bytes these threads write is not known, so that it is neither \
             called true nor false sharing.",
            percent(part)
        )
    };
    (part >= NOTABLE_INFERRED).then(text)
}

fn headline(facts: &Facts<'_>) -> (Shape, String) {
    let threads = facts.threads.len();
    if let Some(rate) = facts.talk.events_per_thousand_accesses
        && rate < NEGLIGIBLE_PER_THOUSAND_ACCESSES
    {
        let what = format!(
            "{} {} in the whole run, one in {} accesses",
            grouped(facts.talk.events),
            events(facts, facts.talk.events),
            short(1e3 / rate)
        );
        let text = match facts.apart.and_then(|apart| apart.ran) {
            Some(ran) => format!(
                "The {threads} threads hardly communicated: {what}. But they ran at the same time for only {} of the \
                 time in which they could: how much they communicate when they do is not known.",
                percent(ran)
            ),
            None => format!(
                "The {threads} threads hardly communicate: {what}; placing them by their communication will change \
                 little."
            ),
        };
        return (Shape::Negligible, text);
    }
    let start = format!("{threads} threads {}", amount(facts));
    if let Some((hub, share)) = hub(facts) {
        let text = format!("{start}, and T{hub} takes part in {} of them.", percent(share));
        return (Shape::Hub, text);
    }
    let (count, share) = pairs_that_carry_most(facts.pairs.iter());
    let possible = threads * (threads - 1) / 2;
    if count <= NAMED_PAIRS && (2 * count < possible || possible == 1) {
        let named: Vec<String> =
            facts.pairs[..count].iter().map(|p| format!("T{}↔T{}", p.a, p.b)).collect();
        return (
            Shape::Pairs,
            format!("{start}, {} of them within {}.", percent(share), list(&named)),
        );
    }
    let text = if 2 * count < possible {
        format!(
            "{start}, {} of them in {} of {} possible pairs.",
            percent(share),
            grouped(count as u64),
            grouped(possible as u64)
        )
    } else {
        let top = &facts.pairs[0];
        format!(
            "{start}, spread over all: the strongest pair, T{}↔T{}, carries {}.",
            top.a,
            top.b,
            percent(top.share)
        )
    };
    (Shape::Spread, text)
}

/// `make 2.3 M cache-line transfers per second of the recorded run`.
///
/// The recorded run is slower than the program alone, so its seconds are named; where the program's
/// own time is known, rates are for that.
fn amount(facts: &Facts<'_>) -> String {
    let count = facts.talk.events;
    if facts.talk.kind == MatrixKind::Undirected.name() {
        let meet = format!("meet on {}", blocks(facts.block_bytes));
        return match facts.talk.events_per_recorded_second {
            Some(rate) => format!("{meet} {} times per second of the recorded run", short(rate)),
            None => format!("{meet} {} times", grouped(count)),
        };
    }
    let what = events(facts, count);
    let (own, recorded) = (facts.talk.events_per_second, facts.talk.events_per_recorded_second);
    let sampled = facts.reliability.is_some_and(|found| found.rest_on != RestOn::Windows);
    match (own, recorded) {
        (Some(rate), _) if sampled => {
            format!("make some {} {what} per second, by samples", short(rate))
        }
        (Some(rate), _) => {
            format!("make about {} {what} per second of their own time", short(rate))
        }
        (None, Some(rate)) => format!("make {} {what} per second of the recorded run", short(rate)),
        (None, None) => format!("make {} {what}", grouped(count)),
    }
}

/// What `count` of the events that are the talk are called.
fn events(facts: &Facts<'_>, count: u64) -> String {
    let unit = blocks(facts.block_bytes);
    let plural = if count == 1 { "" } else { "s" };
    match (facts.talk.kind == MatrixKind::Undirected.name(), facts.block_bytes) {
        (true, _) => format!("meeting{plural} on {unit}"),
        (false, 64) => format!("cache-line transfer{plural}"),
        (false, _) => format!("transfer{plural} of {unit}"),
    }
}

/// What is counted, for people.
pub(crate) fn blocks(block_bytes: u64) -> String {
    match block_bytes {
        64 => "cache lines".into(),
        bytes => format!("blocks of {bytes} bytes"),
    }
}

/// The least number of strongest pairs that carry [`MAX`] of their talk, and the share they carry.
fn pairs_that_carry_most<'a>(pairs: impl Iterator<Item = &'a Pair> + Clone) -> (usize, f64) {
    let total = pairs.clone().map(Pair::events).sum::<u64>() as f64;
    let mut carried = 0;
    let mut count = 0;
    for pair in pairs {
        carried += pair.events();
        count += 1;
        if carried as f64 / total >= MAX {
            break;
        }
    }
    (count, carried as f64 / total)
}

/// The thread that takes part in most of the talk, if it does so with at least three others.
fn hub(facts: &Facts<'_>) -> Option<(u32, f64)> {
    let total = facts.talk.events as f64;
    let share = |t: &Thread| (t.talk_in as f64 + t.talk_out as f64) / total;
    let hub = facts.threads.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let own = facts.pairs.iter().filter(|p| p.a == hub.id || p.b == hub.id);
    (share(hub) >= HUB && pairs_that_carry_most(own).0 >= 3).then(|| (hub.id, share(hub)))
}

fn hub_direction(facts: &Facts<'_>) -> Option<String> {
    if facts.talk.kind == MatrixKind::Undirected.name() {
        return None;
    }
    let (id, _) = hub(facts)?;
    let thread = &facts.threads[id as usize];
    let (out, both) = (thread.talk_out as f64, thread.talk_out as f64 + thread.talk_in as f64);
    match out / both {
        share if share >= MAX => Some(format!("The others take lines that T{id} wrote.")),
        share if share <= 1.0 - MAX => Some(format!("T{id} takes lines that the others wrote.")),
        _ => None,
    }
}

/// Below that, a factor is told in percent.
const SMALL_FACTOR: f64 = 1.2;

/// What the recommended placement changes; `None` when nothing can be said.
fn placement_sentence(placement: &Placement) -> Option<String> {
    let (chance, before, after) = (&placement.chance, placement.before(), placement.after());
    let (near, far) = (after.shares.last()?, chance.shares.last()?);
    if chance.cost <= 0.0 || after.cost > chance.cost * (1.0 - WORTHWHILE) {
        return Some(
            "Where the threads run on this machine makes no difference to what their communication costs."
                .into(),
        );
    }
    let times = match chance.cost / after.cost {
        times if times < SMALL_FACTOR => format!("{} more", percent(times - 1.0)),
        times if times.is_finite() && times < 100.0 => format!("{times:.1} times as much"),
        _ => "far more".into(),
    };
    let mut text = format!(
        "Placed by {}, {} of the communication goes {}; left to chance it would be {}, which \
         costs {times}.",
        after.policy,
        percent(near.share),
        near.level,
        percent(far.share),
    );
    if before.cost <= after.cost * (1.0 + WORTHWHILE) && before.shared_cores <= after.shared_cores {
        let order = if before.policy == "compact" { "Packed" } else { "Spread" };
        text.push_str(&format!(" {order} in order ({}) does as well.", before.policy));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use crate::samples::{Sample, sample, shared};
    use crate::verdict::Shape;
    use crate::{CauseKind, Findings};
    use profile::{EventRow, Mode, Windows};

    fn verdict(sample: &Sample) -> (Shape, String, Vec<String>) {
        let verdict = Findings::new(&sample.profile(), None, 0).verdict;
        (verdict.shape, verdict.headline, verdict.details)
    }

    #[test]
    fn one_thread_and_silent_threads() {
        let (shape, text, _) = verdict(&sample(1, &[]));
        assert_eq!(shape, Shape::Single);
        assert_eq!(
            text,
            "The program ran a single thread: nothing communicates, and there is nothing to place."
        );
        let (shape, text, _) = verdict(&sample(3, &[]));
        assert_eq!(shape, Shape::Silent);
        assert_eq!(
            text,
            "The 3 threads do not communicate through memory: where they run does not matter for \
             communication."
        );
    }

    #[test]
    fn negligible_talk_is_said_to_be() {
        let quiet = Sample { loads: 1_000_000, ..sample(2, &[(0, 1, 4)]) };
        let (shape, text, _) = verdict(&quiet);
        assert_eq!(shape, Shape::Negligible);
        assert_eq!(
            text,
            "The 2 threads hardly communicate: 6 cache-line transfers in the whole run, one in 500 k accesses; \
             placing them by their communication will change little."
        );
    }

    #[test]
    fn what_may_cost_much_is_not_called_nothing() {
        let said = |high| super::no_cause(0.015, high, false);
        assert!(said(0.05).starts_with("No data structure is worth a change"), "{}", said(0.05));
        assert!(
            said(0.4).contains("is not known") && said(0.4).contains("up to 40 %"),
            "{}",
            said(0.4)
        );
        assert!(super::no_cause(0.015, 0.4, true).contains("without --exact"));
    }

    #[test]
    fn what_is_not_known_by_code_may_be_worth_a_change() {
        let details = |part| {
            let mut profile = shared();
            let lost = part * (profile.meta.totals.raw + profile.meta.totals.waw);
            profile.threads.iter_mut().for_each(|thread| thread.instructions = 40_000_000);
            profile.meta.totals.raw += lost;
            profile.comm[0].count += lost;
            Findings::new(&profile, None, 0).verdict.details.concat()
        };
        assert!(details(0).contains("No data structure is worth a change"), "{}", details(0));
        let most = details(2);
        assert!(most.contains("is not known: the code is known of only"), "{most}");
    }

    /// What few windows saw does not show that nothing else is worth a change.
    #[test]
    fn too_few_windows_do_not_show_that_nothing_is_worth_a_change() {
        let details = |too_short| {
            let mut profile = shared();
            profile.meta.mode = Mode::Windows;
            profile.events.iter_mut().for_each(|event| event.hits = event.count);
            profile.threads.iter_mut().for_each(|thread| thread.instructions = 1_000_000_000);
            profile.meta.windows = Some(Windows {
                asked: "2x".into(),
                windows: 3,
                too_short,
                observed: 0.1,
                whole: 0.0,
                warm_up_ns: 2_000_000,
                missed: 0.0,
                alike: 0.0,
                false_share: None,
            });
            let verdict = Findings::new(&profile, None, 0).verdict;
            (verdict.shape, verdict.details.concat())
        };
        let (shape, said) = details(true);
        assert_eq!(shape, Shape::TooFewSamples);
        assert!(!said.contains("worth a change"), "{said}");
        let (shape, said) = details(false);
        assert_ne!(shape, Shape::TooFewSamples);
        assert!(said.contains("worth a change"), "{shape:?} {said}");
    }

    #[test]
    fn dear_transfers_are_told_beside_what_is_to_be_changed() {
        let told = |lines: u64| {
            let mut profile = shared();
            let of_line = |event: &&EventRow| event.line == 0x40_4100;
            let hand = profile.events.iter().find(of_line).copied().unwrap();
            let row = |i| EventRow { line: 0x7f10_0000_0000 + 64 * i, count: 99, ..hand };
            profile.events.extend((0..lines).map(row));
            let found = Findings::new(&profile, None, 0);
            let kind = |text: &String| found.causes.iter().find(|cause| cause.text == *text);
            found.verdict.details.iter().filter_map(kind).map(|cause| cause.kind).collect()
        };
        let changed: Vec<CauseKind> = told(10);
        assert!(changed.contains(&CauseKind::FalseSharing));
        assert!(!changed.contains(&CauseKind::Transferred), "{changed:?}");
        let dear: Vec<CauseKind> = told(1000);
        assert!(dear.contains(&CauseKind::FalseSharing));
        assert!(dear.contains(&CauseKind::Transferred), "{dear:?}");
    }

    #[test]
    fn pairs_are_named() {
        let two = sample(4, &[(0, 2, 490), (2, 0, 0), (1, 3, 300), (3, 1, 190), (0, 1, 20)]);
        let (shape, text, _) = verdict(&two);
        assert_eq!(shape, Shape::Pairs);
        assert_eq!(
            text,
            "4 threads make 750 cache-line transfers per second of the recorded run, 98 % of them within \
             T0↔T2 and T1↔T3."
        );
        let (shape, text, _) = verdict(&sample(2, &[(1, 0, 10)]));
        assert_eq!(shape, Shape::Pairs);
        assert_eq!(
            text,
            "2 threads make 7.5 cache-line transfers per second of the recorded run, 100 % of them within T0↔T1."
        );
    }

    #[test]
    fn a_hub_is_named_with_its_direction() {
        let star: Vec<_> = (1..6).map(|t| (0, t, 100)).chain([(1, 2, 50)]).collect();
        let (shape, text, details) = verdict(&sample(6, &star));
        assert_eq!(shape, Shape::Hub);
        assert_eq!(
            text,
            "6 threads make 412 cache-line transfers per second of the recorded run, and T0 takes part in \
             91 % of them."
        );
        assert_eq!(details, ["The others take lines that T0 wrote."]);
        let gather: Vec<_> = star.iter().map(|&(a, b, n)| (b, a, n)).collect();
        assert_eq!(verdict(&sample(6, &gather)).2, ["T0 takes lines that the others wrote."]);
    }

    #[test]
    fn spread_talk_is_not_pinned_on_anybody() {
        let mut all = Vec::new();
        (0..4).for_each(|a| (0..4).filter(|&b| a != b).for_each(|b| all.push((a, b, 10))));
        let (shape, text, _) = verdict(&sample(4, &all));
        assert_eq!(shape, Shape::Spread);
        assert_eq!(
            text,
            "4 threads make 90 cache-line transfers per second of the recorded run, spread over all: the \
             strongest pair, T0↔T1, carries 17 %."
        );
        let chain: Vec<_> = (0..15).map(|t| (t, t + 1, 10)).collect();
        let wide = Sample { block_bytes: 4096, ..sample(16, &chain) };
        assert_eq!(
            verdict(&wide).1,
            "16 threads make 112 transfers of blocks of 4096 bytes per second of the recorded run, 80 % of them in \
             12 of 120 possible pairs."
        );
    }
}
