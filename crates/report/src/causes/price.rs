//! What transfers cost in a profile, and against what.
//!
//! Events × the latency of a line from another core, against the processor time of the program
//! alone.
//!
//! * *Latency*: measured on the machine, or twice what is published for its levels, or 100 ns.
//! * *The program's own time*: of samples, their processor time; of windows, what they tell that
//!   the program takes alone; of an exact recording, its instructions and its transfers.
//!
//! Counted transfers tell little of what they cost. For threads that store to a line in tight loops
//! a recording counts many, but natively they hardly wait: stores go to the store buffer. And where
//! counting takes long, threads come to the line less often than natively. So solo time is used
//! where there is some: it tells what running at once costs. Each finding has the part of that
//! which it has of the events, but not more than [`NATIVELY`] times what its events would cost.
//! Without solo time, windows tell how long the program takes alone; transfers then cost no more
//! than its instructions leave of that. Of exact recordings nothing tells how long the program
//! takes alone, and threads take lines at nearly each visit. So false sharing is taken to make no
//! more transfers than visits allow natively (`expected`).
//!
//! Pure. Neighbours: `causes` asks for each finding, `cost` has the words.

use crate::causes::constants::{
    ATOMIC, FOUGHT_FOR, HIDDEN, HOLD, INSTRUCTION, KERNEL, LATENCY, LEAST_NATIVELY, LEAST_WAITING,
    MORE_NATIVELY, NATIVELY, NOT_OF_COUNTERS, PER_ACCESS, TIGHT, WORTH,
};
use crate::causes::cost::{AtMost, Cost, Gain};
use crate::causes::passing::Order;
use crate::causes::range::{End, Range};
use crate::layouts::Placement;
use crate::reliability::FAR_OFF;
use analysis::Pace;
use profile::{Basis, Mode, OwnTime, Profile, Slowed};
use statistics::poisson;

/// What costs are measured by in one profile.
pub(super) struct Costs {
    latency: Range,
    own: Own,
    /// The part of the processor time that running at once takes, where that was measured.
    slowed: Option<Range>,
    /// Whether it was measured natively.
    natively: bool,
    all_events: f64,
}

/// What is known of how often threads come to lines that they share falsely.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visited {
    pub visits: Option<f64>,
    /// About how many transfers these make natively.
    pub likely: Option<u64>,
    /// Whether they come by atomic instructions.
    pub atomically: bool,
}

/// The processor time of the program alone, nanoseconds.
#[derive(Clone, Copy)]
enum Own {
    /// Waiting included.
    Whole(Range),
    /// Without waiting for lines: how many instructions, and the kernel's time in the recording.
    Instructions(f64, f64),
    /// Waiting included, and the instructions.
    Both(Range, f64),
    Unknown,
}

impl Costs {
    /// Of a profile whose events wait for as many lines as `all_events` that threads fight for.
    pub(super) fn of(profile: &Profile, placement: Option<&Placement>, all_events: u64) -> Self {
        Self {
            latency: latency(profile, placement),
            own: own(profile),
            slowed: profile.meta.slowed.map(|Slowed { share, low, high, natively }| {
                let least = if natively { LEAST_NATIVELY } else { NOT_OF_COUNTERS };
                Range { mid: share, low: least * low, high }
            }),
            natively: profile.meta.slowed.is_some_and(|slowed| slowed.natively),
            all_events: all_events as f64,
        }
    }

    /// What `events` cost. They are estimated from so many independent `hits`, or were counted
    /// (`None`). Where the program's own time is not known, `enough_share` says whether they are
    /// worth a change.
    pub(super) fn of_events(&self, events: u64, hits: Option<u64>, enough_share: bool) -> Cost {
        self.of_parts(events, hits, enough_share, |_| 1.0)
    }

    /// The cost of data that passes from thread to thread over many lines, see
    /// [`of_events`](Self::of_events).
    pub(super) fn of_data(
        &self,
        events: u64,
        hits: Option<u64>,
        enough_share: bool,
        order: Order,
    ) -> Cost {
        self.of_parts(events, hits, enough_share, |end| order.part(end))
    }

    /// See [`of_events`](Self::of_events); `part` is what an event costs, as part of the latency.
    fn of_parts(
        &self,
        events: u64,
        hits: Option<u64>,
        enough_share: bool,
        part: impl Fn(End) -> f64,
    ) -> Cost {
        let factor = hits.map_or((1.0, 1.0), |hits| {
            let (low, high) = poisson(hits);
            let one = hits.max(1) as f64;
            (low / one, high / one)
        });
        let waits = |end| events as f64 * part(end);
        let cpu_share = self.share(waits(End::Mid), End::Mid);
        let end = |end, factor| self.share(waits(end) * factor, end);
        let low = cpu_share.and_then(|mid| Some(end(End::Low, factor.0)?.min(mid)));
        let high = cpu_share.and_then(|mid| Some(end(End::High, factor.1)?.max(mid)));
        Cost {
            seconds: waits(End::Mid) * self.latency.mid / 1e9,
            cpu_share,
            low,
            high,
            worth: cpu_share.map_or(enough_share, |share| share >= WORTH),
            not_known: false,
            at_once: None,
            without: "",
            at_most: None,
            gain: match self.own {
                Own::Both(..) => Gain::of(cpu_share, low, high),
                _ => None,
            },
        }
    }

    /// The cost of false sharing, see [`of_events`](Self::of_events). An exact recording lets
    /// threads take lines from each other far more often than they do natively, where each keeps a
    /// line for some more visits: there, transfers are no more than these visits allow. And threads
    /// that come much more often than the lines are transferred may hardly wait at all.
    pub(super) fn of_false_sharing(
        &self,
        events: u64,
        hits: Option<u64>,
        enough_share: bool,
        visited: Visited,
    ) -> Cost {
        let counted = self.of_events(events, hits, enough_share);
        let (Own::Instructions(count, kernel), Some(visits)) = (&self.own, visited.visits) else {
            return counted;
        };
        let (natively, alone) = match (visited.atomically, visited.likely) {
            (false, Some(likely)) => (events.min(likely), *count),
            (false, None) => (events, *count),
            // Each waits for its line.
            (true, _) => (events, count + visits * ATOMIC),
        };
        let costs = Self {
            own: Own::Instructions(alone, *kernel),
            all_events: self.all_events - (events - natively) as f64,
            ..*self
        };
        let cost = costs.of_events(natively, hits, enough_share);
        let tight = !visited.atomically && visits > TIGHT * natively as f64;
        let low = if tight { cost.low.map(|_| 0.0) } else { cost.low };
        let likely = visited.likely.unwrap_or(0).max(events);
        let high = self.share(likely as f64, End::High);
        Cost { low, high: high.zip(counted.high).map(|(most, told)| most.max(told)), ..cost }
    }

    /// How much of the program's own processor time is waiting for these transfers, 0 to 1. `None`:
    /// that time is not known.
    fn share(&self, events: f64, end: End) -> Option<f64> {
        let latency = self.latency.at(end);
        let waited = events * latency;
        let (waited, own) = match &self.own {
            Own::Whole(own) => (waited, own.at(end)),
            // What is dear for the program makes the share small: the other end.
            Own::Instructions(count, kernel) => {
                let other = end.other();
                let alone = INSTRUCTION.at(other) * count + KERNEL.at(other) * kernel;
                (waited, alone + self.all_events.max(events) * latency)
            }
            Own::Both(own, _) if let Some(slowed) = self.slowed => {
                return Some(self.share_of(slowed, events, waited / own.at(end), end));
            }
            Own::Both(own, count) => {
                let own = own.at(end);
                let left = |instruction: f64| (own - instruction * count).max(0.0);
                let left = match end {
                    End::Mid => left(INSTRUCTION.mid).max(LEAST_WAITING * left(INSTRUCTION.low)),
                    _ => left(INSTRUCTION.at(end.other())),
                };
                // The others take their part of it, or may cost nothing.
                let part = (events / self.all_events.max(1.0)).min(1.0);
                match end {
                    End::High => ((NATIVELY * waited).min(left), own),
                    _ => (waited.min(part * left), own),
                }
            }
            Own::Unknown => return None,
        };
        (own > 0.0).then(|| (waited / own).min(1.0))
    }

    /// The part of what running at once takes, where the transfers would take the share `counted`
    /// if each of them was waited for.
    fn share_of(&self, slowed: Range, events: f64, counted: f64, end: End) -> f64 {
        let part = (events / self.all_events.max(1.0)).min(1.0);
        match end {
            End::Low => (slowed.low * part).min(counted),
            End::Mid => (slowed.mid * part).min(NATIVELY * counted),
            // The others may cost nothing.
            End::High => {
                let more = MORE_NATIVELY * slowed.high.powi(2) * (1.0 - slowed.high).max(0.0);
                let hidden = if self.natively { 0.0 } else { HIDDEN };
                (slowed.high + more).max(hidden).min(NATIVELY * counted)
            }
        }
        .min(1.0)
    }

    /// The cost of so many transfers, which this run did not have. So its own time does not bound
    /// it. Each costs `part` of the latency.
    pub(super) fn at_most(&self, events: u64, part: f64) -> AtMost {
        let waits = part * events as f64;
        let waited = waits * self.latency.mid;
        let cpu_share = match &self.own {
            Own::Both(_, count) => Some(waited / (INSTRUCTION.mid * count + waited).max(1.0)),
            _ => self.share(waits, End::Mid),
        };
        AtMost { events, cpu_share }
    }

    /// What the machine allows.
    pub(super) fn pace(&self) -> Pace {
        let latency_ns = self.latency.mid;
        Pace { latency_ns, instruction_ns: INSTRUCTION.mid, hold_ns: HOLD * latency_ns }
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
    let priced = placement.filter(|placement| placement.cost_unit == "ns");
    let costs: Vec<f64> = priced.map_or(vec![], |placement| {
        placement.level_costs.iter().copied().filter(|cost| *cost > 0.0).collect()
    });
    let (Some(low), Some(high)) =
        (costs.iter().copied().reduce(f64::min), costs.iter().copied().reduce(f64::max))
    else {
        return LATENCY;
    };
    // Unplaced threads meet at any level.
    let usual = priced.map(|placement| {
        let levels = placement.chance.shares.iter().rev().zip(&placement.level_costs);
        levels.map(|(share, cost)| share.share * cost).sum::<f64>()
    });
    let mid = usual.filter(|mid| *mid > 0.0).unwrap_or(LATENCY.mid).clamp(low, high);
    let fought_for = match priced.is_some_and(|placement| placement.costs_measured) {
        true => 1.0,
        false => FOUGHT_FOR,
    };
    let mid = fought_for * mid;
    Range { mid, low: low.min(LATENCY.low), high: mid.max(high).max(LATENCY.high) }
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
    // As many processors are busy as in the recording. The processor time of the first process
    // includes that of its children, so that of threads is better.
    let of_threads = profile.running.iter().map(|row| row.cpu_ns as f64 / 1e9).sum::<f64>();
    let cpu_seconds = if of_threads > 0.0 { of_threads } else { meta.cpu_seconds };
    let at_once = cpu_seconds / meta.wall_seconds.max(f64::MIN_POSITIVE);
    if let Some(OwnTime { seconds, low, high }) = meta.own_time
        && instructions > 0.0
        && at_once > 0.0
    {
        let [mid, low, high] = [seconds, low, high].map(|seconds| seconds * at_once * 1e9);
        return Own::Both(Range { mid, low, high }, instructions);
    }
    if instructions > 0.0 {
        return Own::Instructions(instructions, meta.system_seconds * 1e9);
    }
    let accesses = meta.totals.loads as f64 + meta.totals.stores as f64;
    match accesses > 0.0 {
        true => Own::Instructions(accesses * PER_ACCESS, meta.system_seconds * 1e9),
        false => Own::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{sample, sampled};

    #[test]
    fn data_that_is_prefetched_may_cost_a_tenth() {
        let mut profile = sample(2, &[]).profile();
        profile.threads.iter_mut().for_each(|thread| thread.instructions = 1_000_000);
        let costs = Costs::of(&profile, None, 10_000);
        let each = costs.of_events(10_000, None, false);
        let any = costs.of_data(10_000, None, false, Order { follow: None });
        assert_eq!((any.cpu_share, any.high), (each.cpu_share, each.high));
        assert!(near(any.low, 0.1 * each.low.unwrap()));
        let ahead = costs.of_data(10_000, None, false, Order { follow: Some(1.0) });
        assert!(near(ahead.cpu_share, 0.05 * each.cpu_share.unwrap()), "{ahead:?}");
        assert!(ahead.high < each.cpu_share && ahead.low < any.low);
    }

    #[test]
    fn a_share_has_a_range_and_is_not_guessed() {
        let mut profile = sample(2, &[]).profile();
        for thread in &mut profile.threads {
            thread.instructions = 2_500_000;
        }
        // 10,000 events of 100 ns against 1 ms of instructions and the events themselves.
        let cost = Costs::of(&profile, None, 10_000).of_events(10_000, None, false);
        assert_eq!((cost.seconds, cost.worth), (1e-3, true));
        assert_eq!(cost.cpu_share, Some(0.5));
        let (low, high) = (cost.low.unwrap(), cost.high.unwrap());
        assert!(low < 0.2 && high > 0.75, "{cost:?}");
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

    /// Two threads that take these seconds of processor time alone, and execute these instructions.
    fn alone(seconds: f64, instructions: f64) -> Profile {
        let mut profile = sample(2, &[]).profile();
        for thread in &mut profile.threads {
            thread.instructions = (instructions / 2.0) as u64;
        }
        profile.running.clear();
        (profile.meta.wall_seconds, profile.meta.cpu_seconds) = (10.0, 20.0);
        let [seconds, low, high] = [1.0, 0.9, 1.1].map(|part| part * seconds / 2.0);
        profile.meta.own_time = Some(OwnTime { seconds, low, high });
        profile
    }

    fn cost(profile: &Profile, events: u64) -> Cost {
        Costs::of(profile, None, events).of_events(events, None, false)
    }

    fn near(share: Option<f64>, expected: f64) -> bool {
        (share.unwrap() - expected).abs() < 1e-9
    }

    #[test]
    fn transfers_cost_no_more_than_instructions_leave() {
        // 10 M of 100 ns.
        let of = |seconds, instructions| cost(&alone(seconds, instructions), 10_000_000);
        assert!(near(of(10.0, 5e9).cpu_share, 0.1));
        let bounded = of(1.0, 4e9);
        assert!(near(bounded.cpu_share, 0.2), "{bounded:?}");
        assert!((bounded.gain.unwrap().times - 1.25).abs() < 1e-9);
        assert!(near(of(1.0, 8e9).cpu_share, LEAST_WAITING * 0.2), "fast instructions");
        let none = of(1.0, 2e10);
        assert!(near(none.cpu_share, 0.0) && !none.worth && none.high == Some(0.0), "{none:?}");
        let wide = cost(&alone(1.0, 1e9), 5_000_000);
        assert!(wide.low.unwrap() < 0.25 && wide.high.unwrap() > 0.85, "{wide:?}");
    }

    #[test]
    fn what_running_at_once_takes_is_what_all_transfers_cost() {
        // 10 M of 100 ns in 10 s of processor time, that is a tenth if each is waited for.
        let mut profile = alone(10.0, 5e9);
        let mut slowed = |share, low, high, natively| {
            profile.meta.slowed = Some(Slowed { share, low, high, natively });
            let costs = Costs::of(&profile, None, 20_000_000);
            costs.of_events(10_000_000, None, false)
        };
        let light = slowed(0.3, 0.2, 0.4, false);
        let more = MORE_NATIVELY * 0.4 * 0.4 * 0.6;
        assert!(near(light.cpu_share, 0.15) && light.high > Some(0.7), "{light:?}");
        assert!(light.low.unwrap() < 0.15 && light.worth);
        let native = slowed(0.3, 0.2, 0.4, true);
        assert!(native.low > light.low && native.cpu_share == light.cpu_share, "{native:?}");
        assert!(near(native.high, 0.4 + more), "{native:?}");
        let none = slowed(0.0, 0.0, 0.01, true);
        assert!(near(none.cpu_share, 0.0) && !none.worth && none.high <= Some(0.011), "{none:?}");
        let memory = slowed(0.98, 0.9, 1.0, false);
        assert!(near(memory.cpu_share, NATIVELY * 0.1), "not all of it is transfers: {memory:?}");
    }

    #[test]
    fn the_time_of_children_is_not_the_programs_own() {
        let mut profile = alone(10.0, 5e9);
        profile.running.push(profile::RunningRow {
            slice: 0,
            thread: types::ThreadId(0),
            pu: 0,
            cpu_ns: 4_000_000_000,
            waited_ns: 0,
        });
        // 5 s of wall-clock time alone, in which two fifths of a processor are busy.
        assert!(near(cost(&profile, 10_000_000).cpu_share, 0.5));
    }

    #[test]
    fn a_run_without_transfers_does_not_bound_their_cost() {
        let costs = Costs::of(&alone(1.0, 2e10), None, 500);
        assert!(near(costs.at_most(40_000_000, 1.0).cpu_share, 0.5));
    }

    /// False sharing of 10,000 events, in an exact recording of 10 M instructions.
    fn false_sharing(visited: Visited) -> Cost {
        let mut profile = sample(2, &[(0, 1, 9)]).profile();
        for thread in &mut profile.threads {
            thread.instructions = 5_000_000;
        }
        Costs::of(&profile, None, 10_000).of_false_sharing(10_000, None, false, visited)
    }

    #[test]
    fn threads_in_tight_loops_may_hardly_wait() {
        let low = |visits| {
            false_sharing(Visited { visits, likely: Some(20_000), atomically: false }).low.unwrap()
        };
        assert_eq!(low(Some(60_000.0)), 0.0);
        assert!(low(Some(40_000.0)) > 0.0 && low(None) > 0.0);
    }

    #[test]
    fn transfers_are_no_more_than_visits_allow_natively() {
        let of = |most, atomically| {
            false_sharing(Visited { visits: Some(40_000.0), likely: Some(most), atomically })
        };
        // 10 M instructions take 2 ms, 10,000 transfers 1 ms, 2,000 of them 0.2 ms.
        assert!(near(of(20_000, false).cpu_share, 1.0 / 3.0));
        let few = of(2_000, false);
        assert!(near(few.cpu_share, 0.2 / 2.2) && few.high == of(10_000, false).high, "{few:?}");
        assert!(of(40_000, false).high > few.high);
        // Each atomic access waits, and takes 5 ns.
        assert!(near(of(2_000, true).cpu_share, 1.0 / 3.2));
    }
}
