//! How long the reader sleeps before it looks at the rings again.
//!
//! Problem: to be woken costs 30 to 100 µs in a virtual machine, and what was in the caches is gone: as much
//! as it takes to read ten samples. But processes and threads that are over soon say what they are only while
//! they live. Approach: short rests after news of either, then longer and longer ones; never so long that
//! the rings could fill up (they wake us, too, but those of single threads are small).
//!
//! Neighbours: `follow` sleeps, and hears the news.

use std::time::{Duration, Instant};

/// The rest after news, and the longest one.
const SHORTEST: Duration = Duration::from_millis(15);
const LONGEST: Duration = Duration::from_millis(150);
/// Where programs are watched, what they report must be taken.
const LONGEST_WATCHED: Duration = Duration::from_millis(100);
/// Each is so many times as long as the one before.
const GROWTH: f64 = 1.25;
/// Part of a ring that may be filled meanwhile.
const FILLED: f64 = 0.5;

/// The next rests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rest {
    next: Duration,
    longest: Duration,
}

impl Default for Rest {
    fn default() -> Self {
        Self { next: SHORTEST, longest: LONGEST }
    }
}

impl Rest {
    /// With rings that have `room` for so many samples, of which `per_second` come.
    pub fn new(room: u64, per_second: f64, watched: bool) -> Self {
        let seconds = FILLED * room as f64 / per_second.max(1.0);
        let filled = Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()));
        let longest = filled.min(if watched { LONGEST_WATCHED } else { LONGEST });
        Self { next: SHORTEST.min(longest), longest }
    }

    /// A process or a thread has appeared.
    pub fn news(&mut self) {
        self.next = SHORTEST.min(self.longest);
    }

    /// How long to rest now, with something to be done at `due`.
    pub fn next(&mut self, now: Instant, due: Option<Instant>) -> Duration {
        let rest = self.next;
        self.next = rest.mul_f64(GROWTH).min(self.longest);
        due.map_or(rest, |due| rest.min(due.saturating_duration_since(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_while_there_is_no_news() {
        let (mut rest, now) = (Rest::new(1000, 1000.0, false), Instant::now());
        assert_eq!(rest.next(now, None), SHORTEST);
        let sum: Duration = (0..10).map(|_| rest.next(now, None)).sum();
        assert!(sum > SHORTEST * 20 && rest.next(now, None) == LONGEST, "{sum:?}");
        rest.news();
        assert_eq!(rest.next(now, None), SHORTEST);
        // What is due comes first, at once if it is late.
        let due = now + Duration::from_millis(3);
        assert_eq!(rest.next(now, Some(due)), Duration::from_millis(3));
        assert_eq!(rest.next(due, Some(now)), Duration::ZERO);
    }

    #[test]
    fn rings_do_not_fill_up_meanwhile() {
        let longest = |room, per_second, watched| Rest::new(room, per_second, watched).longest;
        assert_eq!(longest(1000, 1000.0, false), LONGEST);
        assert_eq!(longest(1000, 1000.0, true), LONGEST_WATCHED);
        assert_eq!(longest(50, 1000.0, false), Duration::from_millis(25));
        let mut rest = Rest::new(10, 1000.0, false);
        assert_eq!(rest.next(Instant::now(), None), Duration::from_millis(5));
        rest.news();
        assert_eq!(rest.next(Instant::now(), None), Duration::from_millis(5));
    }
}
