//! What transfers cost: a first estimate, with its range.
//!
//! Events × the latency of a line from another core, against the processor time of the program
//! alone. The latency is what the machine's levels cost, or 100 ns (40 to 200). The program's own
//! time is sampled processor time, or what is known from windows, or in an exact run its
//! instructions at 0.25 ns each (0.1 to 0.6) and its transfers. Pure. Neighbour: `causes` asks for
//! each finding.

use crate::layouts::Placement;
use crate::reliability::FAR_OFF;
use analysis::Pace;
use profile::{Basis, Mode, Profile};
use serde::Serialize;
use statistics::poisson;
use ts_rs::TS;
use types::numbers::{duration, percent, short};

/// Share of the processor time below which a finding is hardly worth it.
pub(super) const WORTH: f64 = 0.02;
/// Fewer events than this cost no measurable time (50 µs at 100 ns each).
pub(super) const MIN_EVENTS: u64 = 500;
/// Hits below which samples give no finding: of 20 that all are false sharing, at least 83 % are in
/// truth, with 97.5 % confidence (Clopper and Pearson: 0.025^(1/20)); one alone could be anything.
pub(super) const MIN_HITS: u64 = 20;
/// Nanoseconds that a line takes from another core: usual, least, most.
const LATENCY: Range = Range { mid: 100.0, low: 40.0, high: 200.0 };
/// Nanoseconds that an instruction takes without waiting for lines.
const INSTRUCTION: Range = Range { mid: 0.25, low: 0.1, high: 0.6 };
/// What a thread can go on for while it waits for a line, as part of the latency: stores wait in
/// their buffer, and loads that do not depend on them go on.
const HOLD: f64 = 0.5;
/// Instructions for each load or store, where they were not counted.
const PER_ACCESS: f64 = 2.5;

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

#[derive(Clone, Copy, Debug)]
struct Range {
    mid: f64,
    low: f64,
    high: f64,
}

/// What costs are measured by in one profile.
pub(super) struct Costs {
    latency: Range,
    own: Own,
    all_events: f64,
}

/// The processor time of the program alone, nanoseconds.
enum Own {
    /// Waiting included.
    Whole(Range),
    /// Without waiting for lines.
    Instructions(f64),
    Unknown,
}

impl Costs {
    pub(super) fn of(profile: &Profile, placement: Option<&Placement>, all_events: u64) -> Self {
        Self {
            latency: latency(profile, placement),
            own: own(profile),
            all_events: all_events as f64,
        }
    }

    /// What `events` cost, of which `hits` samples were seen if any; `share` of all events decides
    /// where the time is not known.
    pub(super) fn of_events(&self, events: u64, hits: Option<u64>, enough_share: bool) -> Cost {
        let factor = hits.map_or((1.0, 1.0), |hits| {
            let (low, high) = poisson(hits);
            let one = hits.max(1) as f64;
            (low / one, high / one)
        });
        let events = events as f64;
        let share = |latency: f64, factor: f64, pick: fn(&Range) -> f64| -> Option<f64> {
            let waited = events * factor * latency;
            let own = match &self.own {
                Own::Whole(own) => pick(own),
                Own::Instructions(count) => {
                    // What is dear for the program makes the share small: the other end.
                    pick(&Range {
                        mid: INSTRUCTION.mid,
                        low: INSTRUCTION.high,
                        high: INSTRUCTION.low,
                    }) * count
                        + self.all_events.max(events) * latency
                }
                Own::Unknown => return None,
            };
            (own > 0.0).then(|| (waited / own).min(1.0))
        };
        let cpu_share = share(self.latency.mid, 1.0, |r| r.mid);
        let low = share(self.latency.low, factor.0, |r| r.low);
        let high = share(self.latency.high, factor.1, |r| r.high);
        Cost {
            seconds: events * self.latency.mid / 1e9,
            cpu_share,
            low,
            high,
            worth: cpu_share.map_or(enough_share, |share| share >= WORTH),
            not_known: false,
            at_once: None,
            without: "",
            at_most: None,
        }
    }

    /// What so many transfers would cost at most.
    pub(super) fn at_most(&self, events: u64) -> AtMost {
        AtMost { events, cpu_share: self.of_events(events, None, false).cpu_share }
    }

    /// What the machine allows.
    pub(super) fn pace(&self) -> Pace {
        let latency_ns = self.latency.mid;
        Pace { latency_ns, instruction_ns: INSTRUCTION.mid, hold_ns: HOLD * latency_ns }
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
    /// Threads that never run at once make hardly any events: at most as many as their visits
    /// allow, or where these are not known, as many times more if they do.
    pub(super) fn leaving_out(
        self,
        without: &'static str,
        at_once: Option<f64>,
        at_most: Option<AtMost>,
        enough_share: bool,
    ) -> Self {
        let more = |part: f64| self.cpu_share.is_some_and(|share| share >= WORTH * part);
        let waits = !without.is_empty() && self.high.is_some_and(|high| high >= WORTH);
        let at_most = at_most.filter(|_| at_once.is_some());
        let apart = match at_most {
            Some(most) => most.may_be_worth(),
            None => enough_share && at_once.is_some_and(more),
        };
        let not_known = !self.worth && (enough_share && waits || apart);
        Self { without, at_once, not_known, at_most, ..self }
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
            (Some(AtMost { events, cpu_share: Some(share) }), _) => format!(
                "{part}: when they do, they come here often enough for up to {} transfers, up to {} of the \
                 processor time.",
                short(events as f64),
                share_words(share)
            ),
            (_, true) => format!("{part}: what it costs when they do is not known."),
            (_, false) => format!("{part}: it may cost more when they do."),
        }
    }

    /// What follows for somebody who looks for something to change; or empty.
    pub(crate) fn advice(&self) -> &'static str {
        match (self.worth || self.not_known, self.without) {
            (true, _) => "",
            (false, "") => "Hardly worth a change.",
            (false, _) => "Its transfers alone are hardly worth a change.",
        }
    }

    /// `costs about 30 % of the processor time (estimate: 10 % to 60 %)`.
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
                let range = match low < 0.01 {
                    true => format!("at most {}", share_words(high)),
                    false => format!("{} to {}", percent(low), share_words(high)),
                };
                let share = share_words(share);
                format!("costs {about}{share} of the processor time (estimate: {range}{without})")
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

fn latency(profile: &Profile, placement: Option<&Placement>) -> Range {
    if let Some(sampling) = &profile.meta.sampled
        && let Basis::Latency { transfer_ns, .. } = sampling.basis
        && transfer_ns > 0.0
    {
        // Amounts are waiting divided by this: multiplied by it, they are waiting again, of which
        // samples see a part, or take something else for it.
        return Range {
            mid: transfer_ns,
            low: transfer_ns / f64::from(FAR_OFF),
            high: transfer_ns * f64::from(FAR_OFF),
        };
    }
    let measured = placement.filter(|placement| placement.cost_unit == "ns");
    let costs: Vec<f64> = measured.map_or(vec![], |placement| {
        placement.level_costs.iter().copied().filter(|cost| *cost > 0.0).collect()
    });
    let (Some(low), Some(high)) =
        (costs.iter().copied().reduce(f64::min), costs.iter().copied().reduce(f64::max))
    else {
        return LATENCY;
    };
    // Unplaced threads meet at any level.
    let usual = measured.map(|placement| {
        let priced = placement.chance.shares.iter().rev().zip(&placement.level_costs);
        priced.map(|(share, cost)| share.share * cost).sum::<f64>()
    });
    let mid = usual.filter(|mid| *mid > 0.0).unwrap_or(LATENCY.mid).clamp(low, high);
    Range { mid, low: low.min(LATENCY.low), high: high.max(LATENCY.high) }
}

fn own(profile: &Profile) -> Own {
    let meta = &profile.meta;
    if meta.mode == Mode::Sampled {
        let cpu: f64 = profile.threads.iter().map(|thread| thread.cpu_ns as f64).sum();
        let cpu = if cpu > 0.0 { cpu } else { meta.cpu_seconds * 1e9 };
        return match cpu > 0.0 {
            true => Own::Whole(Range { mid: cpu, low: cpu, high: cpu }),
            false => Own::Unknown,
        };
    }
    let instructions = profile.threads.iter().map(|thread| thread.instructions as f64).sum::<f64>();
    if instructions > 0.0 {
        return Own::Instructions(instructions);
    }
    let accesses = meta.totals.loads as f64 + meta.totals.stores as f64;
    match accesses > 0.0 {
        true => Own::Instructions(accesses * PER_ACCESS),
        false => Own::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{sample, sampled};

    #[test]
    fn a_share_has_a_range_and_is_not_guessed() {
        let mut profile = sample(2, &[]).profile();
        for thread in &mut profile.threads {
            thread.instructions = 2_000_000;
        }
        // 10,000 events of 100 ns against 1 ms of instructions and the events themselves.
        let cost = Costs::of(&profile, None, 10_000).of_events(10_000, None, false);
        assert_eq!((cost.seconds, cost.worth), (1e-3, true));
        assert_eq!(cost.cpu_share, Some(0.5));
        let (low, high) = (cost.low.unwrap(), cost.high.unwrap());
        assert!(low < 0.2 && high > 0.8, "{cost:?}");
        let few = Costs::of(&profile, None, 10_000).of_events(100, None, true);
        assert!(!few.worth && few.cpu_share.unwrap() < WORTH);
        for thread in &mut profile.threads {
            (thread.instructions, thread.loads, thread.stores) = (0, 0, 0);
        }
        (profile.meta.totals.loads, profile.meta.totals.stores) = (0, 0);
        let unknown = Costs::of(&profile, None, 10).of_events(10, None, true);
        assert_eq!((unknown.cpu_share, unknown.low, unknown.worth), (None, None, true));
        assert!(unknown.words().contains("own time is not known"), "{}", unknown.words());
    }

    #[test]
    fn costs_of_threads_that_never_met_are_not_known() {
        let cost = |share: f64, high: f64| Cost {
            seconds: 1.0,
            cpu_share: Some(share),
            low: Some(share / 4.0),
            high: Some(high),
            worth: share >= WORTH,
            not_known: false,
            at_once: None,
            without: "",
            at_most: None,
        };
        let small = cost(0.005, 0.04);
        assert_eq!(
            small.words(),
            "costs less than 1 % of the processor time (estimate: at most 4 %)"
        );
        assert_eq!((small.advice(), small.caveat()), ("Hardly worth a change.", String::new()));
        let apart = small.leaving_out("", Some(0.04), None, true);
        assert!(apart.not_known && apart.advice().is_empty());
        assert_eq!(
            apart.caveat(),
            "Its threads ran at the same time for only 4 % of the time in which two of them could: what it \
             costs when they do is not known."
        );
        assert!(
            !small.leaving_out("", Some(0.5), None, true).not_known,
            "twice as much is little, too"
        );
        assert!(
            !small.leaving_out("", Some(0.04), None, false).not_known,
            "it is hardly any of it"
        );
        let lock = cost(0.002, 0.008).leaving_out("the waiting for the lock", None, None, true);
        assert_eq!(
            lock.words(),
            "costs less than 1 % of the processor time (an estimate, without the waiting for the lock)"
        );
        assert_eq!(lock.advice(), "Its transfers alone are hardly worth a change.");
        let waited = cost(0.01, 0.04).leaving_out("the waiting for the lock", None, None, true);
        assert_eq!(waited.caveat(), "What it costs with the waiting for the lock is not known.");
        assert!(waited.not_known && waited.advice().is_empty());
        assert!(
            cost(0.3, 0.6)
                .leaving_out("", Some(0.0), None, true)
                .caveat()
                .contains("may cost more")
        );
    }

    #[test]
    fn few_samples_have_wide_ranges() {
        let profile = sampled();
        let costs = Costs::of(&profile, None, 5000);
        let (one, many) =
            (costs.of_events(5000, Some(1), true), costs.of_events(5000, Some(400), true));
        assert_eq!(one.cpu_share, many.cpu_share);
        assert!(one.high.unwrap() > 4.0 * many.high.unwrap(), "{one:?}");
        // Waiting that samples show may be far off, too.
        let most = many.cpu_share.unwrap() * f64::from(FAR_OFF);
        assert!((most..1.2 * most).contains(&many.high.unwrap()), "{many:?}");
    }
}
