//! Random windows of a run stand for all of it.
//!
//! A stream may have windows only ([`What::Window`](crate::What::Window)). What is measured in
//! their counted parts is multiplied by the run's accesses for each access that was counted. Before
//! the first window everything was observed, and counts as it is. Caches keep what they had when
//! the window before ended; the warm-up of a window, which does not count, brings them up to date.
//!
//! Intervals are those of a ratio of two sums, from how the windows differ (Cochran, Sampling
//! Techniques, chapter 6), with Student's t at 95 %. They are wider by the lines that a window sees
//! for the first time: the run may have accessed them before. Neighbours: `interleave.rs` says
//! where a part begins, `system.rs` measures, `run.rs` makes results of it.

use crate::counts::{Counts, Fetched, LEVELS, scaled};
use crate::server::Done;
use crate::sets::{Margins, Sampled};
use crate::stream::Part;
use rustc_hash::FxHashMap;
use statistics::student;
use std::collections::hash_map::Entry;

/// What a machine has done.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// By thread.
    pub threads: Vec<Counts>,
    /// From its beginning until no thread did anything any more, ns.
    pub elapsed_ns: f64,
    /// By code site.
    pub sites: FxHashMap<u32, Fetched>,
    /// By page, in the order of first accesses.
    pub pages: Vec<Fetched>,
    /// Lines written back, by node.
    pub written: Vec<u64>,
    /// By node.
    pub controllers: Vec<Done>,
    /// By link.
    pub links: Vec<Done>,
    /// Transfers between threads: from, to.
    pub between: FxHashMap<(u32, u32), u64>,
    /// Lines that no thread had accessed before in what was observed.
    pub new_lines: u64,
}

impl Measured {
    /// All threads together; the time is the one that passed.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.threads.iter().for_each(|thread| total.add(thread));
        Counts { time_ns: self.elapsed_ns, ..total }
    }

    /// Of all threads.
    pub fn accesses(&self) -> u64 {
        self.threads.iter().map(|thread| thread.accesses).sum()
    }

    /// Adds what was done later.
    fn add(&mut self, later: Self) {
        each(&mut self.threads, later.threads, Counts::add_later);
        self.elapsed_ns += later.elapsed_ns;
        merge(&mut self.sites, later.sites, |into, from| into.add(&from));
        each(&mut self.pages, later.pages, Fetched::add);
        each(&mut self.written, later.written, |into, from| *into += from);
        each(&mut self.controllers, later.controllers, Done::add);
        each(&mut self.links, later.links, Done::add);
        merge(&mut self.between, later.between, |into, from| *into += from);
        self.new_lines += later.new_lines;
    }

    /// Multiplies everything by a factor.
    fn scale(&mut self, factor: f64) {
        let times = |count: &mut u64| *count = scaled(*count, factor);
        self.threads.iter_mut().for_each(|thread| thread.scale(factor));
        self.elapsed_ns *= factor;
        self.sites.values_mut().chain(&mut self.pages).for_each(|of| of.scale(factor));
        self.written.iter_mut().chain(self.between.values_mut()).for_each(times);
        self.controllers.iter_mut().chain(&mut self.links).for_each(|done| done.scale(factor));
    }
}

/// Adds a list to one that may be shorter.
fn each<T: Clone + Default>(into: &mut Vec<T>, from: Vec<T>, add: impl Fn(&mut T, &T)) {
    into.resize(into.len().max(from.len()), T::default());
    into.iter_mut().zip(&from).for_each(|(into, from)| add(into, from));
}

fn merge<K: std::hash::Hash + Eq, V>(
    into: &mut FxHashMap<K, V>,
    from: FxHashMap<K, V>,
    add: impl Fn(&mut V, V),
) {
    for (key, value) in from {
        match into.entry(key) {
            Entry::Occupied(mut there) => add(there.get_mut(), value),
            Entry::Vacant(free) => {
                free.insert(value);
            }
        }
    }
}

/// What a window saw, as far as it has an interval.
#[derive(Clone, Copy, Debug)]
struct Window {
    accesses: f64,
    hits: [f64; LEVELS],
    transfers: f64,
    local: f64,
    remote: f64,
    time_ns: f64,
}

impl Window {
    fn new(measured: &Measured) -> Self {
        let total = measured.total();
        Self {
            accesses: total.accesses as f64,
            hits: total.hits.map(|hits| hits as f64),
            transfers: total.transferred() as f64,
            local: total.local as f64,
            remote: total.remote() as f64,
            time_ns: total.time_ns,
        }
    }
}

/// The windows of a run so far.
#[derive(Debug, Default)]
pub struct Windows {
    /// The part of the window that the machine is in; `None`: no window has come yet.
    part: Option<Part>,
    /// What was measured before the first one.
    whole: Measured,
    windows: Vec<Window>,
    /// In their counted parts together.
    counted: Measured,
}

impl Windows {
    /// Whether what is done now counts.
    pub fn counts(&self) -> bool {
        self.part.is_none_or(|part| part == Part::Counted)
    }

    /// The present part ends, with what was measured in it, and the next one begins.
    pub fn enter(&mut self, next: Part, measured: Measured) {
        match self.part.replace(next) {
            None => self.whole = measured,
            Some(Part::Counted) if measured.accesses() > 0 => {
                self.windows.push(Window::new(&measured));
                self.counted.add(measured);
            }
            Some(_) => {}
        }
    }

    /// What the whole run came to, which made `accesses` accesses, and its intervals. `measured` is
    /// of the last part.
    pub fn finish(mut self, accesses: u64, measured: Measured) -> (Measured, Option<Margins>) {
        if self.part.is_none() {
            return (measured, None);
        }
        self.enter(Part::Unseen, measured);
        let (whole, counted) = (self.whole.accesses(), self.counted.accesses());
        let rest = accesses.saturating_sub(whole).max(counted);
        let factor = rest as f64 / counted.max(1) as f64;
        let margins = self.margins(
            (factor, self.counted.new_lines),
            (whole + counted) as f64 / accesses.max(1) as f64,
        );
        self.counted.scale(factor);
        self.whole.add(self.counted);
        (self.whole, Some(margins))
    }

    /// Half the widths of the intervals, where windows stand for `factor` times as many accesses
    /// and all that counts is that `part` of the run. Lines that are `new` may have been accessed
    /// before the window: then they were somewhere else than in memory.
    fn margins(&self, (factor, new): (f64, u64), part: f64) -> Margins {
        let by_spread = |of: &dyn Fn(&Window) -> f64| self.half(of) * factor;
        let half = |of: &dyn Fn(&Window) -> f64| by_spread(of) + new as f64 * factor;
        let mut hits = [0.0; LEVELS];
        // They were not in the innermost cache, or hardly.
        hits[1] = by_spread(&|window| window.hits[1]);
        (2..LEVELS).for_each(|level| hits[level] = half(&|window| window.hits[level]));
        Margins {
            sampled: Sampled::Windows { count: self.windows.len() as u64, part: part.min(1.0) },
            hits,
            transfers: half(&|window| window.transfers),
            local: half(&|window| window.local),
            remote: half(&|window| window.remote),
            time_ns: by_spread(&|window| window.time_ns),
        }
    }

    /// Half the interval of the sum of what windows saw. Fewer than two tell nothing: infinite.
    fn half(&self, of: &dyn Fn(&Window) -> f64) -> f64 {
        let n = self.windows.len() as f64;
        if n < 2.0 {
            return f64::INFINITY;
        }
        let sum = |of: &dyn Fn(&Window) -> f64| self.windows.iter().map(of).sum::<f64>();
        let ratio = sum(of) / sum(&|window| window.accesses);
        let squares = sum(&|window| (of(window) - ratio * window.accesses).powi(2));
        student(n - 1.0) * (squares * n / (n - 1.0)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(accesses: u64, hits: u64, ns: f64) -> Measured {
        let mut counts = Counts { accesses, touched: accesses, ..Counts::default() };
        (counts.hits[1], counts.time_ns) = (hits, ns);
        Measured { threads: vec![counts], elapsed_ns: ns, ..Measured::default() }
    }

    /// The windows are what a run consists of, with these in its counted parts.
    fn of(list: &[(u64, u64)]) -> (Measured, Margins) {
        let mut windows = Windows::default();
        windows.enter(Part::WarmUp, measured(100, 0, 50.0));
        for &(accesses, hits) in list {
            windows.enter(Part::Counted, measured(7, 7, 1.0));
            windows.enter(Part::WarmUp, measured(accesses, hits, 5.0));
        }
        let (all, margins) = windows.finish(1100, measured(3, 3, 1.0));
        (all, margins.unwrap())
    }

    #[test]
    fn windows_stand_for_what_is_between_them_and_the_beginning_for_itself() {
        let (all, margins) = of(&[(10, 5), (20, 10), (20, 10)]);
        let total = all.total();
        assert_eq!((total.accesses, total.hits[1]), (1100, 500));
        assert_eq!(total.time_ns, 50.0 + 15.0 * 20.0);
        assert_eq!(margins.sampled, Sampled::Windows { count: 3, part: 150.0 / 1100.0 });
        assert_eq!(margins.hits[1], 0.0, "all windows agree");
        assert!(margins.time_ns > 0.0);
    }

    #[test]
    fn one_window_tells_nothing_of_how_they_differ() {
        assert!(of(&[(10, 5)]).1.hits[1].is_infinite());
        let two = of(&[(10, 4), (10, 6)]).1.hits[1];
        // t(1) = 12.706; squares 1 + 1, times 2; scaled by 1000 / 20.
        assert!((two - 12.706 * 2.0 * 50.0).abs() < 1.0, "{two}");
    }

    #[test]
    fn without_windows_all_is_as_it_is() {
        let (all, margins) = Windows::default().finish(5, measured(100, 3, 9.0));
        assert_eq!((all.total().hits[1], all.elapsed_ns), (3, 9.0));
        assert!(margins.is_none());
    }
}
