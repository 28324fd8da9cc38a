//! How the amounts of a sampled profile were obtained, and how far they can be trusted, in
//! sentences that come before any of them.
//!
//! Neighbours: `analysis::Evidence` says how many hits there are; `findings`, and the verbs place
//! and diff, say it all first.

use analysis::{Choice, Evidence};
use profile::{Basis, MOSTLY_WHOLE, Missing, Profile, Sampling, Windows};
use serde::Serialize;
use statistics::poisson;
use ts_rs::TS;
use types::numbers::{grouped, percent};

/// How far amounts that rest on waiting were from exact ones at most, above them; below,
/// communication was missed altogether. Measured on 14 parallel programs of others with 8 threads
/// on 2 processors, which was without events of the processor; pairs correlated with the exact
/// matrices by 0.2 in the median.
pub(crate) const FAR_OFF: u32 = 25;

/// Part of a run recorded whole from which on it is named.
const WORTH_NAMING: f64 = 0.1;

/// What amounts rest on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum RestOn {
    /// An event that counts transfers; samples only divide them.
    Counting,
    /// Accesses, each hit standing for those between two samples.
    Accesses,
    /// The time that threads waited.
    Waiting,
    /// Events counted in random windows, scaled to the program's instructions.
    Windows,
}

/// How far a sampled profile's amounts can be trusted.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Reliability {
    /// What the amounts are derived from.
    pub rest_on: RestOn,
    /// What the samples say about the matrix.
    pub evidence: Evidence,
    /// Share of all hits whose writer was inferred.
    pub inferred: f64,
    /// Upper bound (95 %) for the events of a pair of threads of which no sample showed any; `None`
    /// where the profile does not say what a hit may stand for.
    pub unseen: Option<u64>,
    /// Most transfers that windows may have missed, for each that they tell; `None` for samples.
    pub missing: Option<f64>,
    /// Whether the hits are enough to say who communicates with whom.
    pub enough: bool,
    /// That they are not, if so, and what to do.
    pub too_few: Option<String>,
    /// How amounts were obtained and how far they can be trusted.
    pub text: Vec<String>,
}

impl Reliability {
    /// What is to be said of what `choice` counts; `None` where that was counted.
    pub fn of(profile: &Profile, choice: Choice) -> Option<Self> {
        let evidence = Evidence::of(profile, choice)?;
        if let Some(windows) = &profile.meta.windows {
            return Some(Self::of_windows(windows, evidence, profile.may_hide()));
        }
        let sampling = profile.meta.sampled.as_ref()?;
        let seconds = profile.meta.wall_seconds;
        let unseen =
            (sampling.hit_events > 0.0).then(|| (poisson(0).1 * sampling.hit_events).ceil() as u64);
        let threads = profile.threads.len();
        Some(Self {
            rest_on: match sampling.basis {
                Basis::Counters { .. } => RestOn::Counting,
                Basis::Period => RestOn::Accesses,
                Basis::Latency { .. } => RestOn::Waiting,
            },
            evidence,
            inferred: sampling.inferred as f64 / sampling.hits.max(1) as f64,
            unseen,
            missing: None,
            enough: evidence.enough(),
            too_few: (!evidence.enough())
                .then(|| too_few(sampling, &evidence, unseen, threads, seconds)),
            text: sentences(sampling, &evidence),
        })
    }
}

impl Reliability {
    /// `may_hide` is [`Profile::may_hide`].
    fn of_windows(windows: &Windows, evidence: Evidence, may_hide: Option<u64>) -> Self {
        let told = evidence.windows_suffice;
        // That there was nothing, or that all was counted, takes no number of events.
        let surely = evidence.hits == 0 && may_hide.is_none() || windows.whole >= 1.0;
        // Of most of the run, events are no matter of chance.
        let counted = windows.whole >= MOSTLY_WHOLE && evidence.hits >= evidence.needed;
        let enough = told && may_hide.is_none() && (surely || counted || evidence.enough());
        let mut text = vec![observed(windows)];
        if let Some(missing) = windows.missing().filter(|_| evidence.hits > 0 && may_hide.is_none())
        {
            text.push(forgotten(missing));
        }
        Self {
            rest_on: RestOn::Windows,
            evidence,
            inferred: 0.0,
            unseen: None,
            missing: Some(windows.missed),
            enough,
            too_few: (!enough).then(|| match may_hide {
                Some(most) if told => hidden(most, evidence.hits),
                _ => too_few_windows(windows, told, &evidence),
            }),
            text,
        }
    }
}

/// That what was seen, if anything, may be a small part.
fn hidden(most: u64, hits: u64) -> String {
    let (seen, than_seen) = match hits {
        0 => ("no transfer, but ", ""),
        _ => ("", ", far more than were seen"),
    };
    format!(
        "Not enough seen: {seen}the last writers of many lines were forgotten between windows, and up to {} \
         accesses to these may have been transfers{than_seen}. Record with a larger --budget, or with --exact.",
        grouped(most)
    )
}

/// That transfers may be missing.
fn forgotten(missing: Missing) -> String {
    let (lines, how_many) = match missing {
        Missing::MoreThanSeen => {
            ("many lines", "more transfers may be missing than were seen".to_owned())
        }
        Missing::AtMost(part) => {
            ("some lines", format!("at most {} of all transfers are missing", percent(part)))
        }
    };
    format!(
        "The last writers of {lines} were forgotten between windows: {how_many}. A larger --budget sees more."
    )
}

/// What of the run was observed, and how.
fn observed(windows: &Windows) -> String {
    let (whole, all) = (percent(windows.whole), percent(windows.observed));
    let number = match windows.windows {
        0 if windows.observed >= 1.0 => {
            return "Counted, not estimated: the whole run was recorded.".into();
        }
        0 => {
            return format!(
                "{whole} of the instructions were recorded whole. What the others did is not known."
            );
        }
        1 => "one random window".into(),
        count => format!("{count} random windows"),
    };
    if windows.whole < WORTH_NAMING {
        return format!("Estimated from {number} of exact recording: {all} of the instructions.");
    }
    let few = match windows.too_short {
        true => " These are few: intervals are wide where they matter.",
        false => "",
    };
    format!(
        "{whole} of the instructions were recorded whole. What the others did is estimated from {number} of exact \
         recording.{few}"
    )
}

fn too_few_windows(windows: &Windows, told: bool, evidence: &Evidence) -> String {
    let Evidence { hits, effective, needed, .. } = *evidence;
    if !told {
        return format!(
            "Too little was seen ({} of the instructions) to say who communicates with whom and how much. What \
             follows holds for what was seen. Record longer, with a larger --budget, or with --exact.",
            percent(windows.observed)
        );
    }
    let (what, why) = match effective < hits {
        false => (format!("events counted ({hits})"), String::new()),
        // A window in a stretch of the run that the others did not see stands for much of it.
        true => (
            "seen".into(),
            format!(
                ": {hits} events were counted, but most of what they stand for rests on a few of them. They tell no \
                 more than {effective} independent ones would, and it takes {needed}"
            ),
        ),
    };
    format!(
        "Not enough {what} to say who communicates with whom and how much{why}. Record longer, with a larger \
         --budget, or with --exact."
    )
}

fn too_few(
    sampling: &Sampling,
    evidence: &Evidence,
    unseen: Option<u64>,
    threads: usize,
    seconds: f64,
) -> String {
    let Evidence { hits, effective, needed, .. } = *evidence;
    let more = match sampling.period {
        0 => "with a higher --rate",
        _ => "with a smaller --period",
    };
    let samples = sampling.samples;
    if samples == 0 {
        return format!(
            "Not enough samples: the program was not sampled once. Record longer, or {more}."
        );
    }
    if hits == 0 {
        let most = match unseen {
            Some(unseen) if seconds > 0.0 => format!(
                ": as far as chance goes, each pair has at most {} cache-line transfers per second (95 %)",
                grouped((unseen as f64 / seconds).round() as u64)
            ),
            _ => String::new(),
        };
        return format!(
            "Not enough samples: none of {samples} showed communication. The {threads} threads hardly \
             communicate through memory, or too seldom for sampling to see{most}. To see more, record longer, or {more}."
        );
    }
    let weigh = match effective < hits {
        true => format!(" (and weigh as much as {effective} equal ones)"),
        false => String::new(),
    };
    let only = if hits == 1 { "only 1" } else { &format!("{hits}") };
    format!(
        "Not enough samples: {only} of {samples} showed communication{weigh}, and it takes {needed} to say who \
         communicates with whom and how much. Record longer, or {more}."
    )
}

fn sentences(sampling: &Sampling, evidence: &Evidence) -> Vec<String> {
    let inferred = match (sampling.inferred, sampling.hits) {
        (0, _) => String::new(),
        (inferred, hits) => format!(
            " For {:.0} % of them, who wrote the line was inferred from what is written around it; which bytes, and so \
             whether the sharing is true or false, is not known.",
            100.0 * inferred as f64 / hits.max(1) as f64
        ),
    };
    let (hits, samples) = (evidence.hits, sampling.samples);
    let shown = match hits > samples {
        // An update is a read and an overwrite.
        true => format!("{samples} samples showed communication {hits} times"),
        false => format!("{hits} of {samples} samples showed communication"),
    };
    let found = format!("Estimated, not counted: {shown}.{inferred}");
    let calibrate = "'threadtalk calibrate -- COMMAND' says how far they are off for this program.";
    let amounts = match &sampling.basis {
        Basis::Counters { event } => format!(
            "Amounts are what the event '{event}' counted in all, divided as the samples are: trust the sum more \
             than its parts."
        ),
        Basis::Period => format!(
            "Amounts rest on each of these standing for all accesses between two samples. They are orders of \
             magnitude, and so is which pair has more. {calibrate}"
        ),
        Basis::Latency { .. } => format!(
            "Amounts rest on how long threads were seen waiting for lines, since nothing counted transfers. They \
             may be {FAR_OFF} times too high, or miss pairs altogether, and so may which pair has more. {calibrate}"
        ),
    };
    vec![found, amounts]
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Detector;

    fn said(samples: u64, hits: u64, effective: u64, unseen: Option<u64>) -> String {
        let sampling = Sampling {
            source: "cpu-clock".into(),
            detectors: vec![Detector::Matching],
            reason: String::new(),
            rate: 1000.0,
            period: 0,
            samples,
            decoded: samples,
            hits,
            inferred: 0,
            hit_events: 0.0,
            lost: 0,
            throttled: 0,
            basis: Basis::Period,
            named: false,
            attached: false,
            reader_seconds: 0.0,
        };
        let (threads, needed, windows_suffice) = (4, 80, true);
        let evidence = Evidence { hits, effective, threads, needed, windows_suffice };
        too_few(&sampling, &evidence, unseen, 4, 2.0)
    }

    #[test]
    fn what_was_recorded_whole_weighs() {
        let windows = |whole, windows, too_short| Windows {
            asked: "2x".into(),
            windows,
            too_short,
            observed: whole + 0.02 * windows as f64,
            whole,
            warm_up_ns: 2_000_000,
            missed: 0.0,
            alike: 0.0,
            false_share: None,
        };
        let (threads, needed) = (4, 80);
        let evidence = |windows: &Windows, hits| {
            let windows_suffice = windows.are_enough();
            Evidence { hits, effective: hits, threads, needed, windows_suffice }
        };
        let of = |windows: Windows, hits| {
            Reliability::of_windows(&windows, evidence(&windows, hits), None)
        };
        let most = of(windows(0.87, 2, true), 1000);
        assert!(most.enough && most.too_few.is_none());
        assert_eq!(
            most.text,
            [
                "87 % of the instructions were recorded whole. What the others did is estimated from 2 random windows of \
              exact recording. These are few: intervals are wide where they matter."
            ]
        );
        assert!(!of(windows(0.87, 2, true), 50).enough, "few events");
        assert!(!of(windows(0.2, 2, true), 1000).enough);
        assert!(of(windows(0.02, 25, false), 1000).enough);
        assert!(of(windows(0.02, 25, false), 0).enough && !of(windows(0.02, 2, true), 0).enough);
        let few = of(windows(0.02, 25, false), 3).too_few.unwrap();
        assert!(few.starts_with("Not enough events counted (3) to say"), "{few}");
        let many = windows(0.02, 25, false);
        let uneven = Evidence { effective: 7, ..evidence(&many, 1000) };
        let few = Reliability::of_windows(&many, uneven, None).too_few.unwrap();
        assert!(
            few.starts_with("Not enough seen to say")
                && few.contains("no more than 7 independent ones would, and it takes 80."),
            "{few}"
        );
        let none = evidence(&many, 0);
        let hidden = Reliability::of_windows(&many, none, Some(2_000_000));
        assert!(!hidden.enough && hidden.too_few.unwrap().contains("up to 2,000,000 accesses"));
        let missed = Windows { missed: 3.0, ..windows(0.02, 25, false) };
        assert_eq!(of(missed, 1000).missing, Some(3.0));
        assert!(of(windows(1.0, 0, false), 3).enough);
        let text = |windows| of(windows, 1000).text;
        assert_eq!(
            text(windows(0.0, 25, false)),
            ["Estimated from 25 random windows of exact recording: 50 % of the instructions."]
        );
        assert_eq!(
            text(windows(1.0, 0, false)),
            ["Counted, not estimated: the whole run was recorded."]
        );
    }

    #[test]
    fn few_transfers_are_not_enough_where_many_may_be_hidden() {
        let missed = Windows {
            asked: "2x".into(),
            windows: 25,
            too_short: false,
            observed: 0.5,
            whole: 0.0,
            warm_up_ns: 2_000_000,
            missed: 700.0,
            alike: 0.0,
            false_share: None,
        };
        let (threads, needed, windows_suffice) = (4, 80, true);
        let evidence = Evidence { hits: 5000, effective: 5000, threads, needed, windows_suffice };
        let little = Reliability::of_windows(&missed, evidence, Some(3_500_000));
        assert!(!little.enough && little.text.len() == 1, "{little:?}");
        assert!(little.too_few.unwrap().contains("transfers, far more than were seen"));
        let many = Reliability::of_windows(&missed, evidence, None);
        assert!(many.enough && many.text.len() == 2, "{many:?}");
    }

    #[test]
    fn what_too_few_samples_say() {
        assert_eq!(
            said(0, 0, 0, Some(5)),
            "Not enough samples: the program was not sampled once. Record longer, or with a higher --rate."
        );
        let silent = said(9000, 0, 0, Some(4600));
        assert!(
            silent.starts_with("Not enough samples: none of 9000 showed communication."),
            "{silent}"
        );
        // 4600 in two seconds.
        assert!(
            silent.contains("each pair has at most 2,300 cache-line transfers per second"),
            "{silent}"
        );
        assert!(!said(9000, 0, 0, None).contains("at most"));
        let uneven = said(9000, 90, 27, None);
        assert!(
            uneven.contains("90 of 9000 showed communication (and weigh as much as 27 equal ones)")
        );
        assert!(uneven.contains("it takes 80 to say who"), "{uneven}");
    }
}
