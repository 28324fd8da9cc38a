//! Whether a placement helps: work per time before it, with it, and before it again (A/B/A).
//!
//! Work is measured all the time. When a placement is applied, the last measurements before are A,
//! those that follow are B. A clear and large difference decides at once; else the placement is
//! taken back and applied again, round by round, until the interval of the ratio B/A decides or the
//! rounds are over. What does not help is undone, and nothing is tried for a while, which doubles
//! from failure to failure. The intervals hold at whatever moment they are looked at (crate
//! `statistics`).

use crate::settings::Settings;
use statistics::{Ratio, Ratios};
use std::collections::VecDeque;

/// Probability of a wrong decision.
const ALPHA: f64 = 0.05;
/// A ratio this far from 1 needs no second A.
const CLEAR: f64 = 0.1;
/// Work has fallen if the last two measurements are below this part of the work with the placement
/// that was kept last.
const FALLEN: f64 = 0.7;
/// A placement is like the one that was kept last if its predicted saving is at least this part of
/// that one's.
const MIN_ALIKE: f64 = 0.5;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    /// Go on.
    Wait,
    /// Take the placement back, to measure without it.
    Pause,
    /// Apply it again.
    Resume,
    /// It helps.
    Keep(Ratio),
    /// It does not.
    Undo(Ratio),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// No trial.
    Idle,
    /// With the placement; the first measurement is left out, as threads warm up.
    With,
    /// Without it.
    Without,
}

/// Measures work and judges placements.
#[derive(Clone, Debug)]
pub struct Guard {
    measurement_ns: u64,
    needed: usize,
    max_rounds: u32,
    pause_ns: u64,
    max_pause_ns: u64,
    /// Of the present measurement: work and its time.
    open: (f64, u64),
    /// Work per ns of the last measurements in this stage; the first may be left out.
    rates: VecDeque<f64>,
    skip: bool,
    stage: Stage,
    round: u32,
    without: Vec<f64>,
    with: Vec<f64>,
    ratios: Ratios,
    next_pause_ns: u64,
    until_ns: u64,
    measured: bool,
    /// The predicted saving of the placement on trial, or of the one that was kept last.
    saving: f64,
    /// Until when the one that was kept last vouches for others.
    vouches_until_ns: u64,
    /// Work per ns with the one that was kept last.
    kept_rate: Option<f64>,
}

impl Guard {
    /// With the constants of the settings.
    pub fn new(settings: &Settings) -> Self {
        let pause_ns = settings.guard_pause_ms * 1_000_000;
        Self {
            measurement_ns: settings.guard_ms * 1_000_000,
            needed: settings.guard_measurements as usize,
            max_rounds: settings.guard_rounds,
            pause_ns,
            max_pause_ns: settings.guard_max_pause_ms * 1_000_000,
            open: (0.0, 0),
            rates: VecDeque::new(),
            skip: false,
            stage: Stage::Idle,
            round: 0,
            without: Vec::new(),
            with: Vec::new(),
            ratios: Ratios::default(),
            next_pause_ns: pause_ns,
            until_ns: 0,
            measured: false,
            saving: 0.0,
            vouches_until_ns: 0,
            kept_rate: None,
        }
    }

    /// Work that was done in so much time.
    pub fn add(&mut self, amount: f64, ns: u64) {
        if !amount.is_finite() || amount < 0.0 || ns == 0 {
            return;
        }
        self.open = (self.open.0 + amount, self.open.1 + ns);
        if self.open.1 < self.measurement_ns {
            return;
        }
        let (amount, ns) = std::mem::take(&mut self.open);
        if std::mem::take(&mut self.skip) {
            return;
        }
        self.rates.push_back(amount / ns as f64);
        if self.stage == Stage::Idle && self.rates.len() > self.needed {
            self.rates.pop_front();
        }
    }

    /// Whether work is measured, and enough of it is known to compare with.
    pub fn is_ready(&self) -> bool {
        let positive = self.rates.iter().filter(|rate| **rate > 0.0).count();
        self.stage == Stage::Idle && positive >= self.needed
    }

    /// Whether any work was ever measured.
    pub fn measures(&self) -> bool {
        self.measured || !self.rates.is_empty() || self.open.1 > 0
    }

    /// Whether a placement is being tried.
    pub fn is_trying(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Whether less work is done lately than when a placement was kept.
    pub fn has_fallen(&self) -> bool {
        let last = || self.rates.iter().rev().take(2);
        let fallen = |kept: f64| last().count() == 2 && last().all(|rate| *rate < FALLEN * kept);
        self.stage == Stage::Idle && self.kept_rate.is_some_and(fallen)
    }

    /// Until when nothing is tried.
    pub fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Whether a placement that saves so much needs no trial of its own, because one like it has
    /// just helped: when communication changes often, trials would take all the time.
    pub fn vouches(&self, saving: f64, now_ns: u64) -> bool {
        now_ns < self.vouches_until_ns && saving >= self.saving * MIN_ALIKE
    }

    /// Communication has changed: what did not help before may help now.
    pub fn forgive(&mut self) {
        self.until_ns = 0;
        self.next_pause_ns = self.pause_ns;
    }

    /// A placement has been applied without a trial, or tasks have come and gone: measurements
    /// before cannot be compared with later ones.
    pub fn restart(&mut self) {
        self.measured = self.measures();
        self.rates.clear();
        self.open = (0.0, 0);
        self.skip = true;
        self.stage = Stage::Idle;
    }

    /// A placement that is to save so much has just been applied and is on trial.
    pub fn begin(&mut self, saving: f64) {
        self.saving = saving;
        self.without = self.rates.drain(..).collect();
        (self.with, self.round, self.ratios) = (Vec::new(), 0, Ratios::default());
        self.enter(Stage::With);
    }

    fn enter(&mut self, stage: Stage) {
        self.measured = true;
        self.stage = stage;
        self.rates.clear();
        self.open = (0.0, 0);
        self.skip = true;
    }

    /// What follows from the measurements so far.
    pub fn turn(&mut self, now_ns: u64) -> Verdict {
        if self.stage == Stage::Idle || self.rates.len() < self.needed {
            return Verdict::Wait;
        }
        let rates = self.rates.drain(..).collect();
        if self.stage == Stage::Without {
            self.without = rates;
            self.enter(Stage::With);
            return Verdict::Resume;
        }
        self.with = rates;
        self.compare();
        self.round += 1;
        let ratio = self.ratios.interval(ALPHA);
        let clear = (ratio.estimate.ln()).abs() > CLEAR || self.round > 1;
        let over = self.round >= self.max_rounds;
        match ratio {
            Ratio { low, .. } if low > 1.0 && clear => self.keep(ratio, now_ns),
            Ratio { high, .. } if high < 1.0 && clear => self.undo(ratio, now_ns),
            _ if over => self.undo(ratio, now_ns),
            _ => {
                self.enter(Stage::Without);
                Verdict::Pause
            }
        }
    }

    /// Adds the ratios of measurements with and without, in the order of time.
    fn compare(&mut self) {
        let pairs = self.with.iter().zip(&self.without);
        pairs.for_each(|(with, without)| self.ratios.add(with / without));
    }

    fn keep(&mut self, ratio: Ratio, now_ns: u64) -> Verdict {
        self.kept_rate = Some(self.with.iter().sum::<f64>() / self.with.len() as f64);
        self.enter(Stage::Idle);
        self.vouches_until_ns = now_ns + self.max_pause_ns;
        self.next_pause_ns = self.pause_ns;
        Verdict::Keep(ratio)
    }

    /// A placement has not helped: nothing is tried for a while.
    fn undo(&mut self, ratio: Ratio, now_ns: u64) -> Verdict {
        self.kept_rate = None;
        self.enter(Stage::Idle);
        self.vouches_until_ns = 0;
        self.until_ns = now_ns + self.next_pause_ns;
        self.next_pause_ns = (self.next_pause_ns * 2).min(self.max_pause_ns);
        Verdict::Undo(ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 200_000_000;

    /// Runs a trial of a program that does `with` times its work under the placement; what came of
    /// it, and after how many measurements.
    fn trial(with: f64, noise: f64) -> (Verdict, u32) {
        let mut guard = Guard::new(&Settings::default());
        let mut seed = 1_u64;
        let mut rate = |placed: bool| {
            seed = crate::blocks::mix(seed);
            let noise = 1.0 + noise * (seed as f64 / u64::MAX as f64 * 2.0 - 1.0);
            (if placed { with } else { 1.0 }) * noise * STEP as f64
        };
        while !guard.is_ready() {
            guard.add(rate(false), STEP);
        }
        guard.begin(0.5);
        let mut placed = true;
        for step in 1..200 {
            guard.add(rate(placed), STEP);
            match guard.turn(u64::from(step) * STEP) {
                Verdict::Wait => {}
                Verdict::Pause => placed = false,
                Verdict::Resume => placed = true,
                verdict => return (verdict, step),
            }
        }
        panic!("a trial ends");
    }

    #[test]
    fn what_helps_much_is_kept_at_once() {
        let (verdict, steps) = trial(1.6, 0.05);
        assert!(matches!(verdict, Verdict::Keep(ratio) if ratio.low > 1.1), "{verdict:?}");
        assert_eq!(steps, 5);
    }

    #[test]
    fn what_helps_a_little_is_kept_after_a_second_look() {
        let (verdict, steps) = trial(1.06, 0.01);
        assert!(matches!(verdict, Verdict::Keep(_)), "{verdict:?}");
        assert!(steps > 5, "{steps}");
    }

    #[test]
    fn what_harms_or_does_not_help_is_undone() {
        for with in [0.6, 0.95, 1.0] {
            let (verdict, _) = trial(with, 0.02);
            assert!(matches!(verdict, Verdict::Undo(_)), "{with}: {verdict:?}");
        }
    }

    #[test]
    fn pauses_double_and_a_change_forgives() {
        let mut guard = Guard::new(&Settings::default());
        let ratio = Ratio { estimate: 1.0, low: 0.9, high: 1.1 };
        let pauses: Vec<u64> = (0..7)
            .map(|_| {
                guard.undo(ratio, 0);
                guard.until_ns() / 1_000_000_000
            })
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 120, 120]);
        guard.forgive();
        assert_eq!(guard.until_ns(), 0);
    }

    #[test]
    fn work_that_falls_after_a_placement_was_kept_is_seen() {
        let mut guard = Guard::new(&Settings::default());
        let add = |guard: &mut Guard, rate: f64, times| {
            (0..times).for_each(|_| guard.add(rate * STEP as f64, STEP));
        };
        add(&mut guard, 1.0, 5);
        guard.begin(0.5);
        add(&mut guard, 2.0, 5);
        assert!(matches!(guard.turn(0), Verdict::Keep(_)));
        add(&mut guard, 2.0, 5);
        assert!(!guard.has_fallen());
        add(&mut guard, 1.0, 1);
        assert!(!guard.has_fallen(), "once may be chance");
        add(&mut guard, 1.0, 1);
        assert!(guard.has_fallen());
    }

    #[test]
    fn without_work_nothing_is_ready() {
        let mut guard = Guard::new(&Settings::default());
        assert!(!guard.measures() && !guard.is_ready());
        (0..10).for_each(|_| guard.add(0.0, STEP));
        assert!(guard.measures() && !guard.is_ready());
        guard.add(f64::NAN, STEP);
        assert_eq!(guard.turn(0), Verdict::Wait);
    }
}
