//! What one counted event of a window stands for: a ratio estimator by strata.
//!
//! *Factor of a stratum.* A period is a stratum, and its window the only sample of it. Its events
//! count by the work of all threads in the period over what they do in as much time of the window
//! as the counting part takes, warm-up included: where a window is longer than the program's
//! phases, the counting part alone may lie in slow code. It would stand for all the more, although
//! that is in sight from much of the code around it. A stratum of which too little was seen would
//! have a factor that is mostly chance, so it is joined with the next one.
//!
//! *Pace of a thread.* Threads may lose unequal parts of their speed in windows. By the factors
//! alone, the work of a thread would then add up to more or less than what it did. Its pace is the
//! ratio of both (a calibration; Deville and Särndal, 1992). An event between two threads counts by
//! the mean of their paces: where both reach the block at random and equally often, the rate of
//! events is v·u / (v + u) of their speeds, so that this is exact. Where one of them sets the pace
//! alone, its own is right; in a crowd of threads at one block, the rate is v·u over all speeds,
//! and the product of both paces is right. The interval holds all of these.
//!
//! A thread that too few windows saw has no pace. The paces of the others are then such that the
//! work of all threads adds up.
//!
//! There is no factor for the slowdown as a whole: it would count waiting and sleeping as work.

use crate::constants::{MIN_WINDOWS, MIN_WORK_SHARE, MISSES_LITTLE, MOST_WITHOUT};
use crate::{BadWindow, Window};
use statistics::student;
use std::collections::BTreeMap;
use std::fmt;
use types::ThreadId;

/// What work is counted in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Clock {
    /// Instructions of the program, without iterations of spin loops ([`types::tally::work`]). A
    /// window does not change how many a piece of work takes, but it does change how many are spent
    /// waiting: by all instructions, amounts of threads that take turns were half of the truth.
    Instructions,
    /// Processor time outside of waits. A window stretches it: estimates are then low by up to
    /// `slower`, how many times longer a thread takes in a window than outside, and so much higher
    /// is the upper end of intervals.
    CpuTime {
        /// Times longer, at least 1.
        slower: f64,
    },
}

/// Too few windows to tell amounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooShort {
    /// Usable windows, those joined as one.
    pub windows: usize,
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "too short: {} usable windows, and amounts need at least {MIN_WINDOWS}",
            self.windows
        )
    }
}

impl std::error::Error for TooShort {}

/// What the events of each window stand for.
#[derive(Clone, Debug)]
pub struct Scale {
    pub(crate) clock: Clock,
    faults: Vec<Option<BadWindow>>,
    /// Stratum of each window; `None`: set aside, its counts do not count.
    of_window: Vec<Option<u32>>,
    pub(crate) strata: Vec<Stratum>,
    /// Work in all periods, and the part of it that lay in counting parts.
    pub(crate) work: f64,
    pub(crate) counted_share: f64,
    /// How much larger Student's quantile, squared, is than the normal distribution's.
    pub(crate) widening: f64,
    threads: BTreeMap<ThreadId, Thread>,
}

/// Periods that are scaled together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Stratum {
    /// Work of all threads, that in counting parts, and what was seen: [`Window::seen`].
    work: f64,
    pub counted: f64,
    seen: f64,
    /// Events that one counted event stands for, before the paces of its threads.
    pub factor: f64,
}

/// What is known of a thread's work.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Thread {
    /// Its work over what the factors make of its counted work, and its part of what threads seem
    /// not to have done that too few windows saw; 1 for these.
    pub pace: f64,
    /// Whether the pace was measured.
    pub calibrated: bool,
    /// What the factors make of its counted work, by stratum, and all of that.
    pub scaled: Vec<(u32, f64)>,
    pub sum: f64,
}

/// How much larger than the normal distribution's the square of Student's quantile is, for a
/// variance from this many strata: differences of neighbours have two thirds of the degrees of
/// freedom.
fn widening(strata: usize) -> f64 {
    let free = 2.0 * (strata as f64 - 1.0) / 3.0;
    (student(free) / student(f64::MAX)).powi(2)
}

impl Scale {
    /// The scale of a run's windows, in the order of time. Windows that [`Window::check`] refuses
    /// are set aside, and so is one that begins before the period before it has ended.
    ///
    /// # Errors
    /// Fails with fewer than [`MIN_WINDOWS`] strata.
    pub fn new(windows: &[Window], clock: Clock) -> Result<Self, TooShort> {
        let faults = faults(windows);
        let Divided { of_window, strata, work, share } = Divided::of(windows, &faults);
        if strata.len() < MIN_WINDOWS {
            return Err(TooShort { windows: strata.len() });
        }
        let threads = threads(windows, &of_window, &strata);
        let widening = widening(strata.len());
        Ok(Self { clock, faults, of_window, strata, work, counted_share: share, widening, threads })
    }

    /// Strata, at least [`MIN_WINDOWS`].
    pub fn strata(&self) -> usize {
        self.strata.len()
    }

    /// Windows whose counts do not count, and why. Those set aside by [`Window::set_aside`] have
    /// bad times.
    pub fn set_aside(&self) -> impl Iterator<Item = (usize, BadWindow)> {
        self.faults.iter().enumerate().filter_map(|(window, fault)| Some((window, (*fault)?)))
    }

    /// Part of the work that lay in counting parts.
    pub fn counted_share(&self) -> f64 {
        self.counted_share
    }

    /// Work of a thread over what the factors make of its counted work: how much slower than the
    /// others it was in windows, if all have a pace. `None` while too few windows saw it work.
    pub fn pace(&self, thread: ThreadId) -> Option<f64> {
        self.threads.get(&thread).filter(|thread| thread.calibrated).map(|thread| thread.pace)
    }

    /// What one event of a window stands for, before the paces of its threads. `None`: its counts
    /// do not count.
    pub fn factor(&self, window: usize) -> Option<f64> {
        self.stratum(window).map(|at| self.strata[at as usize].factor)
    }

    /// The stratum of a window.
    pub(crate) fn stratum(&self, window: usize) -> Option<u32> {
        self.of_window.get(window).copied().flatten()
    }

    pub(crate) fn thread(&self, thread: ThreadId) -> Option<&Thread> {
        self.threads.get(&thread).filter(|thread| thread.calibrated)
    }

    /// The most that one counted event stands for.
    pub(crate) fn largest_factor(&self) -> f64 {
        self.strata.iter().map(|stratum| stratum.factor).fold(0.0, f64::max)
    }
}

/// Sets aside windows with a shorter warm-up than those that half of the time in windows was spent
/// in, so that short ones, with which a recording began, do not miss what later ones see. All are
/// kept if too few would be left. So are those of a stretch with [`MOST_WITHOUT`] of the work, as
/// no later window tells what the program did there, and those of one in which about as many
/// `events` of each window were counted for the work as in long ones ([`MISSES_LITTLE`]).
pub fn long_enough(windows: Vec<Window>, events: &[u64]) -> Vec<Window> {
    let warm_up = |window: &Window| window.count.saturating_sub(window.open);
    let usable = windows.iter().filter(|window| window.check().is_ok());
    let mut lengths: Vec<(u64, u64)> = usable.map(|w| (warm_up(w), w.close - w.open)).collect();
    lengths.sort_unstable();
    let half = lengths.iter().map(|(_, whole)| whole).sum::<u64>() / 2;
    let mut below = 0;
    let middle = lengths.iter().find(|(_, whole)| {
        below += whole;
        below > half
    });
    // Lengths double. Those of the same length differ by how late the switching was, which on busy
    // processors may be as much as the length.
    let least = middle.map_or(0, |(warm_up, _)| warm_up - warm_up / 8 * 3);
    if lengths.iter().filter(|(warm_up, _)| *warm_up >= least).count() < MIN_WINDOWS {
        return windows;
    }
    let work = |window: &Window| window.work.iter().map(|of| of.period).sum::<u64>();
    let most = MOST_WITHOUT * windows.iter().map(work).sum::<u64>() as f64;
    let is_short = |window: &Window| window.check().is_err() || warm_up(window) < least;
    let counted: Vec<(f64, f64)> = windows
        .iter()
        .zip(events)
        .map(|(window, events)| (*events as f64, window.sums().1))
        .collect();
    let long = windows.iter().zip(&counted).filter(|(window, _)| !is_short(window));
    let usual = events_per_work(long.map(|(_, counted)| counted));
    let mut kept = Vec::with_capacity(windows.len());
    for stretch in windows.chunk_by(|a, b| is_short(a) == is_short(b)) {
        let is_most = stretch.iter().map(work).sum::<u64>() as f64 >= most;
        let here = events_per_work(counted[kept.len()..].iter().take(stretch.len()));
        let goes = is_short(&stretch[0]) && !is_most && here < MISSES_LITTLE * usual;
        let each = stretch.iter().cloned();
        kept.extend(each.map(|window| if goes { window.set_aside() } else { window }));
    }
    kept
}

/// Events for each unit of work, from pairs of events and work.
fn events_per_work<'a>(counted: impl Iterator<Item = &'a (f64, f64)>) -> f64 {
    let (events, work) = counted.fold((0.0, 0.0), |sum, (e, w)| (sum.0 + e, sum.1 + w));
    if work > 0.0 { events / work } else { 0.0 }
}

/// Why each window cannot be used; `None` if it can.
fn faults(windows: &[Window]) -> Vec<Option<BadWindow>> {
    let mut end = 0;
    let fault = |window: &Window| {
        let late = window.start < end;
        end = end.max(window.end);
        window.check().err().or(late.then_some(BadWindow::Overlap))
    };
    windows.iter().map(fault).collect()
}

/// What one event of each window stands for, also where the windows are too few for a [`Scale`]. 0:
/// its counts do not count.
pub fn factors(windows: &[Window]) -> Vec<f64> {
    let Divided { of_window, strata, .. } = Divided::of(windows, &faults(windows));
    factors_of(&of_window, &strata)
}

fn factors_of(of_window: &[Option<u32>], strata: &[Stratum]) -> Vec<f64> {
    let factor = |of: Option<u32>| strata.get(of? as usize).map(|stratum| stratum.factor);
    of_window.iter().map(|of| factor(*of).unwrap_or(0.0)).collect()
}

/// What one event stands for that was counted in `seen` work of a period, which includes that of
/// the counting part. `None`: nothing of the kind was counted. Periods are joined until enough was
/// seen of each, so one that tells nothing is like its neighbours. How much is usual is the median:
/// at the beginning, much more is seen than later. 0: its counts do not count.
pub fn factors_of_seen(windows: &[Window], seen: &[Option<f64>]) -> Vec<f64> {
    let faults = faults(windows);
    let period = |((window, fault), seen): ((&Window, &Option<BadWindow>), &Option<f64>)| {
        let seen = seen.filter(|_| fault.is_none());
        let all = seen.unwrap_or(0.0);
        (Stratum { counted: all, seen: all, ..Stratum::of(window) }, seen.is_some())
    };
    let periods: Vec<_> = windows.iter().zip(&faults).zip(seen).map(period).collect();
    let tells = periods.iter().filter(|(of, usable)| *usable && of.work > 0.0);
    let mut shares: Vec<f64> = tells.map(|(of, _)| of.seen / of.work).collect();
    let share = statistics::median(&mut shares).unwrap_or(0.0);
    let (of_window, strata) = strata(&periods, share);
    factors_of(&of_window, &strata)
}

/// Windows by strata.
struct Divided {
    of_window: Vec<Option<u32>>,
    strata: Vec<Stratum>,
    /// Work in all periods, and the part of it that lay in counting parts.
    work: f64,
    share: f64,
}

impl Divided {
    fn of(windows: &[Window], faults: &[Option<BadWindow>]) -> Self {
        let period = |(window, fault): (&Window, &Option<BadWindow>)| {
            let of = Stratum::of(window);
            (if fault.is_none() { of } else { of.unseen() }, fault.is_none())
        };
        let periods: Vec<_> = windows.iter().zip(faults).map(period).collect();
        let sum = |of: fn(&Stratum) -> f64| -> f64 { periods.iter().map(|(p, _)| of(p)).sum() };
        let [work, counted, seen] = [sum(|p| p.work), sum(|p| p.counted), sum(|p| p.seen)];
        let part = |of: f64| if work > 0.0 { of / work } else { 0.0 };
        let (of_window, strata) = strata(&periods, part(seen));
        Self { of_window, strata, work, share: part(counted) }
    }
}

impl Stratum {
    /// A period by itself.
    fn of(window: &Window) -> Self {
        let (work, counted) = window.sums();
        Self { work, counted, seen: window.seen(), factor: 0.0 }
    }

    /// The same without its window.
    fn unseen(self) -> Self {
        Self { counted: 0.0, seen: 0.0, ..self }
    }

    fn add(&mut self, more: &Self) {
        self.work += more.work;
        self.counted += more.counted;
        self.seen += more.seen;
    }
}

/// Joins periods until each stratum has its part of what was seen, of which `share` of the work is
/// usual, and scales them. With each period comes whether its window is usable.
fn strata(periods: &[(Stratum, bool)], share: f64) -> (Vec<Option<u32>>, Vec<Stratum>) {
    let (mut strata, mut of_window) = (Vec::<Stratum>::new(), Vec::new());
    let mut open = Stratum::default();
    for (period, usable) in periods {
        open.add(period);
        of_window.push(usable.then_some(strata.len() as u32));
        if open.seen > 0.0 && open.seen >= MIN_WORK_SHARE * share * open.work {
            strata.push(std::mem::take(&mut open));
        }
    }
    // What is left at the end belongs to the last whole stratum.
    if let Some(last) = strata.last_mut() {
        last.add(&open);
    }
    let last = strata.len().saturating_sub(1) as u32;
    for of in of_window.iter_mut().flatten() {
        *of = (*of).min(last);
    }
    let (mut work, mut scaled) = (0.0, 0.0);
    for of in &mut strata {
        of.factor = of.work / of.seen;
        work += of.work;
        scaled += of.factor * of.counted;
    }
    // What was counted stands for all work.
    let times = if scaled > 0.0 { work / scaled } else { 1.0 };
    strata.iter_mut().for_each(|of| of.factor *= times);
    (of_window, strata)
}

/// Paces of the threads.
fn threads(
    windows: &[Window],
    of_window: &[Option<u32>],
    strata: &[Stratum],
) -> BTreeMap<ThreadId, Thread> {
    let mut worked: BTreeMap<ThreadId, (f64, Scaled)> = BTreeMap::new();
    for (window, of) in windows.iter().zip(of_window) {
        for work in &window.work {
            let (all, scaled) = worked.entry(work.thread).or_default();
            *all += work.period as f64;
            if let Some(of) = of.filter(|_| work.counted > 0) {
                *scaled.entry(of).or_default() += work.counted as f64 * strata[of as usize].factor;
            }
        }
    }
    let growth = growth(&worked);
    let thread = |(id, (all, scaled)): (ThreadId, (f64, Scaled))| {
        let sum: f64 = scaled.values().sum();
        let calibrated = is_calibrated(&scaled);
        let pace = if calibrated { growth * all / sum } else { 1.0 };
        (id, Thread { pace, calibrated, scaled: scaled.into_iter().collect(), sum })
    };
    worked.into_iter().map(thread).collect()
}

/// What the factors make of a thread's counted work, by stratum.
type Scaled = BTreeMap<u32, f64>;

fn is_calibrated(scaled: &Scaled) -> bool {
    scaled.len() >= MIN_WINDOWS
}

/// By what the paces of calibrated threads grow, so that the work of all threads still adds up:
/// what the others seem not to have done is theirs. Where windows saw two of four equal threads too
/// often, the two would count less, and the others not more.
fn growth(worked: &BTreeMap<ThreadId, (f64, Scaled)>) -> f64 {
    let (mut work, mut calibrated, mut others) = (0.0, 0.0, 0.0);
    for (all, scaled) in worked.values() {
        work += all;
        if is_calibrated(scaled) {
            calibrated += all;
        } else {
            others += scaled.values().sum::<f64>();
        }
    }
    if calibrated > 0.0 { (work - others) / calibrated } else { 1.0 }
}

#[cfg(test)]
#[path = "scale_tests.rs"]
mod tests;
