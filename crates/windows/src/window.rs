//! What one window delivers besides its counts: its times and the work of each thread.

use std::fmt;
use types::ThreadId;

/// Work of one thread, in units of the clock in use ([`crate::Clock`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadWork {
    /// Whose work it is.
    pub thread: ThreadId,
    /// In the whole period, the counting part included.
    pub period: u64,
    /// In the warm-up.
    pub warmed: u64,
    /// In the counting part.
    pub counted: u64,
}

/// A period and the window in it. Times are nanoseconds of a clock that does not stop when the
/// program sleeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// When the period began.
    pub start: u64,
    /// When everything was forgotten and the warm-up began.
    pub open: u64,
    /// When the counting part began.
    pub count: u64,
    /// When it ended.
    pub close: u64,
    /// When the period ended.
    pub end: u64,
    /// One entry for each thread that did anything in the period.
    pub work: Vec<ThreadWork>,
}

/// Why the counts of a window cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadWindow {
    /// Its times are not in order: a clock has jumped.
    Times,
    /// A thread did more work in the counting part than in the whole period: a counter went back.
    Work(ThreadId),
    /// It begins before the period before it has ended.
    Overlap,
}

impl fmt::Display for BadWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times => {
                write!(f, "the times of a window are not in order: the clock has jumped")
            }
            Self::Work(thread) => {
                write!(
                    f,
                    "thread {} did more work in a part than in the whole of a period",
                    thread.0
                )
            }
            Self::Overlap => write!(f, "a period begins before the one before it has ended"),
        }
    }
}

impl std::error::Error for BadWindow {}

impl Window {
    /// Whether the window can be used. One that was set aside cannot.
    ///
    /// # Errors
    /// Fails, saying why, when its counts are to be dropped.
    pub fn check(&self) -> Result<(), BadWindow> {
        let times = [self.start, self.open, self.count, self.close, self.end];
        if !times.is_sorted() || self.close == self.count {
            return Err(BadWindow::Times);
        }
        match self.work.iter().find(|work| work.warmed + work.counted > work.period) {
            Some(work) => Err(BadWindow::Work(work.thread)),
            None => Ok(()),
        }
    }

    /// The period without its window: its work is scaled from the neighbouring periods. For windows
    /// that cannot be used, or were broken off; their counts must be dropped.
    pub fn set_aside(mut self) -> Self {
        for work in &mut self.work {
            (work.warmed, work.counted) = (0, 0);
        }
        self.end = self.end.max(self.start);
        (self.open, self.count, self.close) = (self.start, self.start, self.start);
        self
    }

    /// Work of all threads in the period and in the counting part.
    pub(crate) fn sums(&self) -> (f64, f64) {
        self.work.iter().fold((0.0, 0.0), |(period, counted), work| {
            (period + work.period as f64, counted + work.counted as f64)
        })
    }

    /// Work of all threads in as much time of the window as its counting part takes.
    pub(crate) fn seen(&self) -> f64 {
        let all: u64 = self.work.iter().map(|work| work.warmed + work.counted).sum();
        let [counting, whole] = [self.count, self.open].map(|from| self.close.saturating_sub(from));
        all as f64 * counting as f64 / (whole as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        let work = vec![ThreadWork { thread: ThreadId(3), period: 10, warmed: 2, counted: 4 }];
        Window { start: 0, open: 5, count: 10, close: 15, end: 100, work }
    }

    #[test]
    fn a_clock_that_jumps_and_a_counter_that_goes_back_are_noticed() {
        assert_eq!(window().check(), Ok(()));
        assert_eq!(Window { open: 11, ..window() }.check(), Err(BadWindow::Times));
        assert_eq!(Window { end: 14, ..window() }.check(), Err(BadWindow::Times));
        assert_eq!(Window { close: 10, ..window() }.check(), Err(BadWindow::Times));
        let mut back = window();
        back.work[0].counted = 11;
        assert_eq!(back.check(), Err(BadWindow::Work(ThreadId(3))));
    }

    #[test]
    fn a_window_set_aside_keeps_the_work_of_its_period_only() {
        let aside = Window { end: 14, ..window() }.set_aside();
        assert_eq!((aside.sums(), aside.check()), ((10.0, 0.0), Err(BadWindow::Times)));
        assert_eq!([aside.seen(), window().seen()], [0.0, 3.0]);
    }
}
