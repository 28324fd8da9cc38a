//! How long the reader sleeps before it looks at the rings again.
//!
//! Problem: to be woken costs 30 to 100 µs in a virtual machine, and what was in the caches is
//! gone: as much as it takes to read ten samples. But processes and threads that are over soon say
//! what they are only while they live. Approach: short rests after news of either, then longer and
//! longer ones; never so long that the rings could fill up (they wake us, too, but those of single
//! threads are small). Threads that end wake us, too, each of them: where many do, we sleep for a
//! short time instead of listening.
//!
//! Neighbours: `follow` sleeps, and hears the news.

use std::time::{Duration, Instant};

/// The rest after news, and the longest one.
const SHORTEST: Duration = Duration::from_millis(15);
const LONGEST: Duration = Duration::from_millis(150);
/// Where programs are watched, what they report must be taken.
const LONGEST_WATCHED: Duration = Duration::from_millis(100);
/// Each rest is this many times as long as the one before.
const GROWTH: f64 = 1.25;
/// Short rests that news may bring one after the other, and the time after which another one may:
/// where threads come and go all the time, most are gone before they can be looked at.
const SHORT_RESTS: u32 = 20;
const ANOTHER: Duration = Duration::from_millis(300);
/// Ends of threads since the last rest from which on we do not listen, and how long then at most in
/// one rest.
const MANY_ENDS: u32 = 8;
const DEAF: Duration = Duration::from_millis(20);
/// How long that is so: such threads come in waves, and who listens between two is woken by all of
/// the next.
const STAYS_DEAF: Duration = Duration::from_millis(500);
/// Part of a ring that may be filled meanwhile.
const FILLED: f64 = 0.5;

/// The next rests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rest {
    next: Duration,
    longest: Duration,
    /// Short rests that are left, when news has come.
    left: u32,
    /// When one was added last.
    added: Option<Instant>,
    has_news: bool,
    ends: u32,
    deaf_until: Option<Instant>,
}

/// How to rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Until there is something to read, at most so long.
    Listen(Duration),
    /// So long, whatever comes.
    Sleep(Duration),
}

impl Default for Rest {
    fn default() -> Self {
        let (next, longest) = (SHORTEST, LONGEST);
        let left = SHORT_RESTS;
        Self { next, longest, left, added: None, has_news: false, ends: 0, deaf_until: None }
    }
}

impl Rest {
    /// With rings that have room for `room` samples, of which `per_second` come.
    pub fn new(room: u64, per_second: f64, watched: bool) -> Self {
        let seconds = FILLED * room as f64 / per_second.max(1.0);
        let filled = Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()));
        let longest = filled.min(if watched { LONGEST_WATCHED } else { LONGEST });
        Self { next: SHORTEST.min(longest), longest, ..Self::default() }
    }

    /// A process or a thread has appeared.
    pub fn news(&mut self) {
        self.has_news = true;
    }

    /// A thread has ended.
    pub fn end(&mut self) {
        self.ends += 1;
    }

    /// How to rest now, with something to be done at `due`.
    pub fn way(&mut self, now: Instant, due: Option<Instant>) -> Way {
        let length = self.next(now, due);
        if std::mem::take(&mut self.ends) >= MANY_ENDS {
            self.deaf_until = Some(now + STAYS_DEAF);
        }
        match self.deaf_until.is_some_and(|until| now < until) {
            true => Way::Sleep(length.min(DEAF)),
            false => Way::Listen(length),
        }
    }

    /// How long to rest now.
    fn next(&mut self, now: Instant, due: Option<Instant>) -> Duration {
        if std::mem::take(&mut self.has_news) && self.may_be_short(now) {
            self.next = SHORTEST.min(self.longest);
        }
        let rest = self.next;
        self.next = rest.mul_f64(GROWTH).min(self.longest);
        due.map_or(rest, |due| rest.min(due.saturating_duration_since(now)))
    }

    /// Whether news may bring a short rest now.
    fn may_be_short(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(*self.added.get_or_insert(now));
        let more = since.div_duration_f64(ANOTHER) as u32;
        if more > 0 {
            self.left = self.left.saturating_add(more).min(SHORT_RESTS);
            self.added = Some(now);
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
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
    fn constant_news_is_looked_at_as_seldom_as_none() {
        let mut now = Instant::now();
        let mut rest = Rest::new(1000, 1000.0, false);
        let mut rests = || {
            rest.news();
            let length = rest.next(now, None);
            now += length;
            length
        };
        assert!((0..SHORT_RESTS).all(|_| rests() == SHORTEST));
        let later: Vec<_> = (0..40).map(|_| rests()).collect();
        let mean = later.iter().sum::<Duration>() / 40;
        assert!(mean > 2 * SHORTEST, "{later:?}");
        // News after a while without any.
        now += ANOTHER * SHORT_RESTS;
        rest.news();
        assert_eq!(rest.next(now, None), SHORTEST);
    }

    #[test]
    fn where_many_threads_end_nobody_listens() {
        let (mut rest, now) = (Rest::new(1000, 1000.0, false), Instant::now());
        (1..MANY_ENDS).for_each(|_| rest.end());
        assert_eq!(rest.way(now, None), Way::Listen(SHORTEST));
        for expected in [SHORTEST.mul_f64(GROWTH), DEAF] {
            (0..MANY_ENDS).for_each(|_| rest.end());
            assert_eq!(rest.way(now, None), Way::Sleep(expected));
        }
        assert_eq!(rest.way(now + STAYS_DEAF / 2, None), Way::Sleep(DEAF));
        let later = rest.way(now + STAYS_DEAF, None);
        assert!(matches!(later, Way::Listen(length) if length > DEAF), "{later:?}");
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
