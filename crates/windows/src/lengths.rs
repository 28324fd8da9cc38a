//! How long warm-up and counting part are to be.
//!
//! Events whose gap is longer than the warm-up are seen on a sample of cache lines only, if that
//! was tracked for long enough before, or not at all. What is missed is bounded from above by the
//! *unwritten* accesses: first reads and writes in the counting part of lines whose last writer is
//! not known. Every transfer that is missed is among them, and accesses of data that nobody else
//! writes any more may be too, so the bound may be far. While it is large, the sample is tracked
//! for longer ([`Chooser::tracks_long`]), until that has shown that few events are late. Whether
//! something is missed shows when the warm-up becomes longer, too:
//!
//! * *within a window*: the second half of the counting part has a warm-up longer by the first
//!   half. If it has more events for its work, gaps are longer than the warm-up;
//! * *between lengths*: while the bound is large, or much is late, the warm-up is doubled. Two
//!   doublings after which windows themselves see no more end this, and the shorter warm-up, which
//!   gives more windows, comes back.
//!
//! Lengths begin short and grow. A window is at most a twentieth of the time spent in windows so
//! far, so at every moment there have been enough of them for an interval. The first ones, shorter
//! than [`MIN_WARM_UP`], serve short runs only: nothing is concluded from them, and once there have
//! been enough for such a run, the longer ones begin. Opening a window costs the same however short
//! it is.

use crate::constants::{
    COUNTING_PER_WARM_UP, FIRST_WARM_UP, MAX_DOUBT, MAX_WARM_UP, MIN_ROTATIONS, MIN_WARM_UP,
    MIN_WINDOWS, MISSED_IGNORED, WANTED_WINDOWS, WINDOWS_TO_JUDGE, WORTH_LENGTHENING,
};
use std::collections::BTreeMap;

/// Lengths of a window, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lengths {
    /// Of the warm-up.
    pub warm_up: u64,
    /// Of the counting part.
    pub counting: u64,
}

impl Lengths {
    /// For traces: tracing is slow, so that threads do little in a window. All threads should have
    /// their turns, and fill the caches that they do not share.
    pub const TRACED: Self = Self { warm_up: 60_000_000, counting: 60_000_000 };

    /// Those that go with a warm-up.
    pub fn of_warm_up(warm_up: u64) -> Self {
        Self { warm_up, counting: warm_up * COUNTING_PER_WARM_UP }
    }

    /// Length of the window.
    pub fn whole(self) -> u64 {
        self.warm_up + self.counting
    }
}

/// How threads share the processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunQueue {
    /// Threads that want to run.
    pub runnable: u64,
    /// Processors that they share.
    pub cpus: u64,
    /// How long one of them runs while others wait, in nanoseconds.
    pub slice: u64,
}

impl RunQueue {
    /// Time after which each runnable thread has run again; 0 if none waits.
    pub fn rotation(self) -> u64 {
        let cpus = self.cpus.max(1);
        if self.runnable <= cpus {
            0
        } else {
            self.runnable.div_ceil(cpus).saturating_mul(self.slice)
        }
    }
}

/// What one window saw.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Seen {
    /// Events that are seen on all lines, and work, in the first half of the counting part.
    pub early: (u64, u64),
    /// Events and work in its second half.
    pub late: (u64, u64),
    /// Transfers in the counting part, with those that late ones on a sample of lines stand for.
    pub transfers: u64,
    /// Those that late ones stand for.
    pub far: u64,
    /// First reads and writes there of lines whose last writer is not known.
    pub unwritten: u64,
}

/// What windows of one length saw.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    windows: usize,
    /// Events that are seen on all lines.
    events: f64,
    transfers: f64,
    far: f64,
    work: f64,
    unwritten: f64,
    /// Sum of squares of transfers in a window.
    squares: f64,
    /// Events for the work of a half, later less earlier: sum and sum of squares.
    gain: f64,
    gain_squares: f64,
}

impl Tried {
    fn add(&mut self, seen: &Seen) {
        let rate = |(events, work): (u64, u64)| events as f64 / (work as f64).max(1.0);
        let events = (seen.early.0 + seen.late.0) as f64;
        let work = (seen.early.1 + seen.late.1) as f64;
        self.windows += 1;
        self.events += events;
        self.work += work;
        self.transfers += seen.transfers as f64;
        self.far += seen.far as f64;
        self.squares += (seen.transfers as f64).powi(2);
        self.unwritten += seen.unwritten as f64;
        if seen.early.1 > 0 && seen.late.1 > 0 {
            let gain = (rate(seen.late) - rate(seen.early)) * work / 2.0;
            self.gain += gain;
            self.gain_squares += gain * gain;
        }
    }

    /// Events that windows see themselves, for the work.
    fn rate(&self) -> f64 {
        self.events / self.work.max(1.0)
    }

    /// Relative standard error of the transfers.
    fn error(&self) -> f64 {
        deviation(self.windows, self.transfers, self.squares) / self.transfers.max(1.0)
    }

    /// Whether later halves have more events than earlier ones, beyond chance.
    fn grows_late(&self) -> bool {
        let worth = WORTH_LENGTHENING * self.events / 2.0;
        self.gain > worth.max(2.0 * deviation(self.windows, self.gain, self.gain_squares))
    }

    /// Whether more may be missed than can be ignored.
    fn misses(&self) -> bool {
        self.unwritten > MISSED_IGNORED * self.transfers
    }

    /// Whether more is late than can be ignored.
    fn is_far(&self) -> bool {
        self.far > MISSED_IGNORED * self.transfers
    }
}

/// How long lines are tracked before a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lead {
    /// For a part of the time, until more may be missed than can be ignored.
    Short,
    /// For as long as can be paid for.
    Long,
    /// For a part of the time, after long tracking has shown no gaps that are longer: what is read
    /// there is constant.
    Enough,
}

/// Standard deviation of a sum of independent values.
fn deviation(number: usize, sum: f64, squares: f64) -> f64 {
    let number = number as f64;
    if number < 2.0 {
        return f64::INFINITY;
    }
    ((squares - sum * sum / number) * number / (number - 1.0)).max(0.0).sqrt()
}

/// Chooses the lengths of the next window from what windows saw so far.
#[derive(Clone, Debug)]
pub struct Chooser {
    warm_up: u64,
    /// What is wanted, whether or not there is room for it yet.
    wanted: u64,
    tried: BTreeMap<u64, Tried>,
    /// Since the lengths were judged last.
    fresh: Tried,
    lead: Lead,
    in_windows: u64,
    /// Windows that were too short to be judged.
    short: usize,
}

impl Default for Chooser {
    fn default() -> Self {
        Self {
            warm_up: FIRST_WARM_UP,
            wanted: MIN_WARM_UP,
            tried: BTreeMap::new(),
            fresh: Tried::default(),
            lead: Lead::Short,
            in_windows: 0,
            short: 0,
        }
    }
}

impl Chooser {
    /// Those of the next window.
    pub fn lengths(&self) -> Lengths {
        Lengths::of_warm_up(self.warm_up)
    }

    /// The warm-up that would be chosen if there had been time for enough windows of it.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Whether lines shall be tracked before windows for as long as can be paid for, because gaps
    /// may be long.
    pub fn tracks_long(&self) -> bool {
        self.lead == Lead::Long
    }

    /// Judges how long lines are tracked. With another lead, as much may be seen by windows that
    /// are shorter.
    fn judge_lead(&mut self) {
        let (far, ignored) = (self.fresh.far, MISSED_IGNORED * self.fresh.transfers);
        let next = match self.lead {
            Lead::Short if self.fresh.misses() => Lead::Long,
            Lead::Long if !self.fresh.misses() && far <= ignored => Lead::Enough,
            same => same,
        };
        if next != self.lead {
            self.lead = next;
            self.tried.clear();
        }
    }

    /// A window of the current lengths is over.
    pub fn add(&mut self, seen: &Seen, queue: RunQueue) {
        self.in_windows += self.lengths().whole();
        if self.warm_up >= MIN_WARM_UP {
            self.tried.entry(self.warm_up).or_default().add(seen);
            self.fresh.add(seen);
        } else {
            self.short += 1;
        }
        if self.fresh.windows >= WINDOWS_TO_JUDGE {
            let lead = self.lead;
            self.judge_lead();
            if self.warm_up >= self.wanted && self.lead == lead {
                self.wanted = self.judge();
            }
            self.fresh = Tried::default();
        }
        let least = MIN_ROTATIONS.saturating_mul(queue.rotation()).clamp(MIN_WARM_UP, MAX_WARM_UP);
        self.wanted = self.wanted.max(least);
        // As long as leaves enough windows; those that are judged are counted anew.
        let room = self.in_windows / (MIN_WINDOWS as u64 * (1 + COUNTING_PER_WARM_UP));
        let is_judged = self.warm_up >= MIN_WARM_UP;
        let next = match is_judged {
            true => self.wanted.min(room).max(MIN_WARM_UP),
            false if self.short >= WANTED_WINDOWS => MIN_WARM_UP,
            false => room.clamp(FIRST_WARM_UP, MIN_WARM_UP),
        };
        // In steps, so that a length is kept long enough to be judged.
        let enough = if is_judged { self.wanted } else { MIN_WARM_UP };
        if next < self.warm_up || next >= enough || next >= 2 * self.warm_up {
            if next != self.warm_up {
                self.fresh = Tried::default();
            }
            if !is_judged && next == MIN_WARM_UP {
                self.in_windows = 0;
            }
            self.warm_up = next;
        }
    }

    /// The warm-up that what was seen asks for.
    fn judge(&self) -> u64 {
        let now = self.warm_up;
        let doubled = (2 * now).min(MAX_WARM_UP);
        if self.fresh.grows_late() {
            return doubled;
        }
        let is_wanting = |tried: &&Tried| tried.misses() || tried.is_far();
        let Some(current) = self.tried.get(&now).filter(is_wanting) else { return now };
        // The shortest that saw as much as this, but for chance. If chance is large, nothing is
        // known.
        let enough = |tried: &Tried| {
            let error = tried.error().hypot(current.error());
            error <= MAX_DOUBT && tried.rate() * (1.0 + WORTH_LENGTHENING + error) >= current.rate()
        };
        let shorter = self.tried.range(..now).find(|(_, tried)| enough(tried)).map(|(at, _)| *at);
        match shorter {
            // Nothing at all was seen: there is nothing that a shorter one is enough for.
            _ if current.transfers == 0.0 => doubled,
            Some(shorter) if now >= 4 * shorter => shorter,
            _ if self
                .tried
                .range(2 * now..)
                .any(|(_, tried)| tried.windows >= WINDOWS_TO_JUDGE) =>
            {
                now
            }
            _ => doubled,
        }
    }
}

#[cfg(test)]
#[path = "lengths_tests.rs"]
mod tests;
