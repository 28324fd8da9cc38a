//! How the threads communicate, in sentences: pattern, metrics, and what they suit.
//!
//! Text, JSON and the page show the same ones. Neighbours: `analysis` supplies the facts.

use crate::wording::list;
use analysis::{
    Axis, Communication, Evidence, Judgement, Metrics, Pattern, Phase, Progress, Recognised, Suited,
};
use std::iter;
use types::numbers::{duration, grouped, percent, short};

/// Threads that are named one by one.
const NAMED: usize = 6;
/// Phases that are told one by one.
const PHASES: usize = 5;

/// The sentences, most important first; empty when there is no other thread to communicate with.
pub(crate) fn sentences(found: &Communication, threads: usize, progress: &Progress) -> Vec<String> {
    if threads < 2 || found.pattern.pattern == Pattern::Silent {
        return vec![];
    }
    if let Some(evidence) = found.evidence.filter(|_| found.pattern.pattern == Pattern::Unknown) {
        return too_few(&evidence);
    }
    if found.pattern.pattern == Pattern::Unknown && found.evidence.is_none() {
        let events: u64 = found.phases.iter().map(|phase| phase.events).sum();
        return vec![format!(
            "Pattern: not known, {} events are too few to tell one.",
            grouped(events)
        )];
    }
    let mut said = vec![pattern(&found.pattern, found.evidence.is_some())];
    said.extend(left_out(&found.pattern));
    said.push(judgement("Placing for locality", &found.suitability.locality));
    said.push(judgement("Placing for balance", &found.suitability.balance));
    said.extend(phases(&found.phases, progress));
    said.push(metrics(&found.metrics, progress.own.is_some()));
    said
}

/// That samples do not tell a pattern; nothing where there are none, which the verdict says.
fn too_few(evidence: &Evidence) -> Vec<String> {
    let Evidence { hits, threads, .. } = *evidence;
    let text = match (hits, evidence.enough()) {
        (0, _) => return vec![],
        (_, false) if !evidence.windows_suffice => {
            "Pattern: not known, there are not enough windows.".into()
        }
        (_, false) => "Pattern: not known, there are not enough samples.".into(),
        (_, true) => format!(
            "Pattern: none that {} samples would show; they are too few to tell an irregular one of {threads} \
             threads from all-to-all.",
            grouped(hits)
        ),
    };
    vec![text]
}

/// `Pattern: nearest neighbour, a line of 8 threads (97 % sure).`
///
/// How well it fits samples says how sure it is only as far as these show what happens.
fn pattern(found: &Recognised, sampled: bool) -> String {
    let sure = |confidence: f64| match sampled {
        true => format!("fits the samples to {}", percent(confidence)),
        false => format!("{} sure", percent(confidence)),
    };
    let mut text = format!("Pattern: {} ({}).", shape(found), sure(found.confidence));
    if let Some(beneath) = &found.beneath {
        let (shape, sure) = (shape(beneath), sure(beneath.confidence));
        text.push_str(&format!(" Among the others: {shape} ({sure})."));
    }
    text
}

fn shape(found: &Recognised) -> String {
    let parts = &found.parts;
    let threads: usize = parts.iter().map(Vec::len).sum();
    let name = found.pattern.name();
    let first = || parts.first().and_then(|part| part.first()).copied().unwrap_or(0);
    match found.pattern {
        Pattern::Initialisation => format!("{name}, T{} gives to {} others", first(), threads - 1),
        Pattern::Reduction => format!("{name}, T{} takes from {} others", first(), threads - 1),
        Pattern::Hub => format!("{name}, T{} with {} others", first(), threads - 1),
        Pattern::NearestNeighbour => {
            format!("{name}, a {} of {threads} threads", if found.closed { "ring" } else { "line" })
        }
        Pattern::Matrix => {
            let columns = parts.iter().map(Vec::len).max().unwrap_or(0);
            let torus = if found.closed { ", closed to a torus" } else { "" };
            format!("{name} of {} × {columns} threads{torus}", parts.len())
        }
        Pattern::Pipeline => {
            let stages: Vec<String> = parts.iter().map(|part| part.len().to_string()).collect();
            match parts.iter().all(|part| part.len() == 1) {
                true => format!("{name} of {} stages", parts.len()),
                false => format!("{name} of stages with {} threads", list(&stages)),
            }
        }
        Pattern::Groups => {
            let (least, most) =
                (parts.iter().map(Vec::len).min(), parts.iter().map(Vec::len).max());
            let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
            match least == most {
                true => format!("{} {name} of {most} threads", parts.len()),
                false => format!("{} {name} of {least} to {most} threads", parts.len()),
            }
        }
        Pattern::Pair => format!("{name}, {}", named(&parts[0])),
        Pattern::AllToAll | Pattern::Irregular | Pattern::Silent | Pattern::Unknown => {
            format!("{name}, {threads} threads")
        }
    }
}

/// Who and what was left out of the pattern.
fn left_out(found: &Recognised) -> Option<String> {
    let quiet = match found.quiet.as_slice() {
        [] => None,
        [one] => Some(format!("T{one} hardly takes part")),
        several => Some(format!("{} hardly take part", named(several))),
    };
    let set_up = (found.set_up >= 0.01).then(|| {
        format!("{} of it, T0's setting up or collecting, is left out", percent(found.set_up))
    });
    match (quiet, set_up) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(format!("{one}.")),
        (Some(quiet), Some(set_up)) => Some(format!("{quiet}; {set_up}.")),
    }
}

fn named(threads: &[u32]) -> String {
    if threads.len() > NAMED {
        return format!("{} threads", grouped(threads.len() as u64));
    }
    list(&threads.iter().map(|id| format!("T{id}")).collect::<Vec<_>>())
}

fn judgement(what: &str, judgement: &Judgement) -> String {
    let verdict = match judgement.suited {
        Suited::Yes => "suits it",
        Suited::Partly => "suits it in part",
        Suited::No => "gains little",
        Suited::Unknown => "may gain or not",
    };
    format!("{what} {verdict}: {}.", judgement.why)
}

/// In seconds of the program's own time, or where that is not known, in parts of its work.
fn phases(phases: &[Phase], progress: &Progress) -> Option<String> {
    if phases.len() < 2 {
        return None;
    }
    let when = |part: f64| match progress.own {
        Some(own) => duration(part * own.seconds),
        None => percent(part),
    };
    let before = iter::once(None).chain(phases.iter().map(|phase| phase.pattern));
    let told: Vec<String> = iter::zip(&phases[..phases.len().min(PHASES)], before)
        .map(|(phase, before)| {
            let name = phase.pattern.map_or("not looked at", Pattern::name);
            let is_again = phase.pattern.is_some() && phase.pattern == before;
            let form = if is_again { " in another form" } else { "" };
            format!("{name}{form} until {}", when(phase.end))
        })
        .collect();
    let more = match phases.len().saturating_sub(PHASES) {
        0 => String::new(),
        rest => format!(", and {} more", grouped(rest as u64)),
    };
    let of = match (progress.own, progress.axis) {
        (Some(_), _) => " of the program's own time",
        (None, Axis::Work) => " of the program's work",
        (None, Axis::Time) => " of the recorded run",
    };
    Some(format!("It has {} phases: {}{of}{more}.", phases.len(), list(&told)))
}

fn metrics(metrics: &Metrics, own_time: bool) -> String {
    let second = if own_time { "second" } else { "recorded second" };
    let mut parts = vec![
        format!("heterogeneity C_H {:.0}", metrics.heterogeneity),
        format!("balance C_B {:.0} %", metrics.balance),
    ];
    if let Some(unevenness) = metrics.unevenness {
        parts.insert(1, format!("unevenness of the pairs {unevenness:.2}"));
    }
    if let Some(amount) = metrics.amount {
        parts.push(format!("amount C_A {} events per pair and {second}", short(amount)));
    }
    if let Some(ratio) = metrics.ratio {
        parts.push(format!("ratio C_R {} events per thousand accesses", short(ratio * 1e3)));
    }
    if let Some(changes) = metrics.dynamicity {
        parts.push(format!("dynamicity C_D {changes:.1} changes per {second}"));
    }
    format!("Metrics: {}.", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample;

    fn said(threads: u32, talk: &[(u32, u32, u64)]) -> Vec<String> {
        let profile = sample(threads, talk).profile();
        sentences(&Communication::of(&profile), threads as usize, &Progress::of(&profile))
    }

    #[test]
    fn a_line_in_sentences() {
        let line: Vec<_> = (1..8).flat_map(|t| [(t, t + 1, 90), (t + 1, t, 90)]).collect();
        let said = said(9, &line[..14]);
        assert_eq!(said[0], "Pattern: nearest neighbour, a line of 8 threads (100 % sure).");
        assert_eq!(said[1], "T0 hardly takes part.");
        assert_eq!(
            said[2],
            "Placing for locality suits it: neighbours can share caches, so that little is left \
             between groups."
        );
        assert_eq!(
            said[3],
            "Placing for balance gains little: the threads communicate about equally much (C_B \
             is 29 %)."
        );
        // 7 pairs of 270: C_A 1890 / (81 · 2 s), C_R 1890 / (9 · 1500).
        assert_eq!(
            said[4],
            "Metrics: heterogeneity C_H 768, unevenness of the pairs 0.81, balance C_B 29 %, amount \
             C_A 12 events per pair and recorded second, ratio C_R 140 events per \
             thousand accesses."
        );
        assert_eq!(said.len(), 5);
    }

    #[test]
    fn phases_are_told_in_the_programs_own_terms() {
        let phase = |start, end, pattern| Phase {
            start,
            end,
            events: 5,
            heterogeneity: 0.0,
            pattern: Some(pattern),
            confidence: None,
        };
        let found = [phase(0.0, 0.8, Pattern::Silent), phase(0.8, 1.0, Pattern::AllToAll)];
        let mut progress = Progress::of(&sample(2, &[]).profile());
        let said = |progress: &Progress| phases(&found, progress).unwrap();
        assert_eq!(
            said(&progress),
            "It has 2 phases: silent until 80 % and all-to-all until 100 % of the program's work."
        );
        let (seconds, low, high) = (5.0, 4.0, 6.0);
        progress.own = Some(profile::OwnTime { seconds, low, high });
        assert_eq!(
            said(&progress),
            "It has 2 phases: silent until 4.00 s and all-to-all until 5.00 s of the program's own time."
        );
    }

    #[test]
    fn phases_of_one_pattern_are_told_apart_and_many_are_counted() {
        let phase = |end, pattern| Phase {
            start: 0.0,
            end,
            events: 5,
            heterogeneity: 0.0,
            pattern: Some(pattern),
            confidence: None,
        };
        let mut found = vec![phase(0.1, Pattern::Silent), phase(0.2, Pattern::AllToAll)];
        found.extend([0.3, 0.4, 0.5, 0.6, 1.0].map(|end| phase(end, Pattern::AllToAll)));
        let said = phases(&found, &Progress::of(&sample(2, &[]).profile())).unwrap();
        assert_eq!(
            said,
            "It has 7 phases: silent until 10 %, all-to-all until 20 %, all-to-all in another form until 30 %, \
             all-to-all in another form until 40 % and all-to-all in another form until 50 % of the program's \
             work, and 2 more."
        );
    }

    #[test]
    fn shapes_have_words() {
        let shape = |threads: u32, talk: &[(u32, u32, u64)]| said(threads, talk)[0].clone();
        let gather: Vec<_> = (1..6).map(|t| (t, 0, 50)).collect();
        assert_eq!(shape(6, &gather), "Pattern: reduction, T0 takes from 5 others (100 % sure).");
        let chain: Vec<_> = (0..5).map(|t| (t, t + 1, 50)).collect();
        assert_eq!(shape(6, &chain), "Pattern: pipeline of 6 stages (100 % sure).");
        let pairs = [(0, 1, 50), (2, 3, 50), (5, 4, 50)];
        assert_eq!(shape(6, &pairs), "Pattern: 3 groups of 2 threads (100 % sure).");
        assert_eq!(shape(4, &[(3, 1, 50)]), "Pattern: pair, T3 and T1 (100 % sure).");
        let few = said(4, &[(3, 1, 5)]);
        assert_eq!(few, ["Pattern: not known, 7 events are too few to tell one."]);
    }

    #[test]
    fn nobody_to_communicate_with() {
        assert_eq!(said(1, &[]), [""; 0]);
        assert_eq!(said(3, &[]), [""; 0]);
    }
}
