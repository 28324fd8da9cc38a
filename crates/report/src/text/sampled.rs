//! How a profile was sampled, in sentences.
//!
//! Neighbours: `profile::Sampling` says it in figures, `text` prints these at the end.

use crate::numbers::{duration, grouped, percent, short};
use profile::{Basis, Detector, Sampling};

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
            "{} of these were on lines that no sample showed being written; who writes them, and that the \
             bytes are the same, is inferred from what is written around them.",
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
    use crate::{Findings, samples};

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
            headline.starts_with("Not enough samples: none showed any of the 5 threads reading"),
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
