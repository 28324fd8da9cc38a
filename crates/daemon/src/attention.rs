//! How closely the sense is to look: closer while a pattern is to be found, seldom where threads
//! are placed or have nothing to gain.
//!
//! Neighbours: `auto` asks after each decision, [`crate::sense::Sense::pace`] does it.

use crate::sense::Pace;
use online::{Note, Why};
use std::time::{Duration, Instant};

/// After more threads have begun to run, or communication seems to change, the sense looks closer
/// until it is known what to do, at most for so long. If it is not known then, not again for at
/// least twice as long.
const CLOSER: Duration = Duration::from_millis(2500);

/// See the head of this file.
#[derive(Debug)]
pub struct Attention {
    pace: Pace,
    /// When to look closer no longer, and from when that may be done again.
    closer_until: Instant,
    not_closer_until: Instant,
    /// The last decision left nothing to be done for the threads.
    at_ease: bool,
    /// Whether it may look seldom: pages need samples all the time.
    may_rest: bool,
}

impl Attention {
    /// From `now` on. `may_rest`: only threads are placed, no pages.
    pub fn new(now: Instant, may_rest: bool) -> Self {
        Self {
            pace: Pace::Usual,
            closer_until: now,
            not_closer_until: now,
            at_ease: false,
            may_rest,
        }
    }

    /// How closely to look from `now` on, if that is not as before. `reason`: there may be another
    /// pattern. `notes` are of the last decision.
    pub fn next(&mut self, now: Instant, reason: bool, notes: &[Note]) -> Option<Pace> {
        let released = notes.iter().any(|note| matches!(note, Note::GivenBack { .. }));
        let reason = reason || released;
        let placed = notes.iter().any(|note| matches!(note, Note::Placed { .. }));
        let known = notes.iter().rev().find_map(is_known);
        self.at_ease = known.unwrap_or(self.at_ease);
        let is_known = known == Some(true);
        let pace = match self.pace {
            Pace::Closer if is_known || now >= self.closer_until => {
                let rest = if placed { Duration::ZERO } else { 2 * CLOSER };
                self.not_closer_until = now + rest;
                self.usual()
            }
            Pace::Closer => Pace::Closer,
            _ if reason && !is_known && now >= self.not_closer_until => {
                self.closer_until = now + CLOSER;
                Pace::Closer
            }
            _ => self.usual(),
        };
        let changes = pace != std::mem::replace(&mut self.pace, pace);
        changes.then_some(pace)
    }

    fn usual(&self) -> Pace {
        if self.at_ease && self.may_rest { Pace::Seldom } else { Pace::Usual }
    }
}

/// Whether it is known now where threads should be; `None`: as before.
fn is_known(note: &Note) -> Option<bool> {
    match note {
        Note::Placed { .. } => Some(true),
        // Few samples show few events: this does not mean that the pattern has changed.
        Note::Left { why: Why::TooLittle { .. } } => None,
        Note::Left { why } => Some(matches!(
            why,
            Why::Alone | Why::Pinned { .. } | Why::AsGood { .. } | Why::Quiet { .. }
        )),
        Note::Undone { .. } | Note::Idle { .. } | Note::GivenBack { .. } => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use online::Proof;

    const SECOND: Duration = Duration::from_secs(1);

    fn left(why: Why) -> [Note; 1] {
        [Note::Left { why }]
    }

    #[test]
    fn it_looks_closer_until_it_is_known_what_to_do() {
        let begin = Instant::now();
        let mut attention = Attention::new(begin, true);
        assert_eq!(attention.next(begin, true, &[]), Some(Pace::Closer));
        let few = left(Why::TooLittle { events: 1.0, needed: 20.0 });
        assert_eq!(attention.next(begin + SECOND, false, &few), None);
        let nothing = left(Why::AsGood { saving: 0.0 });
        assert_eq!(attention.next(begin + SECOND, false, &nothing), Some(Pace::Seldom));
        assert_eq!(attention.next(begin + SECOND, false, &few), None);
        assert_eq!(attention.next(begin + 2 * SECOND, true, &[]), None);
        let later = begin + SECOND + 2 * CLOSER;
        assert_eq!(attention.next(later, true, &[]), Some(Pace::Closer));
        // What was known stays known if nothing else is found.
        assert_eq!(attention.next(later + CLOSER, false, &[]), Some(Pace::Seldom));
    }

    #[test]
    fn it_does_not_look_closer_for_ever() {
        let begin = Instant::now();
        let mut attention = Attention::new(begin, true);
        attention.next(begin, true, &[]);
        assert_eq!(attention.next(begin + CLOSER, true, &[]), Some(Pace::Usual));
        assert_eq!(attention.next(begin + 2 * CLOSER, true, &[]), None);
        assert_eq!(attention.next(begin + 3 * CLOSER, true, &[]), Some(Pace::Closer));
    }

    #[test]
    fn where_pages_are_placed_too_it_never_looks_seldom() {
        let begin = Instant::now();
        let mut attention = Attention::new(begin, false);
        attention.next(begin, true, &[]);
        assert_eq!(attention.next(begin, false, &left(Why::Alone)), Some(Pace::Usual));
    }

    #[test]
    fn it_looks_closer_at_once_where_placed_threads_change() {
        let (begin, proof) = (Instant::now(), Proof::Measured);
        let placed = [Note::Placed { moved: 2, tasks: 4, saving: 0.5, gain: 0.2, proof }];
        let mut attention = Attention::new(begin, true);
        attention.next(begin, true, &[]);
        assert_eq!(attention.next(begin, false, &placed), Some(Pace::Seldom));
        assert_eq!(attention.next(begin, true, &[]), Some(Pace::Closer));
        assert_eq!(attention.next(begin, false, &placed), Some(Pace::Seldom));
        let released = [Note::GivenBack { tasks: 4 }];
        assert_eq!(attention.next(begin, false, &released), Some(Pace::Closer));
    }
}
