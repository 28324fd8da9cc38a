//! How a profile was sampled, in sentences.
//!
//! Neighbours: `profile::Sampling` says it in figures, `text` prints these at the end.

use profile::{Basis, Detector, Sampling};
use types::numbers::{duration, grouped, percent, short};

/// What was sampled and found, what amounts mean, what intervals hold, and what was lost.
pub(super) fn sentences(sampling: &Sampling) -> Vec<String> {
    let Sampling { source, samples, decoded, hits, .. } = sampling;
    let often = match sampling.period {
        0 => format!("about {} times per second of CPU time", short(sampling.rate)),
        period => format!("once in {} events", grouped(period)),
    };
    let named = if sampling.named { ", as named by the user" } else { "" };
    let mut list = vec![
        format!("Sampled: {source}{named}, {often}. {}.", sampling.reason),
        format!(
            "Of {} samples, {} ({}) could be told what they accessed; {} showed communication, by {}.",
            grouped(*samples),
            grouped(*decoded),
            percent(sampling.decode_yield().unwrap_or(0.0)),
            grouped(*hits),
            detectors(&sampling.detectors)
        ),
        format!("Amounts: {}.", basis(&sampling.basis)),
        "Intervals hold the true amount in 95 of 100 cases as far as chance goes; samples that come in \
         clusters, and what amounts rest on, make it less certain. What is rare may be missing."
            .into(),
    ];
    if sampling.inferred > 0 {
        list.push(format!(
            "{} of these were on lines that no sample showed being written; who writes them is inferred from what \
             is written around them, and whether the bytes are the same is not known.",
            grouped(sampling.inferred)
        ));
    }
    if sampling.lost + sampling.throttled > 0 {
        list.push(format!(
            "{} records were lost, and sampling was slowed down {} times by the kernel.",
            grouped(sampling.lost),
            grouped(sampling.throttled)
        ));
    }
    list.push(format!(
        "Reading the samples took {} of CPU time.",
        duration(sampling.reader_seconds)
    ));
    list
}

fn detectors(detectors: &[Detector]) -> String {
    let name = |detector: &Detector| match detector {
        Detector::Matching => "matching them with earlier ones of other threads",
        Detector::Transfers => "being transfers from another core",
        Detector::Watchpoints => "watchpoints on what other threads had written",
    };
    detectors.iter().map(name).collect::<Vec<_>>().join(" and ")
}

fn basis(basis: &Basis) -> String {
    match basis {
        Basis::Counters { event } => format!("as many as '{event}' counted"),
        Basis::Latency { transfer_ns, source } => format!(
            "the time that threads were sampled waiting for a line, divided by the {transfer_ns:.0} ns \
             that a line takes ({source}); an estimate, not a count"
        ),
        Basis::Period => {
            "each hit stands for as many accesses as lie between two samples; an estimate, not a count"
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{TextStyle, text};
    use crate::{Findings, Shape, samples};
    use types::{Evidence, Sharing};

    #[test]
    fn a_report_of_samples_says_what_is_known() {
        let profile = samples::sampled();
        let style = TextStyle { colour: false, width: 100, lines: Some(10) };
        let text = text(&Findings::new(&profile, None, 10), &profile, style);
        for part in [
            "make some 2.6 k cache-line transfers per second, by samples",
            "pair     share  events  95 % interval  hits",
            "T1 ↔ T2   21 %   1.1 k",
            "CPU time",
            "1.25 s",
            "Sampled: cpu-clock, about 2.0 k times per second of CPU time. No event counts",
            "Of 12,000 samples, 9,000 (75 %) could be told what they accessed; 130 showed",
            "12 of these were on lines that no sample showed being written; who writes them",
            "divided by the 80 ns that",
            "3 records were lost",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for part in ["loads", "stores", "invalidated", "longer than the program alone"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }

    /// [`samples::sampled`] with a single hit, of 3000 events.
    fn one_hit() -> profile::Profile {
        let mut profile = samples::sampled();
        profile.comm.truncate(1);
        profile.comm[0].count = 3000;
        profile.comm[0].sampled = Some(profile::Sampled { hits: 1, low: 75, high: 16_715 });
        profile.events.retain(|event| event.line == 0x40_4100);
        profile.events.iter_mut().for_each(|event| (event.count, event.hits) = (3000, 1));
        profile.lines = vec![profile::LineRow {
            region: "static".into(),
            ..profile::LineRow::of(&profile.events)
        }];
        profile.meta.totals = profile::Totals::of(&profile.threads, &profile.comm);
        profile.meta.sampled.as_mut().unwrap().hits = 1;
        profile
    }

    #[test]
    fn one_hit_is_no_pattern_no_phase_and_no_verdict() {
        let profile = one_hit();
        let findings = Findings::new(&profile, None, 10);
        let verdict = &findings.verdict;
        assert_eq!(verdict.shape, Shape::TooFewSamples);
        assert_eq!(
            verdict.headline,
            "Not enough samples: only 1 of 12000 showed communication, and it takes 40 to say who \
             communicates with whom and how much. Record longer, or with a higher --rate."
        );
        assert_eq!((verdict.details.len(), findings.causes.len()), (0, 0), "{verdict:?}");
        let communication = &findings.communication;
        assert_eq!(communication.pattern.pattern, analysis::Pattern::Unknown);
        assert_eq!((communication.phases.len(), communication.metrics.dynamicity), (1, None));
        assert_eq!(
            findings.communication_text,
            ["Pattern: not known, there are not enough samples."]
        );
        let estimate = findings.talk.estimate.unwrap();
        assert_eq!((estimate.hits, estimate.low, estimate.high), (1, 75, 16_716));
    }

    /// How amounts were obtained stands before any of them, in all forms.
    #[test]
    fn how_far_amounts_can_be_trusted_comes_first() {
        let profile = samples::sampled();
        let findings = Findings::new(&profile, None, 10);
        let style = TextStyle { colour: false, width: 1000, lines: Some(10) };
        let all = text(&findings, &profile, style);
        let first: Vec<&str> = all.lines().filter(|line| !line.is_empty()).take(3).collect();
        assert_eq!(first[0], "Threadtalk · ./app two words");
        assert_eq!(
            first[1],
            "Estimated, not counted: 119 of 12000 samples showed communication. For 9 % of them, who wrote the \
             line was inferred from what is written around it; which bytes, and so whether the sharing is \
             true or false, is not known. Amounts rest on how long threads were seen \
             waiting for lines, since nothing counted transfers. They may be 25 times too high, or miss \
             pairs altogether, and so may which pair has more. 'threadtalk calibrate -- COMMAND' says how \
             far they are off for this program."
        );
        assert!(first[2].starts_with("5 threads make some 2.6 k"), "{}", first[2]);
        let json = serde_json::to_string(&findings).unwrap();
        let at = |name: &str| json.find(name).unwrap();
        assert!(at("\"reliability\"") < at("\"verdict\"") && at("\"verdict\"") < at("\"events\""));
        assert!(json.contains("\"rest_on\":\"waiting\""), "{json}");
        // What was counted needs no such words.
        let exact = samples::shared();
        assert!(!text(&Findings::new(&exact, None, 10), &exact, style).contains("Estimated"));
    }

    /// Inferred events are neither true nor false sharing, and everything says that they are
    /// inferred.
    #[test]
    fn inferred_events_have_no_sharing_and_say_so() {
        let mut profile = samples::sampled();
        let all = Findings::new(&profile, None, 10);
        assert!(all.verdict.details.iter().all(|text| !text.contains("inferred")));
        for row in &mut profile.comm {
            (row.evidence, row.sharing) = (Evidence::Inferred, Sharing::Any);
        }
        for event in &mut profile.events {
            (event.evidence, event.sharing, event.from_bytes) =
                (Evidence::Inferred, Sharing::Any, 0);
        }
        let of_line = |events: &[profile::EventRow]| profile::LineRow::of(events);
        profile.lines = profile.events.chunk_by(|a, b| a.line == b.line).map(of_line).collect();
        profile.meta.totals = profile::Totals::of(&profile.threads, &profile.comm);
        let findings = Findings::new(&profile, None, 10);
        assert_eq!((findings.talk.raw_true, findings.talk.raw_false), (0, 0));
        assert!(findings.causes.is_empty(), "{:?}", findings.causes);
        let details = &findings.verdict.details;
        assert!(details[0].starts_with("100 % of the communication is inferred"), "{details:?}");
        for shares in [&findings.talk.evidence, &findings.pairs[0].evidence] {
            assert_eq!((shares.len(), shares[0].evidence), (1, "inferred"));
        }
        let line = &findings.lines.as_ref().unwrap().list[0];
        assert_eq!((line.truly(), line.falsely(), line.evidence[0].evidence), (0, 0, "inferred"));
        let style = TextStyle { colour: false, width: 100, lines: Some(10) };
        let text = text(&findings, &profile, style);
        let row = text.lines().find(|line| line.starts_with("  #1  ")).unwrap();
        assert!(row.ends_with("?      ?  inferred"), "{row}");
    }

    #[test]
    fn what_amounts_rest_on_is_said_of_every_basis() {
        let said = |basis: Basis| {
            let mut profile = samples::sampled();
            profile.meta.sampled.as_mut().unwrap().basis = basis;
            Findings::new(&profile, None, 10).reliability.unwrap().text[1].clone()
        };
        let counted = said(Basis::Counters { event: "r1643".into() });
        assert!(counted.starts_with("Amounts are what the event 'r1643' counted"), "{counted}");
        assert!(said(Basis::Period).contains("orders of magnitude"));
    }

    #[test]
    fn that_the_user_has_named_the_event_is_said() {
        let mut sampling = samples::sampled().meta.sampled.unwrap();
        let said = |sampling: &Sampling| sentences(sampling)[0].clone();
        assert!(!said(&sampling).contains("named"));
        (sampling.named, sampling.period) = (true, 200);
        let sentence = said(&sampling);
        assert!(
            sentence.starts_with("Sampled: cpu-clock, as named by the user, once in 200"),
            "{sentence}"
        );
    }

    #[test]
    fn silence_among_samples_is_no_proof() {
        let mut profile = samples::sampled();
        profile.comm.clear();
        profile.events.clear();
        profile.lines.clear();
        profile.meta.totals = profile::Totals::of(&profile.threads, &profile.comm);
        let headline = Findings::new(&profile, None, 10).verdict.headline;
        assert!(
            headline.starts_with(
                "Not enough samples: none of 12000 showed communication. The 5 threads hardly"
            ),
            "{headline}"
        );
    }

    #[test]
    fn the_sum_of_estimates_is_known_better_than_its_parts() {
        let profile = samples::sampled();
        let findings = Findings::new(&profile, None, 10);
        let all = findings.talk.estimate.unwrap();
        let events = findings.talk.events;
        assert!(all.low > events / 2 && all.high < events * 2, "{all:?} of {events}");
        assert!(findings.pairs.iter().all(|pair| pair.estimate.is_some()));
        assert_eq!(all.hits, findings.pairs.iter().map(|p| p.estimate.unwrap().hits).sum::<u64>());
    }

    #[test]
    fn every_basis_has_words() {
        let counters = Basis::Counters { event: "r1643".into() };
        assert_eq!(basis(&counters), "as many as 'r1643' counted");
        assert!(basis(&Basis::Period).ends_with("not a count"));
        assert!(detectors(&[Detector::Watchpoints, Detector::Transfers]).contains(" and being "));
    }
}
