//! What a finding's transfers cost, in words: an estimate with its range.
//!
//! Pure. Neighbours: `price` computes it, `causes` asks for the words.

use crate::causes::constants::{MANY_TIMES, MOST_SAVED, MUCH, NOTABLE_GAIN, VAGUE, WORTH};
use serde::Serialize;
use ts_rs::TS;
use types::numbers::{duration, percent, short};

/// What a finding's transfers cost: an estimate.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct Cost {
    /// Processor time that threads wait for these lines, seconds.
    pub seconds: f64,
    /// Its share of the program's own processor time, 0 to 1; `None` where that is not known.
    pub cpu_share: Option<f64>,
    /// The least and the most that the share may be.
    pub low: Option<f64>,
    /// The most.
    pub high: Option<f64>,
    /// Whether it is worth a change.
    pub worth: bool,
    /// Whether it may be worth one all the same: threads hardly ran at the same time, or it costs
    /// more than its transfers.
    pub not_known: bool,
    /// Where threads that meet here hardly ran at the same time: of the time in which two of them
    /// could, the part in which both did, 0 to 1.
    pub at_once: Option<f64>,
    /// What is not in the estimate: `the waiting for the lock`, or empty.
    pub without: &'static str,
    /// The most transfers that there may be when such threads run natively at once, by how often
    /// they come to the lines; `None` where they ran at once, or that is not known.
    pub at_most: Option<AtMost>,
    /// How many times as fast the program would be without these transfers; `None` where the share
    /// is not known or not all of the cost.
    pub gain: Option<Gain>,
}

/// How many times as fast a program would be, in processor time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct Gain {
    /// From 1 on.
    pub times: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// Transfers that there may be at most.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, TS)]
pub struct AtMost {
    /// RAW and WAW events in a run like this one.
    pub events: u64,
    /// What they would cost, as a share of the program's own processor time, 0 to 1; `None` where
    /// that is not known.
    pub cpu_share: Option<f64>,
}

impl Gain {
    /// Without these shares of the processor time.
    pub(super) fn of(share: Option<f64>, low: Option<f64>, high: Option<f64>) -> Option<Self> {
        let times = |share: f64| 1.0 / (1.0 - share.clamp(0.0, MOST_SAVED));
        Some(Self { times: times(share?), low: times(low?), high: times(high?) })
    }

    /// `1.6 times as fast without them (1.1 to 6.7)`.
    fn words(&self) -> String {
        let number = |times: f64| match times >= MANY_TIMES {
            true => format!("{MANY_TIMES:.0} or more"),
            false => format!("{times:.1}"),
        };
        let range = match self.low >= MANY_TIMES {
            true => String::new(),
            false => format!(" ({} to {})", number(self.low), number(self.high)),
        };
        format!("{} times as fast without them{range}", number(self.times))
    }
}

impl AtMost {
    /// Whether so much would be worth a change.
    pub(super) fn may_be_worth(&self) -> bool {
        self.cpu_share.is_some_and(|share| share >= WORTH)
    }
}

impl Cost {
    /// With what the estimate leaves out, and how much the threads ran at once if that was little.
    /// Threads that never run at once make hardly any `events`: at most as many as their visits
    /// allow, or where these are not known, as many times more if they do.
    pub(super) fn leaving_out(
        self,
        without: &'static str,
        at_once: Option<f64>,
        (at_most, events): (Option<AtMost>, f64),
        enough_share: bool,
    ) -> Self {
        let more = |part: f64| self.cpu_share.is_some_and(|share| share >= WORTH * part);
        let waits = !without.is_empty() && self.high.is_some_and(|high| high >= WORTH);
        // What was counted is no less than what there may be.
        let at_most = at_most.filter(|most| at_once.is_some() && most.events as f64 > events);
        let apart = match at_most {
            Some(most) => most.may_be_worth(),
            None => enough_share && at_once.is_some_and(more),
        };
        let not_known = !self.worth && (enough_share && waits || apart);
        let gain = self.gain.filter(|_| without.is_empty());
        Self { without, at_once, not_known, at_most, gain, ..self }
    }

    /// Whether the range reaches what is worth a change.
    pub(crate) fn may_be_worth(&self) -> bool {
        self.worth || self.not_known || self.high.is_some_and(|high| high >= WORTH)
    }

    /// That it may cost more, as a sentence; or empty.
    pub(crate) fn caveat(&self) -> String {
        let Some(part) = self.at_once else {
            return match self.not_known {
                true => format!("What it costs with {} is not known.", self.without),
                false => String::new(),
            };
        };
        let part = match part {
            part if part < 0.01 => "Its threads hardly ever ran at the same time".to_owned(),
            part => format!(
                "Its threads ran at the same time for only {} of the time in which two of them could",
                percent(part)
            ),
        };
        match (self.at_most, self.not_known) {
            (Some(AtMost { events, cpu_share: Some(share) }), _) => {
                let up_to = if share < 0.01 { "which cost" } else { "up to" };
                format!(
                    "{part}: when they do, they come here often enough for up to {} transfers, {up_to} {} of \
                     the processor time.",
                    short(events as f64),
                    share_words(share)
                )
            }
            (_, true) => format!("{part}: what it costs when they do is not known."),
            (_, false) => format!("{part}: it may cost more when they do."),
        }
    }

    /// What follows for somebody who looks for something to change; or empty.
    pub(crate) fn advice(&self) -> &'static str {
        let may_be_much = self.high.is_some_and(|high| high >= MUCH);
        match (self.worth || self.not_known, self.without) {
            (true, _) => "",
            (false, "") if may_be_much => "Whether it is worth a change is not known.",
            (false, "") => "Hardly worth a change.",
            (false, _) => "Its transfers alone are hardly worth a change.",
        }
    }

    /// `costs about 30 % of the processor time (estimate: 10 % to 60 %)`; where that range is wide,
    /// only the range.
    pub(crate) fn words(&self) -> String {
        let without = match self.without {
            "" => String::new(),
            what => format!(", without {what}"),
        };
        match (self.cpu_share, self.low, self.high) {
            (Some(share), _, Some(high)) if share < 0.01 && high < 0.01 => {
                format!("costs less than 1 % of the processor time (an estimate{without})")
            }
            (Some(share), Some(low), Some(high)) => {
                let about = if share < 0.01 { "" } else { "about " };
                let range = match (low < 0.01, share_words(high)) {
                    (true, most) if most.starts_with("more") => format!("less than 1 % to {most}"),
                    (true, most) => format!("at most {most}"),
                    (false, most) => format!("{} to {most}", percent(low)),
                };
                if high - low > VAGUE && self.gain.is_none() {
                    return format!(
                        "costs {range} of the processor time (a rough estimate{without})"
                    );
                }
                // Where nothing of it was seen it may cost something all the same.
                let share = share_words(share.max(f64::MIN_POSITIVE));
                let gain = self.gain.filter(|gain| self.worth && gain.times >= NOTABLE_GAIN);
                let gain = gain.map_or(String::new(), |gain| format!(": {}", gain.words()));
                format!(
                    "costs {about}{share} of the processor time (estimate: {range}{without}){gain}"
                )
            }
            _ => format!(
                "costs about {} of waiting (estimate{without}; the program's own time is not known)",
                duration(self.seconds)
            ),
        }
    }
}

/// A share as it stands in a sentence: `less than 1 %`, `14 %`.
pub(crate) fn share_words(share: f64) -> String {
    match percent(share) {
        words if words.starts_with('<') => words.replacen('<', "less than ", 1),
        words if words.starts_with('>') => words.replacen('>', "more than ", 1),
        words => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(share: f64, high: f64) -> Cost {
        Cost {
            seconds: 1.0,
            cpu_share: Some(share),
            low: Some(share / 4.0),
            high: Some(high),
            worth: share >= WORTH,
            not_known: false,
            at_once: None,
            without: "",
            at_most: None,
            gain: None,
        }
    }

    #[test]
    fn what_a_change_may_give_is_said_where_it_is_worth_one() {
        let gain = Gain::of(Some(0.4), Some(0.1), Some(0.95));
        let cost = Cost { gain, ..cost(0.4, 0.95) };
        assert_eq!(
            cost.words(),
            "costs about 40 % of the processor time (estimate: 10 % to 95 %): 1.7 times as fast \
             without them (1.1 to 10 or more)"
        );
        let most = Gain::of(Some(0.95), Some(0.93), Some(1.0)).unwrap();
        assert_eq!(most.words(), "10 or more times as fast without them");
        let lock = cost.leaving_out("the waiting for the lock", None, (None, 1.0), true);
        assert_eq!(lock.gain, None);
    }

    #[test]
    fn costs_of_threads_that_never_met_are_not_known() {
        let small = cost(0.005, 0.04);
        assert_eq!(
            small.words(),
            "costs less than 1 % of the processor time (estimate: at most 4 %)"
        );
        assert_eq!((small.advice(), small.caveat()), ("Hardly worth a change.", String::new()));
        assert_eq!(cost(0.0, 0.04).words(), small.words());
        let unsure = cost(0.005, 0.3);
        assert_eq!(unsure.advice(), "Whether it is worth a change is not known.");
        let wide = Cost { low: Some(0.0), ..cost(0.25, 0.999) };
        assert_eq!(
            wide.words(),
            "costs less than 1 % to more than 99 % of the processor time (a rough estimate)"
        );
        let apart = small.leaving_out("", Some(0.04), (None, 1.0), true);
        assert!(apart.not_known && apart.advice().is_empty());
        assert_eq!(
            apart.caveat(),
            "Its threads ran at the same time for only 4 % of the time in which two of them could: what it \
             costs when they do is not known."
        );
        let most = |events| Some(AtMost { events, cpu_share: Some(0.004) });
        let told =
            |events| small.leaving_out("", Some(0.04), (most(events), 1000.0), true).caveat();
        assert!(told(2000).ends_with("which cost less than 1 % of the processor time."));
        assert!(!told(500).contains("transfers"), "more were counted");
        assert!(
            !small.leaving_out("", Some(0.5), (None, 1.0), true).not_known,
            "twice as much is little, too"
        );
        assert!(
            !small.leaving_out("", Some(0.04), (None, 1.0), false).not_known,
            "it is hardly any of it"
        );
        let lock =
            cost(0.002, 0.008).leaving_out("the waiting for the lock", None, (None, 1.0), true);
        assert_eq!(
            lock.words(),
            "costs less than 1 % of the processor time (an estimate, without the waiting for the lock)"
        );
        assert_eq!(lock.advice(), "Its transfers alone are hardly worth a change.");
        let waited =
            cost(0.01, 0.04).leaving_out("the waiting for the lock", None, (None, 1.0), true);
        assert_eq!(waited.caveat(), "What it costs with the waiting for the lock is not known.");
        assert!(waited.not_known && waited.advice().is_empty());
        assert!(
            cost(0.3, 0.6)
                .leaving_out("", Some(0.0), (None, 1.0), true)
                .caveat()
                .contains("may cost more")
        );
    }
}
